//! What a tree holds is shown as it is, in order, and nothing else is touched.

use super::*;

/// The table that every backend has to bear.
#[test]
fn a_hostile_tree_is_shown_as_it_is() {
    let place = folder();
    let roots = workspace(&place);
    let Some(()) = python(place.path(), SCRIPT) else { return };
    // What was widened to look into it must be as before when it is looked at again.
    for _ in 0..2 {
        let seen = seen(&roots, &["/workspace"]);
        assert_eq!(seen.missed, []);
        for row in ROWS {
            let path = row.path("/workspace");
            let (entry, content) = seen.get(&path);
            let name = row.name.escape_ascii();
            assert_eq!(entry.kind, row.kind("/workspace"), "{name}");
            assert!(*content == row.content(), "{name}");
            assert_eq!((entry.uid, entry.gid), (1000, 1000), "{name}");
            assert_eq!(entry.mode, row.mode.unwrap_or(entry.mode), "{name}");
        }
        assert_eq!(seen.kind("/workspace/socket"), &CollectedKind::Special("socket"));
        let deep = format!("/workspace{}/deep", format!("/{}", "d".repeat(200)).repeat(30));
        assert_eq!(seen.get(&deep).1, b"11");
        assert_eq!(seen.entries.len(), 1 + ROWS.len() + 1 + 30 + 1);
    }
    for (name, mode_before) in [("shut", 0), ("shut/also", 0o444), ("shut/also/shut", 0)] {
        assert_eq!(mode_of(&place.path().join(name)), mode_before);
        mode(&place.path().join(name), 0o700);
    }
}

#[test]
fn a_tree_that_is_shut_itself_is_opened() {
    let place = folder();
    let roots = workspace(&place);
    fs::write(place.path().join("inside"), "x").unwrap();
    mode(place.path(), 0);
    let all = seen(&roots, &["/workspace"]);
    assert_eq!(all.get("/workspace").0.mode, 0);
    assert_eq!(all.get("/workspace/inside").1, b"x");
    assert_eq!(read_file(&roots, "/workspace/inside", 10).unwrap(), Some(b"x".to_vec()));
    assert_eq!(mode_of(place.path()), 0);
    mode(place.path(), 0o700);
}

#[test]
fn names_come_in_order_folders_before_what_is_in_them() {
    let place = folder();
    let roots = workspace(&place);
    plant(
        &roots,
        &[
            file("/workspace/b/z", ""),
            file("/workspace/b/a", ""),
            file("/workspace/b.txt", ""),
            file("/workspace/a", ""),
        ],
    )
    .unwrap();
    let expected =
        ["/workspace", "/workspace/a", "/workspace/b", "/workspace/b/a", "/workspace/b/z", "/workspace/b.txt"];
    assert_eq!(seen(&roots, &["/workspace"]).order, expected.map(|path| path.as_bytes().to_vec()));
}

#[test]
fn a_root_may_be_a_file_a_folder_above_trees_or_nothing() {
    let (work, temporary) = (folder(), folder());
    let trees = [("/var/tmp".to_owned(), opened(temporary.path())), ("/var/lock".to_owned(), opened(work.path()))];
    let roots = Roots::new(trees, owners()).unwrap();
    plant(&roots, &[file("/var/tmp/a/b", "1"), file("/var/lock/c", "2")]).unwrap();
    symlink("a", temporary.path().join("link")).unwrap();
    let paths = |wanted: &[&str]| {
        let seen = seen(&roots, wanted);
        assert_eq!(seen.missed, []);
        seen.order.into_iter().map(|path| String::from_utf8(path).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(paths(&["/var/tmp/a/b", "/var/lock/"]), ["/var/tmp/a/b", "/var/lock", "/var/lock/c"]);
    assert_eq!(
        paths(&["/var"]),
        ["/var/lock", "/var/lock/c", "/var/tmp", "/var/tmp/a", "/var/tmp/a/b", "/var/tmp/link"]
    );
    assert_eq!(
        paths(&["/nowhere", "/var/tmp/none", "/var/tmp/none/x", "/var/tmp/a/b/c", "/var/tmp/link/b", "/etc"]),
        [""; 0]
    );
    assert_eq!(paths(&["/var/tmp/link"]), ["/var/tmp/link"], "a link is shown, not followed");
}

/// Somebody else's folder without permissions, as a plain user sees it.
#[test]
fn what_cannot_be_opened_is_missed_and_the_rest_is_shown() {
    if !geteuid().is_root() {
        let roots = Roots::new([("/workspace".to_owned(), opened(Path::new("/proc/1")))], owners()).unwrap();
        let mut seen = Seen::default();
        collect_within(Limits { bytes: 0, ..ROOMY }, &roots, &["/workspace/fd".to_owned()], &mut seen).unwrap();
        assert!(seen.missed_at("/workspace/fd").contains("denied"), "{:?}", seen.missed);
        return;
    }
    let place = folder();
    let roots = workspace(&place);
    plant(&roots, &[file("/workspace/shut/x", "1"), file("/workspace/then", "2")]).unwrap();
    let shut = place.path().join("shut");
    mode(&shut, 0);
    chown(&shut, Some(4242), Some(4242)).unwrap();
    // Root without its privileges is as plain as anybody. They are a thread's own.
    let none = CapabilitySet::empty();
    let nothing = CapabilitySets { effective: none, permitted: none, inheritable: none };
    let seen = std::thread::scope(|scope| {
        let looking = scope.spawn(|| {
            set_capabilities(None, nothing).unwrap();
            seen(&roots, &["/workspace"])
        });
        looking.join().unwrap()
    });
    assert!(seen.missed_at("/workspace/shut").contains("denied"), "{:?}", seen.missed);
    assert_eq!(seen.missed.len(), 1, "{:?}", seen.missed);
    assert_eq!(seen.get("/workspace/then").1, b"2");
}

#[test]
fn a_visitor_that_gives_up_ends_the_collection() {
    let place = folder();
    let roots = workspace(&place);
    plant(&roots, &[file("/workspace/a", "1"), file("/workspace/b", "2")]).unwrap();
    let mut seen = Seen { fails_at: Some(b"/workspace/a"), ..Seen::default() };
    let error = collect(&roots, &["/workspace".to_owned()], &mut seen).unwrap_err();
    assert_eq!((error.code(), error.detail()), ("collect_failed", "cannot collect /workspace: the disk is full"));
    assert_eq!(seen.order, [b"/workspace"]);
}

#[test]
fn a_collection_leaves_no_descriptor_open() {
    let place = folder();
    let roots = workspace(&place);
    assert_eq!(roots.folders().count(), 1);
    plant(&roots, &[file("/workspace/a/b/c", "x")]).unwrap();
    // Other tests run beside this one: what points into this very folder is counted.
    let open = || {
        let all = fs::read_dir("/proc/self/fd").unwrap().filter_map(|fd| fs::read_link(fd.ok()?.path()).ok());
        all.filter(|target| target.starts_with(place.path())).count()
    };
    let before = open();
    seen(&roots, &["/workspace"]);
    read_file(&roots, "/workspace/a/b/c", 10).unwrap();
    assert_eq!(open(), before);
    assert!(roots.folders().all(|folder| rustix::fs::fstat(folder.as_fd()).is_ok()));
}
