//! The sessions of a project, for lists and browsers.

use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::ids::SessionId;

use crate::history::{found, loaded};
use crate::launch::{Launch, failure};
use crate::past::{self, PastItem};

use parallax_store::Homes;
pub use parallax_store::{Origin, SessionEntry};

fn input(message: impl std::fmt::Display) -> Failure {
    failure(FailureKind::Input, message.to_string())
}

impl Launch {
    /// The sessions of this project, oldest first. Only heads and first prompts
    /// are read. Blocking.
    pub fn sessions(&self) -> Vec<SessionEntry> {
        parallax_store::list(&self.homes(), &self.options.directory)
    }

    /// A session of this project: `latest`, a number of the list, an id or the
    /// beginning of one. Blocking.
    ///
    /// # Errors
    /// When none or several fit.
    pub fn session(&self, selector: &str) -> Result<SessionEntry, Failure> {
        found(self, selector)
    }

    /// Deletes a session of this project and what belongs to it. Blocking.
    ///
    /// # Errors
    /// When there is no such session, or it is not ours or in use.
    pub fn delete_session(&self, selector: &str) -> Result<SessionEntry, Failure> {
        let homes = self.homes();
        let project = &self.options.directory;
        let entry = parallax_store::find_listed(&homes, project, selector).map_err(input)?;
        let id = SessionId::from(entry.id.as_str());
        let mut artifacts = parallax_store::belongings(&homes, project, &entry);
        artifacts.push(Homes::new(&homes.parallax, "").artifacts(project, &id).root().to_owned());
        parallax_store::delete(&homes, project, &entry, &artifacts).map_err(input)?;
        parallax_store::delete_mirrors(&homes, project, &entry.id);
        Ok(entry)
    }

    /// How many prompts and answers a session has. Reads the whole file: ask for
    /// what is on the screen. Blocking. `None` when it cannot be read.
    pub fn message_count(&self, entry: &SessionEntry) -> Option<usize> {
        parallax_store::count_messages(entry, &self.homes().keys)
    }

    /// What happened in the last prompts of a session, oldest first. Blocking.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn preview(&self, entry: &SessionEntry, prompts: usize) -> Result<Vec<PastItem>, Failure> {
        Ok(past::recent(&loaded(self, entry)?.records, prompts).0)
    }
}

/// The beginning of a text, at most so many bytes.
pub(crate) fn cut(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}
