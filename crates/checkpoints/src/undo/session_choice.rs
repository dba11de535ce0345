//! Which session an undo from outside a session applies to.

use std::path::Path;

use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::ids::SessionId;
use parallax_store::{FindError, SessionDirs, has_prefix, latest_session, latest_undo_session};

/// Selects a session of a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UndoSession<'a> {
    /// The session that changed files last.
    LastChange,
    /// The session whose files were changed, undone, or redone last.
    LastUndo,
    /// The session with this id, id prefix, or number of the list, or the most recently used one
    /// (`latest`).
    Selected(&'a str),
}

fn input_failure(message: impl std::fmt::Display) -> Failure {
    Failure::new(FailureKind::Input, message.to_string())
}

/// Finds the session of the project in `directory`.
pub(super) fn find(
    dirs: &SessionDirs,
    directory: &Path,
    session: UndoSession<'_>,
) -> Result<SessionId, Failure> {
    let project = parallax_store::project_folder(directory);
    let folder = dirs.parallax.join("checkpoints");
    let latest = match session {
        UndoSession::LastChange => latest_session(&folder, &project),
        UndoSession::LastUndo => latest_undo_session(&folder, &project),
        UndoSession::Selected(selector) => return find_selected(dirs, directory, selector),
    };
    latest.ok_or_else(|| input_failure(no_session(&folder, directory)))
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

fn find_selected(
    dirs: &SessionDirs,
    directory: &Path,
    selector: &str,
) -> Result<SessionId, Failure> {
    let selector = selector.trim();
    // Checkpoints remain when the conversation is not saved or was deleted.
    let project = dirs.parallax.join("checkpoints").join(parallax_store::project_folder(directory));
    let has_checkpoints =
        |id: &str| SessionId::is_valid(id) && project.join(format!("{id}.jsonl")).is_file();
    if has_checkpoints(selector) {
        return Ok(SessionId::from(selector));
    }
    match parallax_store::find(dirs, directory, selector) {
        Ok(entry) => Ok(SessionId::new(entry.id)),
        Err(error @ FindError::Ambiguous { .. }) => Err(input_failure(error)),
        Err(FindError::NoSessions { .. } | FindError::NotFound { .. }) => {
            Err(input_failure(not_found(dirs, selector)))
        }
    }
}

/// Describes that the project has no such session, and names another project that has it.
fn not_found(dirs: &SessionDirs, selector: &str) -> String {
    let is_id = SessionId::is_valid(selector) && selector != "latest";
    let is_number = selector.bytes().all(|byte| byte.is_ascii_digit());
    let elsewhere = match is_id && !is_number {
        true => parallax_store::list_all(dirs),
        false => Vec::new(),
    };
    match elsewhere.iter().find(|entry| has_prefix(&entry.id, selector)) {
        Some(entry) => format!(
            "session `{}` belongs to another project: run `parallax undo` in `{}`",
            entry.short_id(),
            entry.project.display()
        ),
        None => format!(
            "session `{selector}` not found in this project; `parallax sessions list --here` lists \
             its sessions"
        ),
    }
}
