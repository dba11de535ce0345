//! Connections: accepted up to a limit, answered, and ended in order.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parallax_protocol::{BoxFuture, CancellationToken};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::task::TaskTracker;

use crate::reply::ReplyBody;

/// Maximum number of concurrent connections, including WebSockets. Further ones are closed at once.
const CONNECTIONS: usize = 512;
/// How long a client may take to send the head of a request.
const HEAD_LIMIT: Duration = Duration::from_secs(10);
/// Maximum bytes of the head of a request.
const HEAD_BYTES: usize = 32 * 1024;
/// How long all connections may take to end.
const DRAIN_LIMIT: Duration = Duration::from_secs(5);

/// Answers requests.
pub(crate) trait RequestHandler: Send + Sync + 'static {
    /// Answers a request. The permit belongs to its connection.
    fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        permit: Arc<OwnedSemaphorePermit>,
    ) -> BoxFuture<'static, Response<ReplyBody>>;
}

/// What all connections share.
#[derive(Default)]
pub(crate) struct Connections {
    /// Cancelled when the server is to end.
    pub(crate) stopping: CancellationToken,
    /// All of them, and what they started.
    pub(crate) tasks: TaskTracker,
}

impl Connections {
    /// Accepts connections until `stop` completes, then ends all of them within a few seconds.
    pub(crate) async fn run(
        &self,
        listener: TcpListener,
        handler: Arc<impl RequestHandler>,
        stop: impl Future<Output = ()>,
    ) {
        let permits = Arc::new(Semaphore::new(CONNECTIONS));
        tokio::pin!(stop);
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
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
            let Ok(permit) = permits.clone().try_acquire_owned() else {
                tracing::warn!("a connection was refused: {CONNECTIONS} are already open");
                continue;
            };
            let stopping = self.stopping.clone();
            self.tasks.spawn(serve_connection(handler.clone(), stream, stopping, Arc::new(permit)));
        }
        drop(listener);
        self.stopping.cancel();
        self.tasks.close();
        if tokio::time::timeout(DRAIN_LIMIT, self.tasks.wait()).await.is_err() {
            tracing::warn!("{} connections did not end in time", self.tasks.len());
        }
    }
}

async fn serve_connection(
    handler: Arc<impl RequestHandler>,
    stream: TcpStream,
    stopping: CancellationToken,
    permit: Arc<OwnedSemaphorePermit>,
) {
    // Without effect where it cannot be set.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let (handler, permit) = (handler.clone(), permit.clone());
        async move { Ok::<_, Infallible>(handler.answer(request, permit).await) }
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
