//! Names, over UDP and TCP, asked of any address: names of the fake domain resolve, all others do not exist; every question
//! is a hit, with its message as it was sent.
//!
//! The library parses and writes messages only. Its own server loop would lower names, drop what does not parse, and answer
//! from the wrong address.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hickory_proto::op::{Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::{RData, Record, RecordType};
use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UdpSocket;

use crate::listen::Connection;
use crate::tenancy::{Current, Tenancy, add};
use crate::uplink::Uplink;
use crate::wire::{DnsQuestion, Hit, Octets, Part, Protocol, Report};

/// Where names of the fake domain lead: documentation addresses, for every address ends at the sidecar.
const WEB_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 20);
const WEB_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 5, 0, 0, 0, 0, 0x20);

/// How long an answer holds, in seconds: short, for the next run may mean another world.
const TTL: u32 = 5;

/// How much of a message is kept, in bytes.
const KEPT: usize = 4096;

/// How long a TCP connection may say nothing.
const PATIENCE: Duration = Duration::from_secs(20);

/// What an answer over UDP may weigh where the question does not say more.
const PLAIN_UDP: usize = 512;

/// A UDP socket that knows which address was meant.
pub(crate) struct Datagrams {
    socket: UdpSocket,
    state: UdpSocketState,
    port: u16,
}

impl Datagrams {
    pub(crate) fn new(socket: std::net::UdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let port = socket.local_addr()?.port();
        let state = UdpSocketState::new((&socket).into())?;
        Ok(Datagrams { socket: UdpSocket::from_std(socket)?, state, port })
    }

    /// Answers questions for ever.
    pub(crate) async fn serve(&self, current: Arc<Current>, uplink: Uplink) {
        loop {
            let received = self.socket.async_io(Interest::READABLE, || self.receive()).await;
            match received {
                Ok(batch) => self.answer(batch, &current.get(), &uplink).await,
                Err(_) => tokio::task::yield_now().await,
            }
        }
    }

    /// Answers every question that waits now.
    pub(crate) async fn take_waiting(&self, current: &Current, uplink: &Uplink) {
        while let Ok(batch) = self.receive() {
            self.answer(batch, &current.get(), uplink).await;
        }
    }

    /// The datagrams of one read: the kernel may hand over several of one sender as one.
    fn receive(&self) -> io::Result<Vec<(Vec<u8>, RecvMeta)>> {
        let mut buffer = vec![0; 64 * 1024];
        let mut meta = [RecvMeta::default()];
        self.state.recv((&self.socket).into(), &mut [IoSliceMut::new(&mut buffer)], &mut meta)?;
        let stride = meta[0].stride.max(1);
        Ok(buffer[..meta[0].len].chunks(stride).map(|datagram| (datagram.to_vec(), meta[0])).collect())
    }

    async fn answer(&self, batch: Vec<(Vec<u8>, RecvMeta)>, tenancy: &Tenancy, uplink: &Uplink) {
        for (message, meta) in batch {
            let meant = SocketAddr::new(meta.dst_ip.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)), self.port);
            let Some(answer) = look_up(&message, meant, false, tenancy, uplink).await else { continue };
            let transmit = Transmit {
                destination: meta.addr,
                ecn: None,
                contents: &answer,
                segment_size: None,
                src_ip: meta.dst_ip,
            };
            // An answer that cannot be sent is one that nobody waits for.
            let _ = self
                .socket
                .async_io(Interest::WRITABLE, || self.state.try_send((&self.socket).into(), &transmit))
                .await;
        }
    }
}

/// Serves a TCP connection: messages with their length in front.
pub(crate) async fn serve_stream(connection: Connection, uplink: Uplink) {
    let Connection { mut stream, meant, tenancy, permit } = connection;
    loop {
        let mut length = [0; 2];
        let read = tokio::time::timeout(PATIENCE, stream.read_exact(&mut length)).await;
        if !matches!(read, Ok(Ok(_))) {
            break;
        }
        let mut message = Vec::new();
        let whole = usize::from(u16::from_be_bytes(length));
        let read = tokio::time::timeout(PATIENCE, (&mut stream).take(whole as u64).read_to_end(&mut message)).await;
        let answer = look_up(&message, meant, true, &tenancy, &uplink).await;
        if !matches!(read, Ok(Ok(_))) || message.len() < whole {
            break;
        }
        let Some(answer) = answer else { break };
        let length = u16::try_from(answer.len()).unwrap_or(u16::MAX).to_be_bytes();
        let framed = [&length[..], &answer].concat();
        if !matches!(tokio::time::timeout(PATIENCE, stream.write_all(&framed)).await, Ok(Ok(()))) {
            break;
        }
    }
    drop(permit);
}

/// Records a message, then answers it; `None` where nothing can be answered.
async fn look_up(message: &[u8], meant: SocketAddr, tcp: bool, tenancy: &Tenancy, uplink: &Uplink) -> Option<Vec<u8>> {
    let parsed = Message::from_vec(message);
    let query = parsed.as_ref().ok().and_then(|message| message.queries.first());
    let (host, question) = match query {
        Some(query) => {
            let name = query.name().to_ascii();
            let host = name.trim_end_matches('.').to_ascii_lowercase();
            (host, Some((name, query.query_type().to_string())))
        }
        None => (meant.ip().to_string(), None),
    };
    let covered = tenancy.covers(&host);
    let protocol = if question.is_some() { Protocol::Dns } else { Protocol::Other };
    let mut hit = Hit::new(tenancy.next_hit(), tenancy.at_ms(), protocol, host, meant, !covered);
    hit.complete = true;
    hit.body_bytes = message.len() as u64;
    hit.truncated = message.len() > KEPT;
    let kept = Octets(message[..message.len().min(KEPT)].to_vec());
    if let Some((name, kind)) = question {
        let labels: Vec<&[u8]> = query.into_iter().flat_map(|query| query.name().iter()).collect();
        add(&mut hit.secrets, Part::Host, &tenancy.secrets().search_name(&labels));
        hit.dns = Some(DnsQuestion::new(name, kind, tcp, kept));
    } else {
        hit.fault = Some("not a DNS question".to_owned());
        hit.body = kept;
    }
    tenancy.search(Part::Body, message, &mut hit.secrets);
    uplink.report(&Report::Hit { generation: tenancy.generation(), hit: Box::new(hit) }).await;

    let answer = match parsed {
        Ok(message) => answer(&message, covered || tenancy.catches_all()),
        Err(_) => return malformed(message),
    };
    let limit = match &answer.edns {
        Some(edns) if !tcp => usize::from(edns.max_payload()).max(PLAIN_UDP),
        None if !tcp => PLAIN_UDP,
        _ => usize::from(u16::MAX),
    };
    answer.to_vec().ok().filter(|bytes| bytes.len() <= limit)
}

fn answer(question: &Message, exists: bool) -> Message {
    let mut answer = Message::response(question.id, question.op_code);
    answer.metadata.authoritative = true;
    answer.metadata.recursion_desired = question.recursion_desired;
    answer.metadata.recursion_available = true;
    answer.edns = question.edns.clone();
    let [query] = question.queries.as_slice() else {
        answer.metadata.response_code = ResponseCode::FormErr;
        return answer;
    };
    answer.add_query(query.clone());
    if question.message_type != MessageType::Query || question.op_code != OpCode::Query {
        answer.metadata.response_code = ResponseCode::NotImp;
    } else if !exists {
        answer.metadata.response_code = ResponseCode::NXDomain;
    } else if let Some(data) = data(query) {
        // A type that the name does not have is an empty answer, never «no such name».
        answer.add_answer(Record::from_rdata(query.name().clone(), TTL, data));
    }
    answer
}

fn data(query: &Query) -> Option<RData> {
    match query.query_type() {
        RecordType::A | RecordType::ANY => Some(RData::A(WEB_V4.into())),
        RecordType::AAAA => Some(RData::AAAA(WEB_V6.into())),
        _ => None,
    }
}

/// The answer to what has a header but does not parse behind it.
fn malformed(message: &[u8]) -> Option<Vec<u8>> {
    let mut header = message.get(..12)?.to_vec();
    header[2] |= 0x80;
    header[3] = 1;
    header[4..12].fill(0);
    Some(header)
}
