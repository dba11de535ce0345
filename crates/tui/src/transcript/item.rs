//! The items of a transcript.

use std::sync::Arc;

use parallax_protocol::event::{Level, ShellDone};
use parallax_protocol::model::Citation;
use parallax_protocol::shell::ShellEnding;
use parallax_screen::Line;

use super::answer::Answer;
use super::image::TranscriptImage;
use super::output::CommandOutput;
use super::tool::Tool;

/// An item added by the front end.
#[derive(Debug, Clone)]
pub enum LocalItem {
    /// Ready rows, such as the session header or the output of a slash command. They are cut to the
    /// width.
    Rows(Vec<Line>),
    /// A message from the user that no event reports.
    User(String),
    /// A finished shell mode command with its output and exit code (`None`: ended by a signal).
    Shell {
        /// The command line.
        command: String,
        /// The output with colors.
        output: String,
        /// The exit code.
        code: Option<i32>,
    },
    /// A running shell mode command.
    ShellRunning {
        /// The command line.
        command: String,
    },
    /// A notice for the user.
    Notice {
        /// The severity.
        level: Level,
        /// The text.
        text: String,
    },
    /// The history was compacted: tokens before and after.
    Compressed {
        /// Tokens before.
        before: u64,
        /// Tokens after.
        after: u64,
    },
    /// The model changed.
    ModelChanged {
        /// The name of the new model.
        model: String,
    },
    /// A hook sent the agent back to work.
    Continued(String),
    /// Files that were read for a prompt.
    Read(Vec<String>),
    /// The sources of an answer.
    Sources(Vec<Citation>),
    /// A steering message for the running turn.
    Hint(String),
    /// The end of a turn: duration, cost, and time.
    TurnEnd(String),
    /// A row for screen readers only.
    Announcement(String),
}

/// A handle for changing a local item later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalId(pub(super) usize);

/// An item.
#[derive(Debug)]
pub(super) enum Item {
    User {
        text: Arc<str>,
        /// The text as typed, with labels for pasted text, if that differs.
        typed_text: Option<Arc<str>>,
    },
    Answer(Box<Answer>),
    Thought {
        text: String,
        open: bool,
    },
    Tool(Box<Tool>),
    Shell(Box<ShellItem>),
    Notice {
        level: Level,
        text: Arc<str>,
    },
    /// One row with a marker.
    Remark {
        marker: &'static str,
        label: &'static str,
        text: Arc<str>,
    },
    Rows(Arc<[Line]>),
    Sources(Arc<[Citation]>),
    Picture(Box<TranscriptImage>),
    TurnEnd(Arc<str>),
    Announcement(Arc<str>),
}

/// A shell command of the user.
#[derive(Debug)]
pub(super) struct ShellItem {
    pub(super) command: Arc<str>,
    pub(super) output: CommandOutput,
    pub(super) code: Option<i32>,
    pub(super) running: bool,
    /// When it was first shown as running.
    pub(super) since_ms: Option<u64>,
    /// A note about its end.
    pub(super) note: Option<String>,
    /// If a screen reader announced the start: what it had not announced before the end.
    pub(super) unannounced_lines: Option<Vec<String>>,
}

impl ShellItem {
    pub(super) fn running(command: &str) -> Self {
        Self {
            command: command.into(),
            output: CommandOutput::default(),
            code: None,
            running: true,
            since_ms: None,
            note: None,
            unannounced_lines: None,
        }
    }

    /// Starts the clock when the command is first shown as running.
    pub(super) fn start_clock(&mut self, now_ms: u64) {
        if self.running {
            self.since_ms.get_or_insert(now_ms);
        }
    }

    pub(super) fn end(&mut self, done: &ShellDone) {
        self.running = false;
        if !matches!(done.ending, ShellEnding::Background { .. }) || !done.output.is_empty() {
            self.output = CommandOutput::from_text(&done.output);
        }
        let mut notes = Vec::new();
        self.code = match &done.ending {
            ShellEnding::Exited { code } => Some(*code),
            ShellEnding::Signalled { signal } => {
                notes.push(format!("terminated by signal {signal}"));
                None
            }
            ShellEnding::Cancelled => {
                notes.push("stopped by you".to_owned());
                None
            }
            ShellEnding::Background { pid } => {
                notes.push(format!("running in the background as process {pid}; /shells shows it"));
                Some(0)
            }
            ShellEnding::Failed { message } => {
                notes.push(format!("failed to start: {message}"));
                None
            }
        };
        if let Some(directory) = &done.directory {
            notes.push(format!(
                "the next command starts in the project directory again, not in {}",
                directory.display()
            ));
        }
        self.note = (!notes.is_empty()).then(|| notes.join("; "));
    }
}

impl Item {
    pub(super) fn user(text: impl Into<Arc<str>>) -> Self {
        Self::User { text: text.into(), typed_text: None }
    }

    /// Whether the rows can still change.
    pub(super) fn is_open(&self) -> bool {
        match self {
            Self::Answer(answer) => answer.is_open(),
            Self::Thought { open, .. } => *open,
            Self::Tool(tool) => tool.is_open(),
            Self::Shell(shell) => shell.running,
            Self::Picture(shown) => shown.is_open(),
            _ => false,
        }
    }

    pub(super) fn is_animated(&self) -> bool {
        match self {
            Self::Tool(tool) => tool.is_animated(),
            Self::Shell(shell) => shell.running,
            _ => false,
        }
    }

    pub(super) fn notice(level: Level, text: impl Into<Arc<str>>) -> Self {
        Self::Notice { level, text: text.into() }
    }
}

impl From<LocalItem> for Item {
    fn from(item: LocalItem) -> Self {
        match item {
            LocalItem::Rows(rows) => Self::Rows(rows.into()),
            LocalItem::User(text) => Self::user(text),
            LocalItem::Shell { command, output, code } => {
                let output = CommandOutput::from_text(&output);
                let running = ShellItem::running(&command);
                Self::Shell(Box::new(ShellItem { output, code, running: false, ..running }))
            }
            LocalItem::ShellRunning { command } => {
                Self::Shell(Box::new(ShellItem::running(&command)))
            }
            LocalItem::Notice { level, text } => Self::notice(level, text),
            LocalItem::Compressed { before, after } => Self::Remark {
                marker: "✦",
                label: "Compressed:",
                text: format!("Chat history compressed from {before} to {after} tokens").into(),
            },
            LocalItem::Continued(text) => {
                Self::Remark { marker: crate::tokens::RETRY, label: "Hook:", text: text.into() }
            }
            LocalItem::ModelChanged { model } => Self::Remark {
                marker: "⇄",
                label: "Model changed:",
                text: format!("Responding with {model}").into(),
            },
            LocalItem::Read(names) => Self::Remark {
                marker: crate::tokens::ATTACHED,
                label: "Read:",
                text: read_text(&names).into(),
            },
            LocalItem::Sources(sources) => Self::Sources(sources.into()),
            LocalItem::TurnEnd(text) => Self::TurnEnd(text.into()),
            LocalItem::Announcement(text) => Self::Announcement(text.into()),
            LocalItem::Hint(text) => {
                Self::Remark { marker: crate::tokens::ATTACHED, label: "Hint:", text: text.into() }
            }
        }
    }
}

/// Returns the names of files, limited to the first few.
fn read_text(names: &[String]) -> String {
    const MAX_SHOWN: usize = 6;
    let mut text =
        format!("read {}", names.iter().take(MAX_SHOWN).cloned().collect::<Vec<_>>().join(", "));
    if names.len() > MAX_SHOWN {
        text.push_str(&format!(" and {} more", names.len() - MAX_SHOWN));
    }
    text
}
