//! Undo from outside a session: reverts file changes of a session of a project.

mod session_choice;

use std::ffi::OsString;
use std::path::Path;

use parallax_config::{Environment, LoadOptions, UserDirs};
use parallax_protocol::event::{Failure, FailureKind, UndoResult};
use parallax_protocol::ids::SessionId;
use parallax_protocol::store::RewindTarget;
pub use parallax_store::{ChangeKind, FileChange, TurnChanges};
use parallax_store::{CheckpointError, Checkpoints, LoadError, SessionOrigin};

use crate::checkpoint_manager;
use parallax_sessions::encrypted_sessions;
pub use session_choice::UndoSession;

/// The checkpoints of a session. All functions block.
pub struct UndoStore {
    /// Id of the session.
    pub session: SessionId,
    store: Checkpoints,
    /// The prompts in the session, or why they cannot be read.
    prompts: Result<Vec<RewindTarget>, String>,
}

impl UndoStore {
    /// Opens the checkpoints of a session of the project in `directory`. Project settings are read
    /// only if the session is encrypted.
    ///
    /// # Errors
    /// Returns an error if the home directory is unknown or no session of the project matches.
    pub fn open_project(
        directory: &Path,
        variables: Vec<(OsString, OsString)>,
        session: UndoSession<'_>,
    ) -> Result<Self, Failure> {
        let environment = Environment::new(variables.clone());
        let dirs = UserDirs::find(&environment, directory)
            .map_err(|error| Failure::new(FailureKind::Config, error.to_string()))?;
        let dirs = parallax_store::SessionDirs::new(dirs.parallax, dirs.gemini);
        let session = session_choice::find(&dirs, directory, session)?;
        let roots = vec![directory.to_owned()];
        let store = checkpoint_manager::open(&dirs, directory, session.clone(), roots, None, None);
        // Reading errors are reported by the undo itself.
        let _ = store.add_recorded_roots();
        let prompts = prompts(&dirs, directory, &session, variables);
        Ok(Self { session, store, prompts })
    }

    /// Returns a prefix of the session's id that is almost always unique.
    pub fn short_id(&self) -> String {
        parallax_store::short_id(self.session.as_str(), SessionOrigin::Parallax)
    }

    /// Returns the changes of all turns in order, each with the number of its prompt, or `None` if
    /// that was removed or is unknown.
    ///
    /// # Errors
    /// Returns an error if the records cannot be read.
    pub fn list(&self) -> Result<Vec<(Option<u64>, TurnChanges)>, Failure> {
        let turns = self.store.list();
        let turns = turns.map_err(|error| Failure::new(FailureKind::Input, error.to_string()))?;
        Ok(turns.into_iter().map(|turn| (self.number(turn.turn), turn)).collect())
    }

    /// Returns the prompt of a turn; `None` if it was removed or is unknown.
    pub fn prompt(&self, turn: u64) -> Option<&str> {
        let marks = self.prompts.as_deref().ok()?;
        marks.iter().find(|mark| mark.turn == turn).map(|mark| mark.text.as_str())
    }

    fn number(&self, turn: u64) -> Option<u64> {
        RewindTarget::number(self.prompts.as_deref().ok()?, turn)
    }

    /// Reverts files to their contents before the turn of this prompt, or before the last turn that
    /// changed files.
    ///
    /// # Errors
    /// Returns an error if the prompt is unknown, there is nothing to undo, or the records are invalid.
    pub fn undo(&self, prompt: Option<u64>, force: bool) -> Result<UndoResult, Failure> {
        let turn = prompt.map(|number| match &self.prompts {
            Ok(marks) => RewindTarget::find_by_number(marks, number).map(|mark| mark.turn),
            Err(reason) => Err(format!("failed to count the prompts: {reason}")),
        });
        let turn = turn.transpose().map_err(|reason| Failure::new(FailureKind::Input, reason))?;
        self.undo_turn(turn, force)
    }

    /// Repeats the same undo, including files that have changed since.
    ///
    /// # Errors
    /// Returns an error if the records are invalid.
    pub fn undo_forced(&self, undone: &UndoResult) -> Result<UndoResult, Failure> {
        self.undo_turn(Some(undone.turn), true)
    }

    fn undo_turn(&self, turn: Option<u64>, force: bool) -> Result<UndoResult, Failure> {
        let undone = self.store.undo(turn, force).map_err(|error| self.failure(&error))?;
        Ok(UndoResult { prompt: self.number(undone.turn), ..undone })
    }

    /// Reverts the last undo.
    ///
    /// # Errors
    /// Returns an error if nothing was undone or the records are invalid.
    pub fn redo(&self, force: bool) -> Result<UndoResult, Failure> {
        let redone = self.store.redo(force).map_err(|error| self.failure(&error))?;
        Ok(UndoResult { prompt: self.number(redone.turn), ..redone })
    }

    fn failure(&self, error: &CheckpointError) -> Failure {
        let message = match error {
            CheckpointError::NothingToUndo => {
                format!("nothing to undo in session `{}`", self.short_id())
            }
            error => error.to_string(),
        };
        Failure::new(FailureKind::Input, message)
    }
}

/// Formats a time of a record (RFC 3339) in local time.
pub fn local_time(time: &str) -> String {
    let zone = jiff::tz::TimeZone::system();
    match time.parse::<jiff::Timestamp>() {
        Ok(time) => time.to_zoned(zone).strftime("%Y-%m-%d %H:%M").to_string(),
        Err(_) => time.to_owned(),
    }
}

/// Returns the prompts in a session.
fn prompts(
    dirs: &parallax_store::SessionDirs,
    directory: &Path,
    session: &SessionId,
    variables: Vec<(OsString, OsString)>,
) -> Result<Vec<RewindTarget>, String> {
    let journal = dirs.journal(directory, session);
    let loaded = match parallax_store::load(&journal, &dirs.keys) {
        Err(LoadError::Encrypted { .. }) => {
            // The settings determine where the key is stored.
            let cwd = directory.to_owned();
            let options = LoadOptions { cwd, variables, skip_trust: false, ignore_env: false };
            let config = parallax_config::load(options).map_err(|error| error.to_string())?;
            parallax_store::load(&journal, &encrypted_sessions::dirs(&config).keys)
        }
        loaded => loaded,
    };
    loaded.map(|session| session.prompts).map_err(|error| error.to_string())
}
