//! Conversations under a name, conversations as files to give away, and what
//! was typed.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use parallax_protocol::content::Sealed;
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::ids::SessionId;
use parallax_store::LoadedSession;
use serde_json::{Value, json};

use crate::launch::{Launch, failure};
use crate::past::{self, PastItem};

pub use parallax_store::SavedChat;

fn input(message: impl std::fmt::Display) -> Failure {
    failure(FailureKind::Input, message.to_string())
}

impl Launch {
    /// The conversations of this project that have a name, the oldest first;
    /// those that Gemini CLI saved are among them. Blocking.
    pub fn chats(&self) -> Vec<SavedChat> {
        parallax_store::saved_chats(&self.homes(), &self.options.directory)
    }

    /// Whether there is one of that name.
    pub fn has_chat(&self, tag: &str) -> bool {
        self.find_chat(tag).is_ok()
    }

    /// The conversation of that name; [`crate::SessionChoice::Import`] with its
    /// file continues it. Blocking.
    ///
    /// # Errors
    /// When there is none.
    pub fn find_chat(&self, tag: &str) -> Result<SavedChat, Failure> {
        parallax_store::find_chat(&self.homes(), &self.options.directory, tag).map_err(input)
    }

    /// Saves a session as it is now under a name. Gives the file. Blocking.
    ///
    /// # Errors
    /// A name that cannot be used or (unless `replace`) is taken, an empty
    /// session, a file that cannot be written.
    pub fn save_chat(
        &self,
        session: &SessionId,
        tag: &str,
        replace: bool,
    ) -> Result<PathBuf, Failure> {
        let loaded = self.journal_of(session)?;
        let (homes, project) = (self.homes(), &self.options.directory);
        parallax_store::save_chat(&homes, project, tag, &loaded, replace).map_err(input)
    }

    /// Deletes a conversation of that name. Blocking.
    ///
    /// # Errors
    /// When there is none, or it is Gemini CLI's.
    pub fn delete_chat(&self, tag: &str) -> Result<SavedChat, Failure> {
        parallax_store::delete_chat(&self.homes(), &self.options.directory, tag).map_err(input)
    }

    /// Writes a session's conversation as Markdown (`.md`) or JSON (`.json`);
    /// without a name as `parallax-conversation-MILLISECONDS.json` in the
    /// working folder. A file that is there is not touched. Blocking.
    ///
    /// # Errors
    /// Another ending, a file that is there, an empty session.
    pub fn share_chat(&self, session: &SessionId, file: Option<&str>) -> Result<PathBuf, Failure> {
        let file = match file.map(str::trim).filter(|file| !file.is_empty()) {
            Some(file) => self.expand_home(Path::new(file)),
            None => {
                let now = jiff::Timestamp::now().as_millisecond();
                PathBuf::from(format!("parallax-conversation-{now}.json"))
            }
        };
        let path = self.options.directory.join(file);
        let ending = path.extension().and_then(|ending| ending.to_str()).map(str::to_lowercase);
        let loaded = self.journal_of(session)?;
        let text = match ending.as_deref() {
            Some("md") => markdown(&past::items(&loaded.records)),
            Some("json") => contents_json(&loaded.contents),
            _ => return Err(input("give the file a name that ends in `.md` or `.json`")),
        };
        write_new(&path, &text)?;
        Ok(path)
    }

    /// Writes the whole record of a session as one JSON document: the head, and
    /// all records in order. Blocking.
    ///
    /// # Errors
    /// A file that is there or cannot be written, an empty session.
    pub fn export_session(&self, session: &SessionId, file: &str) -> Result<PathBuf, Failure> {
        let path = self.options.directory.join(self.expand_home(Path::new(file.trim())));
        let loaded = self.journal_of(session)?;
        let head = &loaded.head;
        let facts = json!({
            "sessionId": head.session_id,
            "project": head.project,
            "startTime": head.start_time,
        });
        // Records hold raw JSON, which is copied as it stands.
        let wrong = |error: serde_json::Error| input(format!("cannot write the session: {error}"));
        let mut text = facts.to_string();
        text.truncate(text.len().saturating_sub(1));
        text.push_str(",\"records\":[");
        for (at, record) in loaded.records.iter().enumerate() {
            text.push_str(if at > 0 { ",\n" } else { "\n" });
            text.push_str(&serde_json::to_string(record).map_err(wrong)?);
        }
        text.push_str("\n]}\n");
        write_new(&path, &text)?;
        Ok(path)
    }

    /// What was typed in this project before, the oldest first, at most so many;
    /// what Gemini CLI remembers is among it. Blocking.
    pub fn input_history(&self, most: usize) -> Vec<String> {
        parallax_store::input_history(&self.homes(), &self.options.directory, most)
    }

    /// Remembers what was typed. Blocking, short.
    ///
    /// # Errors
    /// When the log cannot be written.
    pub fn remember_input(&self, text: &str) -> Result<(), Failure> {
        parallax_store::remember_input(&self.homes(), &self.options.directory, text)
            .map_err(|error| input(format!("what was typed is not remembered: {error}")))
    }

    /// Takes texts out of what is remembered. Blocking, short.
    ///
    /// # Errors
    /// When the log cannot be read or written.
    pub fn forget_inputs(&self, texts: &[String]) -> Result<(), Failure> {
        parallax_store::forget_inputs(&self.homes(), &self.options.directory, texts)
            .map_err(|error| input(format!("what was typed is still remembered: {error}")))
    }

    /// What the journal of a session of ours holds now.
    fn journal_of(&self, session: &SessionId) -> Result<LoadedSession, Failure> {
        let path = self.homes().journal(&self.options.directory, session);
        if !path.exists() {
            return Err(input("the conversation is empty: there is nothing to save"));
        }
        parallax_store::load(&path).map_err(input)
    }
}

fn write_new(path: &Path, text: &str) -> Result<(), Failure> {
    use std::io::Write as _;
    let wrong = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            input(format!("`{}` is there already: choose another name", path.display()))
        }
        _ => input(format!("cannot write `{}`: {error}", path.display())),
    };
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path).map_err(wrong)?;
    file.write_all(text.as_bytes()).map_err(wrong)
}

/// The contents byte for byte, one a line.
fn contents_json(contents: &[Sealed]) -> String {
    let mut text = String::from("[");
    for (at, content) in contents.iter().enumerate() {
        let _ = write!(text, "{}\n{}", if at > 0 { "," } else { "" }, content.json());
    }
    text.push_str("\n]\n");
    text
}

/// Prompts and answers as a document, calls as blocks of JSON.
pub fn markdown(items: &[PastItem]) -> String {
    let mut text = String::new();
    let mut speaker = "";
    for item in items {
        let now = match item {
            PastItem::User { .. } | PastItem::Steer { .. } => "USER",
            PastItem::Thought { .. } => continue,
            PastItem::Text { .. } | PastItem::Tool { .. } => "MODEL",
        };
        if now != speaker {
            if !speaker.is_empty() {
                text.push_str("---\n\n");
            }
            let _ = write!(text, "## {now}\n\n");
            speaker = now;
        }
        match item {
            PastItem::User { text: said, .. }
            | PastItem::Steer { text: said }
            | PastItem::Text { text: said, .. } => {
                let _ = write!(text, "{}\n\n", said.trim());
            }
            PastItem::Tool { name, args, status, output, .. } => {
                let call = json!({"tool": name, "args": args});
                let _ = write!(text, "{}\n\n", fenced(&call));
                if status.is_some() {
                    let answer = json!({"tool": name, "status": status, "output": output});
                    let _ = write!(text, "{}\n\n", fenced(&answer));
                }
            }
            PastItem::Thought { .. } => {}
        }
    }
    text
}

/// A block whose fence is longer than any in it.
fn fenced(value: &Value) -> String {
    let json = format!("{value:#}");
    let (mut longest, mut run) = (2, 0);
    for char in json.chars() {
        run = if char == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat(longest + 1);
    format!("{fence}json\n{json}\n{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_tells_who_spoke_and_no_output_ends_its_fence() {
        let user = |text: &str| PastItem::User {
            text: text.to_owned(),
            before: 0,
            turn: 1,
            read: Vec::new(),
            time: String::new(),
        };
        let items = [
            user("fix it"),
            PastItem::Thought { text: "hm".into() },
            PastItem::Tool {
                name: "read_file".into(),
                args: parallax_protocol::Object::new(),
                status: Some("success".into()),
                display: None,
                output: "````\nx".into(),
            },
            PastItem::Text { text: "done".into(), partial: false },
            user("thanks"),
        ];
        let text = markdown(&items);
        assert!(text.starts_with("## USER\n\nfix it\n\n---\n\n## MODEL\n\n```json\n"), "{text}");
        assert!(text.contains("\n`````json\n") && !text.contains("hm"), "{text}");
        assert!(text.ends_with("done\n\n---\n\n## USER\n\nthanks\n\n"), "{text}");
    }
}
