//! The transcript: a list of items built from engine events, and their rows.
//!
//! A [`Transcript`] returns rows in three ways: final rows for the scrollback, each once
//! ([`Transcript::take_finished`]); rows of unfinished items ([`Transcript::live`]); and any part
//! of the whole ([`Transcript::page`]).
//!
//! Keys, dialogs, the status row, and drawing are handled elsewhere.

mod agent_rows;
mod announcements;
mod answer;
mod call_arguments;
mod command_rows;
mod describe;
mod descriptions;
mod draw;
mod find;
mod fold;
mod image;
mod item;
mod item_rows;
mod output;
mod page;
mod pictures;
mod progress_row;
mod query;
mod read_group;
mod recorded_items;
mod release;
mod source_rows;
mod tool;
mod tool_rows;
mod topic_rows;

use std::collections::HashMap;
use std::sync::Arc;

use parallax_protocol::ids::{ApprovalId, CallId, ItemId};

pub(crate) use describe::{
    display_name, format_done, format_line_counts, title_in_words, without_verb,
};
pub use find::SearchNeedle;
pub(crate) use image::DecodedImage;
pub use item::{LocalId, LocalItem};
pub use page::{Anchor, Page};

use draw::ItemSpacing;
use item::Item;
use page::RowCache;

/// How much of the model's thoughts is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ThoughtDisplay {
    /// Nothing.
    Off,
    /// The subject in one row.
    #[default]
    Subject,
    /// The whole text.
    Full,
}

/// Display options of items. Changes apply to rows rendered later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ViewOptions {
    /// How much of the model's thoughts is shown.
    pub thoughts: ThoughtDisplay,
    /// Whether code has line numbers.
    pub line_numbers: bool,
    /// Whether to use words instead of symbols, and no boxes, for screen readers.
    pub screen_reader: bool,
    /// Whether to show the Markdown source of answers (Alt+M).
    pub raw_markdown: bool,
    /// Whether to show outputs and diffs in full, as far as they are kept (Ctrl+O).
    pub expanded: bool,
    /// Whether short results also get boxes instead of one row.
    pub boxes_results: bool,
    /// Whether to show errors in full.
    pub full_errors: bool,
    /// Whether to disable animations.
    pub is_static: bool,
}

/// All items of a session in order.
#[derive(Debug, Default)]
pub struct Transcript {
    /// The display options.
    pub options: ViewOptions,
    items: Vec<Item>,
    /// Unfinished items by id.
    open: HashMap<ItemId, usize>,
    calls: HashMap<CallId, usize>,
    pending_approvals: HashMap<ApprovalId, usize>,
    /// The first item whose rows were not all returned for the scrollback.
    committed_items: usize,
    /// The last item that returned rows for the scrollback.
    last_shape: Option<ItemSpacing>,
    /// Whether a turn is running, so that more calls may follow.
    in_turn: bool,
    /// Whether calls that wait for approval are omitted from [`Self::live`], because a dialog shows
    /// them.
    pub(crate) hides_pending_approval: bool,
    grammar_wait: GrammarWait,
    retry: Option<descriptions::RetryWait>,
    /// Whether the next prompt is a hook's and not the user's.
    is_continued_by_hook: bool,
    /// The subject of the model's current thought.
    subject: Option<String>,
    row_cache: RowCache,
    /// What was announced to the screen reader.
    announcer: announcements::CommandAnnouncer,
    /// Strings that were sent and not echoed yet, with their typed form if that differs.
    typed_forms: Vec<(String, Arc<str>)>,
}

/// Whether changes are held back until the grammars are loaded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum GrammarWait {
    #[default]
    Off,
    On,
    /// The session ends: output is no longer held back.
    Ended,
}

impl Transcript {
    /// Creates an empty transcript.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether the transcript is empty.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Sets whether changes are held back from the scrollback until the grammars are loaded. Rows in
    /// the scrollback stay as they are, without syntax colors if they are too early.
    pub(crate) fn wait_for_grammars(&mut self, waits: bool) {
        self.grammar_wait = match self.grammar_wait {
            GrammarWait::Ended => GrammarWait::Ended,
            _ if waits => GrammarWait::On,
            _ => GrammarWait::Off,
        };
    }

    /// Returns changes without syntax colors from now on, because the session ends.
    pub(crate) fn stop_waiting_for_grammars(&mut self) {
        self.grammar_wait = GrammarWait::Ended;
    }

    /// Returns the subject of the model's thought for the status row. Cleared when the model writes
    /// text or calls a tool.
    pub fn thought_subject(&self) -> Option<&str> {
        self.subject.as_deref()
    }

    /// Whether [`Self::live`] contains something animated.
    pub fn is_animated(&self) -> bool {
        self.retry.is_some() || self.items.iter().skip(self.committed_items).any(Item::is_animated)
    }

    /// Returns the text about the pending retry with the remaining time.
    pub fn retry(&mut self, now_ms: u64) -> Option<String> {
        self.retry.as_mut().map(|retry| retry.text(now_ms))
    }

    /// Adds a local item after all existing items.
    pub fn push(&mut self, item: LocalItem) -> LocalId {
        self.items.push(Item::from(item));
        LocalId(self.items.len() - 1)
    }

    /// Adds a user message that no event reports.
    pub fn push_user(&mut self, text: &str) {
        let typed_text = self.take_typed(text);
        self.items.push(Item::User { text: text.into(), typed_text });
    }

    /// Appends output of a command started with [`LocalItem::ShellRunning`].
    pub fn shell_output(&mut self, id: LocalId, text: &str) {
        if let Some(Item::Shell(shell)) = self.items.get_mut(id.0) {
            shell.output.push(text);
        }
        self.row_cache.remove(id.0);
    }

    /// Ends such a command; `code` is `None` if a signal ended it.
    pub fn shell_done(&mut self, id: LocalId, code: Option<i32>) {
        if let Some(Item::Shell(shell)) = self.items.get_mut(id.0) {
            shell.running = false;
            shell.code = code;
        }
        self.row_cache.remove(id.0);
    }
}

#[cfg(test)]
mod tests;
