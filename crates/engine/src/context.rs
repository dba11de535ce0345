//! What fills the model's window besides the conversation itself, and when it is compacted.

mod breakdown;
mod compaction;
mod tool_output_limits;

use std::sync::Arc;

use parallax_protocol::context::{EditorContext, FolderContext, Source};
use parallax_protocol::event::{ContextUsed, EventBody};
use parallax_protocol::model::Limits;
use parallax_protocol::policy::ApprovalMode;

use self::compaction::CompactionState;
use crate::event_bus::EventBus;
use crate::history::History;
use crate::options::{CompactionOptions, SystemPrompt};
use crate::registry::ToolDeclarations;
use crate::tokens;
use crate::view::contents_of;

pub(crate) use self::compaction::{Compactor, Summarizer};
pub(crate) use self::tool_output_limits::PendingResults;

/// What every request contains besides the history, and the model that it must fit.
#[derive(Debug, Clone)]
pub(crate) struct RequestFrame {
    pub(crate) model: String,
    pub(crate) limits: Limits,
    /// Estimated tokens of the system prompt.
    pub(crate) system: u64,
    /// Estimated tokens of the tool declarations.
    pub(crate) tools: u64,
}

impl RequestFrame {
    /// Returns the tokens that every request has.
    pub(crate) fn fixed_tokens(&self) -> u64 {
        self.system + self.tools
    }
}

/// The inputs of a context manager.
pub(crate) struct ContextOptions {
    pub(crate) compaction: CompactionOptions,
    pub(crate) sources: Vec<Source>,
    pub(crate) folder_context: Option<Arc<dyn FolderContext>>,
    pub(crate) editor_context: Option<Arc<dyn EditorContext>>,
    pub(crate) system: SystemPrompt,
}

/// The context of a session's requests.
pub(crate) struct ContextManager {
    compaction: CompactionState,
    /// The files that the system prompt and the context were made from.
    sources: Vec<Source>,
    /// Finds context files for directories that tools use.
    folder_context: Option<Arc<dyn FolderContext>>,
    /// The files that are open in the user's editor.
    editor_context: Option<Arc<dyn EditorContext>>,
    /// The context usage reported last.
    reported: Option<ContextUsed>,
    system: SystemPrompt,
}

impl ContextManager {
    pub(crate) fn new(options: ContextOptions) -> Self {
        Self {
            compaction: CompactionState::new(options.compaction),
            sources: options.sources,
            folder_context: options.folder_context,
            editor_context: options.editor_context,
            reported: None,
            system: options.system,
        }
    }

    /// Returns the system prompt for a mode and the declared tools.
    pub(crate) fn system_prompt(&self, mode: ApprovalMode, tools: &[String]) -> Arc<str> {
        (self.system)(mode, tools)
    }

    /// Returns what every request to a model contains with these tools.
    pub(crate) fn frame(
        &self,
        (model, limits): (String, Limits),
        mode: ApprovalMode,
        tools: &ToolDeclarations,
    ) -> RequestFrame {
        RequestFrame {
            model,
            limits,
            system: tokens::estimate_text(&self.system_prompt(mode, &tools.names)),
            tools: tools.json.as_ref().map_or(0, |tools| tokens::estimate_text(tools.get())),
        }
    }

    /// Emits the context usage of the next request if it changed.
    pub(crate) fn emit_usage(&mut self, frame: &RequestFrame, history: &History, bus: &EventBus) {
        let used = usage(frame, history);
        if self.reported.replace(used) != Some(used) {
            bus.send(EventBody::ContextUsed(used));
        }
    }

    /// Returns a message about the user's editor for the next prompt.
    pub(crate) fn editor_message(&self) -> Option<String> {
        self.editor_context.as_ref().and_then(|context| context.message())
    }

    /// Makes the next editor message complete, because the history may no longer contain the
    /// earlier ones.
    pub(crate) fn forget_editor_context(&self) {
        if let Some(context) = &self.editor_context {
            context.reset();
        }
    }

    /// Continues with the directory context that a resumed history contains.
    pub(crate) fn resume_directory_context(&self, history: &History) {
        if let Some(context) = &self.folder_context {
            context.resume(&contents_of(history.view()));
        }
    }

    /// Lets directory context that the history no longer contains be added again.
    pub(crate) fn drop_lost_context(&self, history: &History) {
        if let Some(context) = &self.folder_context {
            context.retain_sent(&contents_of(history.view()));
        }
        self.forget_editor_context();
    }
}

/// Returns the context usage of the next request.
pub(crate) fn usage(frame: &RequestFrame, history: &History) -> ContextUsed {
    ContextUsed { tokens: history.estimate(frame.fixed_tokens()), window: frame.limits.context }
}
