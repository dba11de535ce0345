//! The records of a session for the page: those of its journal, and those that are added.

use std::io;
use std::path::Path;

use parallax_protocol::event::Failure;
use parallax_protocol::ids::SessionId;
use parallax_store::{JournalTail, SessionEntry, SessionOrigin};

use crate::SessionLibrary;
use crate::history::load_session;
use crate::journal_text::journal_text;

/// A session cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The file of another program cannot be read.
    #[error(transparent)]
    Load(#[from] Failure),
    /// The journal cannot be read.
    #[error("Failed to read the session: {0}")]
    Read(#[from] io::Error),
}

/// Reads the records of a session as JSON lines.
pub struct SessionSource {
    journal: Option<JournalTail>,
    /// The whole record of a session that another program recorded.
    imported: String,
}

impl SessionSource {
    /// Opens the source. The first call of [`SessionSource::read_new`] returns its first lines.
    /// Blocking.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn open(library: &SessionLibrary<'_>, entry: &SessionEntry) -> Result<Self, SourceError> {
        if entry.origin == SessionOrigin::Parallax {
            let journal = JournalTail::new(entry.path.clone(), library.dirs().keys);
            return Ok(Self { journal: Some(journal), imported: String::new() });
        }
        let session = load_session(library, entry)?;
        let imported = journal_text(&session).map_err(io::Error::from)?;
        Ok(Self { journal: None, imported })
    }

    /// Opens the source of a running session of a project, which may have no journal yet.
    pub fn for_running(library: &SessionLibrary<'_>, project: &Path, id: &SessionId) -> Self {
        let dirs = library.dirs();
        let path = dirs.journal(project, id);
        Self { journal: Some(JournalTail::new(path, dirs.keys)), imported: String::new() }
    }

    /// Returns the lines since the last call. Blocking.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be read.
    pub fn read_new(&mut self) -> Result<String, SourceError> {
        let mut text = std::mem::take(&mut self.imported);
        if let Some(journal) = &mut self.journal {
            journal.lines(|line| {
                // A line that is not text is damaged: the page could not show it.
                if let Ok(line) = std::str::from_utf8(line) {
                    text.push_str(line);
                }
                Ok(())
            })?;
        }
        Ok(text)
    }
}
