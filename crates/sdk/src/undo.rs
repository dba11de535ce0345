//! Undo from outside a session: what the last session of a project changed.

use std::ffi::OsString;
use std::path::Path;

use parallax_config::{Environment, Homes};
use parallax_protocol::event::{Failure, FailureKind, Undone};
use parallax_protocol::ids::SessionId;
pub use parallax_store::{ChangeKind, FileChange, TurnChanges};
use parallax_store::{Checkpoints, latest_session};

use crate::launch::failure;
use crate::versions;

/// The kept versions of a session's files. All functions block.
pub struct Undo {
    /// The session.
    pub session: SessionId,
    store: Checkpoints,
}

impl Undo {
    /// Those of a session of the project in `directory`, or of the one that
    /// changed something last. Nothing of the project is read for it.
    ///
    /// # Errors
    /// When there is no home, or no session of the project changed anything.
    pub fn of_project(
        directory: &Path,
        variables: Vec<(OsString, OsString)>,
        session: Option<&str>,
    ) -> Result<Self, Failure> {
        let environment = Environment::new(variables);
        let homes = Homes::find(&environment, directory)
            .map_err(|error| failure(FailureKind::Config, error.to_string()))?;
        let homes = parallax_store::Homes::new(homes.parallax, homes.gemini);
        let project = parallax_store::project_folder(directory);
        let folder = homes.parallax.join("checkpoints");
        let session = match session {
            Some(id) => SessionId::from(id),
            None => latest_session(&folder, &project).ok_or_else(|| {
                failure(
                    FailureKind::Input,
                    "nothing to undo: no session of this project changed a file".to_owned(),
                )
            })?,
        };
        let roots = vec![directory.to_owned()];
        let store = versions::open(&homes, directory, session.clone(), roots, None);
        Ok(Self { session, store })
    }

    /// What the turns changed, the first turn first.
    ///
    /// # Errors
    /// When the records cannot be read.
    pub fn list(&self) -> Result<Vec<TurnChanges>, Failure> {
        self.store.list().map_err(|error| failure(FailureKind::Input, error.to_string()))
    }

    /// Gives files back what they were before the turn, or before the last one
    /// that changed anything.
    ///
    /// # Errors
    /// When there is nothing to undo, or the records cannot be used.
    pub fn undo(&self, turn: Option<u64>, force: bool) -> Result<Undone, Failure> {
        let undone = self.store.undo(turn, force);
        undone.map_err(|error| failure(FailureKind::Input, error.to_string()))
    }

    /// Takes the last undo back.
    ///
    /// # Errors
    /// When nothing was undone, or the records cannot be used.
    pub fn redo(&self, force: bool) -> Result<Undone, Failure> {
        let redone = self.store.redo(force);
        redone.map_err(|error| failure(FailureKind::Input, error.to_string()))
    }
}
