//! The frames of a WebSocket, as its client sends them: whole messages are nobody's business here, only what is in them.

/// What a client may wait for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// To a ping, with the same content.
    Pong(Vec<u8>),
    /// To the word that it is over.
    Close,
}

/// What a piece of content belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Message,
    /// About the socket itself: it may stand between the frames of a message.
    Control,
}

/// Where in a socket its next byte stands.
#[derive(Default)]
pub(crate) struct Frames {
    /// What has come of the bytes before a frame's content.
    head: Vec<u8>,
    /// The frame whose content is being read.
    frame: Option<Frame>,
    /// Whether one was said to be in an extension's form: compressed, say, though none was agreed on.
    extended: bool,
}

struct Frame {
    opcode: u8,
    extended: bool,
    /// How many bytes are to come.
    left: u64,
    mask: [u8; 4],
    /// How many bytes have come.
    read: usize,
    /// The content of a ping.
    ping: Vec<u8>,
}

/// The longest content of a frame that is about the socket itself.
const CONTROL: usize = 125;

const CLOSE: u8 = 8;
const PING: u8 = 9;

impl Frames {
    /// Takes what was read, in place, and gives its content piece by piece. Returns what is to be said to it.
    pub(crate) fn read(&mut self, mut bytes: &mut [u8], mut content: impl FnMut(Kind, &[u8])) -> Vec<Reply> {
        let mut replies = Vec::new();
        while !bytes.is_empty() {
            let Some(frame) = &mut self.frame else {
                let (first, rest) = bytes.split_at_mut(1);
                self.head.extend_from_slice(first);
                bytes = rest;
                self.frame = Frame::after(&self.head);
                self.extended |= self.frame.as_ref().is_some_and(|frame| frame.extended);
                self.close_frame(&mut replies);
                continue;
            };
            let taken = usize::try_from(frame.left).unwrap_or(usize::MAX).min(bytes.len());
            let (piece, rest) = bytes.split_at_mut(taken);
            bytes = rest;
            for byte in &mut *piece {
                *byte ^= frame.mask[frame.read % 4];
                frame.read = (frame.read + 1) % 4;
            }
            frame.left -= taken as u64;
            if frame.opcode == PING {
                let room = CONTROL.saturating_sub(frame.ping.len());
                frame.ping.extend_from_slice(&piece[..piece.len().min(room)]);
            }
            content(if frame.opcode < CLOSE { Kind::Message } else { Kind::Control }, piece);
            self.close_frame(&mut replies);
        }
        replies
    }

    /// Whether what is in it is not all as it was meant.
    pub(crate) fn is_extended(&self) -> bool {
        self.extended
    }

    /// Ends a frame that has come whole.
    fn close_frame(&mut self, replies: &mut Vec<Reply>) {
        if let Some(frame) = self.frame.take_if(|frame| frame.left == 0) {
            self.head.clear();
            match frame.opcode {
                PING => replies.push(Reply::Pong(frame.ping)),
                CLOSE => replies.push(Reply::Close),
                _ => {}
            }
        }
    }
}

impl Frame {
    /// `None` as long as there is more of it to come.
    fn after(head: &[u8]) -> Option<Self> {
        let (&[first, second], rest) = head.split_first_chunk()?;
        let (left, rest) = match second & 0x7f {
            126 => rest.split_first_chunk().map(|(length, rest)| (u64::from(u16::from_be_bytes(*length)), rest))?,
            127 => rest.split_first_chunk().map(|(length, rest)| (u64::from_be_bytes(*length), rest))?,
            length => (u64::from(length), rest),
        };
        let mask = if second & 0x80 == 0 { [0; 4] } else { *rest.first_chunk()? };
        let extended = first & 0x70 != 0;
        Some(Frame { opcode: first & 0xf, extended, left, mask, read: 0, ping: Vec::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::{Frames, Kind, Reply};

    fn frame(opcode: u8, mask: Option<[u8; 4]>, content: &[u8]) -> Vec<u8> {
        let masked = if mask.is_some() { 0x80 } else { 0 };
        let length = match content.len() {
            length @ ..126 => vec![masked | length as u8],
            length @ ..0x10000 => [&[masked | 126], &(length as u16).to_be_bytes()[..]].concat(),
            length => [&[masked | 127], &(length as u64).to_be_bytes()[..]].concat(),
        };
        let key = mask.unwrap_or_default();
        let content: Vec<u8> = content.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key).collect();
        [&[0x80 | opcode][..], &length, mask.as_ref().map_or(&[][..], |mask| &mask[..]), &content].concat()
    }

    fn read(sent: &[u8], cut: usize) -> (Vec<u8>, Vec<u8>, Vec<Reply>) {
        let (mut frames, mut messages, mut control) = (Frames::default(), Vec::new(), Vec::new());
        let mut take = |kind, piece: &[u8]| match kind {
            Kind::Message => messages.extend_from_slice(piece),
            Kind::Control => control.extend_from_slice(piece),
        };
        let mut sent = sent.to_owned();
        let (first, second) = sent.split_at_mut(cut);
        let mut replies = frames.read(first, &mut take);
        replies.extend(frames.read(second, &mut take));
        (messages, control, replies)
    }

    #[test]
    fn content_is_unmasked_wherever_it_is_cut() {
        let key = Some(*b"\x01\x80\xff\x33");
        let sent = [
            frame(1, key, b"PLATY"),
            frame(9, key, b"are you there"),
            frame(0, key, &[b'x'; 200]),
            frame(2, None, b"bare"),
            frame(1, key, b""),
            frame(8, key, b""),
        ]
        .concat();
        let expected = [&b"PLATY"[..], &[b'x'; 200], b"bare"].concat();
        for cut in 0..=sent.len() {
            let (messages, control, replies) = read(&sent, cut);
            assert_eq!((messages, control), (expected.clone(), b"are you there".to_vec()), "cut at {cut}");
            assert_eq!(replies, [Reply::Pong(b"are you there".to_vec()), Reply::Close]);
        }
        let (messages, ..) = read(&frame(2, key, &vec![7; 70_000]), 9);
        assert_eq!(messages, vec![7; 70_000]);
    }

    #[test]
    fn a_ping_that_is_too_long_is_answered_shortly() {
        let (_, control, replies) = read(&frame(9, None, &[b'x'; 5000]), 0);
        assert_eq!(control.len(), 5000);
        assert_eq!(replies, [Reply::Pong(vec![b'x'; 125])]);
    }
}
