//! A tree that a jailed agent has built, and files that are planted and read in it: nothing outside of it is touched or shown.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::symlink;
use std::path::{Component, Path};

use super::draw::Draw;
use crate::backend::jail::tree::{Owners, Roots, collect, plant, read_file};
use crate::backend::{CollectedEntry, CollectedKind, Owner, PlacedEntry, PlacedKind, Visitor};

/// What stands outside and must not be seen inside.
const OUTSIDE: &[u8] = b"outside";

pub(super) fn run(data: &[u8]) {
    let place = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let inside = place.path().join("inside");
    fs::create_dir(&inside).unwrap();
    fs::write(place.path().join("outside"), OUTSIDE).unwrap();
    let roots = Roots::new([("/workspace".to_owned(), File::open(&inside).unwrap().into())], Owners::own()).unwrap();
    let mut draw = Draw::new(data);
    let mut asked = vec!["/workspace/../outside".to_owned(), "/workspace/a".to_owned()];
    for _ in 0..24 {
        if draw.is_empty() {
            break;
        }
        let (what, path) = (draw.below(5), path(&mut draw));
        asked.push(format!("/workspace/{path}"));
        match what {
            0 => build(&inside, &path, |at| fs::create_dir(at)),
            1 => build(&inside, &path, |at| fs::write(at, "inside")),
            2 => {
                let target = ["..", "../outside", "/", ".", "a", "../inside/b", "/proc/self/fd"][draw.below(7)];
                build(&inside, &path, |at| symlink(target, at));
            }
            _ => {
                let path = ["/workspace/", "/workspace", "/", ""][draw.below(4)].to_owned() + &path;
                let kind = if what == 3 { PlacedKind::Folder } else { PlacedKind::File(b"planted".as_slice().into()) };
                let entry = PlacedEntry { path: path.clone(), kind, mode: 0o755, owner: Owner::Agent };
                let before = at(&inside, &path);
                let planted = plant(&roots, &[entry]).is_ok();
                assert!(before.is_none() || !planted && at(&inside, &path) == before, "{path:?} was written over");
                if planted && what == 4 {
                    assert_eq!(read_file(&roots, &path, 100).unwrap().as_deref(), Some(&b"planted"[..]), "{path:?}");
                }
                asked.push(path);
            }
        }
    }
    for path in asked {
        let read = read_file(&roots, &path, 100).ok().flatten();
        assert_ne!(read.as_deref(), Some(OUTSIDE), "{path:?}");
        assert_eq!(read, at(&inside, &path), "{path:?}");
    }
    for root in ["/workspace", "/"] {
        let mut seen = Seen::default();
        collect(&roots, &[root.to_owned()], &mut seen).unwrap();
        let mut there = BTreeMap::new();
        walk(&inside, "/workspace", &mut there);
        assert_eq!(seen.0, there, "from {root}");
    }
    let names = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.collect();
    names.sort();
    assert_eq!(names, ["inside", "outside"]);
    assert_eq!(fs::read(place.path().join("outside")).unwrap(), OUTSIDE);
}

fn path(draw: &mut Draw<'_>) -> String {
    let parts = (0..=draw.below(4)).map(|_| ["a", "b", "c", "..", ".", "", "a\0", "inside"][draw.below(8)]);
    parts.collect::<Vec<_>>().join("/")
}

/// What a file of the tree holds that a plain path leads to; through no link, by no other spelling.
fn at(inside: &Path, path: &str) -> Option<Vec<u8>> {
    let below = path.strip_prefix("/workspace/")?;
    let is_plain = !below.contains('\0') && below.split('/').all(|part| !matches!(part, "" | "." | ".."));
    let at = inside.join(below);
    let links = at.ancestors().take_while(|above| *above != inside).any(Path::is_symlink);
    if is_plain && !links && at.is_file() { fs::read(at).ok() } else { None }
}

/// As the agent builds: what cannot be made is not, and nothing outside is touched by this test.
fn build(inside: &Path, path: &str, make: impl FnOnce(&Path) -> io::Result<()>) {
    let is_plain = !path.is_empty()
        && !path.contains('\0')
        && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    let at = inside.join(path);
    let leads_away = at.ancestors().take_while(|above| *above != inside).any(Path::is_symlink);
    if is_plain && !leads_away {
        // It is there already, or lies in no folder.
        let _ = make(&at);
    }
}

/// What is in the tree: a folder, where a link leads, what a file holds.
fn walk(at: &Path, path: &str, there: &mut BTreeMap<String, String>) {
    let found = fs::symlink_metadata(at).unwrap();
    let what = match found.file_type() {
        kind if kind.is_symlink() => format!("link to {}", fs::read_link(at).unwrap().display()),
        kind if kind.is_dir() => "folder".to_owned(),
        _ => format!("file with {}", fs::read_to_string(at).unwrap()),
    };
    there.insert(path.to_owned(), what);
    for entry in fs::read_dir(at).into_iter().filter(|_| found.is_dir()).flatten() {
        let entry = entry.unwrap();
        walk(&entry.path(), &format!("{path}/{}", entry.file_name().display()), there);
    }
}

/// What was shown, by its path.
#[derive(Default)]
struct Seen(BTreeMap<String, String>);

impl Visitor for Seen {
    fn entry(&mut self, entry: &CollectedEntry, content: &mut dyn Read) -> io::Result<()> {
        let below = entry.path.strip_prefix(b"/workspace").expect("it lies in the tree");
        assert!(!below.split(|byte| *byte == b'/').any(|part| matches!(part, b"." | b"..")));
        let mut read = Vec::new();
        content.read_to_end(&mut read)?;
        assert_ne!(read, OUTSIDE);
        assert!(matches!(&entry.kind, CollectedKind::File(size) if *size == read.len() as u64) || read.is_empty());
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let what = match &entry.kind {
            CollectedKind::Folder => "folder".to_owned(),
            CollectedKind::Symlink(target) => format!("link to {}", text(target)),
            CollectedKind::File(_) => format!("file with {}", text(&read)),
            other => panic!("nobody has made {other:?}"),
        };
        assert_eq!(self.0.insert(text(&entry.path), what), None, "it is shown twice");
        Ok(())
    }

    fn missed(&mut self, path: &[u8], why: &str) {
        panic!("{} was missed: {why}", path.escape_ascii());
    }
}
