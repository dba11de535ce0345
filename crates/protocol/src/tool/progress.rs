//! The live output of a running call.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::notice_level::Level;
use crate::process::{ProcessControl, Screen};
use crate::trace_headers::TraceHeaders;

/// Receives the live output of a running call. Implementations must be cheap to clone and must not
/// block; the engine merges and limits the output.
pub trait Progress: Send + Sync {
    /// Emits a piece of output text, for the user only.
    fn output(&self, text: &str);
    /// Emits a one-line notice for the user.
    fn notice(&self, _level: Level, _text: &str) {}
    /// Emits one line that is shown to an interactive user but omitted from machine-readable
    /// output.
    fn emit_aside(&self, _text: &str) {}
    /// Reports the process group of the call.
    fn process_group(&self, _pgid: i32) {}
    /// Reports the progress of the call. The default emits it as a line of output.
    fn advance(&self, advance: &ProgressUpdate) {
        self.output(&format!("{advance}\n"));
    }
    /// Reports the current terminal screen of the call's command.
    fn screen(&self, _screen: Screen) {}
    /// Returns the trace context of the call, for a process that it starts.
    fn trace_headers(&self) -> Option<TraceHeaders> {
        None
    }
    /// Returns the trace context of the request that the call sends to an MCP server.
    fn trace_headers_of_mcp_request(&self) -> Option<TraceHeaders> {
        None
    }
    /// Registers the controls of the call's process. They are valid until the call ends.
    fn control(&self, _control: Arc<dyn ProcessControl>) {}
}

/// The progress of a call as reported by its server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ProgressUpdate {
    /// The amount done; never decreases.
    pub progress: f64,
    /// The total amount, if known; greater than zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// The current activity.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl ProgressUpdate {
    /// Returns the percentage done, rounded down, so that it is 100 only when everything is done.
    pub fn percent(&self) -> Option<u8> {
        let total = self.total.filter(|total| *total > 0.0 && total.is_finite())?;
        let share = self.progress / total;
        // Truncated, not rounded.
        share.is_finite().then(|| (share.clamp(0.0, 1.0) * 100.0) as u8)
    }
}

/// Formats the message and the amount done.
impl std::fmt::Display for ProgressUpdate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let done = match self.percent() {
            Some(percent) => format!("{percent} %"),
            None => format!("{}", self.progress),
        };
        match self.message.is_empty() {
            true => f.write_str(&done),
            false => write!(f, "{} ({done})", self.message),
        }
    }
}

/// A [`Progress`] that discards everything.
#[derive(Debug, Clone, Copy)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn output(&self, _text: &str) {}
}
