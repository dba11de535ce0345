//! Tool calls of a run.

use std::path::Path;

use serde_json::Value;

/// A tool call of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct ToolCall {
    pub(crate) id: String,
    pub(crate) tool: String,
    pub(crate) arguments: Value,
    /// The step, from 1.
    pub(crate) step: u64,
    /// Why it failed.
    pub(crate) error: Option<String>,
}

impl ToolCall {
    /// Whether it changes a file.
    pub(crate) fn is_edit(&self) -> bool {
        matches!(self.tool.as_str(), "write_file" | "replace")
    }

    /// Returns the file that it names.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.arguments.get("file_path").and_then(Value::as_str).map(Path::new)
    }
}
