//! Tells the user that a server which accepted a request has not answered it yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::Stream;
use parallax_protocol::model::{ModelError, StreamEvent};
use tokio::sync::watch;

/// What a server did so far, shared by all requests to it.
#[derive(Debug, Default)]
pub(crate) struct ServerContact {
    /// Whether it answered once, so that it is known to work, or the user knows that it is silent.
    is_known: AtomicBool,
}

impl ServerContact {
    /// Notes that the server answered. Returns whether nothing was known before.
    pub(crate) fn note(&self) -> bool {
        !self.is_known.swap(true, Ordering::Relaxed)
    }

    pub(crate) fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Relaxed)
    }
}

/// Whether a request waits for the first data of the server. The watch ends when it is dropped.
pub(crate) struct StallSignal(watch::Sender<bool>);

impl StallSignal {
    pub(crate) fn new() -> (Self, watch::Receiver<bool>) {
        let (sender, receiver) = watch::channel(false);
        (Self(sender), receiver)
    }

    pub(crate) fn set_waiting(&self, is_waiting: bool) {
        self.0.send_replace(is_waiting);
    }
}

/// Yields one notice if a request waits for longer than `after`.
pub(crate) fn notices(
    receiver: watch::Receiver<bool>,
    after: Duration,
    contact: Arc<ServerContact>,
    text: String,
) -> impl Stream<Item = Result<StreamEvent, ModelError>> + Send {
    futures_util::stream::unfold(Some((receiver, text)), move |state| {
        let contact = Arc::clone(&contact);
        async move {
            let (mut receiver, text) = state?;
            loop {
                receiver.wait_for(|is_waiting| *is_waiting).await.ok()?;
                let answered = receiver.wait_for(|is_waiting| !*is_waiting);
                match tokio::time::timeout(after, answered).await {
                    // The request ended.
                    Ok(Err(_)) => return None,
                    Ok(Ok(_)) => {}
                    Err(_) if contact.note() => {
                        return Some((Ok(StreamEvent::Notice(text)), None));
                    }
                    Err(_) => return None,
                }
            }
        }
    })
}
