//! What a provider implements.

use std::collections::VecDeque;

use bytes::Bytes;
use parallax_http::reqwest::header::HeaderMap;
use parallax_http::url::Url;
use parallax_protocol::BoxFuture;
use parallax_protocol::model::{Chunk, ModelError, Request};
use serde_json::Value;

use crate::error_class::{ErrorClass, ErrorResponse};
use crate::error_payload::ErrorPayload;
use crate::listed_model::ListedModel;

/// The requested form of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseMode {
    /// As a stream of events.
    Stream,
    /// As a whole.
    Whole,
}

/// One HTTP request: a POST with a JSON body.
#[derive(Debug, Clone)]
pub struct HttpRequest {
    /// The address; it contains no key.
    pub url: Url,
    /// The headers, credentials among them.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

/// One attempt to send a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendAttempt<'a> {
    /// Counted from 1.
    pub number: u32,
    /// The token of the answer that the request continues.
    pub continuation: Option<&'a str>,
    /// Whether the request continues a turn that the provider paused, so that it ends with the
    /// model's turn.
    pub resumes_pause: bool,
}

/// An event that is not a piece of a response.
#[derive(Debug, Clone, PartialEq)]
pub enum EventError {
    /// It is not JSON of the expected form.
    NotJson,
    /// It is an error object.
    Refused(Box<ErrorPayload>),
    /// The stream ended before the response was complete.
    Incomplete,
}

/// The request was corrected after a rejection and is sent again immediately.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImmediateRetry {
    /// A message for the user.
    pub notice: Option<String>,
}

/// Reads the events of one response.
pub trait Decoder: Send + Sync {
    /// Reads one event and appends the chunks that it completes.
    ///
    /// # Errors
    /// Returns an error if the event is not a piece of a response.
    fn event(&mut self, data: &[u8], chunks: &mut VecDeque<Chunk>) -> Result<(), EventError>;

    /// Called when the response ended properly. Appends what was held back.
    ///
    /// # Errors
    /// Returns an error if the response is not complete.
    fn end(&mut self, _chunks: &mut VecDeque<Chunk>) -> Result<(), EventError> {
        Ok(())
    }
}

/// The protocol of a provider.
pub trait Wire: Send + Sync + 'static {
    /// Returns the base URL, for messages.
    fn base(&self) -> &Url;

    /// Writes a request.
    ///
    /// # Errors
    /// Returns an error if it cannot be written (a key that no header can hold).
    fn http_request(
        &self,
        request: &Request,
        delivery: ResponseMode,
        attempt: SendAttempt<'_>,
    ) -> Result<HttpRequest, ModelError>;

    /// Headers that have to be fetched first, such as a token that expires. Called before each
    /// attempt.
    ///
    /// # Errors
    /// Returns an error if there are no credentials.
    fn authorize(&self) -> Option<BoxFuture<'_, Result<HeaderMap, ModelError>>> {
        None
    }

    /// Called when the service rejected these headers. Returns whether the next ones may be
    /// accepted.
    fn reject_authorization(&self, _headers: &HeaderMap) -> Option<BoxFuture<'_, bool>> {
        None
    }

    /// Asks the service about the model before a request is sent, as a local server about its
    /// window. Returns whether the service is known to run, because it answered.
    fn before_request<'a>(&'a self, _request: &'a Request) -> Option<BoxFuture<'a, bool>> {
        None
    }

    /// Like [`Self::before_request`], when a response is complete.
    fn after_response<'a>(&'a self, _request: &'a Request) -> Option<BoxFuture<'a, ()>> {
        None
    }

    /// Returns a message for the user, given once: a setting that this wire does not send, or what
    /// the service said before the request or after the response.
    fn notice(&self, _request: &Request) -> Option<String> {
        None
    }

    /// Returns the request that lists the models of the service, if it has one.
    fn listing(&self) -> Option<(Url, HeaderMap)> {
        None
    }

    /// Whether the provider may pause a turn, which the next request continues then.
    fn pauses_turns(&self) -> bool {
        false
    }

    /// Returns where the service describes one model, in the form of an entry of its list.
    fn description(&self, _id: &str) -> Option<(Url, HeaderMap)> {
        None
    }

    /// Reads the response to it.
    fn read_listing(&self, _response: &Value) -> Vec<ListedModel> {
        Vec::new()
    }

    /// Returns a decoder for the response to a request.
    fn decoder(&self, request: &Request, delivery: ResponseMode) -> Box<dyn Decoder>;

    /// Returns what an error response means.
    fn classify(&self, response: &ErrorResponse) -> ErrorClass;

    /// Returns what to check when the service rejects the credentials.
    fn credentials_hint(&self) -> String;

    /// Changes the request, or what this wire knows of the service, so that an error does not occur
    /// again; `None` when nothing can be changed. It is called at most three times for a request.
    fn recover(&self, _response: &ErrorResponse, _request: &mut Request) -> Option<ImmediateRetry> {
        None
    }
}
