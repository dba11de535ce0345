//! What was said and done, as a list of items, and the rows they give.
//!
//! A [`Transcript`] is a fold of the engine's events. It is asked for rows in
//! three ways: those that are final, each once, for the scrollback
//! ([`Transcript::take_finished`]); those of what is under way
//! ([`Transcript::live`]); and any part of all of it ([`Transcript::page`]).
//!
//! Not here: keys, questions, the status row, and anything that draws.

mod agent_rows;
mod answer;
mod command_rows;
mod describe;
mod draw;
mod find;
mod fold;
mod heard;
mod item;
mod load;
mod output;
mod page;
mod past;
mod picture;
mod progress_row;
mod query;
mod read_group;
mod release;
mod source_rows;
mod tool;
mod tool_rows;
mod topic_rows;
mod words;

use std::collections::HashMap;
use std::sync::Arc;

use parallax_protocol::ids::{AskId, CallId, ItemId};

pub(crate) use describe::{display_name, without_verb};
pub use find::Needle;
pub use item::{LocalId, LocalItem};
pub use page::{Anchor, Page};
pub(crate) use picture::Prepared;

use draw::Shape;
use item::Item;
use page::Memory;

/// How much of the model's thoughts is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Thoughts {
    /// Nothing.
    Off,
    /// The subject, in one row.
    #[default]
    Subject,
    /// All of it.
    Full,
}

/// How items are shown. A change holds for rows that are made after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ViewOptions {
    /// The model's thoughts.
    pub thoughts: Thoughts,
    /// Numbers before lines of code.
    pub line_numbers: bool,
    /// For a screen reader: words instead of signs, no boxes.
    pub screen_reader: bool,
    /// The source of answers instead of what it means (Alt+M).
    pub raw_markdown: bool,
    /// Outputs and diffs in full, as far as they are kept (Ctrl+O).
    pub expanded: bool,
    /// Short results in boxes of their own, too, not in one row.
    pub whole_results: bool,
    /// Errors to their last line.
    pub whole_errors: bool,
    /// Nothing turns.
    pub still: bool,
}

/// All items of a session, in order.
#[derive(Debug, Default)]
pub struct Transcript {
    /// How items are shown.
    pub options: ViewOptions,
    items: Vec<Item>,
    /// Items that are open, by their ids.
    open: HashMap<ItemId, usize>,
    calls: HashMap<CallId, usize>,
    asks: HashMap<AskId, usize>,
    /// The first item of which not all rows were given out.
    released: usize,
    /// The last item that gave rows to the scrollback.
    last_shape: Option<Shape>,
    /// A turn runs: more calls may come.
    in_turn: bool,
    /// Calls that wait for approval have no row in [`Self::live`]: a dialog shows them.
    pub(crate) hides_asked: bool,
    retry: Option<words::Waiting>,
    /// The subject of the thought that the model is at.
    subject: Option<String>,
    memory: Memory,
    /// For those who listen.
    heard: heard::Heard,
    /// Texts on their way, and how they were typed where that differs.
    typed: Vec<(String, Arc<str>)>,
}

impl Transcript {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many items there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// What the model is thinking about, for the status row. Cleared when it
    /// speaks or acts.
    pub fn thought_subject(&self) -> Option<&str> {
        self.subject.as_deref()
    }

    /// Whether something is under way that [`Self::live`] shows with a clock or
    /// a turning sign.
    pub fn is_moving(&self) -> bool {
        self.retry.is_some() || self.items.iter().skip(self.released).any(Item::is_moving)
    }

    /// The wait before another attempt, with what is left of it, where
    /// [`Self::live`] does not show it.
    pub fn retry(&mut self, now_ms: u64) -> Option<String> {
        self.retry.as_mut().map(|retry| retry.text(now_ms))
    }

    /// Adds a local item after all existing items.
    pub fn push(&mut self, item: LocalItem) -> LocalId {
        self.items.push(Item::from(item));
        LocalId(self.items.len() - 1)
    }

    /// Adds what the user said, where no event tells it.
    pub fn push_user(&mut self, text: &str) {
        let typed = self.take_typed(text);
        self.items.push(Item::User { text: text.into(), typed });
    }

    /// More output of a command of [`LocalItem::ShellRunning`].
    pub fn shell_output(&mut self, id: LocalId, text: &str) {
        if let Some(Item::Shell(shell)) = self.items.get_mut(id.0) {
            shell.output.push(text);
        }
        self.memory.forget(id.0);
    }

    /// The end of such a command; `code` is `None` if a signal ended it.
    pub fn shell_done(&mut self, id: LocalId, code: Option<i32>) {
        if let Some(Item::Shell(shell)) = self.items.get_mut(id.0) {
            shell.running = false;
            shell.code = code;
        }
        self.memory.forget(id.0);
    }
}

#[cfg(test)]
mod tests;
