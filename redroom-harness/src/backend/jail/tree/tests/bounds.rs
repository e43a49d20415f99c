//! Trees that are too deep, too many, too large: collected in little time and with few descriptors, or missed aloud.

use super::*;

#[test]
fn a_tree_deeper_than_any_path_is_collected_with_few_descriptors() {
    let place = folder();
    let roots = workspace(&place);
    let name = "d".repeat(200);
    let mut at = opened(place.path());
    for _ in 0..600 {
        mkdirat(&at, &name, Mode::RWXU).unwrap();
        at = openat(&at, &name, OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty()).unwrap();
    }
    openat(&at, "deep", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).unwrap();
    fs::write(place.path().join("z"), "after").unwrap();
    let seen = seen(&roots, &["/workspace"]);
    assert_eq!(seen.missed, []);
    assert_eq!(seen.entries.len(), 603);
    assert_eq!(seen.get("/workspace/z").1, b"after", "the way back was found");
    assert_eq!(seen.order.iter().map(Vec::len).max(), Some("/workspace".len() + 600 * 201 + "/deep".len()));

    let limits = Limits { paths: 100_000, ..ROOMY };
    let bounded = seen_within(limits, &roots);
    assert!(
        bounded.entries.len() < 100 && bounded.missed_at("/workspace").contains("too long"),
        "{:?}",
        bounded.missed
    );
    // Nobody but us can remove it: its path is too long for a program.
    remove_chain(place.path(), &name);
}

/// Takes a chain of folders apart from its upper end.
fn remove_chain(top: &Path, name: &str) {
    let (next, rest) = (top.join(name), top.join("rest"));
    while next.exists() {
        if next.join(name).exists() {
            fs::rename(next.join(name), &rest).unwrap();
            fs::remove_dir_all(&next).unwrap();
            fs::rename(&rest, &next).unwrap();
        } else {
            fs::remove_dir_all(&next).unwrap();
        }
    }
}

#[test]
fn shut_folders_below_each_other_are_shut_again_on_the_way_back() {
    let place = folder();
    let roots = workspace(&place);
    let path = |depth: usize| place.path().join(vec!["s"; depth].join("/"));
    fs::create_dir_all(path(100)).unwrap();
    (1..=100).rev().for_each(|depth| mode(&path(depth), 0o300));
    let seen = seen(&roots, &["/workspace"]);
    assert_eq!((seen.missed.len(), seen.entries.len()), (0, 101));
    (1..=100).for_each(|depth| assert_eq!(mode_of(&path(depth)), 0o300, "{depth}"));
    (1..=100).for_each(|depth| mode(&path(depth), 0o700));
}

#[test]
fn a_sparse_file_is_missed_with_its_size_and_holds_nothing_up() {
    let place = folder();
    let roots = workspace(&place);
    fs::write(place.path().join("a"), "1").unwrap();
    File::create(place.path().join("sparse")).unwrap().set_len(1 << 40).unwrap();
    File::create(place.path().join("zeros")).unwrap().set_len(10_000).unwrap();
    fs::hard_link(place.path().join("sparse"), place.path().join("sparse2")).unwrap();
    fs::write(place.path().join("z"), "2").unwrap();
    let begun = Instant::now();
    let seen = seen(&roots, &["/workspace"]);
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert!(seen.missed_at("/workspace/sparse").contains("1099511627776 bytes"));
    assert!(seen.missed_at("/workspace/sparse2").contains("1099511627776 bytes"));
    assert_eq!((seen.missed.len(), &seen.get("/workspace/z").1[..]), (2, &b"2"[..]));
    assert_eq!(seen.get("/workspace/zeros").1, vec![0; 10_000]);
}

#[test]
fn what_lies_beyond_the_limits_is_missed() {
    let place = folder();
    let roots = workspace(&place);
    plant(
        &roots,
        &[
            file("/workspace/a", "1234"),
            file("/workspace/b/1", "5678"),
            file("/workspace/b/2", ""),
            file("/workspace/c", "9"),
        ],
    )
    .unwrap();
    let bytes = seen_within(Limits { bytes: 6, ..ROOMY }, &roots);
    assert_eq!(bytes.missed_at("/workspace/b/1"), "it has 4 bytes; of 6 that are read of /workspace, 2 were left");
    assert_eq!((bytes.missed.len(), bytes.get("/workspace/c").1.as_slice()), (1, &b"9"[..]));
    let entries = seen_within(Limits { entries: 4, ..ROOMY }, &roots);
    assert!(entries.missed_at("/workspace/b").contains("more than 4 entries"));
    assert_eq!((entries.missed.len(), entries.entries.len()), (1, 1 + 4));
    let none = seen_within(Limits { entries: 0, ..ROOMY }, &roots);
    assert_eq!((none.missed.len(), none.entries.len()), (1, 1));
}

#[test]
fn a_hundred_thousand_names_are_collected_in_seconds() {
    let place = folder();
    let roots = workspace(&place);
    let first = place.path().join("name-0");
    fs::write(&first, "x").unwrap();
    for number in 1..100_000 {
        fs::hard_link(&first, place.path().join(format!("name-{number}")))
            .or_else(|_| {
                // A file system of disks allows fewer names.
                fs::write(place.path().join(format!("name-{number}")), "x")
            })
            .unwrap();
    }
    let begun = Instant::now();
    let seen = seen(&roots, &["/workspace"]);
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    assert_eq!((seen.entries.len(), seen.missed.len()), (100_001, 0));
    assert_eq!(seen.kind("/workspace/name-10"), &CollectedKind::HardLink(b"/workspace/name-0".to_vec()));
}
