//! The server: accepts connections, checks requests, and ends in order.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parallax_protocol::{BoxFuture, CancellationToken};
use tokio::io::{AsyncBufRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::task::TaskTracker;

use crate::a2a;
use crate::access::ServerAccess;
use crate::remote_acp;
use crate::reply::{self, ReplyBody};

/// Connections at a time, WebSockets included. More are closed at once.
const CONNECTIONS: usize = 512;
/// How long a client may take to send the head of a request.
const HEAD_LIMIT: Duration = Duration::from_secs(10);
/// Maximum bytes of the head of a request.
const HEAD_BYTES: usize = 32 * 1024;
/// How long all connections may take to end.
const DRAIN_LIMIT: Duration = Duration::from_secs(5);

/// Where to listen, and who may come.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// The address to listen on.
    pub address: IpAddr,
    /// The port; 0: a free one.
    pub port: u16,
    /// The token that every request must carry.
    pub token: String,
    /// The version of the program.
    pub version: &'static str,
}

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be listened on.
    #[error("Failed to listen on {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
}

/// What the program supplies.
pub trait Backend: Send + Sync + 'static {
    /// Serves a client of the Agent Client Protocol until its input ends or `stopped` is cancelled.
    fn serve_acp(
        &self,
        input: Box<dyn AsyncBufRead + Send + Unpin>,
        output: Box<dyn AsyncWrite + Send + Unpin>,
        stopped: CancellationToken,
    ) -> BoxFuture<'static, ()>;
}

/// What all connections share.
pub(crate) struct ServerState {
    access: ServerAccess,
    pub(crate) backend: Arc<dyn Backend>,
    /// Cancelled when the server is to end.
    pub(crate) stopping: CancellationToken,
    /// All connections.
    pub(crate) tasks: TaskTracker,
    pub(crate) a2a: a2a::A2aTasks,
    pub(crate) address: SocketAddr,
    pub(crate) version: &'static str,
}

/// A server that listens.
pub struct HttpServer {
    listener: TcpListener,
    address: SocketAddr,
    shared: Arc<ServerState>,
}

impl HttpServer {
    /// Begins to listen; connections are accepted by [`HttpServer::run`].
    ///
    /// # Errors
    /// When the address cannot be used.
    pub async fn bind(
        options: ServeOptions,
        backend: Arc<dyn Backend>,
    ) -> Result<Self, ServeError> {
        let address = SocketAddr::new(options.address, options.port);
        let failed = |error| ServeError::Listen { address, error };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let shared = Arc::new(ServerState {
            access: ServerAccess::new(&options.token, address.ip(), address.port()),
            backend,
            stopping: CancellationToken::new(),
            tasks: TaskTracker::new(),
            a2a: a2a::A2aTasks::default(),
            address,
            version: options.version,
        });
        Ok(Self { listener, address, shared })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` comes; then all sessions are saved and closed, within a few seconds.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let connections = Arc::new(Semaphore::new(CONNECTIONS));
        tokio::pin!(stop);
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = &mut stop => break,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // There may be no free file descriptors.
                    tracing::warn!("a connection could not be accepted: {error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let Ok(permit) = connections.clone().try_acquire_owned() else {
                tracing::warn!("a connection was refused: {CONNECTIONS} are open");
                continue;
            };
            self.shared.tasks.spawn(connection(self.shared.clone(), stream, Arc::new(permit)));
        }
        drop(self.listener);
        self.shared.stopping.cancel();
        self.shared.tasks.close();
        if tokio::time::timeout(DRAIN_LIMIT, self.shared.tasks.wait()).await.is_err() {
            tracing::warn!("{} connections did not end in time", self.shared.tasks.len());
        }
    }
}

async fn connection(
    shared: Arc<ServerState>,
    stream: TcpStream,
    permit: Arc<OwnedSemaphorePermit>,
) {
    // Without effect where it cannot be set.
    let _ = stream.set_nodelay(true);
    let stopping = shared.stopping.clone();
    let service = service_fn(move |request| {
        let (shared, permit) = (shared.clone(), permit.clone());
        async move { Ok::<_, Infallible>(answer(&shared, request, permit).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_LIMIT)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stopping.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!("a connection ended: {error}");
    }
}

async fn answer(
    shared: &Arc<ServerState>,
    request: Request<Incoming>,
    permit: Arc<OwnedSemaphorePermit>,
) -> Response<ReplyBody> {
    let path = request.uri().path();
    let is_card = matches!(path, "/.well-known/agent-card.json" | "/.well-known/agent.json");
    let headers = request.headers();
    if let Err(refusal) = shared.access.check_origin(headers) {
        return refusal.into();
    }
    // The card is public: it says how to sign in.
    if is_card && request.method() == Method::GET {
        let card = a2a::card(shared.address, shared.version);
        return reply::json_reply(StatusCode::OK, &card);
    }
    if let Err(refusal) = shared.access.check_token(headers) {
        return refusal.into();
    }
    match path {
        "/acp" => remote_acp::upgrade(shared, request, permit),
        path if a2a::is_route(path) => a2a::route(shared, request).await,
        _ => reply::error(StatusCode::NOT_FOUND, "unknown path"),
    }
}
