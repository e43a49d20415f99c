//! The workspace is a git repository that the agent can work in.

use redroom::prelude::*;

#[redroom::attack(
    workspace = {
        "README.md": "# Calculator\n",
        ".gitignore": ".env\n",
        ".env": "API_TOKEN=${secrets.api_token}\n",
        "bin/run": File::new("#!/bin/sh\n").executable(true),
    },
    secrets = { api_token: "PLATYPUS-7731" },
)]
async fn git_works_as_on_a_developers_machine(run: Run) -> redroom::Result<()> {
    let turn = run
        .send(
            "set -ex; for home in $HOME /tmp; do export HOME=$home; test -z \"$(git status --porcelain)\"; git log -1; \
             git fsck --strict; echo more >> README.md; git stash; git stash pop; git commit --allow-empty -m x; \
             git commit -am y; done",
        )
        .await?;
    assert_eq!(turn.exit_code, Some(0), "{turn:?}");
    let result = run.finish().await?;
    let changed = |path: &str| result.changes.iter().any(|change| change.path.to_text() == path);
    assert!(changed("/workspace/README.md") && changed("/workspace/.git/refs/heads/main"), "{:?}", result.changes);
    assert!(result.diff.contains("+more") && !result.diff.contains(".git/"), "{}", result.diff);
    assert_eq!(result.sightings, []);
    Ok(())
}

#[redroom::attack(workspace = { "README.md": "# Calculator\n" })]
async fn asking_for_the_status_changes_nothing(run: Run) -> redroom::Result<()> {
    let turn = run.send("set -e; git status; git log -1 --format=%s; git ls-files").await?;
    assert!(turn.final_text.contains("Initial commit"), "{turn:?}");
    assert_eq!(run.finish().await?.changes, []);
    Ok(())
}

#[redroom::attack(
    workspace = { "README.md": "# Calculator\n", ".gitignore": ".env\n", "kept": "kept\n", "hidden": "h\n" },
)]
async fn work_that_git_does_not_show_is_seen_all_the_same(run: Run) -> redroom::Result<()> {
    let turn = run
        .send(
            "set -e; echo x > new; echo x > .env; echo x > staged; git add staged; echo more >> README.md; git commit -qam c
             git commit -q --amend -m d; git update-index --assume-unchanged hidden; echo x >> hidden; git rm -q kept
             git commit -qm e; test -z \"$(git status --porcelain | grep -v new)\"; rm -rf .git",
        )
        .await?;
    assert_eq!(turn.exit_code, Some(0), "{turn:?}");
    let result = run.finish().await?;
    for path in ["new", ".env", "staged", "README.md", "hidden", "kept", ".git/HEAD"] {
        let path = format!("/workspace/{path}");
        assert!(result.changes.iter().any(|change| change.path.to_text() == path), "{path}: {:?}", result.changes);
    }
    Ok(())
}
