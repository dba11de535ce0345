//! JSON-RPC 2.0: parsing incoming messages, and errors.

use parallax_protocol::Object;
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::lenient::repair_json;
use serde_json::{Value, json};

/// The client sent invalid JSON.
const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
/// Error code of Parallax: the connection to a client ended.
const DISCONNECTED: i64 = -32099;
const INTERNAL: i64 = -32603;
/// Error code of the Agent Client Protocol: the user must authenticate first.
const AUTH_REQUIRED: i64 = -32000;

/// A message from the client.
#[derive(Debug, PartialEq)]
pub(crate) enum IncomingMessage {
    Request {
        id: Value,
        method: String,
        params: Object,
    },
    Notification {
        method: String,
        params: Object,
    },
    /// The answer to a request from Parallax.
    Response {
        id: u64,
        result: Result<Value, RpcError>,
    },
}

/// An error object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RpcError {
    pub(crate) code: i64,
    pub(crate) message: String,
}

impl RpcError {
    pub(crate) fn invalid_request(message: impl Into<String>) -> Self {
        Self { code: INVALID_REQUEST, message: message.into() }
    }

    pub(crate) fn invalid_params(message: impl Into<String>) -> Self {
        Self { code: INVALID_PARAMS, message: message.into() }
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self { code: INTERNAL, message: message.into() }
    }

    /// Creates the error of a client that can no longer answer.
    pub(crate) fn disconnected() -> Self {
        Self { code: DISCONNECTED, message: "the client disconnected".to_owned() }
    }

    pub(crate) fn is_disconnected(&self) -> bool {
        self.code == DISCONNECTED
    }

    pub(crate) fn method_not_found(method: &str) -> Self {
        Self { code: METHOD_NOT_FOUND, message: format!("unknown method `{method}`") }
    }

    pub(crate) fn unknown_session(id: &str) -> Self {
        Self::invalid_params(format!("unknown session `{id}`"))
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({"code": self.code, "message": self.message})
    }
}

impl From<Failure> for RpcError {
    fn from(failure: Failure) -> Self {
        let code = match (failure.kind, failure.status) {
            (FailureKind::Auth, _) => AUTH_REQUIRED,
            // Clients show the HTTP status of the model provider.
            (_, Some(status)) => i64::from(status),
            (FailureKind::Input | FailureKind::Config | FailureKind::Untrusted, None) => {
                INVALID_PARAMS
            }
            _ => INTERNAL,
        };
        Self { code, message: failure.message }
    }
}

/// Parses a line. For an invalid line, returns the id to respond to and the error.
pub(crate) fn parse(line: &[u8]) -> Result<IncomingMessage, (Value, RpcError)> {
    let parsed = serde_json::from_slice(line).or_else(|error| {
        let text = str::from_utf8(line).map(repair_json);
        text.ok().and_then(|text| serde_json::from_str(&text).ok()).ok_or(error)
    });
    let value: Value = parsed.map_err(|error| {
        let message = format!("invalid JSON: {error}");
        (Value::Null, RpcError { code: PARSE_ERROR, message })
    })?;
    let Value::Object(mut message) = value else {
        let message = "a message must be a JSON object: one per line, no batches";
        return Err((Value::Null, RpcError::invalid_request(message)));
    };
    let id = message.remove("id");
    let invalid_request = |id: Option<Value>, text: &str| {
        let id = id.filter(|id| id.is_string() || id.is_number());
        Err((id.unwrap_or(Value::Null), RpcError::invalid_request(text)))
    };
    if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return invalid_request(id, "`jsonrpc` must be \"2.0\"");
    }
    let method = match message.remove("method") {
        Some(Value::String(method)) => method,
        Some(_) => return invalid_request(id, "`method` must be a string"),
        None => {
            // Some libraries send the field that does not apply as null.
            let error = message.remove("error").filter(|error| !error.is_null());
            let error = error.map(|error| RpcError {
                code: error["code"].as_i64().unwrap_or(INTERNAL),
                message: error["message"].as_str().unwrap_or("no message").to_owned(),
            });
            let result = match (error, message.remove("result")) {
                (Some(error), _) => Err(error),
                (None, Some(result)) => Ok(result),
                (None, None) => {
                    return invalid_request(id, "`method`, `result`, and `error` are missing");
                }
            };
            // A response without a known id belongs to no request.
            let id = id.and_then(|id| id.as_u64()).unwrap_or(u64::MAX);
            return Ok(IncomingMessage::Response { id, result });
        }
    };
    let params = match message.remove("params") {
        None | Some(Value::Null) => Object::new(),
        Some(Value::Object(params)) => params,
        Some(_) => return invalid_request(id, "`params` must be an object"),
    };
    Ok(match id {
        None => IncomingMessage::Notification { method, params },
        Some(id @ (Value::String(_) | Value::Number(_) | Value::Null)) => {
            IncomingMessage::Request { id, method, params }
        }
        Some(_) => return invalid_request(None, "`id` must be a string or a number"),
    })
}

/// Returns a string parameter.
///
/// # Errors
/// Returns an error if it is missing or has another type.
pub(crate) fn text<'a>(params: &'a Object, name: &str) -> Result<&'a str, RpcError> {
    match params.get(name) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(RpcError::invalid_params(format!("`{name}` must be a string"))),
        None => Err(RpcError::invalid_params(format!("`{name}` is missing"))),
    }
}

/// Returns a list parameter, which is empty if missing.
///
/// # Errors
/// Returns an error if it has another type.
pub(crate) fn list<'a>(params: &'a Object, name: &str) -> Result<&'a [Value], RpcError> {
    match params.get(name) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(RpcError::invalid_params(format!("`{name}` must be an array"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(line: &str) -> (Value, i64) {
        let (id, error) = parse(line.as_bytes()).expect_err("an error");
        (id, error.code)
    }

    #[test]
    fn requests_responses_and_notifications_are_distinguished() {
        let request = parse(br#"{"jsonrpc":"2.0","id":"a","method":"m","params":{}}"#);
        let expected = IncomingMessage::Request {
            id: json!("a"),
            method: "m".to_owned(),
            params: Object::new(),
        };
        assert_eq!(request, Ok(expected));
        let response = parse(br#"{"jsonrpc":"2.0","id":3,"result":{"a":1}}"#);
        assert_eq!(response, Ok(IncomingMessage::Response { id: 3, result: Ok(json!({"a": 1})) }));
        let note = parse(br#"{"jsonrpc":"2.0","method":"m"}"#);
        assert!(matches!(note, Ok(IncomingMessage::Notification { .. })));
    }

    #[test]
    fn malformed_message_names_its_request_if_known() {
        assert_eq!(code("{nonsense"), (Value::Null, PARSE_ERROR));
        assert_eq!(code("[]"), (Value::Null, INVALID_REQUEST));
        assert_eq!(code(r#"{"id":1,"method":"m"}"#), (json!(1), INVALID_REQUEST));
        assert_eq!(
            code(r#"{"jsonrpc":"2.0","id":2,"method":"m","params":[]}"#),
            (json!(2), INVALID_REQUEST)
        );
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":{}}"#), (Value::Null, INVALID_REQUEST));
    }
}
