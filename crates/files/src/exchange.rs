//! Exchanges two directories.

use std::io;
use std::path::Path;

/// Exchanges two existing paths on one file system, atomically if the system supports it. Blocking.
///
/// # Errors
/// Returns the I/O error. Without the atomic operation, a crash in between can leave `one` at the
/// path of `other`, and `other` next to it with the suffix `.old`.
pub fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        match renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE) {
            // Network file systems may not support it.
            Err(
                rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::NOTSUP,
            ) => {}
            done => return Ok(done?),
        }
    }
    let mut backup = other.as_os_str().to_owned();
    backup.push(".old");
    std::fs::rename(other, &backup)?;
    if let Err(error) = std::fs::rename(one, other) {
        std::fs::rename(&backup, other)?;
        return Err(error);
    }
    std::fs::rename(&backup, one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_exchanged() {
        let directory = tempfile::tempdir().expect("directory");
        let (one, other) = (directory.path().join("one"), directory.path().join("other"));
        for (path, name) in [(&one, "1"), (&other, "2")] {
            std::fs::create_dir(path).expect("made");
            std::fs::write(path.join(name), "").expect("written");
        }
        exchange(&one, &other).expect("exchanged");
        assert!(one.join("2").exists() && other.join("1").exists());
        assert!(exchange(&one, &directory.path().join("gone")).is_err());
        assert!(one.join("2").exists());
    }
}
