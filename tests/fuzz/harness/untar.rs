//! An archive that a hostile container had a say in: read within its own length, shown within its place.

use std::io::{self, Read};

use super::draw::Draw;
use crate::backend::docker::collect::{Limits, show};
use crate::backend::docker::untar::Members;
use crate::backend::{CollectedEntry, CollectedKind, Visitor};

pub(super) fn run(data: &[u8]) {
    members(data);
    written(&mut Draw::new(data));
    let data = with_checksums(data);
    members(&data);
    for (root, limits) in [
        ("/home/agent/", Limits { bytes: 1 << 20, entries: 100 }),
        ("/w", Limits { bytes: 4096, entries: 3 }),
        ("/", Limits { bytes: 1 << 20, entries: 1 }),
    ] {
        let parent = root.trim_end_matches('/').rsplit_once('/').map_or("", |(parent, _)| parent);
        let mut seen = Seen { parent: format!("{parent}/").into_bytes(), entries: 0, bytes: 0 };
        let _ = show(&data[..], root, limits, &mut seen);
        assert!(seen.entries <= limits.entries && seen.bytes <= limits.bytes.min(data.len() as u64));
    }
}

/// What is written as everybody writes it is read back: names of any bytes, in PAX records or GNU's way, contents of any length.
fn written(draw: &mut Draw<'_>) {
    // A folder says of itself how large it is, and has no content all the same.
    let mut archive = header(b'5', 600);
    let mut expected = vec![(b"short".to_vec(), Vec::new())];
    for index in 1..=1 + draw.below(3) {
        let name = [b"n", draw.take(40), format!("\n {index}=").as_bytes()].concat();
        let name: Vec<u8> = name.into_iter().filter(|byte| *byte != 0).collect();
        let content = draw.take(255).repeat([0, 1, 2, 3][draw.below(4)]);
        let is_pax = draw.below(2) == 1;
        let extension = if is_pax { record("path", &name) } else { [&name[..], b"\0"].concat() };
        for (kind, content) in [(if is_pax { b'x' } else { b'L' }, &extension), (b'0', &content)] {
            archive.extend(header(kind, content.len()));
            archive.extend_from_slice(content);
            archive.resize(archive.len().next_multiple_of(512), 0xa5);
        }
        // Every other one is passed over.
        expected.push((name, if index % 2 == 0 { content } else { Vec::new() }));
    }
    archive.extend([0; 1024]);
    let mut members = Members::new(&archive[..]);
    for (index, (name, content)) in expected.iter().enumerate() {
        let member = members.next().unwrap().expect("there is another one");
        let mut read = Vec::new();
        if index % 2 == 0 {
            members.content().read_to_end(&mut read).unwrap();
        }
        assert_eq!((&member.path, member.mode, &read), (name, 0o640, content), "{}", name.escape_ascii());
    }
    assert!(members.next().unwrap().is_none());
}

fn header(kind: u8, size: usize) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.set_path("short").unwrap();
    header.set_entry_type(tar::EntryType::new(kind));
    header.set_size(size as u64);
    header.set_mode(0o640);
    header.set_uid(1000);
    header.set_gid(1000);
    header.set_cksum();
    header.as_bytes().to_vec()
}

/// A PAX record, whose length counts its own digits.
fn record(key: &str, value: &[u8]) -> Vec<u8> {
    let rest = [b" ", key.as_bytes(), b"=", value, b"\n"].concat();
    let length = (rest.len()..).find(|length| *length == rest.len() + length.to_string().len()).unwrap();
    [length.to_string().as_bytes(), &rest].concat()
}

/// All that is in an archive lies in it: no content is longer, and nothing is read twice.
fn members(data: &[u8]) {
    let mut members = Members::new(data);
    let mut read = 0;
    while let Ok(Some(member)) = members.next() {
        read += 512;
        assert!(member.path.len() <= 1 << 20 && member.mode <= 0o7777);
        // Every other one is passed over.
        if read % 1024 == 0 {
            let mut content = Vec::new();
            let Ok(_) = members.content().read_to_end(&mut content) else { break };
            read += content.len();
        }
        assert!(read <= data.len());
    }
}

/// The archive with right checksums, so that not every change of it ends at the first header.
fn with_checksums(data: &[u8]) -> Vec<u8> {
    let mut data = data.to_vec();
    let mut at = 0;
    while let Some(block) = data.get_mut(at..at + 512) {
        if block.iter().any(|byte| *byte != 0) {
            block[148..156].fill(b' ');
            let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
            block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        }
        let digits = std::str::from_utf8(&block[124..136]).unwrap_or_default();
        let size = usize::from_str_radix(digits.trim_matches(['\0', ' ']), 8).unwrap_or(0);
        at = at.saturating_add(512).saturating_add(size.min(1 << 30).next_multiple_of(512));
    }
    data
}

struct Seen {
    parent: Vec<u8>,
    entries: u64,
    bytes: u64,
}

impl Seen {
    fn is_inside(&self, path: &[u8]) -> bool {
        let below = path.strip_prefix(&self.parent[..]).unwrap_or_default();
        below.split(|byte| *byte == b'/').all(|part| !matches!(part, b"" | b"." | b".."))
    }
}

impl Visitor for Seen {
    fn entry(&mut self, entry: &CollectedEntry, content: &mut dyn Read) -> io::Result<()> {
        assert!(self.is_inside(&entry.path), "{}", entry.path.escape_ascii());
        if let CollectedKind::HardLink(target) = &entry.kind {
            assert!(self.is_inside(target), "{}", target.escape_ascii());
        }
        self.entries += 1;
        let mut read = Vec::new();
        content.read_to_end(&mut read)?;
        self.bytes += read.len() as u64;
        let size = if let CollectedKind::File(size) = entry.kind { size } else { 0 };
        assert_eq!(read.len() as u64, size);
        Ok(())
    }

    fn missed(&mut self, _: &[u8], why: &str) {
        assert!(!why.is_empty());
    }
}
