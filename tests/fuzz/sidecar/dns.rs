//! A DNS message, as it comes from the agent.

use hickory_proto::op::{Message, MessageType};

use crate::dns::lookup::{Lookup, other_names, reply};

pub(super) fn run(message: &[u8]) {
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
