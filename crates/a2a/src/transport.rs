//! Sends requests and reads responses: one JSON value, or a stream of events.

use parallax_http::reqwest::header::{ACCEPT, CONTENT_TYPE};
use parallax_http::reqwest::{Client, Response};
use parallax_http::url::Url;
use parallax_http::{ClientOptions, Redirects, client, error_chain};
use parallax_model_http::SseDecoder;
use parallax_protocol::trace_headers::TraceHeaders;
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::card::Version;
use crate::credentials::Credentials;
use crate::error::A2aError;
use crate::request::A2aRequest;

/// Maximum number of bytes of one event or answer.
const MAX_ANSWER: usize = 16 << 20;
/// Maximum number of bytes of a card.
const MAX_CARD: usize = 1 << 20;
/// Maximum number of characters shown of an error.
const ERROR: usize = 500;
/// How often a request is repeated with new credentials.
const NEW_CREDENTIALS: u32 = 2;
const EVENTS: &str = "text/event-stream";
const VERSION_HEADER: &str = "A2A-Version";

/// The HTTP side of one agent.
pub(crate) struct A2aTransport {
    options: ClientOptions,
    client: OnceCell<Client>,
    pub(crate) credentials: Credentials,
}

impl A2aTransport {
    pub(crate) fn new(options: &ClientOptions, credentials: Credentials) -> Self {
        // The credentials must not follow to another host.
        let options = ClientOptions { redirects: Redirects::SameHost(3), ..options.clone() };
        Self { options, client: OnceCell::new(), credentials }
    }

    /// Fetches a card.
    pub(crate) async fn card(&self, url: &Url) -> Result<Value, A2aError> {
        let request = A2aRequest::get(url.clone());
        let response = self.send(&request, Version::V10, &[], false).await?;
        let bytes = read(response, url, MAX_CARD).await?;
        json(&bytes, url)
    }

    /// Sends a request and passes each result to `on_result`, which returns whether to continue.
    pub(crate) async fn for_each_result(
        &self,
        request: &A2aRequest,
        version: Version,
        schemes: &[String],
        streams: bool,
        mut on_result: impl FnMut(Value) -> bool,
    ) -> Result<(), A2aError> {
        let url = &request.url;
        let mut response = self.send(request, version, schemes, streams).await?;
        let kind = response.headers().get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
        if !kind.is_some_and(|kind| kind.trim_start().starts_with(EVENTS)) {
            let bytes = read(response, url, MAX_ANSWER).await?;
            on_result(result(json(&bytes, url)?, url)?);
            return Ok(());
        }
        let broken = |reason: String| A2aError::Protocol { url: url.to_string(), reason };
        let mut decoder = SseDecoder::with_limit(MAX_ANSWER);
        loop {
            let mut events = Vec::new();
            let chunk = response.chunk().await.map_err(|error| connection_error(url, &error))?;
            let is_end = chunk.is_none();
            match chunk {
                Some(bytes) => decoder
                    .push(&bytes, |event| events.push(event))
                    .map_err(|error| broken(error.to_string()))?,
                // A truncated event is ignored.
                None => events.extend(std::mem::take(&mut decoder).finish().ok().flatten()),
            }
            for event in events {
                if !on_result(result(json(&event, url)?, url)?) {
                    return Ok(());
                }
            }
            if is_end {
                return Ok(());
            }
        }
    }

    async fn client(&self) -> Result<&Client, A2aError> {
        let build = || async {
            let options = self.options.clone();
            let built = tokio::task::spawn_blocking(move || client(&options)).await;
            let built = built.map_err(|error| A2aError::Task(error.to_string()))?;
            built.map_err(|error| {
                A2aError::Task(format!("failed to create the HTTP client: {error}"))
            })
        };
        self.client.get_or_try_init(build).await
    }

    /// Sends a request, again with new credentials if they may have expired. The status is a
    /// success.
    async fn send(
        &self,
        request: &A2aRequest,
        version: Version,
        schemes: &[String],
        streams: bool,
    ) -> Result<Response, A2aError> {
        let url = &request.url;
        let client = self.client().await?;
        let mut attempts = 0;
        loop {
            let accepted = if streams { EVENTS } else { "application/json" };
            let mut http_request = client.request(request.method.clone(), url.clone());
            http_request = http_request.header(ACCEPT, accepted);
            if version == Version::V10 {
                http_request = http_request.header(VERSION_HEADER, "1.0");
            }
            for (name, value) in request.trace.iter().flat_map(TraceHeaders::fields) {
                http_request = http_request.header(name, value);
            }
            if let Some(body) = &request.body {
                http_request = http_request.json(body);
            }
            let credential = self.credentials.header(url).await?;
            if let Some((name, value)) = &credential {
                http_request = http_request.header(name, value);
            }
            let response =
                http_request.send().await.map_err(|error| connection_error(url, &error))?;
            let status = response.status();
            if status.is_success() {
                return Ok(response);
            }
            if !matches!(status.as_u16(), 401 | 403) {
                return Err(error_of_response(response, url).await);
            }
            let may_change = match &credential {
                Some((_, value)) => self.credentials.reject(value).await,
                None => false,
            };
            attempts += 1;
            if !may_change || attempts > NEW_CREDENTIALS {
                let hint = match (&credential, schemes.is_empty()) {
                    (Some(_), _) => ": check `auth` in its definition".to_owned(),
                    (None, true) => ": its definition has no `auth`".to_owned(),
                    (None, false) => format!(
                        ": its definition has no `auth`, and its card asks for {}",
                        schemes.join(", ")
                    ),
                };
                return Err(A2aError::Refused {
                    url: url.to_string(),
                    status: status.as_u16(),
                    hint,
                });
            }
        }
    }
}

fn connection_error(url: &Url, error: &parallax_http::reqwest::Error) -> A2aError {
    A2aError::Connection { url: url.to_string(), reason: error_chain(error) }
}

/// Reads a whole response.
async fn read(mut response: Response, url: &Url, limit: usize) -> Result<Vec<u8>, A2aError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| connection_error(url, &error))? {
        if bytes.len() + chunk.len() > limit {
            let reason = format!("the response is larger than {limit} bytes");
            return Err(A2aError::Protocol { url: url.to_string(), reason });
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

fn json(bytes: &[u8], url: &Url) -> Result<Value, A2aError> {
    serde_json::from_slice(bytes).map_err(|error| A2aError::Protocol {
        url: url.to_string(),
        reason: format!("invalid JSON: {error}"),
    })
}

/// Unwraps an answer of JSON-RPC; other answers are the result themselves.
fn result(mut value: Value, url: &Url) -> Result<Value, A2aError> {
    if let Some(error) = value.get("error").filter(|error| !error.is_null()) {
        return Err(rpc_error(error, url, None));
    }
    match value.get_mut("result") {
        Some(result) => Ok(result.take()),
        None => Ok(value),
    }
}

/// Returns the error of a response whose status does not indicate success.
async fn error_of_response(response: Response, url: &Url) -> A2aError {
    let status = response.status();
    let bytes = read(response, url, 64 * 1024).await.unwrap_or_default();
    let value: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    match value.get("error").or(Some(&value)).filter(|error| error.is_object()) {
        Some(error) => rpc_error(error, url, Some(status.as_u16().into())),
        None => A2aError::Answer {
            url: url.to_string(),
            code: Some(status.as_u16().into()),
            message: format!("status {status}"),
        },
    }
}

fn rpc_error(error: &Value, url: &Url, status: Option<i64>) -> A2aError {
    let message = error.get("message").or(error.get("title")).or(error.get("detail"));
    let message = message.and_then(Value::as_str).unwrap_or("no reason given");
    A2aError::Answer {
        url: url.to_string(),
        code: error.get("code").and_then(Value::as_i64).or(status),
        message: message.chars().take(ERROR).collect(),
    }
}
