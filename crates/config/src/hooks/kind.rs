//! How hooks are run: a command for each event, one process for all of a session,
//! or something that the program does itself.

use std::path::PathBuf;

use parallax_protocol::code_text::{check_command, code_text};
use serde_json::Value;

/// How a hook is run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum HookKind {
    /// A command that is started for each event.
    #[default]
    Command,
    /// A command that is started once and gets a line of JSON for each event.
    Process,
    /// A line of JSON for each event goes to a file; none: the program's own.
    Log(Option<PathBuf>),
    /// People are told; with these words, if there are some.
    Notify(String),
    /// It cannot be run, for this reason, and must agree (`failClosed`): what it
    /// guards is refused.
    Broken(String),
}

impl HookKind {
    /// The word for it in files and lists.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Process => "process",
            Self::Log(_) | Self::Notify(_) => "builtin",
            Self::Broken(_) => "none",
        }
    }

    /// Reads `type` and what belongs to it; with what stands for the command.
    ///
    /// # Errors
    /// Why it is none.
    pub(super) fn read(written: &Value) -> Result<(Self, String), String> {
        let text = |key: &str| written.get(key).and_then(Value::as_str).unwrap_or_default();
        let command = text("command").to_owned();
        let needed = || match command.trim().is_empty() {
            true => Err("its `command` is missing".to_owned()),
            false => match check_command(&command) {
                Ok(()) => Ok(command.clone()),
                Err(why) => Err(format!("its command `{}` {why}", code_text(&command))),
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
                other => Err(format!("its `builtin` `{other}` is neither `log` nor `notify`")),
            },
            Some(super::MISPLACED) => {
                Err("it does not stand in a list `hooks` of an entry of its event".to_owned())
            }
            Some(other) => {
                Err(format!("its type `{other}` is not `command`, `process` or `builtin`"))
            }
        }
    }
}
