use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use super::*;

fn committed<'a>(path: &'a str, body: &'a [u8]) -> Committed<'a> {
    Committed { path, body, executable: false }
}

/// Names that sort differently as trees and as index, ignored files, an empty one, binary, a duplicate, an executable.
fn workspace() -> Vec<Committed<'static>> {
    vec![
        committed("README.md", b"# Calculator\n"),
        committed(".gitignore", b".env\ntarget/\n"),
        committed(".env", b"API_TOKEN=PLATYPUS-7731\n"),
        committed("target/out", b"built"),
        committed("a.b/x", b"1"),
        committed("a/deep/er/x", b"1"),
        committed("a-b", b"2"),
        committed("a0", b""),
        committed("gr\u{fc}n/na me.bin", b"\x00\xff\n"),
        Committed { path: "run.sh", body: b"#!/bin/sh\n", executable: true },
    ]
}

fn lay_out(files: &[Committed<'_>], repository: &[RepositoryFile]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let put = |path: &str, body: &[u8], mode: u32| {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, body).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    };
    for file in files {
        put(file.path, file.body, if file.executable { 0o755 } else { 0o644 });
    }
    for file in repository {
        put(&file.path, &file.body, file.mode);
    }
    for empty in EMPTY_FOLDERS {
        fs::create_dir_all(folder.path().join(empty)).unwrap();
    }
    folder
}

/// `None` where this machine has no git.
fn git(folder: &Path, arguments: &[&str]) -> Option<Output> {
    let identity = ["-c", "user.name=Dev", "-c", "user.email=dev@localhost"];
    Command::new("git")
        .args(identity)
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .envs([("HOME", "/nonexistent"), ("GIT_CONFIG_NOSYSTEM", "1")])
        .output()
        .ok()
}

fn told(folder: &Path, arguments: &[&str]) -> String {
    let output = git(folder, arguments).unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success(), "git {arguments:?}: {said}");
    said
}

/// Whether git is there to ask; says so where it is not.
fn git_is_here() -> bool {
    let here = git(Path::new("/"), &["--version"]).is_some();
    if !here {
        eprintln!("skipped: this machine has no git to read the repository with");
    }
    here
}

#[test]
fn git_finds_a_clean_tree_sound_objects_and_one_commit() {
    if !git_is_here() {
        return;
    }
    let files = workspace();
    let folder = lay_out(&files, &repository(&files).unwrap());
    let folder = folder.path();
    assert_eq!(told(folder, &["status", "--porcelain", "--untracked-files=all"]), "");
    assert_eq!(told(folder, &["fsck", "--strict", "--full"]), "");
    assert_eq!(told(folder, &["log", "--format=%an <%ae> %s"]), "Dev <dev@localhost> Initial commit\n");
    assert_eq!(told(folder, &["branch", "--show-current"]), "main\n");
    assert_eq!(told(folder, &["ls-files"]).lines().count(), files.len());
    assert!(told(folder, &["ls-files", "--stage", "run.sh"]).starts_with("100755 "));
    assert!(told(folder, &["reflog"]).contains("commit (initial)"));
    for file in &files {
        let shown = git(folder, &["show", &format!("HEAD:{}", file.path)]).unwrap();
        assert_eq!(shown.stdout, file.body, "{}", file.path);
    }
}

#[test]
fn git_works_on_in_it() {
    if !git_is_here() {
        return;
    }
    let files = workspace();
    let folder = lay_out(&files, &repository(&files).unwrap());
    let folder = folder.path();
    fs::write(folder.join("README.md"), "# Changed\n").unwrap();
    assert_eq!(told(folder, &["status", "--porcelain"]), " M README.md\n");
    told(folder, &["stash"]);
    assert_eq!(told(folder, &["status", "--porcelain"]), "");
    told(folder, &["stash", "pop"]);
    told(folder, &["commit", "-qam", "second"]);
    told(folder, &["commit", "-q", "--allow-empty", "-m", "third"]);
    told(folder, &["gc", "--quiet"]);
    assert_eq!(told(folder, &["log", "--format=%s"]), "third\nsecond\nInitial commit\n");
    // What was stashed dangles.
    assert_eq!(told(folder, &["fsck", "--strict", "--full", "--no-dangling"]), "");
}

#[test]
fn an_empty_workspace_has_an_empty_commit() {
    let made = repository(&[]).unwrap();
    let empty_tree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
    let path = format!(".git/objects/{}/{}", &empty_tree[..2], &empty_tree[2..]);
    assert!(made.iter().any(|file| file.path == path));
    if git_is_here() {
        let folder = lay_out(&[], &made);
        assert_eq!(told(folder.path(), &["status", "--porcelain"]), "");
        assert_eq!(told(folder.path(), &["log", "--format=%s"]), "Initial commit\n");
        assert_eq!(told(folder.path(), &["fsck", "--strict", "--full"]), "");
    }
}

#[test]
fn paths_longer_than_the_index_can_say_are_committed() {
    if !git_is_here() {
        return;
    }
    let part = "x".repeat(200);
    let long = vec![part.as_str(); 19].join("/");
    // The folder above has its own length: only the tree and the index are asked, not the file.
    let made = repository(&[committed(&long, b"far down")]).unwrap();
    let folder = lay_out(&[], &made);
    assert_eq!(told(folder.path(), &["ls-files"]).trim(), long);
    assert_eq!(told(folder.path(), &["fsck", "--strict", "--full"]), "");
}

#[test]
fn the_same_workspace_gives_the_same_repository_in_whatever_order_it_was_named() {
    let files = workspace();
    let turned: Vec<_> = files.iter().rev().copied().collect();
    let sorted = |files: &[Committed<'_>]| {
        let mut made = repository(files).unwrap();
        made.sort_by(|a, b| a.path.cmp(&b.path));
        made
    };
    assert_eq!(sorted(&files), sorted(&turned));
}

#[test]
fn an_attack_that_plants_a_git_folder_or_link_keeps_its_own() {
    for path in [".git/config", ".git", "vendor/.git/HEAD", ".GIT/hooks/pre-commit"] {
        assert!(repository(&[committed(path, b"")]).is_none(), "{path}");
    }
    assert!(repository(&[committed(".gitignore", b""), committed("x.git/y", b"")]).is_some());
}

#[test]
fn a_thousand_files_are_committed_in_no_time() {
    let body = b"let answer = 42; // of some length, as source text is\n".repeat(40);
    let paths: Vec<_> = (0..1000).map(|number| format!("src/part{}/file{number}.rs", number % 20)).collect();
    let files: Vec<_> = paths.iter().map(|path| committed(path, &body)).collect();
    let begun = std::time::Instant::now();
    repository(&files).unwrap();
    // Generous: builds without optimisation take some ten times as long.
    assert!(begun.elapsed() < std::time::Duration::from_secs(5), "{:?}", begun.elapsed());
}
