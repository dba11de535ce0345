//! What goes over the wire, for a viewer. Nothing is collected while no viewer is attached, and no
//! secret is passed on.

use std::collections::BTreeMap;

use parallax_protocol::model::{Request, Retry};

/// Sees requests as they go over the wire.
pub trait WireTap: Send + Sync + std::fmt::Debug {
    /// Whether it wants to see anything now. Cheap, because it is called for every chunk.
    fn is_active(&self) -> bool;
    /// Called on the task that reads the response: it must return at once.
    fn observe(&self, request: u64, observation: WireObservation<'_>);
}

/// An event that a tap reports about a request.
#[derive(Debug)]
pub enum WireObservation<'a> {
    /// It is sent, for the first time or again.
    Sent(SentRequest<'a>),
    /// The head of a response.
    Responded {
        /// The HTTP status.
        status: u16,
        /// The headers, without secrets.
        headers: BTreeMap<String, String>,
    },
    /// Bytes of the response were received.
    Chunk {
        /// Number of bytes.
        bytes: usize,
    },
    /// It failed and is sent again after a wait.
    Retry(&'a Retry),
    /// The request ended.
    Ended {
        /// Why it failed.
        error: Option<String>,
    },
}

/// A request as it is sent, without secrets.
#[derive(Debug)]
pub struct SentRequest<'a> {
    /// What it was written from.
    pub request: &'a Request,
    /// How often it was sent, this time included.
    pub attempt: u32,
    /// The address.
    pub url: String,
    /// The headers; those that the HTTP library adds are missing.
    pub headers: BTreeMap<String, String>,
    /// The body, or its beginning.
    pub body: String,
    /// Bytes of the whole body.
    pub body_bytes: usize,
}
