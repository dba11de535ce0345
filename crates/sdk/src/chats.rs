//! Conversations under a name, conversations as files to give away, and what
//! was typed.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use parallax_protocol::content::Sealed;
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::ids::SessionId;
use parallax_store::LoadedSession;

use crate::export::{self, ExportForm};
use crate::launch::{Launch, failure};

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

    /// Writes a session's conversation: as Markdown (`.md`), as the bare contents
    /// (`.json`), as a page (`.html`) or as a journal (`.jsonl`); without a name
    /// as `gemini-conversation-MILLISECONDS.json` in the working folder, the name
    /// that scripts for Gemini CLI look for. A file that is there is not touched.
    /// Blocking.
    ///
    /// # Errors
    /// Another ending, a file that is there, an empty session.
    pub fn share_chat(&self, session: &SessionId, file: Option<&str>) -> Result<PathBuf, Failure> {
        let file = match file.map(str::trim).filter(|file| !file.is_empty()) {
            Some(file) => self.expand_home(Path::new(file)),
            None => {
                let now = jiff::Timestamp::now().as_millisecond();
                PathBuf::from(format!("gemini-conversation-{now}.json"))
            }
        };
        let path = self.options.directory.join(file);
        let loaded = self.journal_of(session)?;
        let text = match ExportForm::of_file(&path) {
            // As the reference writes it: what the model was told, and no more.
            Some(ExportForm::Json) => contents_json(&loaded.contents),
            Some(form) => {
                export::export(&loaded, &self.title_of(session), form, self.options.colourist)?
            }
            None => {
                return Err(input(format!(
                    "give the file a name that ends in {}",
                    export::ENDINGS
                )));
            }
        };
        write_new(&path, &text)?;
        Ok(path)
    }

    /// Writes the whole record of a session, in the form that the file's ending
    /// names; any other ending means [`ExportForm::Json`]. Blocking.
    ///
    /// # Errors
    /// A file that is there or cannot be written, an empty session.
    pub fn export_session(&self, session: &SessionId, file: &str) -> Result<PathBuf, Failure> {
        let path = self.options.directory.join(self.expand_home(Path::new(file.trim())));
        let loaded = self.journal_of(session)?;
        let form = ExportForm::of_file(&path).unwrap_or(ExportForm::Json);
        write_new(
            &path,
            &export::export(&loaded, &self.title_of(session), form, self.options.colourist)?,
        )?;
        Ok(path)
    }

    fn title_of(&self, session: &SessionId) -> String {
        let sessions = parallax_store::list(&self.homes(), &self.options.directory);
        let found = sessions.into_iter().find(|entry| entry.id == session.as_str());
        found.map(|entry| entry.title).unwrap_or_default()
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
        parallax_store::load(&path, &self.homes().keys).map_err(input)
    }
}

pub(crate) fn write_new(path: &Path, text: &str) -> Result<(), Failure> {
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
