//! Two folders change places.

use std::io;
use std::path::Path;

/// Puts each of two paths in the place of the other, in one step where the
/// system can; both are there and on one file system. Blocking.
///
/// # Errors
/// The system's. Without the one step a crash in between can leave `one` in
/// `other`'s place and `other` beside it, with `.old` behind its name.
pub fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        match renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE) {
            // File systems of the network may not know it.
            Err(
                rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::NOTSUP,
            ) => {}
            done => return Ok(done?),
        }
    }
    let mut beside = other.as_os_str().to_owned();
    beside.push(".old");
    std::fs::rename(other, &beside)?;
    if let Err(error) = std::fs::rename(one, other) {
        std::fs::rename(&beside, other)?;
        return Err(error);
    }
    std::fs::rename(&beside, one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_change_places() {
        let folder = tempfile::tempdir().expect("folder");
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        for (path, name) in [(&one, "1"), (&other, "2")] {
            std::fs::create_dir(path).expect("made");
            std::fs::write(path.join(name), "").expect("written");
        }
        exchange(&one, &other).expect("exchanged");
        assert!(one.join("2").exists() && other.join("1").exists());
        assert!(exchange(&one, &folder.path().join("gone")).is_err());
        assert!(one.join("2").exists());
    }
}
