//! Finds and reads definition files of agents, skills, and commands.

use std::path::{Path, PathBuf};

use crate::read::{self, ReadError};
use crate::user_dirs::UserDirs;

/// The owner of a directory, in ascending order of precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    User,
    Project,
}

/// Returns the directories called `name` of the user and, if it is trusted, of the project, in
/// ascending order of precedence. `others` are directories of other agents next to `.gemini` and
/// `.parallax`.
pub(crate) fn directories(
    dirs: &UserDirs,
    cwd: &Path,
    trusted: bool,
    name: &str,
    others: &[&str],
) -> Vec<(Owner, PathBuf)> {
    let mut directories: Vec<(Owner, PathBuf)> = [dirs.gemini.clone(), dirs.parallax.clone()]
        .into_iter()
        .chain(others.iter().map(|other| dirs.user.join(other)))
        .map(|home| (Owner::User, home.join(name)))
        .collect();
    if trusted && !dirs.is_home(cwd) {
        for home in [".gemini", ".parallax"].iter().chain(others) {
            directories.push((Owner::Project, cwd.join(home).join(name)));
        }
    }
    directories
}

/// Returns the results of `pick` for the first `limit` entries of a directory, sorted; empty if the
/// directory does not exist.
pub(crate) fn files(
    directory: &Path,
    limit: usize,
    pick: impl Fn(PathBuf) -> Option<PathBuf>,
) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> =
        entries.take(limit).filter_map(|entry| pick(entry.path())).collect();
    files.sort();
    files
}

/// Returns the text of a definition.
///
/// # Errors
/// Returns the reason if it cannot be read.
pub(crate) fn text(file: &Path, largest: u64) -> Result<String, String> {
    bytes(file, largest).map(|bytes| read::to_text(&bytes))
}

/// Returns the bytes of a definition, for a hash.
///
/// # Errors
/// Returns the reason if it cannot be read.
pub(crate) fn bytes(file: &Path, largest: u64) -> Result<Vec<u8>, String> {
    let too_large = || Err(format!("it is larger than {largest} bytes"));
    match read::read_at_most(file, largest) {
        Ok(Some(read)) if read.is_truncated => too_large(),
        Ok(Some(read)) => Ok(read.bytes),
        Ok(None) => Err("the file no longer exists".to_owned()),
        Err(ReadError::NotAFile) => Err("not a regular file".to_owned()),
        Err(ReadError::TooLarge) => too_large(),
        Err(ReadError::Io(error)) => Err(error.to_string()),
    }
}
