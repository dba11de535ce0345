//! Undo from outside a session: reverts file changes of the last session of a project.

use std::ffi::OsString;
use std::path::Path;

use parallax_config::{Environment, LoadOptions, UserDirs};
use parallax_protocol::event::{Failure, FailureKind, UndoResult};
use parallax_protocol::ids::SessionId;
use parallax_protocol::store::PromptMark;
pub use parallax_store::{ChangeKind, FileChange, TurnChanges};
use parallax_store::{Checkpoints, LoadError, latest_session};

use crate::checkpoint_manager;
use parallax_sessions::encrypted_sessions;

/// The checkpoints of a session. All functions block.
pub struct Undo {
    /// Id of the session.
    pub session: SessionId,
    store: Checkpoints,
    /// The prompts in the session, or why they cannot be read.
    prompts: Result<Vec<PromptMark>, String>,
}

/// Describes that no session of the project changed a file, and names a parent directory where one
/// did.
fn no_session(checkpoints: &Path, directory: &Path) -> String {
    let changed = |above: &&Path| {
        latest_session(checkpoints, &parallax_store::project_folder(above)).is_some()
    };
    let nothing = "nothing to undo: no session of this project changed a file";
    match directory.ancestors().skip(1).find(changed) {
        Some(above) => {
            format!("{nothing}; a session that started in `{}` did: undo it there", above.display())
        }
        None => nothing.to_owned(),
    }
}

impl Undo {
    /// Opens the checkpoints of a session of the project in `directory`, or of the one that changed
    /// files last. Project settings are read only if the session is encrypted.
    ///
    /// # Errors
    /// Returns an error if the home directory is unknown or no session of the project changed a file.
    pub fn open_project(
        directory: &Path,
        variables: Vec<(OsString, OsString)>,
        session: Option<&str>,
    ) -> Result<Self, Failure> {
        let environment = Environment::new(variables.clone());
        let dirs = UserDirs::find(&environment, directory)
            .map_err(|error| Failure::new(FailureKind::Config, error.to_string()))?;
        let dirs = parallax_store::SessionDirs::new(dirs.parallax, dirs.gemini);
        let project = parallax_store::project_folder(directory);
        let folder = dirs.parallax.join("checkpoints");
        let session = match session {
            Some(id) => SessionId::from(id),
            None => latest_session(&folder, &project)
                .ok_or_else(|| Failure::new(FailureKind::Input, no_session(&folder, directory)))?,
        };
        let roots = vec![directory.to_owned()];
        let store = checkpoint_manager::open(&dirs, directory, session.clone(), roots, None, None);
        // Reading errors are reported by the undo itself.
        let _ = store.add_recorded_roots();
        let prompts = prompts(&dirs, directory, &session, variables);
        Ok(Self { session, store, prompts })
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
        PromptMark::number(self.prompts.as_deref().ok()?, turn)
    }

    /// Reverts files to their contents before the turn of this prompt, or before the last turn that
    /// changed files.
    ///
    /// # Errors
    /// Returns an error if the prompt is unknown, there is nothing to undo, or the records are invalid.
    pub fn undo(&self, prompt: Option<u64>, force: bool) -> Result<UndoResult, Failure> {
        let turn = prompt.map(|number| match &self.prompts {
            Ok(marks) => PromptMark::find_by_number(marks, number).map(|mark| mark.turn),
            Err(reason) => Err(format!("failed to count the prompts: {reason}")),
        });
        let turn = turn.transpose().map_err(|reason| Failure::new(FailureKind::Input, reason))?;
        self.undo_turn(turn, force)
    }

    /// Repeats the same undo, including files that have changed since.
    ///
    /// # Errors
    /// Returns an error if the records are invalid.
    pub fn force(&self, undone: &UndoResult) -> Result<UndoResult, Failure> {
        self.undo_turn(Some(undone.turn), true)
    }

    fn undo_turn(&self, turn: Option<u64>, force: bool) -> Result<UndoResult, Failure> {
        let undone = self.store.undo(turn, force);
        let undone = undone.map_err(|error| Failure::new(FailureKind::Input, error.to_string()))?;
        Ok(UndoResult { prompt: self.number(undone.turn), ..undone })
    }

    /// Reverts the last undo.
    ///
    /// # Errors
    /// Returns an error if nothing was undone or the records are invalid.
    pub fn redo(&self, force: bool) -> Result<UndoResult, Failure> {
        let redone = self.store.redo(force);
        let redone = redone.map_err(|error| Failure::new(FailureKind::Input, error.to_string()))?;
        Ok(UndoResult { prompt: self.number(redone.turn), ..redone })
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
) -> Result<Vec<PromptMark>, String> {
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
