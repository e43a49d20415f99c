//! Streams a tar archive to the engine while it is being written, so that no archive is ever held whole in memory.

use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::poll_fn;
use tar::{EntryType, Header};
use tokio::sync::mpsc;

const CHUNK: usize = 64 * 1024;
const CHUNKS_AHEAD: usize = 8;

/// The archive that `write` writes, as it is being written on a thread of its own. An error of `write` is the stream's last item;
/// `write` gets a broken pipe when nobody reads any more.
pub(crate) fn archive(
    write: impl FnOnce(&mut Archive) -> io::Result<()> + Send + 'static,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    let (sender, mut receiver) = mpsc::channel(CHUNKS_AHEAD);
    tokio::task::spawn_blocking(move || {
        let mut archive = Archive {
            tar: tar::Builder::new(Chunks { buffer: Vec::with_capacity(CHUNK), sender: sender.clone() }),
            mtime: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        };
        let written = write(&mut archive).and_then(|()| archive.tar.into_inner()?.flush());
        if let Err(error) = written {
            // Whoever does not read any more does not want to know either.
            let _ = sender.blocking_send(Err(error));
        }
    });
    poll_fn(move |context| receiver.poll_recv(context))
}

/// An archive under construction. Owners are numeric: names would be looked up in the container.
pub(crate) struct Archive {
    tar: tar::Builder<Chunks>,
    mtime: u64,
}

/// Permission bits and owner of a member; the group is the owner's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) mode: u32,
    pub(crate) uid: u32,
}

impl Access {
    /// Root's, readable and executable by all.
    pub(crate) const PROGRAM: Access = Access { mode: 0o755, uid: 0 };
}

impl Archive {
    pub(crate) fn folder(&mut self, path: &str, access: Access) -> io::Result<()> {
        let mut header = self.header(EntryType::Directory, access, 0);
        self.tar.append_data(&mut header, relative(path), io::empty())
    }

    pub(crate) fn file(&mut self, path: &str, access: Access, content: &[u8]) -> io::Result<()> {
        self.stream(path, access, content.len() as u64, content)
    }

    /// A file whose content is read as it is sent; it must have exactly `size` bytes.
    pub(crate) fn stream(&mut self, path: &str, access: Access, size: u64, content: impl io::Read) -> io::Result<()> {
        let mut header = self.header(EntryType::Regular, access, size);
        let mut content = Exact { source: content, left: size };
        self.tar.append_data(&mut header, relative(path), &mut content)
    }

    fn header(&self, kind: EntryType, access: Access, size: u64) -> Header {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(access.mode);
        header.set_uid(access.uid.into());
        header.set_gid(access.uid.into());
        header.set_size(size);
        header.set_mtime(self.mtime);
        header
    }
}

/// A member's name: archives are unpacked at the root.
fn relative(path: &str) -> &str {
    path.trim_start_matches('/')
}

/// A file that grows or shrinks while it is read would shift everything behind it in the archive.
struct Exact<R> {
    source: R,
    left: u64,
}

impl<R: io::Read> io::Read for Exact<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.source.read(&mut buffer[..most])?;
        if read == 0 && most > 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a file became shorter while it was read"));
        }
        self.left -= read as u64;
        Ok(read)
    }
}

/// Gathers what the tar writer writes into chunks, and hands them to the stream.
struct Chunks {
    buffer: Vec<u8>,
    sender: mpsc::Sender<io::Result<Bytes>>,
}

impl Write for Chunks {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(CHUNK - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..taken]);
        if self.buffer.len() == CHUNK {
            self.flush()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let chunk = std::mem::replace(&mut self.buffer, Vec::with_capacity(CHUNK));
        self.sender.blocking_send(Ok(chunk.into())).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

#[cfg(test)]
mod tests {
    use futures_util::TryStreamExt;

    use super::*;
    use crate::backend::docker::untar::{Members, What};

    #[tokio::test]
    async fn what_is_written_can_be_read_again() {
        let long = format!("/deep/{}/file", "folder/".repeat(40).trim_end_matches('/'));
        let large = vec![9; 3 * CHUNK + 17];
        let (path, content) = (long.clone(), large.clone());
        let bytes: Vec<u8> = archive(move |archive| {
            archive.folder("/home/agent", Access { mode: 0o750, uid: 1000 })?;
            archive.file(&path, Access::PROGRAM, &content)
        })
        .try_fold(Vec::new(), |mut all, chunk| async move {
            all.extend_from_slice(&chunk);
            Ok(all)
        })
        .await
        .unwrap();

        let mut members = Members::new(&bytes[..]);
        let folder = members.next().unwrap().unwrap();
        assert_eq!(
            (&folder.path[..], folder.what, folder.mode, folder.uid, folder.gid),
            (&b"home/agent"[..], What::Folder, 0o750, 1000, 1000)
        );
        let file = members.next().unwrap().unwrap();
        assert_eq!((file.path, file.what), (long.as_bytes()[1..].to_vec(), What::File(large.len() as u64)));
        let mut read = Vec::new();
        io::Read::read_to_end(&mut members.content(), &mut read).unwrap();
        assert!(read == large);
        assert!(members.next().unwrap().is_none());
    }

    #[tokio::test]
    async fn a_file_that_shrinks_ends_the_stream_with_an_error() {
        let result: io::Result<Vec<Bytes>> =
            archive(|archive| archive.stream("/f", Access::PROGRAM, 10, &b"short"[..])).try_collect().await;
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
