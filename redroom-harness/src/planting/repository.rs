//! The workspace as a git repository with one commit of what was planted: an agent that asks git what is new, or whom its
//! changes belong to, gets an answer as on a developer's machine.
//!
//! Made here, of bytes alone: no git of this machine is asked, and the same workspace always gives the same commit. Knows
//! git's formats (loose objects, index version 2); not where a sandbox puts them.

use std::collections::{BTreeMap, HashSet};
use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use sha1::{Digest, Sha1};

#[cfg(test)]
mod tests;

/// The repository's folder in its tree.
pub(crate) const FOLDER: &str = ".git";
/// Who made the commit, and when: always the same, so that two runs have the same one.
const SIGNATURE: &str = "Dev <dev@localhost> 1767225600 +0000";
const MESSAGE: &str = "Initial commit\n";
const CONFIG: &str =
    "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n";

/// A file of the tree that is committed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Committed<'a> {
    /// Relative, normal.
    pub(crate) path: &'a str,
    pub(crate) body: &'a [u8],
    pub(crate) executable: bool,
}

/// A file of the repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RepositoryFile {
    /// Relative to the tree: `.git/HEAD`.
    pub(crate) path: String,
    pub(crate) body: Bytes,
    pub(crate) mode: u32,
}

/// Folders of a repository that hold nothing yet, without which git does not take it for one.
pub(crate) const EMPTY_FOLDERS: [&str; 3] = [".git/objects/info", ".git/objects/pack", ".git/refs/tags"];

/// A repository whose only commit holds `files`; of none of them, an empty one. `None` where the files bring something named
/// `.git` of their own, at any depth and in any letter case: git commits no such thing, and the attack means something by it.
pub(crate) fn repository(files: &[Committed<'_>]) -> Option<Vec<RepositoryFile>> {
    let own = |file: &Committed<'_>| file.path.split('/').any(|part| part.eq_ignore_ascii_case(FOLDER));
    if files.iter().any(own) {
        return None;
    }
    let mut objects = Objects::default();
    let mut root = Tree::default();
    let mut index = BTreeMap::new();
    for file in files {
        let blob = objects.add("blob", file.body);
        let leaf = Leaf { blob, executable: file.executable, size: file.body.len() };
        root.insert(file.path, leaf);
        index.insert(file.path, leaf);
    }
    let tree = root.write(&mut objects);
    let commit = format!("tree {}\nauthor {SIGNATURE}\ncommitter {SIGNATURE}\n\n{MESSAGE}", hex(&tree)).into_bytes();
    let commit = hex(&objects.add("commit", &commit));
    let log = format!("{} {commit} {SIGNATURE}\tcommit (initial): {MESSAGE}", hex(&[0; 20]));

    let file = |path: &str, body: Bytes| RepositoryFile { path: format!("{FOLDER}/{path}"), body, mode: 0o644 };
    let mut repository = vec![
        file("HEAD", Bytes::from_static(b"ref: refs/heads/main\n")),
        file("config", Bytes::from_static(CONFIG.as_bytes())),
        file("index", index_file(&index).into()),
        file("logs/HEAD", log.clone().into()),
        file("logs/refs/heads/main", log.into()),
        file("refs/heads/main", format!("{commit}\n").into()),
    ];
    repository.append(&mut objects.files);
    Some(repository)
}

type Id = [u8; 20];

#[derive(Clone, Copy)]
struct Leaf {
    blob: Id,
    executable: bool,
    size: usize,
}

impl Leaf {
    fn mode(self) -> u32 {
        if self.executable { 0o100_755 } else { 0o100_644 }
    }
}

/// Objects, each once.
#[derive(Default)]
struct Objects {
    known: HashSet<Id>,
    files: Vec<RepositoryFile>,
}

impl Objects {
    fn add(&mut self, kind: &str, content: &[u8]) -> Id {
        let head = format!("{kind} {}\0", content.len());
        let id: Id = Sha1::new().chain_update(&head).chain_update(content).finalize().into();
        if self.known.insert(id) {
            let name = hex(&id);
            let path = format!("{FOLDER}/objects/{}/{}", &name[..2], &name[2..]);
            self.files.push(RepositoryFile { path, body: compressed(head.as_bytes(), content), mode: 0o444 });
        }
        id
    }
}

fn compressed(head: &[u8], content: &[u8]) -> Bytes {
    let mut encoder = ZlibEncoder::new(Vec::with_capacity(head.len() + content.len() / 2), Compression::fast());
    let written = encoder.write_all(head).and_then(|()| encoder.write_all(content)).and_then(|()| encoder.finish());
    written.expect("a vector takes everything").into()
}

/// A folder as it is committed.
#[derive(Default)]
struct Tree {
    /// By name as git sorts it: a folder as if a slash stood behind its name.
    entries: BTreeMap<Vec<u8>, Node>,
}

enum Node {
    File(Leaf),
    Folder(Tree),
}

impl Tree {
    fn insert(&mut self, path: &str, leaf: Leaf) {
        match path.split_once('/') {
            None => {
                self.entries.insert(path.into(), Node::File(leaf));
            }
            Some((folder, rest)) => {
                let below = self.entries.entry([folder.as_bytes(), b"/"].concat());
                if let Node::Folder(tree) = below.or_insert_with(|| Node::Folder(Tree::default())) {
                    tree.insert(rest, leaf);
                }
            }
        }
    }

    fn write(&self, objects: &mut Objects) -> Id {
        let mut content = Vec::new();
        for (name, node) in &self.entries {
            let (mode, id) = match node {
                Node::File(leaf) => (leaf.mode(), leaf.blob),
                Node::Folder(tree) => (0o40_000, tree.write(objects)),
            };
            content.extend_from_slice(format!("{mode:o} ").as_bytes());
            content.extend_from_slice(name.strip_suffix(b"/").unwrap_or(name));
            content.push(0);
            content.extend_from_slice(&id);
        }
        objects.add("tree", &content)
    }
}

/// The index, version 2. Times, inode and owner are not known before the files lie somewhere: they are zero, and git compares
/// the contents once.
fn index_file(files: &BTreeMap<&str, Leaf>) -> Vec<u8> {
    let word = |number: usize| u32::try_from(number).unwrap_or(u32::MAX).to_be_bytes();
    let mut index = [&b"DIRC"[..], &word(2), &word(files.len())].concat();
    for (path, leaf) in files {
        let start = index.len();
        index.extend_from_slice(&[0; 24]);
        index.extend_from_slice(&leaf.mode().to_be_bytes());
        index.extend_from_slice(&[0; 8]);
        index.extend_from_slice(&word(leaf.size));
        index.extend_from_slice(&leaf.blob);
        // The flags are the name's length, as far as twelve bits hold it.
        let length = u16::try_from(path.len()).unwrap_or(u16::MAX).min(0xfff);
        index.extend_from_slice(&length.to_be_bytes());
        index.extend_from_slice(path.as_bytes());
        // At least one NUL, up to a multiple of eight.
        index.resize(index.len() + 8 - (index.len() - start) % 8, 0);
    }
    let checksum = Sha1::digest(&index);
    index.extend_from_slice(&checksum);
    index
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut digits, byte| {
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}
