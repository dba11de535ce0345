//! Errors, as JSON-RPC and as `google.rpc.Status`.

use http::StatusCode;
use serde_json::{Value, json};

/// Why a request fails.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum A2aError {
    #[error("the body is not valid JSON")]
    Parse,
    #[error("{0}")]
    InvalidRequest(String),
    #[error("unknown method `{0}`")]
    MethodNotFound(String),
    #[error("{0}")]
    InvalidParams(String),
    #[error("{0}")]
    Internal(String),
    #[error("task `{0}` not found")]
    TaskNotFound(String),
    #[error("the task is not running")]
    TaskNotCancelable,
    #[error("push notifications are not supported")]
    PushNotificationNotSupported,
    #[error("{0}")]
    UnsupportedOperation(String),
    #[error("only parts with text or data are supported")]
    ContentTypeNotSupported,
    #[error("this server supports the versions 1.0 and 0.3")]
    VersionNotSupported,
}

impl A2aError {
    /// Returns the JSON-RPC code, the HTTP status with its name, and the reason.
    fn describe(&self) -> (i32, StatusCode, &'static str, &'static str) {
        let bad = StatusCode::BAD_REQUEST;
        match self {
            Self::Parse => (-32700, bad, "INVALID_ARGUMENT", "PARSE_ERROR"),
            Self::InvalidRequest(_) => (-32600, bad, "INVALID_ARGUMENT", "INVALID_REQUEST"),
            Self::MethodNotFound(_) => {
                (-32601, StatusCode::NOT_FOUND, "UNIMPLEMENTED", "METHOD_NOT_FOUND")
            }
            Self::InvalidParams(_) => (-32602, bad, "INVALID_ARGUMENT", "INVALID_PARAMS"),
            Self::Internal(_) => {
                (-32603, StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL", "INTERNAL_ERROR")
            }
            Self::TaskNotFound(_) => (-32001, StatusCode::NOT_FOUND, "NOT_FOUND", "TASK_NOT_FOUND"),
            Self::TaskNotCancelable => {
                (-32002, StatusCode::CONFLICT, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE")
            }
            Self::PushNotificationNotSupported => {
                (-32003, bad, "UNIMPLEMENTED", "PUSH_NOTIFICATION_NOT_SUPPORTED")
            }
            Self::UnsupportedOperation(_) => {
                (-32004, bad, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION")
            }
            Self::ContentTypeNotSupported => (
                -32005,
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "INVALID_ARGUMENT",
                "CONTENT_TYPE_NOT_SUPPORTED",
            ),
            Self::VersionNotSupported => (-32009, bad, "UNIMPLEMENTED", "VERSION_NOT_SUPPORTED"),
        }
    }

    fn details(&self) -> Value {
        let (.., reason) = self.describe();
        json!([{
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": reason,
            "domain": "a2a-protocol.org",
        }])
    }

    /// Returns the error of a JSON-RPC response.
    pub(super) fn rpc(&self) -> Value {
        let (code, ..) = self.describe();
        json!({"code": code, "message": self.to_string(), "data": self.details()})
    }

    /// Returns the status and the body of an HTTP response.
    pub(super) fn http(&self) -> (StatusCode, Value) {
        let (_, code, status, _) = self.describe();
        let error = json!({
            "code": code.as_u16(), "status": status, "message": self.to_string(),
            "details": self.details(),
        });
        (code, json!({"error": error}))
    }
}
