//! Datagrams to other ports: read, searched, reported, never answered. All that go to one address and port are one hit,
//! as far as memory allows, so that a secret is found that was cut over several, and a flood is one entry.

use std::collections::HashMap;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::libc::sockaddr_in6;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrIn, SockaddrIn6, recvmsg};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::time::sleep_until;

use crate::dns::elsewhere;
use crate::door::EmptyRequest;
use crate::intake::{Intake, note};
use crate::losses::LostDatagrams;
use crate::search::note_unsearched;
use crate::slot::Slot;
use crate::tenant::Tenant;
use crate::wire::{Hit, Part, Transport};

/// The longest datagram.
const LONGEST: usize = 64 * 1024;

/// How many addresses and ports are followed at once; each may keep 64 KiB. Beyond it the one that was quiet for longest
/// is forgotten: its next datagram is another hit.
const FLOWS: usize = 64;

/// How long a flow is quiet before it is told how it grew.
const QUIET: Duration = Duration::from_millis(500);

/// Reads until the sidecar ends.
pub(crate) async fn keep(
    socket: std::net::UdpSocket,
    mut requests: mpsc::Receiver<EmptyRequest>,
    slot: Arc<Slot>,
) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    let local = socket.local_addr()?;
    let socket = UdpSocket::from_std(socket)?;
    let mut buffer = vec![0; LONGEST];
    let mut flows = Flows::default();
    let mut losses = LostDatagrams::of(&socket);
    let mut emptying: Option<EmptyRequest> = None;
    loop {
        if emptying.is_none() {
            tokio::select! {
                readable = socket.readable() => readable?,
                request = requests.recv() => match request {
                    Some(request) => emptying = Some(request),
                    None => return Ok(()),
                },
                () = flows.quiet() => flows.tell_grown(&slot).await,
            }
        }
        let mut receive = || receive(&socket, &mut buffer);
        // While it is emptied, the kernel's queue itself is asked: the runtime's knowledge of it can lag behind.
        let received = if emptying.is_some() { receive() } else { socket.try_io(Interest::READABLE, receive) };
        match received {
            Ok((length, meant)) => flows.take(&slot, meant.unwrap_or(local), &buffer[..length]).await,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if let Some(request) = emptying.take() {
                    flows.end(&slot).await;
                    losses.tell(&socket, &slot, "other ports").await;
                    let _ = request.send(());
                }
            }
            // It concerns no datagram that is still here.
            Err(_) => {}
        }
        tokio::task::consume_budget().await;
    }
}

/// A datagram's length, and the address that was meant.
fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<(usize, Option<SocketAddr>)> {
    let mut ancillary = nix::cmsg_space!(sockaddr_in6);
    let mut slices = [IoSliceMut::new(buffer)];
    let message = recvmsg::<()>(socket.as_raw_fd(), &mut slices, Some(&mut ancillary), MsgFlags::empty())?;
    let meant = message.cmsgs()?.find_map(|ancillary| match ancillary {
        ControlMessageOwned::Ipv4OrigDstAddr(raw) => Some(SocketAddrV4::from(SockaddrIn::from(raw)).into()),
        ControlMessageOwned::Ipv6OrigDstAddr(raw) => Some(SocketAddrV6::from(SockaddrIn6::from(raw)).into()),
        _ => None,
    });
    Ok((message.bytes, meant))
}

/// What goes where, by the address that was meant.
#[derive(Default)]
struct Flows(HashMap<SocketAddr, Flow>);

/// The datagrams to one address and port.
struct Flow {
    tenant: Arc<Tenant>,
    hit: Hit,
    intake: Intake,
    last: Instant,
    /// Whether there is more than was told.
    grown: bool,
    told: bool,
}

impl Flows {
    async fn take(&mut self, slot: &Slot, meant: SocketAddr, datagram: &[u8]) {
        let tenant = slot.tenant();
        if self.0.get(&meant).is_some_and(|flow| !Arc::ptr_eq(&flow.tenant, &tenant)) {
            self.forget(slot, meant).await;
        }
        if !self.0.contains_key(&meant) {
            if self.0.len() >= FLOWS
                && let Some(stalest) = self.0.iter().min_by_key(|(_, flow)| flow.last).map(|(meant, _)| *meant)
            {
                self.forget(slot, stalest).await;
            }
            self.0.insert(meant, Flow::new(tenant, meant));
        }
        if let Some(flow) = self.0.get_mut(&meant) {
            flow.take(slot, datagram).await;
        }
    }

    /// Returns when a flow has been quiet for long enough to be told how it grew.
    async fn quiet(&self) {
        match self.0.values().filter(|flow| flow.grown).map(|flow| flow.last).min() {
            Some(last) => sleep_until((last + QUIET).into()).await,
            None => std::future::pending().await,
        }
    }

    async fn tell_grown(&mut self, slot: &Slot) {
        for flow in self.0.values_mut().filter(|flow| flow.grown && flow.last.elapsed() >= QUIET) {
            flow.tell(slot).await;
        }
    }

    async fn forget(&mut self, slot: &Slot, meant: SocketAddr) {
        if let Some(flow) = self.0.remove(&meant) {
            flow.end(slot).await;
        }
    }

    async fn end(&mut self, slot: &Slot) {
        for (_, flow) in self.0.drain() {
            flow.end(slot).await;
        }
    }
}

impl Flow {
    fn new(tenant: Arc<Tenant>, meant: SocketAddr) -> Self {
        let mut hit = tenant.hit_on_address(meant);
        hit.transport = Transport::Udp;
        // As far as anybody can know of datagrams.
        hit.complete = true;
        let intake = Intake::new(tenant.secrets());
        Flow { tenant, hit, intake, last: Instant::now(), grown: false, told: false }
    }

    /// The first is told at once, and whatever holds a secret that was not seen here yet.
    async fn take(&mut self, slot: &Slot, datagram: &[u8]) {
        self.last = Instant::now();
        self.grown = true;
        self.intake.feed(datagram);
        // By itself, too: what came before may have been half of something else, and this may be.
        let mut alone = self.tenant.secrets().search_whole(datagram);
        alone.unsearched.retain(|part| !part.why.may_be_cut());
        alone.join(elsewhere::search_message(self.tenant.secrets(), datagram));
        let more_is_closed = note_unsearched(&mut self.hit.unsearched, alone.unsearched);
        let news = note(&mut self.hit.secrets, Part::Body, &alone.matches) || more_is_closed;
        if note(&mut self.hit.secrets, Part::Body, self.intake.matches()) || news || !self.told {
            self.tell(slot).await;
        }
    }

    async fn tell(&mut self, slot: &Slot) {
        (self.grown, self.told) = (false, true);
        self.intake.tell(&mut self.hit);
        slot.reports.hit(&self.tenant, &self.hit).await;
    }

    async fn end(self, slot: &Slot) {
        let Flow { tenant, mut hit, intake, grown, .. } = self;
        let known = (hit.secrets.len(), hit.unsearched.clone());
        intake.fill(&mut hit);
        if grown || (hit.secrets.len(), &hit.unsearched) != (known.0, &known.1) {
            slot.reports.hit(&tenant, &hit).await;
        }
    }
}
