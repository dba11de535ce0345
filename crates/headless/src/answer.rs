//! Extracts the model's answer from the events.

use std::sync::Arc;

use parallax_protocol::event::{Event, EventBody, ItemDone, ItemStart};
use parallax_protocol::ids::ItemId;

/// Meaning of an event for the answer text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TextStep<'a> {
    /// The event does not affect the answer.
    Other,
    /// A tool call or user message; later text belongs to a new message.
    Boundary,
    /// A text item begins.
    Begin,
    /// The text continues.
    More(&'a str),
    /// The text is complete.
    End {
        /// Text after the last delta.
        rest: &'a str,
        /// The whole text.
        full_text: &'a Arc<String>,
    },
    /// The text is invalid and will be sent again.
    Dropped {
        /// The part that was already sent.
        text: &'a str,
    },
}

/// Tracks text items. One is open at a time.
#[derive(Debug, Default)]
pub(crate) struct TextItems {
    open: Option<(ItemId, usize)>,
}

impl TextItems {
    /// Interprets the next event.
    pub(crate) fn read<'a>(&mut self, event: &'a Event) -> TextStep<'a> {
        match &event.body {
            EventBody::ItemStarted { item, start: ItemStart::Text } => {
                self.open = Some((item.clone(), 0));
                TextStep::Begin
            }
            EventBody::ItemStarted {
                start: ItemStart::Tool(_) | ItemStart::User { .. }, ..
            }
            | EventBody::TurnStarted { .. } => TextStep::Boundary,
            EventBody::ItemDelta { item, text } => match &mut self.open {
                Some((open, received)) if open == item => {
                    *received += text.len();
                    TextStep::More(text)
                }
                _ => TextStep::Other,
            },
            EventBody::ItemDone { item, done: ItemDone::Text { text, is_dropped } } => {
                let received = match self.open.take() {
                    Some((open, received)) if open == *item => received,
                    other => {
                        self.open = other;
                        0
                    }
                };
                if *is_dropped {
                    TextStep::Dropped { text: text.get(..received).unwrap_or(text) }
                } else {
                    TextStep::End { rest: text.get(received..).unwrap_or(""), full_text: text }
                }
            }
            _ => TextStep::Other,
        }
    }
}

/// The text of the model's last message. It is stored when complete and shared with the event, so
/// that an answer is never copied.
#[derive(Debug, Default)]
pub(crate) struct LastAnswer {
    items: TextItems,
    text: Arc<String>,
    is_final: bool,
}

impl LastAnswer {
    /// Processes the next event.
    pub(crate) fn event(&mut self, event: &Event) {
        match self.items.read(event) {
            TextStep::Other | TextStep::More(_) | TextStep::Dropped { .. } => {}
            // Cleared only when a new text begins, so that a run ending here keeps its answer.
            TextStep::Boundary => self.is_final = true,
            TextStep::Begin => {
                if std::mem::take(&mut self.is_final) {
                    self.text = Arc::default();
                }
            }
            TextStep::End { full_text, .. } if self.text.is_empty() => {
                self.text = Arc::clone(full_text)
            }
            TextStep::End { full_text, .. } => Arc::make_mut(&mut self.text).push_str(full_text),
        }
    }

    /// Returns the text so far.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}
