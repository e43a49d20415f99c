//! A slot's life: sockets, link, tenancies, and the drain between them.

use std::collections::HashMap;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;

use crate::dns::{Datagrams, serve_stream};
use crate::listen::{Connection, Listeners, Port, Service};
use crate::tenancy::{Current, Tenancy};
use crate::uplink::{LinkError, Opened, Uplink};
use crate::wire::{Command, Generation, Report, VERSION};
use crate::{hook, relay, web};

/// How many connections each service has at a time; more wait in the kernel.
const WEB_CONNECTIONS: usize = 512;
const RELAY_CONNECTIONS: usize = 64;
const HOOK_CONNECTIONS: usize = 64;
const DNS_CONNECTIONS: usize = 128;

/// Why a sidecar ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// A socket is not usable.
    #[error("a listening socket is not usable")]
    Socket(#[source] io::Error),
    /// The link.
    #[error(transparent)]
    Link(#[from] LinkError),
}

/// Serves a slot until the link is lost.
///
/// # Errors
///
/// What ended it. A harness that has gone is an orderly end.
pub async fn serve<S>(listeners: Listeners, link: S) -> Result<(), ServeError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let Opened { uplink, mut commands, connection } = Uplink::open(link).await?;
    let current = Arc::new(Current::nobody());
    let limits: HashMap<Service, Arc<Semaphore>> = [
        (Service::Http, WEB_CONNECTIONS),
        (Service::Https, WEB_CONNECTIONS),
        (Service::Relay, RELAY_CONNECTIONS),
        (Service::Hook, HOOK_CONNECTIONS),
        (Service::Dns, DNS_CONNECTIONS),
    ]
    .map(|(service, connections)| (service, Arc::new(Semaphore::new(connections))))
    .into();
    let mut slot = Slot { uplink, current, ports: Vec::new(), datagrams: Vec::new() };
    for (service, listener) in listeners.tcp {
        let permits = limits[&service].clone();
        let port = Port::new(service, listener, permits, slot.current.clone()).map_err(ServeError::Socket)?;
        slot.ports.push(Arc::new(port));
    }
    for socket in listeners.dns {
        slot.datagrams.push(Arc::new(Datagrams::new(socket).map_err(ServeError::Socket)?));
    }
    let mut tasks = tokio::task::JoinSet::new();
    for port in &slot.ports {
        let (port, uplink) = (port.clone(), slot.uplink.clone());
        tasks.spawn(async move {
            loop {
                let connection = port.accept().await;
                take(port.service, connection, uplink.clone());
            }
        });
    }
    for datagrams in &slot.datagrams {
        let (datagrams, current, uplink) = (datagrams.clone(), slot.current.clone(), slot.uplink.clone());
        tasks.spawn(async move { datagrams.serve(current, uplink).await });
    }
    slot.uplink.report(&Report::Ready { version: VERSION }).await;
    let orders = async {
        while let Some(command) = commands.recv().await {
            slot.carry_out(command).await;
        }
    };
    tokio::select! {
        () = orders => Ok(()),
        ended = connection => match ended {
            Ok(Err(error)) => Err(LinkError::Lost(error).into()),
            Ok(Ok(())) | Err(_) => Ok(()),
        },
    }
}

struct Slot {
    uplink: Uplink,
    current: Arc<Current>,
    ports: Vec<Arc<Port>>,
    datagrams: Vec<Arc<Datagrams>>,
}

impl Slot {
    async fn carry_out(&self, command: Command) {
        match command {
            Command::Begin { generation, scenario } => match Tenancy::of(generation, *scenario) {
                Ok(tenancy) => {
                    self.current.set(tenancy);
                    self.uplink.report(&Report::Begun { generation }).await;
                }
                Err(error) => {
                    let detail = format!("a run's scenario cannot be used: {error}");
                    let code = "scenario_unusable".to_owned();
                    self.uplink.report(&Report::Fault { generation: Some(generation), code, detail }).await;
                }
            },
            Command::End { generation, patience_ms } => {
                let cut = self.drain(generation, Duration::from_millis(patience_ms)).await;
                self.uplink.report(&Report::Drained { generation, cut }).await;
            }
        }
    }

    /// Reads what a dead run left: connections that wait, datagrams that wait, bytes in sockets. Only then nobody lives here.
    async fn drain(&self, generation: Generation, patience: Duration) -> u32 {
        let tenancy = self.current.get();
        if tenancy.generation() != Some(generation) {
            return 0;
        }
        for port in &self.ports {
            for connection in port.take_waiting() {
                take(port.service, connection, self.uplink.clone());
            }
        }
        for datagrams in &self.datagrams {
            datagrams.take_waiting(&self.current, &self.uplink).await;
        }
        tenancy.tasks.close();
        let mut left = 0;
        if tokio::time::timeout(patience, tenancy.tasks.wait()).await.is_err() {
            left = tenancy.tasks.len();
            tenancy.cut.cancel();
            tenancy.tasks.wait().await;
        }
        self.current.set(Tenancy::nobody());
        u32::try_from(left).unwrap_or(u32::MAX)
    }
}

/// Serves a connection, for as long as its tenancy lets it.
fn take(service: Service, connection: Connection, uplink: Uplink) {
    let tenancy = connection.tenancy.clone();
    let cut = tenancy.cut.clone();
    tenancy.tasks.clone().spawn(async move {
        let served = async {
            match service {
                Service::Http => web::serve_plain(connection, uplink).await,
                Service::Https => web::serve_tls(connection, uplink).await,
                Service::Dns => serve_stream(connection, uplink).await,
                Service::Relay => relay::serve(connection, uplink).await,
                Service::Hook => hook::serve(connection, uplink).await,
            }
        };
        tokio::select! {
            () = cut.cancelled() => {}
            () = served => {}
        }
    });
}

/// The whole life of a sidecar as process 1 of a slot's container: the namespace is prepared, sockets are bound, every
/// capability is given up, and the link runs over standard input and output.
pub fn container_main() -> ExitCode {
    match container() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("redroom-sidecar: {error}");
            ExitCode::FAILURE
        }
    }
}

fn container() -> Result<(), Box<dyn std::error::Error>> {
    let (v4, v6) = crate::SLOT_ADDRESSES;
    crate::namespace::make_every_address_local(v4, v6)?;
    let listeners = Listeners::bind()?;
    crate::namespace::drop_capabilities()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        serve(listeners, crate::stdio::stream()).await?;
        Ok(())
    })
}
