//! Checks a key with the cheapest request of the service; no model generates anything.

use std::time::{Duration, SystemTime};

use parallax_http::Failure;
use parallax_http::reqwest::{Method as Verb, RequestBuilder, header};
use parallax_model_http::{ErrorClass, ErrorPayload, ErrorResponse, parse_retry_after, user_agent};
use parallax_protocol::model::ModelError;

use crate::client::Gemini;
use crate::credential_hints::CREDENTIALS;
use crate::error_classification::classify;
use crate::headers::{HeaderParts, headers};

/// The user waits for the check.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum bytes of an error response.
const MAX_ERROR_BYTES: usize = 64 * 1024;
/// Vertex AI in express mode lists no models, but counts tokens for any key.
const COUNTED_BY: &str = "gemini-2.5-flash";
const COUNTED: &str = r#"{"contents":[{"role":"user","parts":[{"text":"a"}]}]}"#;

/// What a check showed about credentials that the service did not reject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyCheck {
    /// The service accepts them.
    Accepted,
    /// The service knows them, but their quota is exhausted.
    OutOfQuota,
    /// A gateway does not support the request (its status).
    Unsupported(u16),
    /// The response does not come from the service: it is a web page, for example of a network that
    /// requires a login.
    NotTheService,
}

impl Gemini {
    /// Checks whether the service accepts the credentials.
    ///
    /// # Errors
    /// [`ModelError::Auth`] when the service rejects the key, another error when it cannot be
    /// checked.
    pub async fn check(&self) -> Result<KeyCheck, ModelError> {
        let checked = tokio::time::timeout(TIMEOUT, self.send_check()).await;
        checked.unwrap_or_else(|_| {
            Err(unreachable_error(
                "timeout",
                &format!("no response within {} s", TIMEOUT.as_secs()),
            ))
        })
    }

    async fn send_check(&self) -> Result<KeyCheck, ModelError> {
        let inner = self.inner();
        let response = match self.check_request().await?.send().await {
            Ok(response) => response,
            Err(error) => {
                let failure = Failure::from(error);
                return Err(unreachable_error(
                    "network",
                    &self.transport().redact(failure.message),
                ));
            }
        };
        let status = response.status();
        if status.is_success() {
            let kind = response.headers().get(header::CONTENT_TYPE);
            let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
            let is_page = kind.trim_start().to_ascii_lowercase().starts_with("text/html");
            return Ok(if is_page { KeyCheck::NotTheService } else { KeyCheck::Accepted });
        }
        let retry_after = response.headers().get(header::RETRY_AFTER);
        let retry_after = retry_after
            .and_then(|value| value.to_str().ok())
            .and_then(|text| parse_retry_after(text, SystemTime::now()));
        let mut response = response;
        let mut body = Vec::new();
        // A partial body is enough.
        while let Ok(Some(bytes)) = response.chunk().await {
            let room = MAX_ERROR_BYTES.saturating_sub(body.len());
            body.extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or_default());
            if body.len() >= MAX_ERROR_BYTES {
                break;
            }
        }
        let mut payload = ErrorPayload::from_body(&body);
        payload.message = self.transport().redact(std::mem::take(&mut payload.message));
        let error_response = ErrorResponse { status: status.as_u16(), payload, retry_after };
        match classify(&error_response) {
            ErrorClass::Quota { .. } => Ok(KeyCheck::OutOfQuota),
            _ if status.as_u16() == 429 => Ok(KeyCheck::OutOfQuota),
            // A gateway may support only generation requests.
            _ if inner.endpoint.is_custom() && matches!(status.as_u16(), 404 | 405 | 501) => {
                Ok(KeyCheck::Unsupported(status.as_u16()))
            }
            class => Err(error_response.into_error(Some(COUNTED_BY), class, CREDENTIALS)),
        }
    }

    async fn check_request(&self) -> Result<RequestBuilder, ModelError> {
        let inner = self.inner();
        let options = &inner.options;
        let parts = HeaderParts {
            bearer: options.bearer,
            custom: &options.custom_headers,
            user_agent: &user_agent(&options.version, COUNTED_BY, &options.surface),
            vertex_request_type: None,
            vertex_shared_request_type: None,
        };
        let headers = headers(&options.auth, &parts).map_err(|_| ModelError::Auth {
            status: None,
            message: "the API key contains characters that are invalid in an HTTP header: copy \
                it again"
                .to_owned(),
        })?;
        let mut headers = headers;
        if let Some(authorization) = inner.authorize() {
            headers.extend(authorization.await?);
        }
        let client = self.transport().client().await?;
        let (url, counts) = inner.endpoint.check_url(COUNTED_BY);
        let verb = if counts { Verb::POST } else { Verb::GET };
        let request = client.request(verb, url).headers(headers);
        Ok(if counts { request.body(COUNTED) } else { request })
    }
}

fn unreachable_error(class: &'static str, reason: &str) -> ModelError {
    ModelError::Unavailable {
        status: None,
        delay: None,
        class,
        message: format!(
            "cannot check the key because the service cannot be reached ({reason}): check the \
                network, the proxy variables, and the base URL"
        ),
    }
}
