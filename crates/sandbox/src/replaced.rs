//! Reports protected files that were replaced while a process of a command could still write them.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The report file in the private directory of a session: paths, each followed by a NUL byte.
const NAME: &str = "replaced";

/// The record of [`add_unwatched`].
const UNWATCHED: &[u8] = b"unwatched\0";

/// Maximum number of bytes read from the report.
const MAX_BYTES: u64 = 1 << 20;

/// Returns the path of the report.
#[cfg(target_os = "linux")]
pub(crate) fn path(temporary: &Path) -> PathBuf {
    temporary.join(NAME)
}

/// Opens the report for appending.
#[cfg(target_os = "linux")]
pub(crate) fn open(temporary: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    OpenOptions::new().append(true).create(true).mode(0o600).open(path(temporary))
}

/// Adds a file to the report.
#[cfg(target_os = "linux")]
pub(crate) fn add(mut report: &File, path: &Path) -> io::Result<()> {
    io::Write::write_all(&mut report, &[path.as_os_str().as_bytes(), &[0]].concat())
}

/// Adds that processes were killed because new files could not be hidden from them.
#[cfg(target_os = "linux")]
pub(crate) fn add_unwatched(mut report: &File) -> io::Result<()> {
    io::Write::write_all(&mut report, UNWATCHED)
}

/// What monitors of overmounts reported.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ReplacedFiles {
    /// Protected files that were replaced from outside the sandbox (as an editor does when saving)
    /// while a process of a command of this session could write them, each once. The processes
    /// were killed, but the user should check what was written before that.
    pub paths: Vec<PathBuf>,
    /// Whether processes were killed because the system has no inotify instances or watches left,
    /// without which files that appear later cannot be hidden.
    pub has_killed_unwatched: bool,
}

/// Returns what was reported since the last call. `temporary` is [`crate::Plan::temporary`].
pub fn take_replaced(temporary: &Path) -> ReplacedFiles {
    let Ok(file) = OpenOptions::new().read(true).write(true).open(temporary.join(NAME)) else {
        return ReplacedFiles::default();
    };
    let mut bytes = Vec::new();
    if (&file).take(MAX_BYTES).read_to_end(&mut bytes).is_err() || file.set_len(0).is_err() {
        return ReplacedFiles::default();
    }
    let names = bytes.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let mut paths: Vec<PathBuf> = names.map(|name| OsStr::from_bytes(name).into()).collect();
    paths.sort();
    paths.dedup();
    // All paths are absolute.
    let unwatched = OsStr::from_bytes(UNWATCHED.split_last().map_or(&[], |(_, name)| name));
    let count = paths.len();
    paths.retain(|path| path != unwatched);
    ReplacedFiles { has_killed_unwatched: paths.len() < count, paths }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_is_returned_once() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(take_replaced(folder.path()), ReplacedFiles::default());
        let report = open(folder.path()).unwrap();
        for path in ["/w/b", "/w/a\nc", "/w/b"] {
            add(&report, Path::new(path)).unwrap();
        }
        let taken = take_replaced(folder.path());
        assert_eq!(taken.paths, [Path::new("/w/a\nc"), Path::new("/w/b")]);
        assert!(!taken.has_killed_unwatched);
        assert_eq!(take_replaced(folder.path()), ReplacedFiles::default());
        add(&report, Path::new("/w/d")).unwrap();
        add_unwatched(&report).unwrap();
        let taken = take_replaced(folder.path());
        assert_eq!(taken.paths, [Path::new("/w/d")]);
        assert!(taken.has_killed_unwatched);
    }
}
