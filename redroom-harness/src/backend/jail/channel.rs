//! Messages with descriptors over a socket that keeps their bounds: from the harness (waiting for nobody) and from inside
//! (one thing at a time). What is long travels in a file in memory.
//!
//! What comes out of a jail is hostile: no message is longer than [`LONGEST`], none brings more than [`MOST_FDS`] descriptors.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read as _, Seek as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::sys::watched;

/// The longest message, in bytes.
pub(super) const LONGEST: usize = 4096;
/// The most descriptors of one message: a slot has fewer sockets.
const MOST_FDS: usize = 24;

/// Two ends that are joined; neither is inherited by what is executed.
pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Sends one message, and waits until there is room for it.
pub(super) fn send(socket: BorrowedFd<'_>, message: &impl Serialize, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    send_with(socket, message, fds, SendFlags::NOSIGNAL)
}

fn send_with(
    socket: BorrowedFd<'_>,
    message: &impl Serialize,
    fds: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> io::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    if bytes.len() > LONGEST || fds.len() > MOST_FDS {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a message that is too long"));
    }
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut room);
    if !fds.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(fds));
    }
    loop {
        match sendmsg(socket, &[IoSlice::new(&bytes)], &mut ancillary, flags) {
            Err(Errno::INTR) => {}
            sent => return Ok(sent.map(drop)?),
        }
    }
}

/// Waits for a message. `None` when the other end is gone.
pub(super) fn receive<T: DeserializeOwned>(socket: BorrowedFd<'_>) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    receive_with(socket, RecvFlags::empty())
}

fn receive_with<T: DeserializeOwned>(
    socket: BorrowedFd<'_>,
    flags: RecvFlags,
) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut bytes = [0; LONGEST];
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut room);
    let received = loop {
        match recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags | RecvFlags::CMSG_CLOEXEC) {
            // The other end was closed with something of ours unread; that is said once, before what it said itself.
            Err(Errno::INTR | Errno::CONNRESET) => {}
            received => break received?,
        }
    };
    let fds = ancillary.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => fds.collect(),
        _ => Vec::new(),
    });
    // Owned from here on, so that they are closed whatever comes.
    let fds: Vec<OwnedFd> = fds.collect();
    if received.bytes == 0 {
        return Ok(None);
    }
    if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a message that is too long"));
    }
    Ok(Some((serde_json::from_slice(&bytes[..received.bytes])?, fds)))
}

/// A file in memory with this content.
pub(super) fn in_memory(content: &impl Serialize) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create("redroom", MemfdFlags::CLOEXEC)?);
    serde_json::to_writer(io::BufWriter::new(&mut file), content)?;
    file.flush()?;
    Ok(file.into())
}

/// What a file in memory holds.
pub(super) fn from_memory<T: DeserializeOwned>(file: OwnedFd) -> io::Result<T> {
    let mut file = File::from(file);
    file.rewind()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(serde_json::from_slice(&bytes)?)
}

/// The harness's end.
#[derive(Debug)]
pub(super) struct Channel(AsyncFd<OwnedFd>);

impl Channel {
    /// Takes an end over; needs a runtime.
    pub(super) fn new(socket: OwnedFd) -> io::Result<Self> {
        Ok(Channel(watched(socket, Interest::READABLE | Interest::WRITABLE)?))
    }

    /// Sends one message.
    pub(super) async fn send(&self, message: &impl Serialize, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.0.async_io(Interest::WRITABLE, |socket| send_at_once(socket, message, fds)).await
    }

    /// Sends one message if there is room for it now.
    pub(super) fn try_send(&self, message: &impl Serialize) -> io::Result<()> {
        send_at_once(self.0.get_ref(), message, &[])
    }

    /// The next message. `None` when the other end is gone.
    pub(super) async fn receive<T: DeserializeOwned>(&self) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
        self.0.async_io(Interest::READABLE, |socket| receive_with(socket.as_fd(), RecvFlags::DONTWAIT)).await
    }
}

fn send_at_once(socket: &OwnedFd, message: &impl Serialize, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    send_with(socket.as_fd(), message, fds, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
}

/// Whether a message could not be sent because nobody is there any more.
pub(super) fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::NotConnected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_arrives_with_its_descriptors() {
        let (here, there) = pair().unwrap();
        let file = in_memory(&"long".repeat(10_000)).unwrap();
        send(here.as_fd(), &"hello", &[file.as_fd()]).unwrap();
        let (word, mut fds) = receive::<String>(there.as_fd()).unwrap().unwrap();
        assert_eq!((word.as_str(), fds.len()), ("hello", 1));
        assert_eq!(from_memory::<String>(fds.remove(0)).unwrap().len(), 40_000);
        drop(here);
        assert!(receive::<String>(there.as_fd()).unwrap().is_none());
    }

    #[test]
    fn what_was_said_before_the_end_is_heard_whatever_was_left_unread() {
        let (here, there) = pair().unwrap();
        send(here.as_fd(), &"unread", &[]).unwrap();
        send(there.as_fd(), &"last words", &[]).unwrap();
        drop(there);
        assert_eq!(receive::<String>(here.as_fd()).unwrap().unwrap().0, "last words");
        assert!(receive::<String>(here.as_fd()).unwrap().is_none());
    }

    #[test]
    fn what_is_too_long_or_no_message_is_refused() {
        let (here, there) = pair().unwrap();
        assert!(send(here.as_fd(), &"x".repeat(LONGEST), &[]).is_err());
        rustix::net::send(&here, &[b'1'; LONGEST + 1], SendFlags::empty()).unwrap();
        assert_eq!(receive::<u64>(there.as_fd()).unwrap_err().kind(), io::ErrorKind::InvalidData);
        rustix::net::send(&here, b"{", SendFlags::empty()).unwrap();
        assert!(receive::<u64>(there.as_fd()).is_err());
        // The bounds of messages are kept.
        send(here.as_fd(), &7, &[]).unwrap();
        assert_eq!(receive::<u64>(there.as_fd()).unwrap().unwrap().0, 7);
    }

    #[test]
    fn descriptors_beyond_the_bound_are_an_error_and_are_closed() {
        let (here, there) = pair().unwrap();
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS + 8))];
        let mut ancillary = SendAncillaryBuffer::new(&mut room);
        let fds = vec![here.as_fd(); MOST_FDS + 8];
        ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        sendmsg(&here, &[IoSlice::new(b"1")], &mut ancillary, SendFlags::empty()).unwrap();
        assert!(receive::<u64>(there.as_fd()).is_err());
    }
}
