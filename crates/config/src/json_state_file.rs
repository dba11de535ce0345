//! Updates the user's small JSON files: under a lock and atomically, with comments and order
//! preserved.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jsonc_parser::cst::{CstObject, CstRootNode};
use sha2::{Digest, Sha256};

use crate::error::ConfigError;
use crate::jsonc;

/// How long to wait for another writer.
const TIMEOUT: Duration = Duration::from_secs(2);
const STEP: Duration = Duration::from_millis(10);

/// Changes the object in the file; a missing file counts as `{}`. The file is readable only by the
/// user (mode 0600). Blocking.
pub(crate) fn update(path: &Path, change: impl FnOnce(&CstObject)) -> Result<(), ConfigError> {
    rewrite_as(path, |target, before| {
        let text = if before.trim().is_empty() { "{}\n" } else { before };
        // An invalid file is never overwritten.
        jsonc::parse_object(target, text)?;
        let root = CstRootNode::parse(text, &jsonc::syntax()).map_err(|error| {
            let source = io::Error::other(error.to_string());
            ConfigError::Unwritable { path: path.to_owned(), source }
        })?;
        change(&root.object_value_or_set());
        let changed = root.to_string();
        Ok(if changed == text { before.to_owned() } else { changed })
    })
}

/// Changes the text of a file; a missing file counts as empty. The file is readable only by the
/// user (mode 0600). Blocking.
pub fn rewrite(
    path: &Path,
    change: impl FnOnce(&str) -> io::Result<String>,
) -> Result<(), ConfigError> {
    rewrite_as(path, |_, text| {
        change(text).map_err(|source| ConfigError::Unwritable { path: path.to_owned(), source })
    })
}

/// Reads the file under a lock and replaces it with the result of `change` if that differs.
/// `change` also receives the resolved path of the file.
pub(crate) fn rewrite_as(
    path: &Path,
    change: impl FnOnce(&Path, &str) -> Result<String, ConfigError>,
) -> Result<(), ConfigError> {
    let failed = |source| ConfigError::Unwritable { path: path.to_owned(), source };
    // A symlink, as dotfile managers create them, is kept: its target is replaced.
    let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if target.exists() && !target.is_file() {
        return Err(ConfigError::NotAFile { path: path.to_owned() });
    }
    let directory = target.parent().unwrap_or(Path::new("/"));
    create_private(directory).map_err(failed)?;
    let _lock = lock(&target)?;
    let text = jsonc::read_document(&target)?.unwrap_or_default();
    let changed = change(&target, &text)?;
    if changed != text {
        replace(&target, directory, changed.as_bytes()).map_err(failed)?;
    }
    Ok(())
}

fn replace(path: &Path, directory: &Path, bytes: &[u8]) -> io::Result<()> {
    // Created with mode 0600.
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(bytes)?;
    // A file below `.gemini` may belong to a project and be shared: it keeps its permissions.
    if directory.file_name().is_some_and(|name| name == ".gemini")
        && let Ok(metadata) = std::fs::metadata(path)
    {
        file.as_file().set_permissions(metadata.permissions())?;
    }
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

fn create_private(directory: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

/// An exclusive lock on a file, held until it is dropped.
struct Lock {
    /// Locked as long as it is open.
    _file: File,
    path: PathBuf,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Removed before the lock is released, so that a waiting process notices that the name is
        // gone.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn lock(path: &Path) -> Result<Lock, ConfigError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let lock = PathBuf::from(name);
    let failed = |source| ConfigError::Unwritable { path: lock.clone(), source };
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        options.mode(0o600).custom_flags(flags.bits().cast_signed());
    }
    let deadline = Instant::now() + TIMEOUT;
    let mut file = options.open(&lock).map_err(failed)?;
    loop {
        match file.try_lock() {
            Ok(()) if is_file_at(&file, &lock) => return Ok(Lock { _file: file, path: lock }),
            // The previous holder removed the lock file; open it again.
            Ok(()) => file = options.open(&lock).map_err(failed)?,
            Err(TryLockError::Error(source)) => return Err(failed(source)),
            Err(TryLockError::WouldBlock) if Instant::now() >= deadline => {
                return Err(ConfigError::Locked { path: path.to_owned(), lock });
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(STEP),
        }
    }
}

/// Whether the open file is the one at this path.
#[cfg(unix)]
fn is_file_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let (Ok(open), Ok(named)) = (file.metadata(), std::fs::symlink_metadata(path)) else {
        return false;
    };
    (open.dev(), open.ino()) == (named.dev(), named.ino())
}

/// Always true, because an open file keeps its name on this system.
#[cfg(not(unix))]
fn is_file_at(_: &File, _: &Path) -> bool {
    true
}

/// Returns the hexadecimal SHA-256 of the pieces, each prefixed with its length.
pub(crate) fn digest<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hash = Sha256::new();
    for piece in pieces {
        hash.update((piece.len() as u64).to_le_bytes());
        hash.update(piece);
    }
    hexadecimal(&hash.finalize())
}

/// Returns the SHA-256 of a file of any size. Blocking.
pub(crate) fn hash_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = io::Read::read(&mut file, &mut buffer)?;
        let Some(bytes) = buffer.get(..count).filter(|bytes| !bytes.is_empty()) else {
            return Ok(hash.finalize().to_vec());
        };
        hash.update(bytes);
    }
}

/// Returns the hexadecimal SHA-256 of bytes.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concurrent_state_changes_are_all_saved_and_no_lock_remains() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("state");
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let file = &file;
                scope.spawn(move || {
                    for line in 0..25 {
                        rewrite(file, |text| Ok(format!("{text}{writer} {line}\n"))).expect("room");
                    }
                });
            }
        });
        let text = std::fs::read_to_string(&file).expect("the file");
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        lines.dedup();
        assert_eq!(lines.len(), 200);
        let names: Vec<_> = std::fs::read_dir(directory.path()).expect("the folder").collect();
        assert_eq!(names.len(), 1, "{names:?}");
    }
}
