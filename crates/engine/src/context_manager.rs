//! What fills the model's window besides the conversation itself, and when it is compacted.

use std::sync::Arc;

use parallax_protocol::context::{EditorContext, FolderContext, Source};
use parallax_protocol::event::ContextUsed;

use crate::compaction::CompactionState;
use crate::session::SystemPrompt;

/// The context of a session's requests.
pub(crate) struct ContextManager {
    pub(crate) compacting: CompactionState,
    /// The files that the system prompt and the context were made from.
    pub(crate) sources: Vec<Source>,
    /// Finds context files for directories that tools use.
    pub(crate) folder_context: Option<Arc<dyn FolderContext>>,
    /// The files that are open in the user's editor.
    pub(crate) editor_context: Option<Arc<dyn EditorContext>>,
    /// The context usage reported last.
    pub(crate) reported_context: Option<ContextUsed>,
    pub(crate) system: SystemPrompt,
}
