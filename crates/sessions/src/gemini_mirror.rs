//! Mirrors sessions in Gemini CLI's format and directory, for tools that read those.
//! `sessions.mirror` updates the mirror while a session runs, and an export writes all sessions.
//! This is the only exception to the rule that Parallax never writes to `~/.gemini`.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use parallax_protocol::store::{Record, Store, StoreError};

use crate::SessionLibrary;
use crate::transcript::{TranscriptConverter, TranscriptTarget};

/// The setting that enables the mirror.
pub const SETTING: &str = "sessions.mirror";

/// Minimum time between two updates of the mirror within a turn.
const INTERVAL: Duration = Duration::from_secs(1);

/// A journal that is mirrored as a Gemini CLI record: about once a second, and at the end of each
/// turn.
pub struct MirroredJournal {
    journal: Arc<dyn Store>,
    /// When the mirror was updated last.
    updated: Mutex<Option<Instant>>,
    /// `None`: the mirror cannot be written.
    mirror: Mutex<Option<TranscriptConverter>>,
    /// A problem that the user has not been notified of yet.
    problem: Mutex<Option<String>>,
}

impl Store for MirroredJournal {
    fn append(&self, record: &Record) -> Result<(), StoreError> {
        self.journal.append(record)?;
        let mut updated = self.updated.lock().unwrap_or_else(PoisonError::into_inner);
        if updated.is_some_and(|updated| updated.elapsed() < INTERVAL) {
            return Ok(());
        }
        *updated = Some(Instant::now());
        drop(updated);
        self.sync()
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.journal.sync()?;
        let mut mirror = self.mirror.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = mirror.as_mut().and_then(|mirror| mirror.update().err());
        // The session itself is saved; a failed mirror is only reported.
        if let Some(error) = failed {
            *mirror = None;
            *self.problem.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(write_problem(&error));
        }
        Ok(())
    }

    fn notice(&self) -> Option<String> {
        let problem = || self.problem.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.journal.notice().or_else(problem)
    }
}

/// Returns the journal, mirrored if the settings enable it. Encrypted sessions are not mirrored,
/// and the user is notified.
pub fn mirror(
    sessions: &SessionLibrary<'_>,
    journal: Arc<dyn Store>,
    path: PathBuf,
) -> Arc<dyn Store> {
    if sessions.config.settings.text(SETTING).as_deref() != Some("gemini") {
        return journal;
    }
    let dirs = sessions.dirs();
    let directory = parallax_store::gemini_folder(&dirs, sessions.directory);
    let problem = match dirs.keys.is_enabled() {
        true => {
            Some(format!("`{SETTING}` is off: sessions are encrypted, and a mirror would not be"))
        }
        false => parallax_store::claim_gemini_folder(&directory, sessions.directory)
            .err()
            .map(|error| write_problem(&format!("`{}`: {error}", directory.display()))),
    };
    let chats = TranscriptTarget::Chats(directory.join("chats"));
    let mirror = problem.is_none().then(|| TranscriptConverter::new(path, dirs.keys, chats));
    Arc::new(MirroredJournal {
        journal,
        updated: Mutex::default(),
        mirror: Mutex::new(mirror),
        problem: Mutex::new(problem),
    })
}

fn write_problem(error: &dyn std::fmt::Display) -> String {
    format!("`{SETTING}` is off for this session: failed to write its mirror: {error}")
}
