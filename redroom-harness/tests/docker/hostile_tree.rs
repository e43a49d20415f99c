//! A tree as an agent would build it that wants to fool whoever collects it: one table for every backend.

use super::CollectedKind;

/// What is made in the current folder.
pub(crate) const SCRIPT: &str = r#"
import os, socket
def write(name, text, mode=None):
    with open(name, 'w') as file: file.write(text)
    if mode is not None: os.chmod(name, mode)
os.symlink('/etc/passwd', 'link'); os.symlink('../../nowhere', 'dangling')
os.symlink('.', 'self'); os.symlink('/', 'rootlink')
os.mkfifo('fifo')
socket.socket(socket.AF_UNIX).bind('socket')
write('first', 'shared'); os.link('first', 'second')
write(b'line\nbreak', '1'); write(b'caf\xe9', '2'); write(b'\xff\n15 path=w_first\n11 size=99\n', '3')
write('.wh.first', '4'); write('-rf', '5'); write(b'\x1b[2J\x1b]0;title\x07', '6'); write('...', '7')
write('suid', '8', 0o6755); write('closed', '9', 0)
os.makedirs('shut/also/shut'); write('shut/also/shut/inside', '10', 0o200)
os.chmod('shut/also/shut', 0); os.chmod('shut/also', 0o444); os.chmod('shut', 0)
with open('holes', 'w') as file:
    file.truncate(100000); file.seek(50000); file.write('x')
for _ in range(30):
    os.mkdir('d' * 200); os.chdir('d' * 200)
write('deep', '11')
"#;

/// Something that was made, by its name in the folder.
pub(crate) struct Row {
    pub(crate) name: &'static [u8],
    pub(crate) is: Is,
    /// Where it is not as the folder's maker happened to have it.
    pub(crate) mode: Option<u32>,
}

pub(crate) enum Is {
    /// A file with this content.
    File(&'static str),
    /// A file of this size, zeros but for an `x` in the middle.
    Holes(usize),
    Folder,
    Link(&'static [u8]),
    /// Another name of this.
    SameAs(&'static str),
    Special(&'static str),
}

const fn row(name: &'static [u8], is: Is) -> Row {
    Row { name, is, mode: None }
}

const fn with_mode(name: &'static [u8], mode: u32, is: Is) -> Row {
    Row { name, is, mode: Some(mode) }
}

/// What a collection must show of it. Beside this there is a `socket`, and thirty folders in each other, their names 200 times `d`,
/// with a file `deep` in the last: deeper than a path can be.
pub(crate) const ROWS: &[Row] = &[
    row(b"link", Is::Link(b"/etc/passwd")),
    row(b"dangling", Is::Link(b"../../nowhere")),
    row(b"self", Is::Link(b".")),
    row(b"rootlink", Is::Link(b"/")),
    row(b"fifo", Is::Special("fifo")),
    row(b"first", Is::File("shared")),
    row(b"second", Is::SameAs("first")),
    row(b"line\nbreak", Is::File("1")),
    row(b"caf\xe9", Is::File("2")),
    row(b"\xff\n15 path=w_first\n11 size=99\n", Is::File("3")),
    row(b".wh.first", Is::File("4")),
    row(b"-rf", Is::File("5")),
    row(b"\x1b[2J\x1b]0;title\x07", Is::File("6")),
    row(b"...", Is::File("7")),
    with_mode(b"suid", 0o6755, Is::File("8")),
    with_mode(b"closed", 0, Is::File("9")),
    with_mode(b"shut", 0, Is::Folder),
    with_mode(b"shut/also", 0o444, Is::Folder),
    with_mode(b"shut/also/shut", 0, Is::Folder),
    with_mode(b"shut/also/shut/inside", 0o200, Is::File("10")),
    row(b"holes", Is::Holes(100_000)),
];

impl Row {
    /// What it is in a tree at `root`.
    pub(crate) fn kind(&self, root: &str) -> CollectedKind {
        match self.is {
            Is::File(content) => CollectedKind::File(content.len() as u64),
            Is::Holes(size) => CollectedKind::File(size as u64),
            Is::Folder => CollectedKind::Folder,
            Is::Link(target) => CollectedKind::Symlink(target.to_vec()),
            Is::SameAs(name) => CollectedKind::HardLink(format!("{root}/{name}").into_bytes()),
            Is::Special(sort) => CollectedKind::Special(sort),
        }
    }

    pub(crate) fn path(&self, root: &str) -> Vec<u8> {
        [root.as_bytes(), b"/", self.name].concat()
    }

    pub(crate) fn content(&self) -> Vec<u8> {
        match self.is {
            Is::File(content) => content.into(),
            Is::Holes(size) => {
                let mut content = vec![0; size];
                content[size / 2] = b'x';
                content
            }
            _ => Vec::new(),
        }
    }
}
