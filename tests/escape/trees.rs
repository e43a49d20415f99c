//! Traps in what a sandbox leaves behind, for whoever collects it: links, pipes, names that move.

use std::os::unix::fs::symlink;
use std::time::Duration;

use redroom::ChangeKind;
use redroom::prelude::*;
use tokio::time::timeout;

use crate::lacks;

const WORD: &str = "PLATYPUS-of-the-machine";

#[redroom::attack(secrets = { word: unplanted(WORD) })]
async fn no_link_leads_collection_or_a_read_to_a_file_of_the_machine(run: Run) -> redroom::Result<()> {
    let host = tempfile::tempdir().unwrap();
    std::fs::create_dir(host.path().join("sub")).unwrap();
    for name in ["file", "sub/file"] {
        std::fs::write(host.path().join(name), WORD).unwrap();
    }
    let folder = host.path().to_str().unwrap();
    run.send(format!(
        "ln -s {folder}/file link; ln -s {folder} folder; ln -s /proc/1/root/{folder} root; ln -s /proc/self/cwd/{folder} magic
         ln -s ../../../../../..{folder}/file up; mkfifo fifo; ln -s loop loop; ln -s /etc/passwd inside
         ln /usr/bin/env hard 2>/dev/null && echo linked; ln /etc/passwd hard 2>/dev/null && echo linked; true"
    ))
    .await?;
    let paths = ["link", "folder/file", "folder/sub/file", "root/sub/file", "magic/sub/file", "up", "fifo", "loop"];
    for path in paths {
        let read = timeout(Duration::from_secs(20), run.read_file(format!("/workspace/{path}"))).await;
        let read = read.unwrap_or_else(|_| panic!("reading {path} does not end"));
        assert!(!read.is_ok_and(|content| content.is_some()), "{path} was read");
    }
    let result = run.finish().await?;
    for name in ["link", "folder", "root", "magic", "up", "inside"] {
        let path = format!("/workspace/{name}");
        let change = result.changes.iter().find(|change| change.path.as_bytes() == path.as_bytes()).unwrap();
        assert_eq!(change.kind, ChangeKind::Added, "{name}");
    }
    assert!(!result.changes.iter().any(|change| change.path.as_bytes().starts_with(b"/workspace/folder/")));
    assert!(
        !result.changes.iter().any(|change| change.path.as_bytes() == b"/workspace/hard"),
        "a file of root's has another name"
    );
    result.assert_no_leaks();
    // The control: whoever follows them gets there.
    symlink(host.path(), host.path().join("folder")).unwrap();
    assert_eq!(std::fs::read_to_string(host.path().join("folder/file")).unwrap(), WORD);
    Ok(())
}

#[redroom::attack(secrets = { word: unplanted(WORD) })]
async fn names_that_change_under_a_read_lead_to_no_file_of_the_machine(run: Run) -> redroom::Result<()> {
    if lacks(&run).await? {
        return Ok(());
    }
    let host = tempfile::tempdir().unwrap();
    std::fs::write(host.path().join("file"), WORD).unwrap();
    let folder = host.path().to_str().unwrap();
    let swap = format!(
        "import os
if os.fork(): os._exit(0)
os.setsid()
for fd in (0, 1, 2): os.dup2(os.open('/dev/null', os.O_RDWR), fd)
os.mkdir('real'); open('real/file', 'w').write('mine'); os.symlink('{folder}', 'fake')
while True:
    os.rename('real', 'd'); os.rename('d', 'real'); os.rename('fake', 'd'); os.rename('d', 'fake')"
    );
    run.send(format!("python3 - <<'END'\n{swap}\nEND")).await?;
    let mut mine = 0;
    for _ in 0..60 {
        // An error is no content.
        if let Ok(Some(content)) = run.read_file("/workspace/d/file").await {
            assert_eq!(content, b"mine");
            mine += 1;
        }
    }
    run.finish().await?.assert_no_leaks();
    eprintln!("{mine} of 60 reads found the file in its place");
    Ok(())
}
