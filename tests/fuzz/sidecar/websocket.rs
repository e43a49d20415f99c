//! What a client says in a WebSocket, against a reader that has all of it at once.

use super::draw::chunks;
use crate::web::socket::frames::{Frames, Reply};

pub(super) fn run(sent: &[u8]) {
    let (mut frames, mut content, mut replies) = (Frames::default(), Vec::new(), Vec::new());
    for chunk in chunks(sent) {
        replies.extend(frames.read(&mut chunk.to_owned(), |_, piece| content.extend_from_slice(piece)));
    }
    let (expected, expected_replies) = read(sent);
    assert_eq!(content, expected);
    assert_eq!(replies, expected_replies);
}

/// All content, unmasked, and what is to be replied.
fn read(mut sent: &[u8]) -> (Vec<u8>, Vec<Reply>) {
    let (mut all, mut replies) = (Vec::new(), Vec::new());
    while let Some((opcode, masked, length, rest)) = header(sent) {
        let (mask, rest) = if masked { rest.split_at_checked(4).unwrap_or((&[], &[])) } else { (&[0; 4][..], rest) };
        if mask.is_empty() {
            break;
        }
        let there = usize::try_from(length).unwrap_or(usize::MAX).min(rest.len());
        let content: Vec<u8> = (0..there).map(|at| rest[at] ^ mask[at % 4]).collect();
        all.extend_from_slice(&content);
        if there as u64 == length {
            match opcode {
                8 => replies.push(Reply::Close),
                9 => replies.push(Reply::Pong(content[..there.min(125)].to_vec())),
                _ => {}
            }
        }
        sent = &rest[there..];
    }
    (all, replies)
}

fn header(sent: &[u8]) -> Option<(u8, bool, u64, &[u8])> {
    let (&[first, second], rest) = sent.split_first_chunk()?;
    let (length, rest) = match second & 127 {
        126 => {
            let (length, rest) = rest.split_at_checked(2)?;
            (length.iter().fold(0, |all, byte| all << 8 | u64::from(*byte)), rest)
        }
        127 => {
            let (length, rest) = rest.split_at_checked(8)?;
            (length.iter().fold(0, |all, byte| all << 8 | u64::from(*byte)), rest)
        }
        length => (u64::from(length), rest),
    };
    Some((first & 15, second & 128 != 0, length, rest))
}
