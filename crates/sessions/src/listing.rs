//! The sessions of a project, for lists and browsers.

use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::ids::SessionId;
use parallax_protocol::store::Record;

use crate::SessionLibrary;
use crate::history::{find_session, load_session};
use crate::recorded_items::{self, RecordedItem};

use parallax_store::SessionDirs;
use parallax_store::SessionEntry;

/// Returns how the last turn of a session ended, by its records and whether it was cut off.
pub fn last_turn(records: &[Record], is_cut_off: bool) -> String {
    if is_cut_off {
        return "cut_off".to_owned();
    }
    let ended = records.iter().rev().find_map(|record| match record {
        Record::TurnEnd { reason, .. } => Some(reason.clone()),
        _ => None,
    });
    ended.unwrap_or_else(|| "none".to_owned())
}

fn input_failure(message: impl std::fmt::Display) -> Failure {
    Failure::new(FailureKind::Input, message.to_string())
}

impl SessionLibrary<'_> {
    /// Returns the sessions of this project, oldest first. Reads only headers and first prompts.
    /// Blocking.
    pub fn sessions(&self) -> Vec<SessionEntry> {
        parallax_store::list(&self.dirs(), self.directory)
    }

    /// Returns a session of this project: `latest`, a number of the list, an id, or an id prefix.
    /// Blocking.
    ///
    /// # Errors
    /// Returns an error if no session or several sessions match.
    pub fn session(&self, selector: &str) -> Result<SessionEntry, Failure> {
        find_session(self, selector)
    }

    /// Returns how the last turn of a session of this project ended ([`Record::TurnEnd`]):
    /// `cut_off` if it was interrupted by the end of its process, `none` before the first one. Also
    /// returns its entry in the list. Blocking.
    ///
    /// # Errors
    /// Returns an error if the session is not found or cannot be read.
    pub fn last_turn(&self, id: &str) -> Result<(String, SessionEntry), Failure> {
        let entry = find_session(self, id)?;
        let loaded = load_session(self, &entry)?;
        Ok((last_turn(&loaded.records, loaded.was_interrupted), entry))
    }

    /// Deletes a session of this project with its artifacts. Blocking.
    ///
    /// # Errors
    /// Returns an error if the session is not found, belongs to another program, or is in use.
    pub fn delete_session(&self, selector: &str) -> Result<SessionEntry, Failure> {
        let dirs = self.dirs();
        let project = self.directory;
        let entry = parallax_store::find_listed(&dirs, project, selector).map_err(input_failure)?;
        self.delete_entry(entry)
    }

    /// Deletes a session of any project.
    ///
    /// # Errors
    /// Returns an error if the session is in use or cannot be deleted.
    pub fn delete_entry(&self, entry: SessionEntry) -> Result<SessionEntry, Failure> {
        let dirs = self.dirs();
        let project = match entry.project.as_os_str().is_empty() {
            true => self.directory,
            false => &entry.project,
        };
        let id = SessionId::from(entry.id.as_str());
        let mut artifacts = parallax_store::associated_paths(&dirs, project, &entry);
        artifacts
            .push(SessionDirs::new(&dirs.parallax, "").artifacts(project, &id).root().to_owned());
        parallax_store::delete(&dirs, project, &entry, &artifacts).map_err(input_failure)?;
        parallax_store::delete_mirrors(&dirs, project, &entry.id);
        Ok(entry)
    }

    /// Returns the number of prompts and answers of a session; `None` if it cannot be read.
    /// Blocking: reads the whole file, so call it only for visible sessions.
    pub fn message_count(&self, entry: &SessionEntry) -> Option<usize> {
        parallax_store::count_messages(entry, &self.dirs().keys)
    }

    /// Returns the items of the last prompts of a session, oldest first. Blocking.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn preview(
        &self,
        entry: &SessionEntry,
        prompts: usize,
    ) -> Result<Vec<RecordedItem>, Failure> {
        Ok(recorded_items::items_of_recent_prompts(&load_session(self, entry)?.records, prompts).0)
    }
}

/// Truncates text to `limit` bytes.
pub fn truncate(text: &str, limit: usize) -> &str {
    let mut end = text.len().min(limit);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}
