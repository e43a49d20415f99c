//! A DNS message, as it comes from the agent.

use hickory_proto::op::{Message, MessageType};

use super::draw::Draw;
use crate::dns::lookup::{Lookup, other_names, reply};

pub(super) fn run(message: &[u8]) {
    hidden(&mut Draw::new(message));
    if let Some(lookup) = Lookup::parse(message) {
        named(&lookup);
    }
    let within = message.as_ptr_range();
    for name in other_names(message) {
        assert!(name.len() <= 130, "{} labels", name.len());
        for label in name {
            assert!((1..=63).contains(&label.len()));
            assert!(
                within.start <= label.as_ptr() && label.as_ptr_range().end <= within.end,
                "a label of its own making"
            );
        }
    }
    for exists in [false, true] {
        for datagram in [false, true] {
            if let Some(encoded) = reply(message, datagram, |_| exists) {
                replied(message, &encoded, datagram, exists);
            }
        }
    }
}

/// A name is shown as it was sent, nothing of it lost and nothing in it that a terminal obeys.
fn named(lookup: &Lookup) {
    let name = lookup.name();
    assert!(name.bytes().all(|byte| (b'!'..=b'~').contains(&byte)), "{name:?}");
    let shown = labels(&name);
    assert_eq!(shown, lookup.labels, "{name:?}");
    assert!(lookup.labels.iter().map(|label| label.len() + 1).sum::<usize>() < 256);
    let lower: Vec<Vec<u8>> = lookup.labels.iter().map(|label| label.to_ascii_lowercase()).collect();
    assert_eq!(labels(&format!("{}.", lookup.host())), lower, "{:?}", lookup.host());
    assert!(!lookup.kind().is_empty());
}

/// A name in any place of a message where there is room for one, behind what nobody reads, whole or with its end elsewhere.
fn hidden(draw: &mut Draw<'_>) {
    let labels: Vec<&[u8]> = (0..=draw.below(3)).map(|_| draw.take(20)).filter(|label| !label.is_empty()).collect();
    let (place, passed_over, tail) = (draw.below(5), draw.take(40), draw.below(2) * labels.len().min(1));
    let written = |labels: &[&[u8]]| -> Vec<u8> {
        labels.iter().flat_map(|label| [&[label.len() as u8], *label].concat()).collect()
    };
    let (own, shared) = labels.split_at(labels.len() - tail);
    let first = [written(shared), vec![0]].concat();
    // Straight to the first question's name, or by way of another record's.
    let (way, expected) = match (tail, place) {
        (0, _) => (vec![0], own.to_vec()),
        (_, 0) => (vec![0xc0, 12], labels.clone()),
        (_, _) => (vec![0xc0, 12 + first.len() as u8 + 4], [own, &[b"other"], shared].concat()),
    };
    let name = [written(own), way].concat();
    let question = |name: &[u8]| [name, &[0, 1, 0, 1]].concat();
    let record =
        |name: &[u8], content: &[u8]| [name, &[0, 15, 0, 1, 0, 0, 0, 0, 0, content.len() as u8], content].concat();
    let other = record(b"\x05other\xc0\x0c", passed_over);
    let hiding = match place {
        0 => question(&name),
        1 => [other, record(&name, b"")].concat(),
        _ => [other, record(b"\0", &[vec![0; [0, 2, 6][place - 2]], name].concat())].concat(),
    };
    let (questions, records) = if place == 0 { (2, 1) } else { (1, 3) };
    let head = [0x12, 0x34, 1, 0, 0, questions, 0, records, 0, 0, 0, 0];
    let message = [&head[..], &question(&first), &hiding, &record(b"\x04last\0", b"")].concat();
    let names = other_names(&message);
    for name in [expected, vec![b"last"]] {
        assert!(names.contains(&name), "{name:?} is not found in {}", message.escape_ascii());
    }
}

/// The labels of a name in the notation of zone files.
fn labels(name: &str) -> Vec<Vec<u8>> {
    let (mut labels, mut label) = (Vec::new(), Vec::new());
    let mut rest = name.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match (byte, rest) {
            (b'.', _) => labels.extend(Some(std::mem::take(&mut label)).filter(|_| name != ".")),
            (b'\\', [a @ b'0'..=b'9', b, c, after @ ..]) => {
                label.push(std::str::from_utf8(&[*a, *b, *c]).unwrap().parse().unwrap());
                rest = after;
            }
            (b'\\', [escaped, after @ ..]) => {
                label.push(*escaped);
                rest = after;
            }
            (byte, _) => label.push(byte),
        }
    }
    assert!(label.is_empty(), "{name:?} does not end in a dot");
    labels
}

/// A reply is one, fits where it goes, and answers no more than was asked.
fn replied(message: &[u8], encoded: &[u8], datagram: bool, exists: bool) {
    let reply = Message::from_vec(encoded).unwrap();
    assert_eq!(reply.metadata.message_type, MessageType::Response);
    assert_eq!(reply.metadata.id.to_be_bytes(), message[..2]);
    assert!(message[2] & 0x80 == 0, "a reply to a reply");
    assert!(!datagram || encoded.len() <= if reply.edns.is_some() { 1232 } else { 512 }, "{} bytes", encoded.len());
    // At most: one record, and EDNS.
    assert!(encoded.len() <= message.len() + 64, "{} bytes for {}", encoded.len(), message.len());
    assert!(reply.answers.len() <= usize::from(exists));
    assert!(reply.authorities.is_empty());
}
