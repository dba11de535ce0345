//! The model's answer text, out of the events.

use std::sync::Arc;

use parallax_protocol::event::{Event, EventBody, ItemDone, ItemStart};
use parallax_protocol::ids::ItemId;

/// What an event means for the answer text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TextStep<'a> {
    /// Nothing.
    Other,
    /// A tool runs or a user message arrives: later text is another message.
    Boundary,
    /// A text begins.
    Begin,
    /// It grows.
    More(&'a str),
    /// It is final.
    End {
        /// Text behind the last delta.
        rest: &'a str,
        /// All of it.
        whole: &'a Arc<String>,
    },
    /// The text is invalid: what it contributed will be sent again.
    Dropped {
        /// What it contributed.
        text: &'a str,
    },
}

/// Follows the text items. One is open at a time.
#[derive(Debug, Default)]
pub(crate) struct TextItems {
    open: Option<(ItemId, usize)>,
}

impl TextItems {
    /// Reads the next event.
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
            EventBody::ItemDone { item, done: ItemDone::Text { text, dropped } } => {
                let received = match self.open.take() {
                    Some((open, received)) if open == *item => received,
                    other => {
                        self.open = other;
                        0
                    }
                };
                if *dropped {
                    TextStep::Dropped { text: text.get(..received).unwrap_or(text) }
                } else {
                    TextStep::End { rest: text.get(received..).unwrap_or(""), whole: text }
                }
            }
            _ => TextStep::Other,
        }
    }
}

/// The text of the last message of the model. It is taken when it is final,
/// and shared with the event: an answer is never copied for it.
#[derive(Debug, Default)]
pub(crate) struct LastAnswer {
    items: TextItems,
    text: Arc<String>,
    over: bool,
}

impl LastAnswer {
    /// Takes the next event.
    pub(crate) fn event(&mut self, event: &Event) {
        match self.items.read(event) {
            TextStep::Other | TextStep::More(_) | TextStep::Dropped { .. } => {}
            // Cleared only by the next text: a run that ends here keeps it.
            TextStep::Boundary => self.over = true,
            TextStep::Begin => {
                if std::mem::take(&mut self.over) {
                    self.text = Arc::default();
                }
            }
            TextStep::End { whole, .. } if self.text.is_empty() => self.text = Arc::clone(whole),
            TextStep::End { whole, .. } => Arc::make_mut(&mut self.text).push_str(whole),
        }
    }

    /// The text so far.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}
