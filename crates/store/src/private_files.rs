//! Directories and files that only the user can access.

use std::path::Path;
use std::{fs, io};

/// Creates a directory and its missing parents with mode 0700, regardless of the umask. Existing
/// directories are unchanged.
///
/// # Errors
/// Returns an error if a directory cannot be created.
pub fn create_private_dir(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        create_private_dir(parent)?;
    }
    match fs::create_dir(path) {
        Ok(()) => set_mode(path, 0o700),
        // Another process created the directory first.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(unix)]
pub(crate) fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
pub(crate) fn set_mode(_path: &Path, _mode: u32) -> io::Result<()> {
    Ok(())
}
