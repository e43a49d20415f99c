//! What is planted, and what is refused before anything is.

use super::*;

#[test]
fn the_longest_prefix_is_the_tree() {
    let (home, cache) = (folder(), folder());
    let trees =
        [("/home/agent".to_owned(), opened(home.path())), ("/home/agent/.cache".to_owned(), opened(cache.path()))];
    let roots = Roots::new(trees, owners()).unwrap();
    plant(&roots, &[file("/home/agent/.cache/x", "1"), file("/home/agent/.cached", "2")]).unwrap();
    assert!(cache.path().join("x").exists() && home.path().join(".cached").exists());
    for (path, covered) in [
        ("/home/agent", true),
        ("/home/agent/a/b", true),
        ("/home/agents", false),
        ("/home", false),
        ("/home/agent/../x", false),
        ("/home/agent//x", false),
        ("home/agent/x", false),
        ("/home/agent/\0", false),
        ("/", false),
        ("", false),
    ] {
        assert_eq!(roots.covers(path), covered, "{path:?}");
    }
    for prefix in ["workspace", "/", "/a/", "/a/../b"] {
        let tree = (prefix.to_owned(), opened(home.path()));
        assert_eq!(Roots::new([tree], owners()).unwrap_err().code(), "invalid_path", "{prefix:?}");
    }
}

#[test]
fn what_is_planted_is_collected_again() {
    let place = folder();
    let roots = workspace(&place);
    let entries = [
        PlacedEntry { mode: 0o6755, ..file("/workspace/suid", "s") },
        PlacedEntry { mode: 0o000, ..file("/workspace/closed", "c") },
        placed_folder("/workspace/a/shut", 0o500),
        file("/workspace/a/shut/in/side", "deep"),
        file("/workspace/empty", ""),
        placed_folder("/workspace", 0o1755),
        file("/workspace/large", &"x".repeat(3_000_000)),
    ];
    plant(&roots, &entries).unwrap();
    let seen = seen(&roots, &["/workspace"]);
    assert_eq!(seen.missed, []);
    for (path, mode, content) in [
        ("/workspace", 0o1755, ""),
        ("/workspace/a", 0o755, ""),
        ("/workspace/a/shut", 0o500, ""),
        ("/workspace/a/shut/in", 0o755, ""),
        ("/workspace/a/shut/in/side", 0o644, "deep"),
        ("/workspace/suid", 0o6755, "s"),
        ("/workspace/closed", 0, "c"),
        ("/workspace/empty", 0o644, ""),
    ] {
        let (entry, found) = seen.get(path);
        assert_eq!((entry.mode, found.as_slice()), (mode, content.as_bytes()), "{path}");
        assert_eq!((entry.uid, entry.gid), (1000, 1000), "{path} is the agent's");
    }
    assert_eq!(seen.kind("/workspace/large"), &CollectedKind::File(3_000_000));
    assert_eq!(seen.entries.len(), entries.len() + 2);
}

#[test]
fn nothing_is_planted_over_something_or_through_a_link() {
    let (place, elsewhere) = (folder(), folder());
    let roots = workspace(&place);
    fs::write(place.path().join("there"), "old").unwrap();
    symlink(elsewhere.path(), place.path().join("out")).unwrap();
    symlink(elsewhere.path().join("made"), place.path().join("dangling")).unwrap();
    for path in ["/workspace/there", "/workspace/out/x", "/workspace/dangling", "/workspace/there/x", "/workspace/out"]
    {
        let entry = if path.ends_with("out") { placed_folder(path, 0o755) } else { file(path, "new") };
        let error = plant(&roots, &[entry]).unwrap_err();
        assert_eq!(error.code(), "place_failed", "{path}");
        assert!(error.detail().contains("/workspace/"), "{error}");
    }
    assert_eq!(fs::read(place.path().join("there")).unwrap(), b"old");
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
}

#[test]
fn a_plan_that_contradicts_itself_makes_nothing() {
    let place = folder();
    let roots = workspace(&place);
    for entries in [
        vec![file("/workspace/a", ""), file("/workspace/a", "")],
        vec![file("/workspace/a", ""), file("/workspace/a/b", "")],
        vec![file("/workspace/a/b", ""), file("/workspace/a", "")],
        vec![file("/workspace/ok", ""), file("/etc/passwd", "")],
        vec![file("/workspace/ok", ""), file("/workspace/../x", "")],
        vec![file("/workspace", "")],
    ] {
        assert_eq!(plant(&roots, &entries).unwrap_err().code(), "invalid_path", "{entries:?}");
    }
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
}

#[test]
fn with_privileges_files_go_to_the_jails_user_and_come_back_as_the_agents() {
    if !geteuid().is_root() {
        return;
    }
    let place = folder();
    let trees = [("/workspace".to_owned(), opened(place.path()))];
    let roots = Roots::new(trees, Owners::Given { agent: 70_123 }).unwrap();
    let entries = [
        PlacedEntry { mode: 0o4755, ..file("/workspace/a/mine", "1") },
        PlacedEntry { owner: Owner::Root, ..file("/workspace/roots", "2") },
    ];
    plant(&roots, &entries).unwrap();
    for (path, uid) in [("a", 70_123), ("a/mine", 70_123), ("roots", 0)] {
        let facts = fs::metadata(place.path().join(path)).unwrap();
        assert_eq!((facts.uid(), facts.gid()), (uid, uid), "{path}");
    }
    let seen = seen(&roots, &["/workspace"]);
    for (path, mode, id) in
        [("/workspace/a", 0o755, 1000), ("/workspace/a/mine", 0o4755, 1000), ("/workspace/roots", 0o644, 0)]
    {
        let (entry, _) = seen.get(path);
        assert_eq!((entry.mode, entry.uid, entry.gid), (mode, id, id), "{path}");
    }
}
