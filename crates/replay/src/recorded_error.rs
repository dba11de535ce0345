//! The errors of recorded requests.

use std::time::Duration;

use parallax_protocol::model::ModelError;
use serde::{Deserialize, Serialize};

/// A failed request in a recording.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RecordedError {
    kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reset: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    delay_ms: Option<u64>,
    /// Whether the error is retryable, or whether the quota is daily.
    #[serde(default)]
    flag: bool,
    message: String,
}

impl From<&ModelError> for RecordedError {
    fn from(error: &ModelError) -> Self {
        let mut recorded = Self {
            kind: String::new(),
            status: error.status(),
            code: None,
            reset: None,
            delay_ms: None,
            flag: false,
            message: error.to_string(),
        };
        let kind = match error {
            ModelError::Cancelled => "cancelled",
            ModelError::Auth { .. } => "auth",
            ModelError::ModelNotFound { .. } => "modelNotFound",
            ModelError::Quota { daily, reset, .. } => {
                recorded.flag = *daily;
                recorded.reset.clone_from(reset);
                "quota"
            }
            ModelError::BadRequest { code, .. } => {
                recorded.code.clone_from(code);
                "badRequest"
            }
            ModelError::Unavailable { delay, class, .. } => {
                recorded.delay_ms = delay.and_then(|d| u64::try_from(d.as_millis()).ok());
                recorded.code = Some((*class).to_owned());
                "unavailable"
            }
            ModelError::Broken { retryable, .. } => {
                recorded.flag = *retryable;
                "broken"
            }
            ModelError::Script { .. } => "script",
        };
        recorded.kind = kind.to_owned();
        recorded
    }
}

impl RecordedError {
    pub(crate) fn into_error(self, model: &str) -> ModelError {
        let Self { kind, status, code, reset, delay_ms, flag, message } = self;
        match kind.as_str() {
            "cancelled" => ModelError::Cancelled,
            "auth" => ModelError::Auth { status, message },
            "modelNotFound" => ModelError::ModelNotFound { model: model.to_owned(), message },
            "quota" => {
                ModelError::Quota { daily: flag, reset, status: status.unwrap_or(429), message }
            }
            "badRequest" => ModelError::BadRequest { status: status.unwrap_or(400), code, message },
            "unavailable" => ModelError::Unavailable {
                status,
                delay: delay_ms.map(Duration::from_millis),
                class: match code.as_deref() {
                    Some("rate_limit") => "rate_limit",
                    Some("capacity") => "capacity",
                    Some("network") => "network",
                    Some("connect") => "connect",
                    Some("timeout") => "timeout",
                    Some("incomplete") => "incomplete",
                    Some("tls") => "tls",
                    _ => "server",
                },
                message,
            },
            "broken" => ModelError::Broken { status, message, retryable: flag, delay: None },
            _ => ModelError::Script { message },
        }
    }
}
