//! A tool call of the model.

use parallax_protocol::Object;
use parallax_protocol::ids::{CallId, ItemId};

/// A tool call of the model, with the id that Parallax uses.
#[derive(Debug, Clone)]
pub(crate) struct ToolCall {
    pub(crate) id: CallId,
    pub(crate) wire_id: Option<String>,
    pub(crate) name: String,
    /// The arguments, or what is wrong with them.
    pub(crate) args: Result<Object, String>,
    /// The name that the model called, when a hook replaced the call.
    pub(crate) replaced_name: Option<String>,
}

impl ToolCall {
    pub(crate) fn item(&self) -> ItemId {
        ItemId::new(format!("tool-{}", self.id))
    }
}
