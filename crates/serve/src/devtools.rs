//! The inspection of one session in the user's browser.
//!
//! The link has a token that works once: it sets a cookie, and every other request must carry that
//! cookie. Browsers send cookies to every port of a host, so the cookie is limited to a path that
//! only this server has: servers on other ports do not get it.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, HeaderName, HeaderValue,
    LOCATION, REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use parallax_protocol::BoxFuture;
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use crate::access::{SecretDigest, ServerAccess};
use crate::connections::{Connections, RequestHandler};
use crate::reply::ReplyBody;
use crate::server::ServeError;

/// Nothing but the server's own files; no frames, no forms.
const POLICY: &str =
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// Maximum number of links remembered.
const MAX_LINKS: usize = 32;
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SAME_ORIGIN: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// The files of the page.
#[derive(Debug, Clone, Copy)]
pub struct DevToolsFiles {
    /// The document.
    pub document: &'static str,
    /// Its style sheet, `/devtools.css`.
    pub style: &'static str,
    /// Its script, `/devtools.js`.
    pub script: &'static str,
}

/// A message for the page.
#[derive(Debug, Clone)]
pub struct DevToolsMessage {
    /// The name of the event.
    pub event: &'static str,
    /// Lines of JSON.
    pub data: String,
}

/// What the page shows.
pub trait DevToolsSource: Send + Sync + 'static {
    /// Returns the session from its beginning, and then what is added. Must be called on a tokio
    /// runtime; the sender ends when the receiver is dropped, with the page's connection.
    fn open(&self) -> mpsc::Receiver<DevToolsMessage>;
}

struct DevToolsState {
    access: ServerAccess,
    cookie: String,
    cookie_digest: SecretDigest,
    /// The path of the page, `/` at both ends.
    path: String,
    /// The value of the cookie that shows that a link was opened. It grants no access.
    mark: String,
    links: Mutex<Vec<OneTimeLink>>,
    files: DevToolsFiles,
    source: Arc<dyn DevToolsSource>,
    connections: Arc<Connections>,
    port: u16,
}

/// A link with a token that works once.
struct OneTimeLink {
    token: SecretDigest,
    is_used: bool,
}

/// Makes links to a server.
#[derive(Clone)]
pub struct DevToolsLinks {
    state: Arc<DevToolsState>,
}

impl DevToolsLinks {
    /// Adds a token that works once: random letters and digits. Returns the link.
    pub fn add(&self, token: &str) -> String {
        let mut links = self.state.links.lock().unwrap_or_else(PoisonError::into_inner);
        if links.len() == MAX_LINKS {
            links.remove(0);
        }
        links.push(OneTimeLink { token: SecretDigest::new(token), is_used: false });
        format!("http://{}:{}/?token={token}", Ipv4Addr::LOCALHOST, self.state.port)
    }
}

/// A server that listens on loopback.
pub struct DevToolsServer {
    listener: TcpListener,
    address: SocketAddr,
    state: Arc<DevToolsState>,
}

impl DevToolsServer {
    /// Starts listening on a port; 0 selects a free one. `cookie` is the value that the token of a
    /// link is exchanged for: random letters and digits.
    ///
    /// # Errors
    /// Returns an error if the port cannot be used.
    pub async fn bind(
        port: u16,
        cookie: String,
        files: DevToolsFiles,
        source: Arc<dyn DevToolsSource>,
    ) -> Result<Self, ServeError> {
        let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
        let failed = |error| ServeError::Listen { address, error };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let state = Arc::new(DevToolsState {
            access: ServerAccess::new(&cookie, address.ip(), address.port()),
            cookie_digest: SecretDigest::new(&cookie),
            path: format!("/{}/", SecretDigest::new(&format!("path {cookie}")).id()),
            mark: SecretDigest::new(&format!("mark {cookie}")).id(),
            cookie,
            links: Mutex::default(),
            files,
            source,
            connections: Arc::default(),
            port: address.port(),
        });
        Ok(Self { listener, address, state })
    }

    /// Returns the address of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Makes links to it.
    pub fn links(&self) -> DevToolsLinks {
        DevToolsLinks { state: Arc::clone(&self.state) }
    }

    /// Serves until `stop` comes.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let connections = Arc::clone(&self.state.connections);
        connections.run(self.listener, self.state, stop).await;
    }
}

impl RequestHandler for DevToolsState {
    fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        _permit: Arc<OwnedSemaphorePermit>,
    ) -> BoxFuture<'static, Response<ReplyBody>> {
        Box::pin(async move { self.route(&request) })
    }
}

impl DevToolsState {
    fn route(&self, request: &Request<Incoming>) -> Response<ReplyBody> {
        let headers = request.headers();
        if let Err(rejection) = self.access.check_origin(headers) {
            return text(rejection.status, rejection.message);
        }
        if request.method() != Method::GET {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only GET is supported");
        }
        if is_cross_site(headers) {
            return text(StatusCode::FORBIDDEN, "requests from other pages are not accepted");
        }
        let path = request.uri().path();
        let token = request.uri().query().and_then(|query| query.strip_prefix("token="));
        if let (true, Some(token)) = (path == "/", token) {
            return self.exchange(token, headers);
        }
        if path == "/favicon.ico" {
            // Browsers ask for it outside the path of the cookie. There is none.
            return with_headers(StatusCode::NO_CONTENT, "image/x-icon", "");
        }
        if !self.has_cookie(headers) {
            return text(StatusCode::FORBIDDEN, "open the link that `parallax devtools` printed");
        }
        match path.strip_prefix(self.path.trim_end_matches('/')).unwrap_or(path) {
            "/" => file("text/html; charset=utf-8", self.files.document),
            "/devtools.css" => file("text/css; charset=utf-8", self.files.style),
            "/devtools.js" => file("text/javascript; charset=utf-8", self.files.script),
            "/events" => self.events(),
            _ => text(StatusCode::NOT_FOUND, "unknown path"),
        }
    }

    /// Exchanges the token of a link for the cookie, once.
    fn exchange(&self, token: &str, headers: &HeaderMap) -> Response<ReplyBody> {
        let was_opened = || {
            self.has_cookie(headers)
                || cookies(headers)
                    .any(|(key, value)| key == self.mark_name() && value == self.mark)
        };
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        let was_used = links
            .iter_mut()
            .find(|link| link.token.matches(token))
            .map(|link| std::mem::replace(&mut link.is_used, true));
        if was_used.is_none_or(|was_used| was_used && !was_opened()) {
            return text(
                StatusCode::FORBIDDEN,
                "this link is wrong or was used before; run `parallax devtools` again",
            );
        }
        let mut response = with_headers(StatusCode::SEE_OTHER, "text/plain; charset=utf-8", "");
        let set = |name: String, value: &str, path: &str| {
            format!("{name}={value}; Path={path}; HttpOnly; SameSite=Lax")
        };
        for (header, value) in [
            (LOCATION, self.path.clone()),
            (SET_COOKIE, set(self.name(), &self.cookie, &self.path)),
            (SET_COOKIE, set(self.mark_name(), &self.mark, "/")),
        ] {
            if let Ok(value) = HeaderValue::from_str(&value) {
                response.headers_mut().append(header, value);
            }
        }
        response
    }

    /// Cookies do not differ by port.
    fn name(&self) -> String {
        format!("parallax-devtools-{}", self.port)
    }

    fn mark_name(&self) -> String {
        format!("{}-opened", self.name())
    }

    fn has_cookie(&self, headers: &HeaderMap) -> bool {
        let name = self.name();
        cookies(headers).any(|(key, value)| key == name && self.cookie_digest.matches(value))
    }

    fn events(&self) -> Response<ReplyBody> {
        let stopping = self.connections.stopping.clone();
        let received = stream::unfold(self.source.open(), async |mut receiver| {
            let message = receiver.recv().await?;
            Some((message, receiver))
        });
        let messages = received.map(|message| {
            let mut frame = format!("event: {}\n", message.event);
            for line in message.data.lines() {
                frame.push_str("data: ");
                frame.push_str(line);
                frame.push('\n');
            }
            frame.push('\n');
            Ok::<_, Infallible>(Frame::data(Bytes::from(frame)))
        });
        let messages = messages.take_until(stopping.cancelled_owned());
        let body = StreamBody::new(messages).boxed_unsync();
        respond(StatusCode::OK, "text/event-stream", body)
    }
}

fn cookies(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    headers
        .get_all(COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
}

/// Whether the request comes from a page of another server, other than by a link that the user
/// follows.
fn is_cross_site(headers: &HeaderMap) -> bool {
    let value = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let is_other = value(FETCH_SITE).is_some_and(|site| !matches!(site, "same-origin" | "none"));
    is_other && value(FETCH_MODE) != Some("navigate")
}

fn file(kind: &'static str, content: &'static str) -> Response<ReplyBody> {
    with_headers(StatusCode::OK, kind, content)
}

fn text(status: StatusCode, message: &'static str) -> Response<ReplyBody> {
    with_headers(status, "text/plain; charset=utf-8", message)
}

fn with_headers(
    status: StatusCode,
    kind: &'static str,
    content: &'static str,
) -> Response<ReplyBody> {
    respond(status, kind, Full::new(Bytes::from_static(content.as_bytes())).boxed_unsync())
}

fn respond(status: StatusCode, kind: &'static str, body: ReplyBody) -> Response<ReplyBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(SAME_ORIGIN, HeaderValue::from_static("same-origin"));
    response
}
