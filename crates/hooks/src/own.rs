//! Built-in hook types: writing a log and notifying the user.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use parallax_config::hooks::Hook;
use parallax_protocol::Object;
use parallax_protocol::event::Level;

use crate::result::{HookResult, sanitize};
use crate::{HookContext, message};

/// Maximum size of a log in bytes. A larger log is renamed to `.old` and a new one begins.
const MAX_BYTES: u64 = 10 * 1024 * 1024;
/// Maximum length in bytes of a notification text.
const WORDS: usize = 500;

/// Returns the result of a hook that notifies the user.
pub(crate) fn notification_result(hook: &Hook, words: &str, subject: &str) -> HookResult {
    let event = hook.event.as_str();
    let text = match (words.trim(), subject) {
        ("", "") => event.to_owned(),
        ("", subject) => format!("{event}: {}", sanitize(subject, WORDS)),
        (words, _) => sanitize(words, WORDS),
    };
    HookResult { messages: vec![message(hook, Level::Info, &text)], ..HookResult::default() }
}

impl HookContext {
    /// Appends an event to a log as one line.
    pub(crate) async fn write_log(
        &self,
        hook: &Hook,
        file: Option<&Path>,
        input: Object,
    ) -> HookResult {
        let path = match file {
            None => self.log.clone(),
            Some(file) => self.project.join(self.expand_home(file)),
        };
        let display_path = path.display().to_string();
        let append_task = tokio::task::spawn_blocking(move || append(&path, &input));
        match append_task.await {
            Ok(Ok(())) => HookResult::default(),
            Ok(Err(error)) => HookResult::from_failure(hook, &format!("`{display_path}`: {error}")),
            Err(error) => HookResult::from_failure(hook, &error.to_string()),
        }
    }

    /// Expands a leading `~`.
    fn expand_home(&self, path: &Path) -> PathBuf {
        let variables = self.shell.environment().variables;
        let home = || variables.iter().find(|it| it.0 == "HOME").map(|it| PathBuf::from(&it.1));
        match path.strip_prefix("~") {
            Ok(rest) => home().map_or_else(|| path.to_owned(), |home| home.join(rest)),
            Err(_) => path.to_owned(),
        }
    }
}

/// Appends a line of JSON to a file that only the user can read. Blocking.
pub(crate) fn append(path: &Path, line: &impl serde::Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    let mut file = open(path)?;
    if file.metadata()?.len() > MAX_BYTES {
        let mut old = path.as_os_str().to_owned();
        old.push(".old");
        std::fs::rename(path, old)?;
        file = open(path)?;
    }
    // A single write, so that lines of several sessions do not mix.
    file.write_all(&text)
}

fn open(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    if let Some(folder) = path.parent() {
        parallax_exec::create_private_folder(folder)?;
    }
    // Opening a named pipe would block the session.
    if path.metadata().is_ok_and(|metadata| !metadata.is_file()) {
        return Err(io::Error::other("not a regular file"));
    }
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}
