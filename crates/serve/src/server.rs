//! The server of sessions: checks requests and routes them.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use parallax_protocol::BoxFuture;
use tokio::net::TcpListener;
use tokio::sync::OwnedSemaphorePermit;

use crate::a2a;
use crate::access::ServerAccess;
use crate::backend::{AgentHost, Backend};
use crate::connections::RequestHandler;
use crate::remote_acp;
use crate::reply::{self, ReplyBody};

/// Where to listen, and who may connect.
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
        /// The cause.
        error: io::Error,
    },
}

/// What all connections share.
struct ServerState {
    access: ServerAccess,
    host: AgentHost,
    a2a: Arc<a2a::A2aTasks>,
    address: SocketAddr,
    version: &'static str,
}

/// A server that listens.
pub struct HttpServer {
    listener: TcpListener,
    address: SocketAddr,
    shared: Arc<ServerState>,
}

impl HttpServer {
    /// Starts listening; connections are accepted by [`HttpServer::run`].
    ///
    /// # Errors
    /// Returns an error if the address cannot be used.
    pub async fn bind(
        options: ServeOptions,
        backend: Arc<dyn Backend>,
    ) -> Result<Self, ServeError> {
        let address = SocketAddr::new(options.address, options.port);
        let failed = |error| ServeError::Listen { address, error };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let host = AgentHost { backend, connections: Arc::default() };
        let shared = Arc::new(ServerState {
            access: ServerAccess::new(&options.token, address.ip(), address.port()),
            a2a: Arc::new(a2a::A2aTasks::new(host.clone())),
            host,
            address,
            version: options.version,
        });
        Ok(Self { listener, address, shared })
    }

    /// Returns the address of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` completes; then all sessions are saved and closed, within a few seconds.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let connections = Arc::clone(&self.shared.host.connections);
        connections.run(self.listener, self.shared, stop).await;
    }
}

impl RequestHandler for ServerState {
    fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        permit: Arc<OwnedSemaphorePermit>,
    ) -> BoxFuture<'static, Response<ReplyBody>> {
        Box::pin(async move { answer(&self, request, permit).await })
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
    if let Err(rejection) = shared.access.check_origin(headers) {
        return rejection.into();
    }
    // The card is public: it says how to sign in.
    if is_card && request.method() == Method::GET {
        let card = a2a::card(shared.address, shared.version);
        return reply::json_reply(StatusCode::OK, &card);
    }
    if let Err(rejection) = shared.access.check_token(headers) {
        return rejection.into();
    }
    match path {
        "/acp" => remote_acp::upgrade(&shared.host, request, permit),
        path if a2a::is_route(path) => a2a::route(&shared.a2a, request).await,
        _ => reply::error(StatusCode::NOT_FOUND, "unknown path"),
    }
}
