//! The harness's end of a sidecar, for tests: a slot on ephemeral ports of this machine, and everything that it reports.

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use redroom_sidecar::wire::frame::{self, Decoder, REPORT_LIMIT};
use redroom_sidecar::wire::{
    CertificateAuthority, Command, Generation, Hit, ModelEndpoint, ModelRequest, PlantedPage, PlantedSecret, Report,
    Scenario,
};
use redroom_sidecar::{Authority, Listeners, ServeError, harness_http2, serve};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

pub(crate) const SECRET: &str = "PLATYPUS-7731";
/// The beginning of what `openssl enc` writes, of bytes that can stand in text.
pub(crate) const ENCRYPTED: &str = "Salted__01234567abcdefgh";
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) type Answer = Response<UnsyncBoxBody<Bytes, std::io::Error>>;
type Answering = Arc<dyn Fn(Request<Incoming>) -> Pin<Box<dyn Future<Output = Answer> + Send>> + Send + Sync>;

pub(crate) struct Harness {
    pub(crate) web: SocketAddr,
    pub(crate) tls: SocketAddr,
    pub(crate) dns: SocketAddr,
    pub(crate) dns_tcp: SocketAddr,
    pub(crate) relay: SocketAddr,
    pub(crate) hook: SocketAddr,
    pub(crate) authority: CertificateAuthority,
    commands: mpsc::Sender<Command>,
    seen: watch::Receiver<Vec<Report>>,
    model: Arc<Mutex<Option<Answering>>>,
    hooks: Arc<Mutex<Option<Answering>>>,
    serving: JoinHandle<Result<(), ServeError>>,
    link: JoinHandle<()>,
}

impl Harness {
    /// A slot whose sidecar is ready, and vacant.
    pub(crate) async fn vacant() -> Self {
        let tcp = || {
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
            socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
            socket.listen(1024).unwrap();
            TcpListener::from(socket)
        };
        let mut listeners = Listeners::default();
        listeners.http.push(tcp());
        listeners.https.push(tcp());
        listeners.dns_tcp.push(tcp());
        listeners.dns_udp.push(UdpSocket::bind("127.0.0.1:0").unwrap());
        listeners.relay.push(tcp());
        listeners.hook.push(tcp());
        let at = |listeners: &Vec<TcpListener>| listeners[0].local_addr().unwrap();
        let (web, tls, dns_tcp) = (at(&listeners.http), at(&listeners.https), at(&listeners.dns_tcp));
        let (relay, hook) = (at(&listeners.relay), at(&listeners.hook));
        let dns = listeners.dns_udp[0].local_addr().unwrap();

        let (near, far) = tokio::io::duplex(64 * 1024);
        let serving = tokio::spawn(serve(listeners, near));
        let harness = Harness { web, tls, dns, dns_tcp, relay, hook, serving, ..Harness::over(far) };
        harness.ready().await;
        harness
    }

    /// The harness's end of a link to a sidecar that serves addresses of its own.
    pub(crate) fn over(link: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        let (commands, queue) = mpsc::channel(4);
        let (seen_sender, seen) = watch::channel(Vec::new());
        let model: Arc<Mutex<Option<Answering>>> = Arc::default();
        let hooks: Arc<Mutex<Option<Answering>>> = Arc::default();
        let queue = Arc::new(Mutex::new(Some(queue)));
        let service = {
            let (model, hooks) = (model.clone(), hooks.clone());
            service_fn(move |request: Request<Incoming>| {
                let answering = match request.uri().path() {
                    "/model" => model.lock().unwrap().clone(),
                    "/hook" => hooks.lock().unwrap().clone(),
                    _ => None,
                };
                let session = if request.uri().path() == "/session" { queue.lock().unwrap().take() } else { None };
                let seen = seen_sender.clone();
                async move {
                    Ok::<_, Infallible>(if let Some(commands) = session {
                        tokio::spawn(collect(request.into_body(), seen));
                        Response::new(Commands(commands).boxed_unsync())
                    } else if let Some(answering) = answering {
                        answering(request).await
                    } else {
                        answer(404, "")
                    })
                }
            })
        };
        let link = tokio::spawn(async move {
            let _ = harness_http2().serve_connection(TokioIo::new(link), service).await;
        });
        Harness {
            web: nowhere,
            tls: nowhere,
            dns: nowhere,
            dns_tcp: nowhere,
            relay: nowhere,
            hook: nowhere,
            authority: Authority::generate().unwrap(),
            commands,
            seen,
            model,
            hooks,
            serving: tokio::spawn(async { Ok(()) }),
            link,
        }
    }

    /// Waits until every listener is bound.
    pub(crate) async fn ready(&self) {
        self.report(|report| matches!(report, Report::Ready { .. }).then_some(())).await;
    }

    /// A slot into which a run of this scenario has moved.
    pub(crate) async fn with(pages: Vec<PlantedPage>) -> Self {
        let harness = Self::vacant().await;
        harness.begin(1, harness.scenario(pages)).await;
        harness
    }

    pub(crate) fn scenario(&self, pages: Vec<PlantedPage>) -> Scenario {
        Scenario {
            fake_domain: "redroom.test".to_owned(),
            catch_all: false,
            pages,
            secrets: vec![PlantedSecret { name: "api_token".to_owned(), value: SECRET.into() }],
            model_endpoints: vec![ModelEndpoint { method: "POST".to_owned(), path: "/v1/messages".to_owned() }],
            authority: self.authority.clone(),
        }
    }

    pub(crate) async fn begin(&self, generation: u64, scenario: Scenario) {
        let generation = Generation(generation);
        self.command(Command::Begin { generation, scenario: Box::new(scenario) }).await;
        self.report(|report| {
            matches!(report, Report::Begun { generation: begun } if *begun == generation).then_some(())
        })
        .await;
    }

    /// A sign of life, and nothing else.
    pub(crate) async fn renew(&self) {
        self.command(Command::Renew).await;
    }

    /// Ends a run. Returns how many connections were cut.
    pub(crate) async fn end(&self, generation: u64, patience: Duration) -> u32 {
        let generation = Generation(generation);
        self.command(Command::End { generation, patience_ms: patience.as_millis() as u64 }).await;
        self.report(|report| match report {
            Report::Drained { generation: drained, cut } if *drained == generation => Some(*cut),
            _ => None,
        })
        .await
    }

    pub(crate) async fn command(&self, command: Command) {
        self.commands.send(command).await.unwrap();
    }

    pub(crate) fn answer_model<F>(&self, answering: impl Fn(Request<Incoming>) -> F + Send + Sync + 'static)
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        *self.model.lock().unwrap() = Some(Arc::new(move |request| Box::pin(answering(request))));
    }

    pub(crate) fn answer_hook<F>(&self, answering: impl Fn(Request<Incoming>) -> F + Send + Sync + 'static)
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        *self.hooks.lock().unwrap() = Some(Arc::new(move |request| Box::pin(answering(request))));
    }

    /// Waits for the first report that fits.
    pub(crate) async fn report<T>(&self, fits: impl Fn(&Report) -> Option<T>) -> T {
        let mut seen = self.seen.clone();
        let waiting = async {
            loop {
                if let Some(found) = seen.borrow_and_update().iter().find_map(&fits) {
                    return found;
                }
                seen.changed().await.expect("the session ended");
            }
        };
        match tokio::time::timeout(PATIENCE, waiting).await {
            Ok(found) => found,
            Err(_) => {
                let seen = self.seen.borrow();
                let last: Vec<_> = seen.iter().rev().take(5).collect();
                panic!("no such report among {}, of which the last are {last:#?}", seen.len())
            }
        }
    }

    /// Waits for the first state of a hit that fits, with the generation it was reported for.
    pub(crate) async fn hit(&self, fits: impl Fn(&Hit) -> bool) -> Hit {
        self.attributed_hit(fits).await.1
    }

    pub(crate) async fn attributed_hit(&self, fits: impl Fn(&Hit) -> bool) -> (Option<Generation>, Hit) {
        self.report(|report| match report {
            Report::Hit { generation, hit } if fits(hit) => Some((*generation, (**hit).clone())),
            _ => None,
        })
        .await
    }

    pub(crate) async fn model_request(&self, fits: impl Fn(&ModelRequest) -> bool) -> ModelRequest {
        self.report(|report| match report {
            Report::ModelRequest { request, .. } if fits(request) => Some((**request).clone()),
            _ => None,
        })
        .await
    }

    /// Everything reported so far.
    pub(crate) fn reports(&self) -> Vec<Report> {
        self.seen.borrow().clone()
    }

    /// The last state of every hit so far, by number.
    pub(crate) fn hits(&self) -> Vec<Hit> {
        let mut hits = std::collections::BTreeMap::new();
        for report in self.reports() {
            if let Report::Hit { generation, hit } = report {
                hits.insert((generation, hit.id), *hit);
            }
        }
        hits.into_values().collect()
    }

    /// The harness goes away. Returns how the sidecar ended.
    pub(crate) async fn vanish(self) -> Result<(), ServeError> {
        self.link.abort();
        tokio::time::timeout(PATIENCE, self.serving).await.expect("the sidecar goes on without a link").unwrap()
    }
}

async fn collect(mut body: Incoming, seen: watch::Sender<Vec<Report>>) {
    let mut decoder = Decoder::new(REPORT_LIMIT);
    while let Some(Ok(frame)) = body.frame().await {
        decoder.push(&frame.into_data().unwrap());
        while let Some(report) = decoder.next_frame::<Report>().unwrap() {
            seen.send_modify(|seen| seen.push(report));
        }
    }
}

struct Commands(mpsc::Receiver<Command>);

impl Body for Commands {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<std::io::Result<Frame<Bytes>>>> {
        self.0.poll_recv(cx).map(|command| command.map(|command| Ok(Frame::data(frame::encode(&command).unwrap()))))
    }
}

pub(crate) fn answer(status: u16, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()).map_err(|never| match never {}).boxed_unsync());
    *answer.status_mut() = http::StatusCode::from_u16(status).unwrap();
    answer
}

pub(crate) fn page(host: &str, path: &str, body: &str) -> PlantedPage {
    PlantedPage {
        host: host.to_owned(),
        path: path.to_owned(),
        status: 200,
        content_type: "text/html".to_owned(),
        body: body.into(),
    }
}

/// Says something, and reads until the other side has said all. The client keeps its own half open.
pub(crate) async fn say(address: SocketAddr, words: impl AsRef<[u8]>) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(words.as_ref()).await.unwrap();
    let mut answer = Vec::new();
    tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("no answer").unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}
