//! Loads the items of a resumed session from its contents.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parallax_protocol::content::{Content, PartView, Role};
use serde_json::Value;

use super::Transcript;
use super::answer::Answer;
use super::item::{Item, LocalItem};
use super::tool::Tool;

/// The markers of text that was prepended to the user's prompt.
const CONTEXT: &str = "<session_context>";
/// The markers around the contents of referenced files, which follow the prompt.
const FILES: (&str, &str) = ("\n--- Content from referenced files ---", "\n--- End of content ---");

impl Transcript {
    /// Adds the history of earlier runs of the session. Nothing is rendered until it is shown. Only
    /// the last `recent` items go to the scrollback.
    pub fn load(&mut self, contents: &[Content], recent: usize) {
        let begin = self.items.len();
        // Open calls by name, and by id if they have one.
        let mut calls: HashMap<String, VecDeque<usize>> = HashMap::new();
        for content in contents {
            // Pieces of an answer form one text; a user message consists of separate parts.
            let mut text = String::new();
            let mut in_files = false;
            for part in &content.parts {
                let view = part.view();
                if content.role == Role::User
                    && let PartView::Text(piece) = view
                {
                    in_files = (in_files || piece == FILES.0) && piece != FILES.1;
                    if !in_files && piece != FILES.1 && !piece.starts_with(CONTEXT) {
                        self.add_text(Role::User, piece.to_owned());
                    }
                    continue;
                }
                if let PartView::Text(piece) = view {
                    text.push_str(piece);
                    continue;
                }
                self.add_text(content.role, std::mem::take(&mut text));
                match view {
                    PartView::Thought(thought) => {
                        self.items.push(Item::Thought { text: thought.to_owned(), open: false });
                    }
                    PartView::Call(call) => {
                        let key = call.id.unwrap_or(call.name).to_owned();
                        calls.entry(key).or_default().push_back(self.items.len());
                        let tool = Tool::loaded(call.name, call.args);
                        self.items.push(Item::Tool(Box::new(tool)));
                    }
                    PartView::Response(response) => {
                        let key = response.id.unwrap_or(response.name);
                        let at = calls.get_mut(key).and_then(VecDeque::pop_front);
                        if let Some(Item::Tool(tool)) = at.and_then(|at| self.items.get_mut(at)) {
                            tool.respond(outcome(response.response));
                        }
                    }
                    PartView::Inline { mime_type, .. } => {
                        self.push(LocalItem::Hint(format!("with a file of type {mime_type}")));
                    }
                    _ => {}
                }
            }
            self.add_text(content.role, text);
        }
        let added = self.items.len() - begin;
        if added > recent && self.released == begin {
            self.released = self.items.len() - recent;
        }
    }

    fn add_text(&mut self, role: Role, text: String) {
        if text.trim().is_empty() {
            return;
        }
        self.items.push(match role {
            Role::User => Item::user(text),
            Role::Model => Item::Answer(Box::new(Answer::whole(Arc::new(text)))),
        });
    }
}

/// Returns the text of a response and whether it is an error.
fn outcome(response: Option<&Value>) -> (&str, bool) {
    let field = |name: &str| response.and_then(|response| response.get(name)?.as_str());
    match (field("error"), field("output")) {
        (Some(error), _) => (error, true),
        (None, output) => (output.unwrap_or(""), false),
    }
}
