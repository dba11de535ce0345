//! Finds the `.env` file of a run.

use std::path::{Path, PathBuf};

use crate::dotenv;
use crate::environment::Environment;
use crate::read::{ReadError, read_at_most, to_text};
use crate::user_dirs::UserDirs;

const LIMIT: u64 = 256 * 1024;

/// The inputs that determine which `.env` file is used.
pub(crate) struct DotenvSearch<'a> {
    pub(crate) cwd: &'a Path,
    /// The working directory and its parents, as far as they are trusted, from the innermost
    /// outward.
    pub(crate) folders: &'a [PathBuf],
    pub(crate) dirs: &'a UserDirs,
    /// Whether plain `.env` files outside the home directory are ignored.
    pub(crate) ignore_local: bool,
    /// Names that a plain `.env` file may not set.
    pub(crate) excluded: &'a [String],
}

impl DotenvSearch<'_> {
    /// Reads the first existing `.env` file. Returns a warning if it cannot be used.
    pub(crate) fn read_into(&self, environment: &mut Environment) -> Vec<String> {
        let mut warnings = Vec::new();
        for (path, is_parallax_file, is_project_file) in self.candidates() {
            match read_at_most(&path, LIMIT) {
                Ok(None) => {}
                Ok(Some(read)) if read.is_truncated => {
                    warnings.push(format!(
                        "`{}` is larger than {LIMIT} bytes and was ignored",
                        path.display()
                    ));
                }
                Ok(Some(read)) if !self.is_trusted_owner(&read.metadata) => {
                    warnings.push(format!(
                        "`{}` belongs to another user and was ignored",
                        path.display()
                    ));
                }
                Ok(Some(read)) => {
                    let excluded = if is_parallax_file { &[] } else { self.excluded };
                    let variables = dotenv::parse(&to_text(&read.bytes));
                    let rejected =
                        environment.add(path.clone(), variables, excluded, is_project_file);
                    warnings.extend(rejected.iter().map(|name| {
                        format!(
                            "`{}` cannot set `{name}`: set it in your environment or in the `.env` \
                             file of your home directory",
                            path.display()
                        )
                    }));
                    break;
                }
                // A directory named `.env` (common for Python) is not an error.
                Err(ReadError::NotAFile | ReadError::TooLarge) => {}
                Err(ReadError::Io(error)) => {
                    warnings.push(format!(
                        "Failed to read `{}`: {error}; it was ignored",
                        path.display()
                    ));
                }
            }
        }
        warnings
    }

    /// Returns the candidate paths in search order, each with whether it is in a Parallax or Gemini
    /// directory and whether it belongs to a project.
    fn candidates(&self) -> Vec<(PathBuf, bool, bool)> {
        let mut paths = Vec::new();
        for directory in self.folders {
            let is_project = *directory != self.dirs.user;
            paths.push((directory.join(".parallax/.env"), true, is_project));
            paths.push((directory.join(".gemini/.env"), true, is_project));
            if !self.ignore_local || !is_project {
                paths.push((directory.join(".env"), false, is_project));
            }
        }
        paths.push((self.dirs.parallax.join(".env"), true, false));
        paths.push((self.dirs.gemini.join(".env"), true, false));
        paths.push((self.dirs.user.join(".env"), false, false));
        paths
    }

    /// Whether the file's owner is trusted: another user's `.env` in a shared parent directory
    /// could redirect requests together with the API key.
    #[cfg(unix)]
    fn is_trusted_owner(&self, metadata: &std::fs::Metadata) -> bool {
        use std::os::unix::fs::MetadataExt;
        let owner = |path: &Path| std::fs::metadata(path).ok().map(|metadata| metadata.uid());
        let uid = metadata.uid();
        uid == 0 || owner(self.cwd) == Some(uid) || owner(&self.dirs.user) == Some(uid)
    }

    #[cfg(not(unix))]
    fn is_trusted_owner(&self, _metadata: &std::fs::Metadata) -> bool {
        true
    }
}
