//! One table of hostile trees, and what planting does. All of it runs as root and as a plain user.

#[path = "../../../../tests/docker/hostile_tree.rs"]
mod hostile_tree;

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use rustix::fs::{CWD, Mode, OFlags, mkdirat, mkfifoat, openat};
use rustix::process::geteuid;
use tempfile::TempDir;

use self::hostile_tree::{ROWS, SCRIPT};
use super::collect::{Limits, collect_within};
use super::*;
use crate::backend::{CollectedEntry, CollectedKind, Owner, PlacedEntry, PlacedKind, Visitor};

/// A tree as a jail has it: in memory where the machine allows.
fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn opened(path: &Path) -> OwnedFd {
    File::open(path).unwrap().into()
}

/// The owner that a jail started by this test's user would have.
fn owners() -> Owners {
    Owners::own()
}

fn workspace(folder: &TempDir) -> Roots {
    Roots::new([("/workspace".to_owned(), opened(folder.path()))], owners()).unwrap()
}

#[derive(Default)]
struct Seen {
    order: Vec<Vec<u8>>,
    entries: BTreeMap<Vec<u8>, (CollectedEntry, Vec<u8>)>,
    missed: Vec<(Vec<u8>, String)>,
    /// Gives up at this path.
    fails_at: Option<&'static [u8]>,
}

impl Visitor for Seen {
    fn entry(&mut self, entry: &CollectedEntry, content: &mut dyn Read) -> io::Result<()> {
        if self.fails_at == Some(&entry.path) {
            return Err(io::Error::other("the disk is full"));
        }
        let mut kept = Vec::new();
        content.read_to_end(&mut kept)?;
        self.order.push(entry.path.clone());
        assert!(self.entries.insert(entry.path.clone(), (entry.clone(), kept)).is_none(), "shown twice");
        Ok(())
    }

    fn missed(&mut self, path: &[u8], why: &str) {
        self.missed.push((path.to_vec(), why.to_owned()));
    }
}

impl Seen {
    #[track_caller]
    fn get(&self, path: impl AsRef<[u8]>) -> &(CollectedEntry, Vec<u8>) {
        let path = path.as_ref();
        self.entries.get(path).unwrap_or_else(|| {
            panic!("{} was not shown; missed: {:?}", path.escape_ascii(), self.missed);
        })
    }

    #[track_caller]
    fn kind(&self, path: &str) -> &CollectedKind {
        &self.get(path).0.kind
    }

    fn missed_at(&self, path: &str) -> &str {
        let found = self.missed.iter().find(|(missed, _)| missed == path.as_bytes());
        found.map_or_else(|| panic!("{path} was not missed: {:?}", self.missed), |(_, why)| why)
    }
}

fn seen(roots: &Roots, wanted: &[&str]) -> Seen {
    let mut seen = Seen::default();
    let wanted: Vec<String> = wanted.iter().map(|path| (*path).to_owned()).collect();
    collect(roots, &wanted, &mut seen).unwrap();
    seen
}

fn seen_within(limits: Limits, roots: &Roots) -> Seen {
    let mut seen = Seen::default();
    collect_within(limits, roots, &["/workspace".to_owned()], &mut seen).unwrap();
    seen
}

const ROOMY: Limits = Limits { bytes: 1 << 30, entries: 1_000_000, paths: 1 << 30 };

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn mode_of(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn file(path: &str, content: &str) -> PlacedEntry {
    let kind = PlacedKind::File(content.as_bytes().to_vec().into());
    PlacedEntry { path: path.to_owned(), kind, mode: 0o644, owner: Owner::Agent }
}

fn placed_folder(path: &str, mode: u32) -> PlacedEntry {
    PlacedEntry { path: path.to_owned(), kind: PlacedKind::Folder, mode, owner: Owner::Agent }
}

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

/// Runs a script of python's in a folder; `None`, said aloud, where there is no such program.
fn python(folder: &Path, script: &str) -> Option<()> {
    match Command::new("python3").args(["-c", script]).current_dir(folder).output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(())
        }
        Err(error) => {
            eprintln!("skipped: python3 cannot be run: {error}");
            None
        }
    }
}

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

#[test]
fn what_cannot_be_opened_is_missed_and_the_rest_is_shown() {
    if geteuid().is_root() {
        return;
    }
    // Somebody else's folder without permissions, as a plain user sees it.
    let roots = Roots::new([("/workspace".to_owned(), opened(Path::new("/proc/1")))], owners()).unwrap();
    let mut seen = Seen::default();
    collect_within(Limits { bytes: 0, ..ROOMY }, &roots, &["/workspace/fd".to_owned()], &mut seen).unwrap();
    assert!(seen.missed_at("/workspace/fd").contains("denied"), "{:?}", seen.missed);
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
fn single_files_are_read_and_nothing_else() {
    let place = folder();
    let roots = workspace(&place);
    let at = |name: &str| place.path().join(name);
    plant(&roots, &[file("/workspace/a/file", "content"), file("/workspace/large", &"x".repeat(100_000))]).unwrap();
    symlink("/etc/passwd", at("link")).unwrap();
    symlink("a", at("way")).unwrap();
    symlink("file", at("a/inner")).unwrap();
    mkfifoat(CWD, at("fifo"), Mode::RWXU).unwrap();
    let _socket = UnixListener::bind(at("socket")).unwrap();
    File::create(at("sparse")).unwrap().set_len(1 << 40).unwrap();

    assert_eq!(read_file(&roots, "/workspace/a/file", 7).unwrap(), Some(b"content".to_vec()));
    for (path, limit) in [("/workspace/a/file", 6), ("/workspace/large", 99_999), ("/workspace/sparse", 1 << 30)] {
        assert_eq!(read_file(&roots, path, limit).unwrap_err().code(), "read_output_too_large", "{path}");
    }
    let long = format!("/workspace/{}", "x".repeat(300));
    let longer = format!("/workspace{}", "/x".repeat(3000));
    for nothing in [
        "/workspace/none",
        "/workspace/none/none",
        "/workspace/a",
        "/workspace",
        "/workspace/link",
        "/workspace/way/file",
        "/workspace/a/inner",
        "/workspace/fifo",
        "/workspace/socket",
        "/workspace/large/x",
        "/workspace/a/../large",
        "/etc/passwd",
        "relative",
        &long,
        &longer,
    ] {
        assert_eq!(read_file(&roots, nothing, 1000).unwrap(), None, "{nothing}");
    }
}

#[test]
fn a_shut_file_in_shut_folders_is_read_and_stays_shut() {
    let place = folder();
    let roots = workspace(&place);
    plant(
        &roots,
        &[
            placed_folder("/workspace/a", 0),
            placed_folder("/workspace/a/b", 0o400),
            PlacedEntry { mode: 0, ..file("/workspace/a/b/c", "hidden") },
        ],
    )
    .unwrap();
    assert_eq!(read_file(&roots, "/workspace/a/b/c", 10).unwrap(), Some(b"hidden".to_vec()));
    assert_eq!(read_file(&roots, "/workspace/a/b/d", 10).unwrap(), None);
    let seen = seen(&roots, &["/workspace"]);
    let modes = ["/workspace/a", "/workspace/a/b", "/workspace/a/b/c"].map(|path| seen.get(path).0.mode);
    assert_eq!(modes, [0, 0o400, 0]);
    mode(&place.path().join("a"), 0o700);
    mode(&place.path().join("a/b"), 0o700);
}

#[test]
fn a_file_that_grows_while_it_is_read_is_too_large_at_the_limit() {
    let place = folder();
    let roots = workspace(&place);
    let path = place.path().join("growing");
    fs::write(&path, vec![b'x'; 1000]).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut file = File::options().append(true).open(&path).unwrap();
            while !stop.load(std::sync::atomic::Ordering::Relaxed) && file.metadata().unwrap().len() < 4 << 20 {
                io::Write::write_all(&mut file, &[b'y'; 4096]).unwrap();
            }
        });
        for _ in 0..100 {
            match read_file(&roots, "/workspace/growing", 1 << 20) {
                Ok(Some(content)) => assert!(content.len() <= 1 << 20),
                Ok(None) => panic!("it is there"),
                Err(error) => assert_eq!(error.code(), "read_output_too_large"),
            }
            let seen = seen(&roots, &["/workspace"]);
            let (entry, content) = seen.get("/workspace/growing");
            assert_eq!(entry.kind, CollectedKind::File(content.len() as u64));
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
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

/// Something at a path of a few letters, over and over: what is made last counts, and what cannot be made is not.
#[derive(Clone, Debug)]
enum Made {
    File(String, String, u32),
    Folder(String, u32),
    Link(String, String),
    Fifo(String),
}

fn made() -> impl Strategy<Value = Vec<Made>> {
    let path = || "[ab]{1,2}(/[ab]{1,2}){0,3}";
    let mode = || prop_oneof![Just(0o755_u32), Just(0), Just(0o300), Just(0o444), Just(0o7777)];
    let one = prop_oneof![
        (path(), ".{0,9}", mode()).prop_map(|(path, content, mode)| Made::File(path, content, mode)),
        (path(), mode()).prop_map(|(path, mode)| Made::Folder(path, mode)),
        (path(), "[ab./]{1,9}").prop_map(|(path, target)| Made::Link(path, target)),
        path().prop_map(Made::Fifo),
    ];
    proptest::collection::vec(one, 0..30)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn everything_that_was_made_is_shown_once_in_order(all in made()) {
        let place = folder();
        let roots = workspace(&place);
        let mut expected = BTreeMap::new();
        let mut modes = BTreeMap::new();
        for one in &all {
            let (Made::File(name, ..) | Made::Folder(name, _) | Made::Link(name, _) | Made::Fifo(name)) = one;
            let at = place.path().join(name);
            // No way through a link: that would be another place.
            let straight = at.ancestors().skip(1).take_while(|above| above.starts_with(place.path())).all(|above| !above.is_symlink());
            if !straight || fs::symlink_metadata(&at).is_ok() {
                continue;
            }
            let (kind, mode) = match one {
                Made::File(_, content, mode) if fs::write(&at, content).is_ok() => (CollectedKind::File(content.len() as u64), Some(*mode)),
                Made::Folder(_, mode) if fs::create_dir(&at).is_ok() => (CollectedKind::Folder, Some(*mode)),
                Made::Link(_, target) if symlink(target, &at).is_ok() => (CollectedKind::Symlink(target.clone().into_bytes()), None),
                Made::Fifo(_) if mkfifoat(CWD, &at, Mode::RUSR).is_ok() => (CollectedKind::Special("fifo"), None),
                _ => continue,
            };
            expected.insert(format!("/workspace/{name}").into_bytes(), kind);
            modes.extend(mode.map(|mode| (name.clone(), mode)));
        }
        modes.iter().rev().for_each(|(name, to)| mode(&place.path().join(name), *to));
        let seen = seen(&roots, &["/workspace"]);
        prop_assert_eq!(&seen.missed, &[]);
        let shown: BTreeMap<Vec<u8>, CollectedKind> =
            seen.entries.iter().skip(1).map(|(path, (entry, _))| (path.clone(), entry.kind.clone())).collect();
        prop_assert_eq!(shown, expected);
        let parts = |path: &Vec<u8>| path.split(|byte| *byte == b'/').map(<[u8]>::to_vec).collect::<Vec<_>>();
        prop_assert!(seen.order.is_sorted_by_key(parts));
        for (name, expected) in &modes {
            prop_assert_eq!(seen.get(format!("/workspace/{name}")).0.mode, *expected);
        }
        // From above, as it is the other way round than they were shut.
        modes.keys().for_each(|name| mode(&place.path().join(name), 0o700));
    }
}
