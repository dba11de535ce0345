//! The requests that the model server received.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::script::Method;

/// A request received by the server.
#[derive(Debug, Clone)]
pub struct RecordedRequest {
    /// The number, from 0.
    pub index: usize,
    /// The HTTP method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Header names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Arc<[u8]>,
    /// When it was complete, relative to the start of the server.
    pub at: Duration,
    /// The same as wall-clock time.
    pub wall_time: SystemTime,
    /// The API method, if it is known.
    pub kind: Option<Method>,
    /// The violations that the checks found.
    pub violations: Vec<String>,
    /// Whether the client disconnected before the response was complete.
    pub aborted: bool,
}

impl RecordedRequest {
    /// Returns the first header with this (lowercase) name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }
    /// Returns the body as JSON; null if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
    /// Returns `contents` of the body.
    pub fn contents(&self) -> Vec<Value> {
        match self.json().get_mut("contents").map(Value::take) {
            Some(Value::Array(contents)) => contents,
            _ => Vec::new(),
        }
    }
    pub(crate) fn log_line(&self) -> String {
        let wall = self.wall_time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let body = serde_json::from_slice::<Value>(&self.body)
            .unwrap_or_else(|_| String::from_utf8_lossy(&self.body).into_owned().into());
        let headers: Vec<Value> = self.headers.iter().map(|(n, v)| json!([n, v])).collect();
        json!({
            "index": self.index, "method": self.method, "path": self.path, "headers": headers,
            "at_ms": self.at.as_secs_f64() * 1000.0, "wall_ms": wall.as_secs_f64() * 1000.0,
            "violations": self.violations, "body": body,
        })
        .to_string()
    }
}
