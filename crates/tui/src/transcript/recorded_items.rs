//! Loads the items of a resumed session from its contents or its journal.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parallax_protocol::content::{Content, PartView, Role};
use parallax_sessions::recorded_items::RecordedItem;
use serde_json::Value;

use super::Transcript;
use super::answer::Answer;
use super::descriptions;
use super::image::TranscriptImage;
use super::item::{Item, LocalItem, ShellItem};
use super::output::CommandOutput;
use super::tool::Tool;

/// The markers of text that was prepended to the user's prompt.
const CONTEXT: &str = "<session_context>";
/// The markers around the contents of referenced files, which follow the prompt.
const FILES: (&str, &str) = ("\n--- Content from referenced files ---", "\n--- End of content ---");

/// Returns a command that the user ran in an earlier run of the session. If it did not end
/// normally, the first line of the model's text says how it ended.
fn shell(command: &str, output: String, code: Option<i32>) -> ShellItem {
    let mut shell = ShellItem { running: false, code, ..ShellItem::running(command) };
    let (first, rest) = output.split_once('\n').unwrap_or((&output, ""));
    let within = |start: &str, end: &str| first.strip_prefix(start)?.strip_suffix(end);
    let note = if code.is_some() {
        None
    } else if let Some(pid) = within("Command moved to background (PID: ", ").") {
        shell.code = Some(0);
        Some(format!("moved to the background as process {pid}"))
    } else if let Some(signal) = within("Command terminated by signal ", ".") {
        Some(format!("terminated by signal {signal}"))
    } else if first == "Command was cancelled." {
        Some("stopped by you".to_owned())
    } else {
        within("Command did not start: ", "").map(|reason| format!("failed to start: {reason}"))
    };
    let shown = match note {
        None => output.as_str(),
        Some(_) if rest == "(Command produced no output)" => "",
        Some(_) => rest,
    };
    shell.output = CommandOutput::from_text(shown);
    shell.note = note;
    shell
}

/// Number of lines shown of a prompt unless it is expanded.
const PROMPT_LINES: usize = 30;

/// Returns the item of a recorded prompt, which contains the complete pasted text.
fn prompt(text: String, labeled_text: Option<String>) -> Item {
    if let Some(labeled) = labeled_text {
        return Item::User { text: text.into(), typed_text: Some(labeled.into()) };
    }
    let hidden = text.trim_end().lines().count().saturating_sub(PROMPT_LINES);
    // A single line takes as much space as the note.
    let end = text.match_indices('\n').nth(PROMPT_LINES - 1).filter(|_| hidden > 1);
    let shown = end.and_then(|(end, _)| text.get(..end));
    let typed_text = shown.map(|shown| format!("{shown}\n[… {hidden} more lines]").into());
    Item::User { text: text.into(), typed_text }
}

impl Transcript {
    /// Adds the history of earlier runs of the session. Nothing is rendered until it is shown. Only
    /// the last `recent` items go to the scrollback.
    pub fn load(&mut self, contents: &[Content], recent: usize) {
        let start = self.items.len();
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
                        let tool = Tool::from_history(call.name, call.args);
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
        let added = self.items.len() - start;
        if added > recent && self.committed_items == start {
            self.committed_items = self.items.len() - recent;
        }
    }

    fn add_text(&mut self, role: Role, text: String) {
        if text.trim().is_empty() {
            return;
        }
        self.items.push(match role {
            Role::User => prompt(text, None),
            Role::Model => Item::Answer(Box::new(Answer::complete(Arc::new(text)))),
        });
    }

    /// Adds the history of earlier runs. Nothing is rendered until it is shown.
    pub fn resume(&mut self, items: Vec<RecordedItem>) {
        let before = self.items.len();
        for item in items {
            let item = match item {
                RecordedItem::User { text, labeled_text, read, .. } => {
                    self.items.push(prompt(text, labeled_text));
                    if read.is_empty() {
                        continue;
                    }
                    Item::from(LocalItem::Read(read))
                }
                RecordedItem::Continued(continuation) => {
                    Item::from(LocalItem::Continued(continuation.to_string()))
                }
                RecordedItem::Steer { text } => prompt(text, None),
                RecordedItem::Shell { command, output, code } => {
                    Item::Shell(Box::new(shell(&command, output, code)))
                }
                RecordedItem::Thought { text } => Item::Thought { text, open: false },
                RecordedItem::Text { text, .. } => {
                    Item::Answer(Box::new(Answer::complete(Arc::new(text))))
                }
                RecordedItem::Tool { name, args, status, display, output, details } => {
                    let mut tool = Tool::from_history(&name, Some(&args));
                    if let Some(status) = status {
                        let display = display.and_then(|shown| serde_json::from_value(shown).ok());
                        tool.restore(&status, display.as_ref(), &output, details.as_deref());
                    }
                    Item::Tool(Box::new(tool))
                }
                RecordedItem::Image(image) => Item::Picture(Box::new(TranscriptImage::new(image))),
                RecordedItem::Ended { reason, detail } => {
                    match descriptions::describe_recorded_end(&reason, detail.as_deref()) {
                        Some((level, text)) => Item::notice(level, text),
                        None => continue,
                    }
                }
            };
            self.items.push(item);
        }
        self.skip_old_images(before);
    }

    /// Ends everything that is in progress because the session ended.
    pub fn end_session(&mut self) {
        self.in_turn = false;
        self.close_open();
        self.stop_waiting_for_images();
        for item in &mut self.items {
            if let Item::Shell(shell) = item {
                shell.running = false;
            }
        }
        self.open.clear();
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
