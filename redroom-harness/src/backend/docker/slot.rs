//! A slot: the container whose network namespace runs live in, and the byte stream to the sidecar in it.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use async_trait::async_trait;
use bollard::container::{AttachContainerResults, LogOutput};
use bollard::models::{ContainerCreateBody, HostConfig};
use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::container::{Container, confined};
use super::engine::{Engine, status};
use super::known::Known;
use super::labels::{LOCKS, ROLE, Role, SESSION, SLOT, container_name, labels};
use super::pack::SidecarImage;
use super::sandbox;
use crate::backend::session::Session;
use redroom_sidecar::Lease;
use redroom_sidecar::namespace::OWN;

use crate::backend::{OpenSlot, Sandbox, SandboxSpec, Slot, SlotSpec};
use crate::error::Result;

/// The host name that an agent sees. It says nothing of a test.
const HOST_NAME: &str = "devbox";
const MEMORY: u64 = 256 * 1024 * 1024;
const PROCESSES: u32 = 256;
const LAST_WORDS: usize = 16 * 1024;

/// A container with a sidecar in it.
pub(crate) struct DockerSlot {
    container: Container,
    session: Arc<Session>,
    number: u32,
    known: Known,
    words: Arc<Mutex<LastWords>>,
}

/// Opens a slot: attached before it starts, so that nothing of what it says is lost.
pub(crate) async fn open(
    engine: &Engine,
    image: &SidecarImage,
    session: Arc<Session>,
    spec: &SlotSpec,
) -> Result<OpenSlot> {
    let make = async || {
        let body = container_body(image.name(engine).await?, &session, spec);
        Container::create(engine, &container_name(&spec.session, Role::Slot), body).await
    };
    let container = match make().await {
        Err(error) if status(&error) == Some(404) => {
            image.lost().await;
            make().await?
        }
        made => made?,
    };
    let streams = container.attach(true).await?;
    container.start().await?;
    let words = Arc::new(Mutex::new(LastWords::default()));
    let link = Link { streams, unread: Bytes::new(), words: words.clone() };
    let slot = DockerSlot { container, session, number: spec.number, known: image.known().clone(), words };
    Ok(OpenSlot { slot: Box::new(slot), link: Box::new(link) })
}

#[async_trait]
impl Slot for DockerSlot {
    async fn open_sandbox(&self, spec: SandboxSpec) -> Result<Box<dyn Sandbox>> {
        let place = sandbox::Place { slot: &self.container, session: &self.session, number: self.number };
        let base = spec.base.0.clone();
        match sandbox::open(place, spec).await {
            Ok(sandbox) => Ok(Box::new(sandbox)),
            Err(error) => {
                if status(&error) == Some(404) {
                    // Perhaps somebody removed the image: it must not be taken for granted the next time.
                    self.known.forget(&base);
                }
                Err(error)
            }
        }
    }

    fn last_words(&self) -> String {
        self.words.lock().unwrap_or_else(PoisonError::into_inner).text()
    }

    async fn close(&self) -> Result<()> {
        self.container.remove().await
    }
}

fn container_body(image: String, session: &Session, spec: &SlotSpec) -> ContainerCreateBody {
    let [v4, _] = OWN;
    let number = spec.number.to_string();
    ContainerCreateBody {
        image: Some(image),
        hostname: Some(HOST_NAME.to_owned()),
        open_stdin: Some(true),
        stdin_once: Some(true),
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        env: Some(vec![format!("{}={}", Lease::VARIABLE, spec.lease.to_variable())]),
        labels: Some(labels([
            (SESSION, &spec.session),
            (LOCKS, session.locks()),
            (ROLE, Role::Slot.word()),
            (SLOT, &number),
        ])),
        host_config: Some(HostConfig {
            network_mode: Some("none".to_owned()),
            auto_remove: Some(true),
            readonly_rootfs: Some(true),
            // For routes, addresses and redirection, and for ports below 1024; given up by the sidecar when it has set up.
            cap_add: Some(vec!["NET_ADMIN".to_owned(), "NET_BIND_SERVICE".to_owned()]),
            sysctls: Some(HashMap::from([
                // The agent could take over the sidecar's ports with Docker's default of 0.
                ("net.ipv4.ip_unprivileged_port_start".to_owned(), "1024".to_owned()),
                // The kernel would answer pings to any address, unseen by the sidecar.
                ("net.ipv4.ping_group_range".to_owned(), "1 0".to_owned()),
            ])),
            // All of them explicit, or the host's are copied: its name server, its search domains.
            dns: Some(vec![v4.to_string()]),
            dns_search: Some(vec![".".to_owned()]),
            dns_options: Some(vec!["ndots:1".to_owned()]),
            // Without a network there is no line for the own name, and every look-up of it would be a hit.
            extra_hosts: Some(vec![format!("{HOST_NAME}:{v4}")]),
            ..confined(MEMORY, PROCESSES, &[("core", 0)])
        }),
        ..Default::default()
    }
}

/// The attached streams of a slot as one duplex stream: standard input one way, standard output the other.
struct Link {
    streams: AttachContainerResults,
    unread: Bytes,
    words: Arc<Mutex<LastWords>>,
}

impl AsyncRead for Link {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.unread.is_empty() {
            match ready!(self.streams.output.as_mut().poll_next(context)) {
                Some(Ok(LogOutput::StdOut { message } | LogOutput::StdIn { message })) => self.unread = message,
                Some(Ok(LogOutput::StdErr { message } | LogOutput::Console { message })) => {
                    self.words.lock().unwrap_or_else(PoisonError::into_inner).add(&message);
                }
                Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
                None => return Poll::Ready(Ok(())),
            }
        }
        let taken = self.unread.len().min(buffer.remaining());
        buffer.put_slice(&self.unread[..taken]);
        self.unread.advance(taken);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Link {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.streams.input.as_mut().poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.streams.input.as_mut().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.streams.input.as_mut().poll_shutdown(context)
    }
}

/// The end of what a sidecar, or the engine in its place, said on standard error.
#[derive(Debug, Default)]
struct LastWords(VecDeque<u8>);

impl LastWords {
    fn add(&mut self, words: &[u8]) {
        self.0.extend(&words[words.len().saturating_sub(LAST_WORDS)..]);
        let surplus = self.0.len().saturating_sub(LAST_WORDS);
        self.0.drain(..surplus);
    }

    fn text(&self) -> String {
        let (front, back) = self.0.as_slices();
        String::from_utf8_lossy(&[front, back].concat()).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_of_long_words_is_kept() {
        let mut words = LastWords::default();
        words.add(&[b'a'; LAST_WORDS]);
        words.add(b"the end");
        assert!(words.text().ends_with("aathe end"));
        assert_eq!(words.text().len(), LAST_WORDS);
        words.add(&[b'b'; 3 * LAST_WORDS]);
        assert_eq!(words.text(), "b".repeat(LAST_WORDS));
    }
}
