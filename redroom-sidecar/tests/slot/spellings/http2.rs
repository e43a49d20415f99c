//! The same over HTTP/2, by a client that sends whatever it is told to: every field as a literal, in one frame or several.

use redroom_sidecar::wire::Refusal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use self::Answered::{GoAway, Reset, Status};
use super::Relay;
use crate::harness::{PATIENCE, SECRET};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

fn number(out: &mut Vec<u8>, mut rest: usize) {
    if rest < 127 {
        return out.push(u8::try_from(rest).unwrap());
    }
    out.push(127);
    rest -= 127;
    while rest >= 128 {
        out.push(u8::try_from(rest % 128 + 128).unwrap());
        rest /= 128;
    }
    out.push(u8::try_from(rest).unwrap());
}

/// A request with these fields, in this order, whose body is the secret.
fn request(fields: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            number(&mut block, text.len());
            block.extend_from_slice(text);
        }
    }
    let mut words = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
    let parts: Vec<&[u8]> = block.chunks(16_384).collect();
    for (index, part) in parts.iter().enumerate() {
        let (kind, last) = (if index == 0 { HEADERS } else { CONTINUATION }, index + 1 == parts.len());
        words.extend(frame(kind, if last { 4 } else { 0 }, 1, part));
    }
    words.extend(frame(DATA, 1, 1, SECRET.as_bytes()));
    words
}

/// What an answer was: the status that its header block begins with, or that the stream or the connection was reset.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Answered {
    Status(u16),
    Reset,
    GoAway,
}

/// Sends a request, and reads up to its answer.
async fn ask(address: std::net::SocketAddr, words: &[u8]) -> Answered {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let asked = async {
        stream.write_all(words).await.unwrap();
        loop {
            let mut head = [0; 9];
            if stream.read_exact(&mut head).await.is_err() {
                return Answered::GoAway;
            }
            let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
            stream.read_exact(&mut payload).await.unwrap();
            match head[3] {
                HEADERS => return Answered::Status(status(&payload)),
                RST_STREAM => return Answered::Reset,
                GOAWAY => return Answered::GoAway,
                _ => {}
            }
        }
    };
    tokio::time::timeout(PATIENCE, asked).await.expect("no answer")
}

/// The status, which stands first: from the static table, or as a literal in Huffman's code.
fn status(block: &[u8]) -> u16 {
    match block {
        [0x88, ..] => 200,
        [0x8c, ..] => 400,
        [0x48, 0x83, 0x68, 0x0c, 0xff, ..] => 403,
        [0x48, 0x83, 0x69, 0x90, 0xff, ..] => 431,
        _ => panic!("another status: {block:x?}"),
    }
}

type Field<'a> = (&'a [u8], &'a [u8]);

/// The fields of the request that is allowed, with some of them replaced, and others behind them.
fn but<'a>(replaced: &[Field<'a>], added: &[Field<'a>]) -> Vec<Field<'a>> {
    let allowed: [Field<'_>; 4] =
        [(b":method", b"POST"), (b":scheme", b"http"), (b":authority", b"192.0.2.1:81"), (b":path", b"/v1/messages")];
    let fields = allowed
        .into_iter()
        .map(|(name, value)| replaced.iter().find(|(replaced, _)| *replaced == name).copied().unwrap_or((name, value)));
    fields.filter(|(_, value)| *value != ABSENT).chain(added.iter().copied()).collect()
}

/// Stands for a field that is not sent.
const ABSENT: &[u8] = b"absent";

#[tokio::test]
async fn no_spelling_in_http2_gets_through_but_the_allowed_one() {
    let relay = Relay::new().await;
    let path = |path: &'static [u8]| but(&[(b":path", path)], &[]);
    let large = vec![b'a'; 140_000];
    let not_allowed = (Status(403), Some(Refusal::PathNotAllowed));
    let no_path = (Status(400), Some(Refusal::InvalidTarget));
    // What is no request is not told of: the protocol's own rules end it before anybody sees it.
    let (reset, gone) = ((Reset, None), (GoAway, None));
    for (fields, (answered, refusal)) in [
        (path(b"/v1/models"), not_allowed),
        (path(b"/v1/messages/"), not_allowed),
        (path(b"//v1/messages"), not_allowed),
        (path(b"//evil.example/v1/messages"), not_allowed),
        (path(b"/x/../v1/messages"), not_allowed),
        (path(b"/v1/messages/../../admin"), not_allowed),
        (path(b"/v1/%6dessages"), not_allowed),
        (path(b"/v1%2fmessages"), not_allowed),
        (path(b"/v1\\messages"), not_allowed),
        (path(b"/V1/messages"), not_allowed),
        (path(b"/v1/messages;x"), not_allowed),
        (path(b"/v1/messages\xc3\xa9"), not_allowed),
        (path(b"*"), no_path),
        (path(b"?beta=true"), no_path),
        (path(b""), reset),
        (path(b"v1/messages"), reset),
        (path(b"http://api.anthropic.com/v1/messages"), reset),
        (path(b"/v1/messages HTTP/1.1"), reset),
        (path(b"/v1/messages\r\nx: y"), reset),
        (path(b"/v1/messages\0"), reset),
        (path(b"/v1/messages\xff"), gone),
        (but(&[(b":method", b"GET")], &[]), not_allowed),
        (but(&[(b":method", b"post")], &[]), not_allowed),
        (but(&[(b":method", b"POST /v1/admin")], &[]), gone),
        (but(&[(b":method", ABSENT)], &[]), reset),
        (but(&[(b":method", b"CONNECT")], &[]), reset),
        (but(&[(b":method", b"CONNECT")], &[(b":protocol", b"websocket")]), reset),
        (but(&[(b":scheme", b"file")], &[]), no_path),
        (but(&[(b":authority", b"me:key@192.0.2.1:81")], &[]), no_path),
        (but(&[(b":authority", b"192.0.2.1:81/v1/admin")], &[]), reset),
        (but(&[], &[(b":authority", b"evil.example")]), reset),
        (but(&[], &[(b":path", b"/v1/admin")]), reset),
        (but(&[(b":path", ABSENT)], &[(b"x", b"y"), (b":path", b"/v1/messages")]), reset),
        (but(&[], &[(b"host", b"evil.example")]), no_path),
        (but(&[], &[(b"host", b"192.0.2.1:81"), (b"host", b"evil.example")]), no_path),
        (but(&[], &[(b"transfer-encoding", b"chunked")]), reset),
        (but(&[], &[(b"connection", b"close")]), reset),
        (but(&[], &[(b"x", b"a\r\ny: z")]), gone),
        (but(&[], &[(b"X-Upper", b"a")]), gone),
        (but(&[], &[(b"x-large", &large)]), (Status(431), Some(Refusal::HeadTooLarge))),
    ] {
        let fields_shown: Vec<_> = fields
            .iter()
            .map(|(name, value)| [*name, &value[..value.len().min(40)]].map(String::from_utf8_lossy))
            .collect();
        let calls = relay.calls().len();
        assert_eq!(ask(relay.harness.relay, &request(&fields)).await, answered, "{fields_shown:?}");
        if let Some(refusal) = refusal {
            let told = relay.harness.model_request(|call| call.id as usize == calls + 1 && call.duration_ms.is_some());
            let call = told.await;
            assert_eq!((call.refusal, call.secrets.len()), (Some(refusal), 1), "{fields_shown:?}: {call:?}");
        }
        assert_eq!(relay.seen(), [""; 0], "{fields_shown:?}");
    }
    // A stream's bytes cannot be more or fewer than it says: what had got through by then does not look whole.
    let lying = but(&[], &[(b"content-length", b"5")]);
    assert_eq!(ask(relay.harness.relay, &request(&lying)).await, Reset);
    for fields in [but(&[], &[]), but(&[], &[(b"host", b"192.0.2.1:81")]), but(&[(b":authority", ABSENT)], &[])] {
        let seen = relay.seen().len();
        assert_eq!(ask(relay.harness.relay, &request(&fields)).await, Status(200));
        assert_eq!(relay.seen()[seen..], ["POST /v1/messages"]);
    }
}
