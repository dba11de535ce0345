//! The items of a session that goes on, as its journal tells them.

use std::sync::Arc;

use parallax_sdk::past::PastItem;

use super::Transcript;
use super::answer::Answer;
use super::item::{Item, LocalItem};
use super::picture::Shown;
use super::tool::Tool;
use super::words;

impl Transcript {
    /// Adds what happened in earlier runs. Nothing is rendered until it is seen.
    pub fn resume(&mut self, items: Vec<PastItem>) {
        let before = self.items.len();
        for item in items {
            let item = match item {
                PastItem::User { text, read, .. } => {
                    self.items.push(Item::User(text.into()));
                    if read.is_empty() {
                        continue;
                    }
                    Item::from(LocalItem::Read(read))
                }
                PastItem::Steer { text } => Item::User(text.into()),
                PastItem::Shell { command, output, code } => {
                    Item::from(LocalItem::Shell { command, output, code })
                }
                PastItem::Thought { text } => Item::Thought { text, open: false },
                PastItem::Text { text, .. } => {
                    Item::Answer(Box::new(Answer::whole(Arc::new(text))))
                }
                PastItem::Tool { name, args, status, display, output, told } => {
                    let mut tool = Tool::loaded(&name, Some(&args));
                    if let Some(status) = status {
                        let display = display.and_then(|shown| serde_json::from_value(shown).ok());
                        tool.recall(&status, display.as_ref(), &output, told.as_deref());
                    }
                    Item::Tool(Box::new(tool))
                }
                PastItem::Image(image) => Item::Picture(Box::new(Shown::new(image))),
                PastItem::Ended { reason, detail } => {
                    match words::ended_before(&reason, detail.as_deref()) {
                        Some((level, text)) => Item::notice(level, text),
                        None => continue,
                    }
                }
            };
            self.items.push(item);
        }
        self.settle_old_pictures(before);
    }

    /// The session is over: nothing of it is under way any more.
    pub fn end_session(&mut self) {
        self.close_open();
        self.settle_pictures();
        for item in &mut self.items {
            if let Item::Shell(shell) = item {
                shell.running = false;
            }
        }
        self.open.clear();
    }
}
