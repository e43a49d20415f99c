//! Takes files out of a container as archives, and shows them one by one. Nothing is unpacked, nothing followed.
//!
//! An archive is written by the engine out of a tree that the agent has built: how many entries, how large, with which
//! names is its choice. Hence the limits. What lies beyond them is reported as missed, never left out silently.

use std::io::{self, Read};
use std::time::Duration;

use bollard::query_parameters::{ContainerArchiveInfoOptionsBuilder, DownloadFromContainerOptionsBuilder};
use bytes::{Buf, Bytes};
use futures_util::{Stream, StreamExt};
use tokio::sync::mpsc;
use tokio::task::{block_in_place, spawn_blocking};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::engine::{Engine, failed, status};
use super::untar::{Member, Members, What};
use crate::backend::{CollectedEntry, CollectedKind, Visitor, read_output_too_large};
use crate::error::{Error, Result};

/// The most that is read of one root: sparse files come out as the zeros that they stand for.
const ARCHIVE_LIMIT: u64 = 4 * 1024 * 1024 * 1024;
const ENTRIES_LIMIT: u64 = 1_000_000;
/// The engine reaches files by their whole paths, which the kernel takes up to 4,095 bytes of, and passes silently over what is deeper: a
/// folder with a longer path than this may hold a name that is too much.
const DEEPEST: usize = 4095 - 256 - ENGINE_PREFIX;
/// Where the engine sees the container's root: `/var/lib/docker/overlay2/…/merged` and the like.
const ENGINE_PREFIX: usize = 256;
/// When an engine that sends nothing is given up, and one that sends on and on.
const SILENCE: Duration = Duration::from_secs(60);
const AT_MOST: Duration = Duration::from_secs(10 * 60);
const CHUNKS_AHEAD: usize = 16;
/// The engine's mark of a link among the bits of a mode.
const SYMLINK: u32 = 1 << 27;
/// The engine's words for a path with a file where a folder would have to be, and for links without an end, before and after the path.
const LEADS_NOWHERE: [&str; 2] = [": not a directory", "too many links in "];

/// Shows `visitor` what lies at `root` and below.
pub(crate) async fn collect(engine: &Engine, container: &str, root: &str, visitor: &mut dyn Visitor) -> Result<()> {
    let Some(mut archive) = Download::open(engine, container, root).await? else { return Ok(()) };
    // On this very thread, for the visitor is borrowed; the download goes on on others.
    let shown = block_in_place(|| show(&mut archive, root, Limits::DEFAULT, visitor));
    archive.verdict(shown, root)
}

/// Whether something above a path is a link: the engine would follow it, inside the container. What the agent changes between
/// this look and the next is its own all the same.
async fn is_behind_a_link(engine: &Engine, container: &str, path: &str) -> Result<bool> {
    const WHAT: &str = "look at a folder in a sandbox";
    for (end, _) in path.match_indices('/').skip(1) {
        let options = ContainerArchiveInfoOptionsBuilder::new().path(&path[..end]).build();
        let asking = async {
            let asked = engine.docker.get_container_archive_info(container, Some(options)).await;
            asked.map_err(|error| failed(WHAT, error))
        };
        match engine.within(SILENCE, WHAT, asking).await {
            Ok(facts) if facts.file_mode & SYMLINK != 0 => return Ok(true),
            Ok(_) => {}
            // Nothing, or no folder: there is no file below it, as whoever reads it will see.
            Err(error) if status(&error).is_some() => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

/// A file's content; `None` where there is no regular file, or a link on the way to it.
pub(crate) async fn read_file(engine: &Engine, container: &str, path: &str, limit: u64) -> Result<Option<Vec<u8>>> {
    if is_behind_a_link(engine, container, path).await? {
        return Ok(None);
    }
    let opened = match Download::open(engine, container, path).await {
        // A file above it, or links without an end: the engine has no status of its own for that.
        Err(error) if LEADS_NOWHERE.iter().any(|words| error.detail().contains(words)) => None,
        opened => opened?,
    };
    let Some(mut archive) = opened else { return Ok(None) };
    let owned = path.to_owned();
    let reading = spawn_blocking(move || {
        let mut members = Members::new(&mut archive);
        let read = match members.next() {
            Ok(Some(Member { what: What::File(size), .. })) if size > limit => {
                Err(read_output_too_large(&owned, size, limit))
            }
            Ok(Some(Member { what: What::File(_), .. })) => {
                let mut content = Vec::new();
                Ok(members.content().read_to_end(&mut content).map(|_| Some(content)))
            }
            Ok(_) => Ok(Ok(None)),
            Err(error) => Ok(Err(error)),
        };
        read.and_then(|read| archive.verdict(read, &owned))
    });
    reading.await.map_err(|error| broken(path, &io::Error::other(error)))?
}

/// How much of an archive is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
}

impl Limits {
    const DEFAULT: Limits = Limits { bytes: ARCHIVE_LIMIT, entries: ENTRIES_LIMIT };
}

/// Shows the members of an archive of `root`.
pub(crate) fn show(archive: impl Read, root: &str, limits: Limits, visitor: &mut dyn Visitor) -> io::Result<()> {
    // The engine names members from the last part of the path on.
    let root = root.trim_end_matches('/');
    let parent = root.rfind('/').map_or("", |at| &root[..at]);
    let mut members = Members::new(Bounded { source: archive, left: limits.bytes, exhausted: false });
    let mut shown = 0;
    let ended = loop {
        let member = match members.next() {
            Ok(Some(member)) => member,
            Ok(None) => return Ok(()),
            Err(error) => break error,
        };
        if shown == limits.entries {
            visitor.missed(
                root.as_bytes(),
                &format!("it has more than {} entries; the rest was not collected", limits.entries),
            );
            return Ok(());
        }
        shown += 1;
        match entry(parent, member) {
            Ok(entry) => {
                // One that lies in such a folder is told with it.
                let above = entry.path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
                if entry.kind == CollectedKind::Folder && entry.path.len() > DEEPEST && above <= DEEPEST {
                    visitor.missed(&entry.path, "what is in it may lie too deep for the engine to reach");
                }
                if let Err(error) = visitor.entry(&entry, &mut members.content()) {
                    break error;
                }
            }
            Err(path) => visitor.missed(&path, "its name leads out of the place that was collected"),
        }
    };
    if members.source().exhausted {
        let gib = limits.bytes as f64 / f64::from(1 << 30);
        visitor.missed(root.as_bytes(), &format!("it holds more than {gib:.1} GiB; the rest was not collected"));
        return Ok(());
    }
    Err(ended)
}

/// A member as an entry with an absolute path; its path alone where that leads elsewhere.
fn entry(parent: &str, member: Member) -> Result<CollectedEntry, Vec<u8>> {
    let absolute = |name: &[u8]| {
        let name = name.strip_suffix(b"/").unwrap_or(name);
        let inside =
            !name.is_empty() && name.split(|byte| *byte == b'/').all(|part| !matches!(part, b"" | b"." | b".."));
        inside.then(|| [parent.as_bytes(), b"/", name].concat())
    };
    let Some(path) = absolute(&member.path) else { return Err(member.path) };
    let kind = match member.what {
        What::File(size) => CollectedKind::File(size),
        What::Folder => CollectedKind::Folder,
        What::Symlink(target) => CollectedKind::Symlink(target),
        What::HardLink(target) => match absolute(&target) {
            Some(target) => CollectedKind::HardLink(target),
            None => return Err(path),
        },
        What::Fifo => CollectedKind::Special("fifo"),
        What::Device => CollectedKind::Special("device"),
    };
    Ok(CollectedEntry { path, kind, mode: member.mode, uid: member.uid, gid: member.gid })
}

/// Reads so much and no more, and remembers that there was more.
struct Bounded<R> {
    source: R,
    left: u64,
    exhausted: bool,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        if most == 0 && !buffer.is_empty() {
            self.exhausted = true;
            return Err(io::Error::other("the archive is larger than what is collected"));
        }
        let read = self.source.read(&mut buffer[..most])?;
        self.left -= read as u64;
        Ok(read)
    }
}

/// An archive on its way here: read on a blocking thread while it comes in.
struct Download {
    chunks: mpsc::Receiver<Result<Bytes>>,
    current: Bytes,
    failure: Option<Error>,
    _pump: AbortOnDropHandle<()>,
}

impl Download {
    /// `None` if there is nothing at this path.
    async fn open(engine: &Engine, container: &str, path: &str) -> Result<Option<Self>> {
        let options = DownloadFromContainerOptionsBuilder::new().path(path).build();
        let mut stream = Box::pin(engine.docker.download_from_container(container, Some(options)));
        let deadline = Instant::now() + AT_MOST;
        let first = match next(engine, deadline, &mut stream).await {
            Some(Ok(chunk)) => chunk,
            Some(Err(error)) if status(&error) == Some(404) => return Ok(None),
            Some(Err(error)) => return Err(error),
            None => Bytes::new(),
        };
        let (sender, chunks) = mpsc::channel(CHUNKS_AHEAD);
        let engine = engine.clone();
        let pump = async move {
            while let Some(chunk) = next(&engine, deadline, &mut stream).await {
                let last = chunk.is_err();
                if sender.send(chunk).await.is_err() || last {
                    return;
                }
            }
        };
        let pump = AbortOnDropHandle::new(tokio::spawn(pump));
        Ok(Some(Download { chunks, current: first, failure: None, _pump: pump }))
    }

    /// An error of reading is the download's own, if it had one.
    fn verdict<T>(self, read: io::Result<T>, path: &str) -> Result<T> {
        match (read, self.failure) {
            (Ok(value), _) => Ok(value),
            (Err(_), Some(failure)) => Err(failure),
            (Err(error), None) => Err(broken(path, &error)),
        }
    }
}

async fn next(
    engine: &Engine,
    deadline: Instant,
    stream: &mut (impl Stream<Item = Result<Bytes, bollard::errors::Error>> + Unpin),
) -> Option<Result<Bytes>> {
    const WHAT: &str = "take files out of a sandbox";
    let patience = SILENCE.min(deadline.saturating_duration_since(Instant::now()));
    let chunk = async { stream.next().await.transpose().map_err(|error| failed(WHAT, error)) };
    engine.within(patience, WHAT, chunk).await.transpose()
}

impl Read for Download {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.chunks.blocking_recv() {
                Some(Ok(chunk)) => self.current = chunk,
                Some(Err(failure)) => {
                    let error = io::Error::other(failure.to_string());
                    self.failure = Some(failure);
                    return Err(error);
                }
                None => return Ok(0),
            }
        }
        let taken = self.current.len().min(buffer.len());
        buffer[..taken].copy_from_slice(&self.current[..taken]);
        self.current.advance(taken);
        Ok(taken)
    }
}

fn broken(path: &str, error: &io::Error) -> Error {
    Error::backend("collect_failed", format!("cannot collect {path}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Seen {
        paths: Vec<String>,
        missed: Vec<String>,
        fails: bool,
    }

    impl Visitor for Seen {
        fn entry(&mut self, entry: &CollectedEntry, content: &mut dyn Read) -> io::Result<()> {
            if self.fails {
                return Err(io::Error::other("the disk is full"));
            }
            let mut text = Vec::new();
            content.read_to_end(&mut text)?;
            let path = String::from_utf8_lossy(&entry.path);
            self.paths.push(format!("{path} {}", text.len()));
            Ok(())
        }

        fn missed(&mut self, path: &[u8], _why: &str) {
            self.missed.push(String::from_utf8_lossy(path).into_owned());
        }
    }

    /// An archive with these members: a name, and a link's target or a content.
    fn archive(members: &[(&str, Result<&str, &[u8]>)]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, what) in members {
            let mut header = tar::Header::new_ustar();
            header.as_ustar_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
            let mut content: &[u8] = b"";
            match what {
                Ok(target) => {
                    header.set_entry_type(tar::EntryType::Link);
                    header.set_link_name_literal(target).unwrap();
                }
                Err(bytes) => content = bytes,
            }
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            header.set_uid(1000);
            header.set_gid(1000);
            header.set_cksum();
            builder.append(&header, content).unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn shown(root: &str, archive: &[u8], limits: Limits) -> (io::Result<()>, Seen) {
        let mut seen = Seen::default();
        (show(archive, root, limits, &mut seen), seen)
    }

    #[test]
    fn paths_start_from_the_roots_own_place() {
        let bytes = archive(&[("agent/a", Err(b"123")), ("agent/b", Ok("agent/a"))]);
        let (outcome, seen) = shown("/home/agent/", &bytes, Limits::DEFAULT);
        outcome.unwrap();
        assert_eq!(seen.paths, ["/home/agent/a 3", "/home/agent/b 0"]);
        let (_, seen) = shown("/tmp", &archive(&[("tmp", Err(b""))]), Limits::DEFAULT);
        assert_eq!(seen.paths, ["/tmp 0"]);
    }

    #[test]
    fn names_that_lead_elsewhere_are_missed() {
        let bytes = archive(&[
            ("../etc/passwd", Err(b"x")),
            ("w/../../x", Err(b"x")),
            ("/etc/passwd", Err(b"x")),
            ("w/./x", Err(b"x")),
            ("w/link", Ok("../../etc/passwd")),
            ("w/fine", Err(b"x")),
        ]);
        let (outcome, seen) = shown("/w", &bytes, Limits::DEFAULT);
        outcome.unwrap();
        assert_eq!(seen.paths, ["/w/fine 1"]);
        assert_eq!(seen.missed, ["../etc/passwd", "w/../../x", "/etc/passwd", "w/./x", "/w/link"]);
    }

    #[test]
    fn what_lies_beyond_the_limits_is_missed() {
        let bytes = archive(&[("w/a", Err(b"x")), ("w/b", Err(&[0; 5000])), ("w/c", Err(b"x"))]);
        let (outcome, seen) = shown("/w", &bytes, Limits { bytes: 3000, entries: 10 });
        outcome.unwrap();
        assert_eq!((seen.paths, seen.missed), (vec!["/w/a 1".to_owned()], vec!["/w".to_owned()]));
        let (outcome, seen) = shown("/w", &bytes, Limits { bytes: 1 << 20, entries: 2 });
        outcome.unwrap();
        assert_eq!((seen.paths.len(), seen.missed.len()), (2, 1));
    }

    #[test]
    fn of_folders_that_lie_too_deep_the_first_is_missed() {
        let mut names: Vec<String> = (0..40).map(|depth| format!("w{}/", "/d".repeat(1_770 + depth))).collect();
        names.sort();
        let mut bytes = Vec::new();
        for name in &names {
            let mut builder = tar::Builder::new(Vec::new());
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(tar::EntryType::Directory);
            header.set_size(0);
            header.set_mode(0o755);
            header.set_uid(1000);
            header.set_gid(1000);
            builder.append_pax_extensions([("path", name.as_bytes())]).unwrap();
            header.set_cksum();
            builder.append(&header, &b""[..]).unwrap();
            bytes.extend_from_slice(&builder.into_inner().unwrap());
            bytes.truncate(bytes.len() - 1024);
        }
        bytes.extend_from_slice(&[0; 1024]);
        let (outcome, seen) = shown("/w", &bytes, Limits::DEFAULT);
        outcome.unwrap();
        assert_eq!(seen.paths.len(), 40);
        assert_eq!(seen.missed.iter().map(String::len).collect::<Vec<_>>(), [DEEPEST + 1]);
    }

    #[test]
    fn a_visitor_that_fails_and_an_archive_that_breaks_are_errors() {
        let bytes = archive(&[("w/a", Err(b"x"))]);
        let mut seen = Seen { fails: true, ..Seen::default() };
        assert!(show(&bytes[..], "/w", Limits::DEFAULT, &mut seen).unwrap_err().to_string().contains("disk"));
        assert!(shown("/w", &bytes[..600], Limits::DEFAULT).0.is_err());
    }
}
