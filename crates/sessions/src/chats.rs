//! Saved conversations, exported conversations, and the input history.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use parallax_protocol::content::SealedContent;
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::ids::SessionId;
use parallax_store::LoadedSession;

use crate::SessionLibrary;
use crate::export::{self, ExportFormat};
use crate::source::SessionSource;

use parallax_store::SavedChat;

fn input_failure(message: impl std::fmt::Display) -> Failure {
    Failure::new(FailureKind::Input, message.to_string())
}

impl SessionLibrary<'_> {
    /// Returns the saved conversations of this project, oldest first, including those saved by
    /// Gemini CLI. Blocking.
    pub fn chats(&self) -> Vec<SavedChat> {
        parallax_store::saved_chats(&self.dirs(), self.directory)
    }

    /// Returns whether a conversation is saved under this name.
    pub fn has_chat(&self, tag: &str) -> bool {
        self.find_chat(tag).is_ok()
    }

    /// Returns the conversation saved under a name. Import its file with
    /// [`crate::SessionChoice::Import`] to continue it. Blocking.
    ///
    /// # Errors
    /// Returns an error if it is not found.
    pub fn find_chat(&self, tag: &str) -> Result<SavedChat, Failure> {
        parallax_store::find_chat(&self.dirs(), self.directory, tag).map_err(input_failure)
    }

    /// Saves the current state of a session under a name and returns the file. Blocking.
    ///
    /// # Errors
    /// Returns an error if the name is invalid or (unless `replace`) taken, the session is empty,
    /// or the file cannot be written.
    pub fn save_chat(
        &self,
        session: &SessionId,
        tag: &str,
        replace: bool,
    ) -> Result<PathBuf, Failure> {
        let loaded = self.journal_of(session)?;
        let (dirs, project) = (self.dirs(), self.directory);
        parallax_store::save_chat(&dirs, project, tag, &loaded, replace).map_err(input_failure)
    }

    /// Deletes the conversation saved under a name. Blocking.
    ///
    /// # Errors
    /// Returns an error if it is not found or was saved by Gemini CLI.
    pub fn delete_chat(&self, tag: &str) -> Result<SavedChat, Failure> {
        parallax_store::delete_chat(&self.dirs(), self.directory, tag).map_err(input_failure)
    }

    /// Writes the conversation of a session: as Markdown (`.md`), as JSON contents (`.json`), as a
    /// web page (`.html`), or as a journal (`.jsonl`). Without a file name, writes
    /// `gemini-conversation-MILLISECONDS.json` to the working directory, the name that scripts for
    /// Gemini CLI expect. Does not overwrite files. Blocking.
    ///
    /// # Errors
    /// Returns an error if the file extension is unknown, the file exists, or the session is empty.
    pub fn share_chat(&self, session: &SessionId, file: Option<&str>) -> Result<PathBuf, Failure> {
        let file = match file.map(str::trim).filter(|file| !file.is_empty()) {
            Some(file) => self.config.expand_home(Path::new(file)),
            None => {
                let now = jiff::Timestamp::now().as_millisecond();
                PathBuf::from(format!("gemini-conversation-{now}.json"))
            }
        };
        let path = self.directory.join(file);
        let loaded = self.journal_of(session)?;
        let text = match ExportFormat::from_path(&path) {
            // Like Gemini CLI: only the contents sent to the model.
            Some(ExportFormat::Json) => contents_json(&loaded.contents),
            Some(form) => self.export_own(session, &loaded, form)?,
            None => {
                return Err(input_failure(format!(
                    "use a file name that ends in {}",
                    export::ENDINGS
                )));
            }
        };
        write_new(&path, &text)?;
        Ok(path)
    }

    /// Writes the complete record of a session in the format of the file extension; unknown
    /// extensions mean [`ExportFormat::Json`]. Blocking.
    ///
    /// # Errors
    /// Returns an error if the file exists or cannot be written, or the session is empty.
    pub fn export_session(&self, session: &SessionId, file: &str) -> Result<PathBuf, Failure> {
        let path = self.directory.join(self.config.expand_home(Path::new(file.trim())));
        let loaded = self.journal_of(session)?;
        let form = ExportFormat::from_path(&path).unwrap_or(ExportFormat::Json);
        write_new(&path, &self.export_own(session, &loaded, form)?)?;
        Ok(path)
    }

    fn export_own(
        &self,
        session: &SessionId,
        loaded: &LoadedSession,
        form: ExportFormat,
    ) -> Result<String, Failure> {
        export::export(loaded, &self.title_of(session), form, self.highlighter, || {
            SessionSource::for_running(self, self.directory, session).read_new()
        })
    }

    fn title_of(&self, session: &SessionId) -> String {
        let sessions = parallax_store::list(&self.dirs(), self.directory);
        let found = sessions.into_iter().find(|entry| entry.id == session.as_str());
        found.map(|entry| entry.title).unwrap_or_default()
    }

    /// Returns the last `limit` inputs in this project, oldest first, including those of Gemini
    /// CLI. Blocking.
    pub fn input_history(&self, limit: usize) -> Vec<String> {
        parallax_store::input_history(&self.dirs(), self.directory, limit)
    }

    /// Adds an input to the history. Blocks briefly.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn remember_input(&self, text: &str) -> Result<(), Failure> {
        parallax_store::remember_input(&self.dirs(), self.directory, text)
            .map_err(|error| input_failure(format!("failed to save the input history: {error}")))
    }

    /// Removes inputs from the history. Blocks briefly.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or written.
    pub fn forget_inputs(&self, texts: &[String]) -> Result<(), Failure> {
        parallax_store::forget_inputs(&self.dirs(), self.directory, texts)
            .map_err(|error| input_failure(format!("failed to delete the input history: {error}")))
    }

    /// Loads the journal of a Parallax session.
    fn journal_of(&self, session: &SessionId) -> Result<LoadedSession, Failure> {
        let path = self.dirs().journal(self.directory, session);
        if !path.exists() {
            return Err(input_failure("the conversation is empty: there is nothing to save"));
        }
        parallax_store::load(&path, &self.dirs().keys).map_err(input_failure)
    }
}

pub(crate) fn write_new(path: &Path, text: &str) -> Result<(), Failure> {
    use std::io::Write as _;
    let to_error = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            input_failure(format!("`{}` already exists: choose another name", path.display()))
        }
        _ => input_failure(format!("failed to write `{}`: {error}", path.display())),
    };
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path).map_err(to_error)?;
    file.write_all(text.as_bytes()).map_err(to_error)
}

/// Formats the contents byte for byte, one per line.
fn contents_json(contents: &[SealedContent]) -> String {
    let mut text = String::from("[");
    for (index, content) in contents.iter().enumerate() {
        let _ = write!(text, "{}\n{}", if index > 0 { "," } else { "" }, content.json());
    }
    text.push_str("\n]\n");
    text
}
