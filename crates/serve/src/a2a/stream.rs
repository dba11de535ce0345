//! Events of a task as server-sent events.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use serde_json::{Value, json};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::messages;
use super::task::{Task, TaskEvent, TaskSnapshot};
use super::version::A2aVersion;
use crate::reply::ReplyBody;

/// A client that follows a task.
struct Follower {
    task: Arc<Task>,
    id: String,
    version: A2aVersion,
    /// The id of the JSON-RPC request; `None`: plain HTTP.
    rpc: Option<Value>,
    /// The task as it was when following began; it is sent first.
    first: Option<TaskSnapshot>,
    events: Receiver<TaskEvent>,
    is_over: bool,
}

impl Follower {
    fn wrap(&self, result: Value) -> Frame<Bytes> {
        let value = match &self.rpc {
            Some(id) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            None => result,
        };
        Frame::data(Bytes::from(format!("data: {value}\n\n")))
    }

    async fn next(&mut self) -> Option<Frame<Bytes>> {
        if let Some(first) = self.first.take() {
            self.is_over = first.state.is_over();
            return Some(self.wrap(messages::task_result(&first, self.version)));
        }
        if self.is_over {
            return None;
        }
        loop {
            match self.events.recv().await {
                Ok(event) => {
                    if let TaskEvent::Status { state, .. } = &event {
                        self.is_over = state.is_over();
                    }
                    return Some(self.wrap(messages::event(&self.id, &event, self.version)));
                }
                Err(RecvError::Lagged(_)) if self.task.state().is_over() => {
                    self.is_over = true;
                    let snapshot = self.task.snapshot();
                    return Some(self.wrap(messages::task_result(&snapshot, self.version)));
                }
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return None,
            }
        }
    }
}

/// Returns a response that follows a task until its turn ends or it waits for input. The receiver
/// was taken before the turn began, so that no event is missed.
pub(super) fn response(
    task: Arc<Task>,
    (first, events): (TaskSnapshot, Receiver<TaskEvent>),
    version: A2aVersion,
    rpc: Option<Value>,
) -> Response<ReplyBody> {
    let (id, first) = (first.id.clone(), Some(first));
    let follower = Follower { task, id, version, rpc, first, events, is_over: false };
    let frames = stream::unfold(follower, |mut follower| async move {
        let frame = follower.next().await?;
        Some((Ok::<_, Infallible>(frame), follower))
    });
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    *response.status_mut() = StatusCode::OK;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
