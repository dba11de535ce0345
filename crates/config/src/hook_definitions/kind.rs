//! The kinds of hooks: a command for each event, one process for a whole session, or a built-in
//! action.

use std::path::PathBuf;

use parallax_protocol::code_text::{check_command, code_text};
use serde_json::Value;

/// How a hook runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum HookKind {
    /// A command that is started for each event.
    #[default]
    Command,
    /// A process that is started once and receives a line of JSON for each event.
    Process,
    /// Appends a line of JSON for each event to a file; `None` for the default file.
    Log(Option<PathBuf>),
    /// Notifies the user; with this text, if it is not empty.
    Notify(String),
    /// Invalid for this reason, and required (`failClosed`): the actions that it guards are denied.
    Invalid(String),
}

impl HookKind {
    /// Returns the word used in files and lists.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Process => "process",
            Self::Log(_) | Self::Notify(_) => "builtin",
            Self::Invalid(_) => "none",
        }
    }

    /// Reads `type` and its fields. Returns the kind and the command or its label.
    ///
    /// # Errors
    /// Returns the reason if the hook is invalid.
    pub(super) fn read(written: &Value) -> Result<(Self, String), String> {
        let text = |key: &str| written.get(key).and_then(Value::as_str).unwrap_or_default();
        let command = text("command").to_owned();
        let needed = || match command.trim().is_empty() {
            true => Err("`command` is missing".to_owned()),
            false => match check_command(&command) {
                Ok(()) => Ok(command.clone()),
                Err(reason) => Err(format!("the command `{}` {reason}", code_text(&command))),
            },
        };
        match written.get("type").and_then(Value::as_str) {
            Some("command") | None => Ok((Self::Command, needed()?)),
            Some("process") => Ok((Self::Process, needed()?)),
            Some("builtin") => match text("builtin") {
                "log" => {
                    let file = Some(text("file").trim()).filter(|file| !file.is_empty());
                    let shown = file.map_or("log".to_owned(), |file| format!("log {file}"));
                    Ok((Self::Log(file.map(PathBuf::from)), shown))
                }
                "notify" => Ok((Self::Notify(text("message").to_owned()), "notify".to_owned())),
                other => Err(format!("unknown `builtin` `{other}`: use `log` or `notify`")),
            },
            Some(super::MISPLACED) => {
                Err("it is not in a `hooks` list of an entry of its event".to_owned())
            }
            Some(other) => {
                Err(format!("unknown type `{other}`: use `command`, `process`, or `builtin`"))
            }
        }
    }
}
