//! Finds one session of a list, and deletes sessions.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use parallax_files::remove_tree;
use parallax_protocol::ids::SessionId;

use crate::list::{SessionEntry, find_by_id, list, newest_own};
use crate::paths::SessionDirs;
use crate::session_origin::SessionOrigin;

/// Why a session was not found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    /// There are no sessions.
    #[error("no previous sessions found for this project (searched `{}`)", .searched.display())]
    NoSessions {
        /// The directory for journals of the project.
        searched: PathBuf,
    },
    /// No session matches.
    #[error(
        "session `{selector}` not found (searched `{}`); use `--list-sessions` to list sessions, then \
         `--resume` with a number, an id, the beginning of an id, or `latest`",
        .searched.display()
    )]
    NotFound {
        /// The selector.
        selector: String,
        /// The directory for journals of the project.
        searched: PathBuf,
    },
    /// Several sessions match.
    #[error("`{selector}` matches {count} session ids; use a longer prefix")]
    Ambiguous {
        /// The selector.
        selector: String,
        /// The number of matches.
        count: usize,
    },
}

/// Finds a session by `latest` (the most recently used), a full ID, a number of the list, or a
/// unique prefix of an ID. For a full ID of a Parallax session, only its own files are read, and
/// the `index` of the entry is 0.
///
/// # Errors
/// Returns an error if no session or more than one matches.
pub fn find(dirs: &SessionDirs, project: &Path, selector: &str) -> Result<SessionEntry, FindError> {
    let found = match selector.trim() {
        "latest" => newest_own(dirs, project),
        id => find_by_id(dirs, project, id),
    };
    match found {
        Some(entry) => Ok(entry),
        None => find_listed(dirs, project, selector),
    }
}

/// Like [`find`], but also determines the number in the list, for which all sessions are read.
///
/// # Errors
/// Returns an error if no session or more than one matches.
pub fn find_listed(
    dirs: &SessionDirs,
    project: &Path,
    selector: &str,
) -> Result<SessionEntry, FindError> {
    let searched = dirs.sessions(project);
    let selector = selector.trim();
    let mut entries = list(dirs, project);
    if entries.is_empty() {
        return Err(FindError::NoSessions { searched });
    }
    let missing = || FindError::NotFound { selector: selector.to_owned(), searched };
    if selector == "latest" {
        return entries.into_iter().max_by_key(|entry| entry.last_used).ok_or_else(missing);
    }
    let exact = entries.iter().position(|entry| entry.id == selector);
    let index =
        exact.or_else(|| entries.iter().position(|it| it.id.eq_ignore_ascii_case(selector)));
    if let Some(at) = index {
        return Ok(entries.swap_remove(at));
    }
    let number = selector.parse::<usize>().ok();
    if let Some(index) = entries.iter().position(|entry| Some(entry.index) == number) {
        return Ok(entries.swap_remove(index));
    }
    // A number that is not in the list is a mistake, not the prefix of an ID that happens to start
    // with digits.
    if selector.is_empty() || (number.is_some() && selector.len() < 6) {
        return Err(missing());
    }
    let mut matches: Vec<SessionEntry> =
        entries.into_iter().filter(|entry| has_prefix(&entry.id, selector)).collect();
    match (matches.pop(), matches.len()) {
        (Some(entry), 0) => Ok(entry),
        (None, _) => Err(missing()),
        (Some(_), more) => {
            Err(FindError::Ambiguous { selector: selector.to_owned(), count: more + 1 })
        }
    }
}

/// Whether an ID starts with this prefix, ignoring case.
pub fn has_prefix(id: &str, start: &str) -> bool {
    id.get(..start.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(start))
}

/// Why a session was not deleted.
#[derive(Debug, thiserror::Error)]
pub enum DeleteError {
    /// The session belongs to another program.
    #[error(
        "the session `{id}` belongs to another program and was not deleted; its file is `{}`",
        .path.display()
    )]
    Foreign {
        /// The session.
        id: String,
        /// The file.
        path: PathBuf,
    },
    /// The session is running.
    #[error("the session `{id}` is in use and was not deleted")]
    InUse {
        /// The session.
        id: String,
    },
    /// The ID or a path is outside the Parallax home directory.
    #[error("`{kind}` is not a session of this project")]
    Outside {
        /// What should have been deleted.
        kind: String,
    },
    /// An I/O operation failed.
    #[error("failed to delete `{}`: {source}", .path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// Deletes a Parallax journal and its other files: its temporary directory and the given
/// directories, which must be in the Parallax home directory. Directories that do not exist are
/// skipped.
///
/// # Errors
/// Returns an error if the session belongs to another program, is in use, or an I/O operation
/// fails.
pub fn delete(
    dirs: &SessionDirs,
    project: &Path,
    entry: &SessionEntry,
    artifacts: &[PathBuf],
) -> Result<(), DeleteError> {
    if entry.origin != SessionOrigin::Parallax {
        return Err(DeleteError::Foreign { id: entry.id.clone(), path: entry.path.clone() });
    }
    let id = SessionId::new(entry.id.clone());
    let outside = |what: &Path| DeleteError::Outside { kind: what.display().to_string() };
    // Check the path found by the list; the head of the file may contain another ID.
    if !SessionId::is_valid(&id.0) || entry.path.parent() != Some(&dirs.sessions(project)) {
        return Err(outside(Path::new(&entry.id)));
    }
    for path in artifacts {
        let plain = path.components().all(|part| part != std::path::Component::ParentDir);
        let deep = path.strip_prefix(&dirs.parallax).is_ok_and(|rest| rest.iter().count() > 1);
        if !plain || !deep {
            return Err(outside(path));
        }
    }
    let failed = |path: &Path, source| DeleteError::Io { path: path.to_owned(), source };
    let file = File::open(&entry.path).map_err(|source| failed(&entry.path, source))?;
    if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
        return Err(DeleteError::InUse { id: entry.id.clone() });
    }
    let own = dirs.artifacts(project, &id).root().to_owned();
    for directory in artifacts.iter().chain([&own]) {
        // Remove a symbolic link itself, never its target.
        let removed = match fs::symlink_metadata(directory) {
            Ok(metadata) if metadata.is_dir() => remove_tree(directory),
            Ok(_) => fs::remove_file(directory),
            Err(error) => Err(error),
        };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed(directory, error));
            }
            _ => {}
        }
    }
    fs::remove_file(&entry.path).map_err(|source| failed(&entry.path, source))
}
