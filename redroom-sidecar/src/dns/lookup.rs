//! A look-up: what a DNS message asks, and what it is replied.

use std::net::IpAddr;

use hickory_proto::op::{Edns, Header, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use hickory_proto::serialize::binary::{BinDecodable, BinDecoder};

use super::FAKE_WEB;

/// How long a resolver may keep an answer, in seconds.
const TTL: u32 = 60;

/// The most that a datagram may weigh when the client says no more.
const DATAGRAM: u16 = 512;

/// The most that a datagram may weigh, whatever the client says.
const EDNS_DATAGRAM: u16 = 1232;

/// More records than a query has reason to carry are not parsed.
const RECORDS: u32 = 32;

/// How many questions, and how many records, are looked into for names.
const NAMES: usize = 256;

/// More labels than a name can have.
const LABELS: usize = 130;

/// The first question of a message.
pub(crate) struct Lookup {
    /// The name's labels as sent.
    pub(crate) labels: Vec<Vec<u8>>,
    kind: RecordType,
}

impl Lookup {
    /// `None` if the message has no question that can be read. What follows the question does not matter.
    pub(crate) fn parse(message: &[u8]) -> Option<Self> {
        let mut decoder = BinDecoder::new(message);
        let header = Header::read(&mut decoder).ok()?;
        if header.counts.queries == 0 {
            return None;
        }
        let question = Query::read(&mut decoder).ok()?;
        let labels = question.name.iter().map(<[u8]>::to_vec).collect();
        Some(Lookup { labels, kind: question.query_type })
    }

    /// The name as sent, escaped as in a zone file.
    pub(crate) fn name(&self) -> String {
        let labels: Vec<_> = self.labels.iter().map(|label| escape(label)).collect();
        format!("{}.", labels.join("."))
    }

    /// The name in lower case, without the dot at its end.
    pub(crate) fn host(&self) -> String {
        let mut name = self.name();
        // That one alone: a label may end in an escaped dot.
        name.pop();
        name.make_ascii_lowercase();
        name
    }

    /// The type: `A`, `AAAA` …, or `TYPE12345`.
    pub(crate) fn kind(&self) -> String {
        match self.kind {
            RecordType::Unknown(number) => format!("TYPE{number}"),
            known => known.to_string(),
        }
    }
}

/// The labels of every name in a message after the first question's: in other questions, before records and in them. A name
/// lies in pieces there, so that a search through the message would miss what is cut over several.
pub(crate) fn other_names(message: &[u8]) -> Vec<Vec<&[u8]>> {
    let has_question = message.get(4..6).is_some_and(|count| count != [0, 0]);
    names(message).into_iter().skip(usize::from(has_question)).collect()
}

/// The same of all names.
pub(crate) fn names(message: &[u8]) -> Vec<Vec<&[u8]>> {
    let mut names = Vec::new();
    // It ends where the message does, or breaks.
    let _ = collect_names(message, &mut names);
    names
}

fn collect_names<'a>(message: &'a [u8], names: &mut Vec<Vec<&'a [u8]>>) -> Option<()> {
    let number = |at: usize| message.get(at..at + 2).map(|two| usize::from(u16::from_be_bytes([two[0], two[1]])));
    let (questions, records) = (number(4)?, number(6)? + number(8)? + number(10)?);
    let mut at = 12;
    for _ in 0..questions.min(NAMES) {
        let (name, end) = name_at(message, at)?;
        names.push(name);
        at = end + 4;
    }
    for _ in 0..records.min(NAMES) {
        let (name, end) = name_at(message, at)?;
        names.push(name);
        let content = end + 10;
        at = content + number(end + 8)?;
        // Behind a number as in MX, three as in SRV, or nothing as in CNAME.
        let in_content = [0, 2, 6].into_iter().filter_map(|skipped| name_at(message, content + skipped));
        names.extend(in_content.filter(|(_, end)| *end <= at).map(|(name, _)| name));
    }
    Some(())
}

/// A name's labels, and where it ends; what it refers to is followed, as far as a name can be long.
fn name_at(message: &[u8], start: usize) -> Option<(Vec<&[u8]>, usize)> {
    let (mut labels, mut at, mut end) = (Vec::new(), start, None);
    for _ in 0..LABELS {
        let length = usize::from(*message.get(at)?);
        match length {
            0 => return Some((labels, end.unwrap_or(at + 1))),
            1..=63 => {
                labels.push(message.get(at + 1..at + 1 + length)?);
                at += 1 + length;
            }
            0xc0.. => {
                end = end.or(Some(at + 2));
                at = (length & 0x3f) << 8 | usize::from(*message.get(at + 1)?);
            }
            _ => return None,
        }
    }
    Some((labels, end.unwrap_or(at)))
}

fn escape(label: &[u8]) -> String {
    let mut text = String::with_capacity(label.len());
    for &byte in label {
        match byte {
            b'.' | b'\\' | b'"' | b'(' | b')' | b';' | b'@' | b'$' => {
                text.push('\\');
                text.push(char::from(byte));
            }
            b'!'..=b'~' => text.push(char::from(byte)),
            _ => text.push_str(&format!("\\{byte:03}")),
        }
    }
    text
}

/// The reply to a message, if it is one that gets a reply. A name that exists has no error for any type: "no such name"
/// for one type makes programs give it up for all.
pub(crate) fn reply(message: &[u8], datagram: bool, exists: impl Fn(&[Vec<u8>]) -> bool) -> Option<Vec<u8>> {
    let header = Header::read(&mut BinDecoder::new(message)).ok()?;
    if header.metadata.message_type != MessageType::Query {
        return None;
    }
    let mut reply = Message::response(header.metadata.id, header.metadata.op_code);
    reply.metadata.recursion_desired = header.metadata.recursion_desired;
    reply.metadata.recursion_available = true;
    reply.metadata.authoritative = true;

    let counts = header.counts;
    let records = u32::from(counts.answers) + u32::from(counts.authorities) + u32::from(counts.additionals);
    let parsed = if counts.queries == 1 && records <= RECORDS { Message::from_vec(message).ok() } else { None };
    let mut room = DATAGRAM;
    reply.metadata.response_code = match (parsed, Lookup::parse(message)) {
        (Some(query), Some(lookup)) => {
            let mut code = answer(&mut reply, &query, exists(&lookup.labels));
            if let Some(asked) = &query.edns {
                room = asked.max_payload().clamp(DATAGRAM, EDNS_DATAGRAM);
                if asked.version() > 0 {
                    reply.answers.clear();
                    code = ResponseCode::BADVERS;
                }
                let mut edns = Edns::new();
                edns.set_max_payload(EDNS_DATAGRAM).set_dnssec_ok(asked.flags().dnssec_ok);
                edns.set_rcode_high(code.high());
                reply.set_edns(edns);
            }
            code
        }
        _ => ResponseCode::FormErr,
    };
    let encoded = reply.to_vec().ok()?;
    if datagram && encoded.len() > usize::from(room) { reply.truncate().to_vec().ok() } else { Some(encoded) }
}

fn answer(reply: &mut Message, query: &Message, exists: bool) -> ResponseCode {
    reply.add_queries(query.queries.iter().cloned());
    if query.metadata.op_code != OpCode::Query {
        return ResponseCode::NotImp;
    }
    let Some(question) = query.queries.first() else { return ResponseCode::FormErr };
    if !exists {
        return ResponseCode::NXDomain;
    }
    reply.add_answers(FAKE_WEB.iter().filter_map(|&address| record(&question.name, question.query_type, address)));
    ResponseCode::NoError
}

fn record(name: &Name, kind: RecordType, address: IpAddr) -> Option<Record> {
    let data = match (kind, address) {
        (RecordType::A, IpAddr::V4(address)) => RData::A(A(address)),
        (RecordType::AAAA, IpAddr::V6(address)) => RData::AAAA(AAAA(address)),
        _ => return None,
    };
    Some(Record::from_rdata(name.clone(), TTL, data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_wherever_a_message_has_room_for_one() {
        let question = |name: &[u8]| [name, &[0, 1, 0, 1]].concat();
        let record =
            |name: &[u8], content: &[u8]| [name, &[0, 5, 0, 1, 0, 0, 0, 0, 0, content.len() as u8], content].concat();
        let message = [
            &[0x12, 0x34, 1, 0, 0, 2, 0, 1, 0, 0, 0, 2][..],
            &question(b"\x03one\x00"),
            &question(b"\x03two\x01b\x00"),
            &record(b"\x05three\xc0\x0c", b"\x04four\x00"),
            &record(b"\x00", b"\x00\x0a\x04five\x00"),
            &record(b"\x00", b"\x00\x01\x00\x02\x00\x03\x03six\xc0\x0c"),
        ]
        .concat();
        let names: Vec<_> = other_names(&message).into_iter().map(|name| name.join(&b'.')).collect();
        for name in ["two.b", "three.one", "four", "five", "six.one"] {
            assert!(names.iter().any(|known| known == name.as_bytes()), "{name} is not in {names:?}");
        }
        assert!(!names.iter().any(|name| name == b"one"), "the first question is looked up");
        for end in 0..message.len() {
            other_names(&message[..end]);
        }
        let circle =
            [&[0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0][..], &question(b"\x00"), b"\x01a\xc0\x11\0\x01\0\x01"].concat();
        assert!(other_names(&circle)[0].len() <= LABELS);
    }

    fn query(name: &[&[u8]], kind: u16) -> Vec<u8> {
        let mut message = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name {
            message.push(label.len() as u8);
            message.extend_from_slice(label);
        }
        message.push(0);
        message.extend_from_slice(&kind.to_be_bytes());
        message.extend_from_slice(&[0, 1]);
        message
    }

    fn replied(message: &[u8], exists: bool) -> Message {
        Message::from_vec(&reply(message, true, |_| exists).unwrap()).unwrap()
    }

    #[test]
    fn a_name_keeps_its_case_and_its_odd_bytes() {
        let lookup = Lookup::parse(&query(&[b"SeCret.x", &[0, 0xff], b"test"], 65280)).unwrap();
        assert_eq!(lookup.name(), r"SeCret\.x.\000\255.test.");
        assert_eq!(lookup.host(), r"secret\.x.\000\255.test");
        assert_eq!(lookup.kind(), "TYPE65280");
        let lookup = Lookup::parse(&query(&[b"test", b"a."], 1)).unwrap();
        assert_eq!(lookup.host(), r"test.a\.", "a dot that belongs to the name");
        assert_eq!(Lookup::parse(&query(&[], 1)).unwrap().host(), "", "the root");
    }

    #[test]
    fn a_name_that_exists_has_an_address_of_each_family_and_no_error_for_any_type() {
        for (kind, answers) in [(1, 1), (28, 1), (15, 0), (16, 0), (33, 0), (65, 0), (255, 0), (257, 0), (64000, 0)] {
            let reply = replied(&query(&[b"docs", b"redroom", b"test"], kind), true);
            assert_eq!(reply.metadata.response_code, ResponseCode::NoError, "type {kind}");
            assert_eq!(reply.answers.len(), answers, "type {kind}");
            assert_eq!(reply.metadata.id, 0x1234);
        }
    }

    #[test]
    fn a_name_that_does_not_exist_does_so_for_every_type() {
        for kind in [1, 28, 15, 16, 65, 255, 64000] {
            let reply = replied(&query(&[b"github", b"com"], kind), false);
            assert_eq!(reply.metadata.response_code, ResponseCode::NXDomain, "type {kind}");
        }
    }

    #[test]
    fn edns_is_answered_with_edns_and_an_unknown_version_refused() {
        let mut message = query(&[b"a", b"test"], 1);
        message[11] = 1;
        message.extend_from_slice(&[0, 0, 41, 16, 0, 0, 0, 0x80, 0, 0, 0]);
        let edns = replied(&message, true).edns.unwrap();
        assert!(edns.flags().dnssec_ok && edns.max_payload() == EDNS_DATAGRAM);

        let version = message.len() - 5;
        message[version] = 9;
        let refused = replied(&message, true);
        assert_eq!(u16::from(refused.metadata.response_code), u16::from(ResponseCode::BADVERS));
        assert!(refused.answers.is_empty());
    }

    #[test]
    fn what_is_broken_is_told_so_and_what_is_a_reply_gets_none() {
        let mut two = query(&[b"a", b"test"], 1);
        two[5] = 2;
        assert_eq!(replied(&two, true).metadata.response_code, ResponseCode::FormErr);
        let mut hoard = query(&[b"a", b"test"], 1);
        hoard[10..12].copy_from_slice(&[0xff, 0xff]);
        assert_eq!(replied(&hoard, true).metadata.response_code, ResponseCode::FormErr);
        let mut echo = query(&[b"a", b"test"], 1);
        echo[2] |= 0x80;
        assert_eq!(reply(&echo, true, |_| true), None);
        assert_eq!(reply(b"short", true, |_| true), None);
    }

    proptest::proptest! {
        #[test]
        fn whatever_comes_does_no_harm(message in proptest::collection::vec(proptest::num::u8::ANY, 0..600)) {
            let _ = Lookup::parse(&message).map(|lookup| (lookup.name(), lookup.host(), lookup.kind()));
            let _ = reply(&message, true, |_| true);
        }
    }
}
