//! Loads the items of a resumed session from its journal.

use std::sync::Arc;

use parallax_sessions::past::PastItem;

use super::Transcript;
use super::answer::Answer;
use super::item::{Item, LocalItem, Shell};
use super::output::Output;
use super::picture::Shown;
use super::tool::Tool;
use super::words;

/// A command that the user ran in an earlier run of the session. If it did not end
/// normally, the first line of the model's text says how it ended.
fn shell(command: &str, output: String, code: Option<i32>) -> Shell {
    let mut shell = Shell { running: false, code, ..Shell::running(command) };
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
        within("Command did not start: ", "").map(|why| format!("failed to start: {why}"))
    };
    let shown = match note {
        None => output.as_str(),
        Some(_) if rest == "(Command produced no output)" => "",
        Some(_) => rest,
    };
    shell.output = Output::of(shown);
    shell.note = note;
    shell
}

impl Transcript {
    /// Adds the history of earlier runs. Nothing is rendered until it is shown.
    pub fn resume(&mut self, items: Vec<PastItem>) {
        let before = self.items.len();
        for item in items {
            let item = match item {
                PastItem::User { text, read, .. } => {
                    self.items.push(Item::user(text));
                    if read.is_empty() {
                        continue;
                    }
                    Item::from(LocalItem::Read(read))
                }
                PastItem::Steer { text } => Item::user(text),
                PastItem::Shell { command, output, code } => {
                    Item::Shell(Box::new(shell(&command, output, code)))
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

    /// Ends everything that is in progress because the session ended.
    pub fn end_session(&mut self) {
        self.in_turn = false;
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
