//! Reports protected files that were replaced while a process of a command could still write them.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The report file in the private directory of a session: paths, each followed by a NUL byte.
const NAME: &str = "replaced";

/// Maximum number of bytes read from the report.
const MAX_BYTES: u64 = 1 << 20;

/// Opens the report for appending.
#[cfg(target_os = "linux")]
pub(crate) fn open(temporary: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    OpenOptions::new().append(true).create(true).mode(0o600).open(temporary.join(NAME))
}

/// Adds a file to the report.
#[cfg(target_os = "linux")]
pub(crate) fn add(mut report: &File, path: &Path) -> io::Result<()> {
    io::Write::write_all(&mut report, &[path.as_os_str().as_bytes(), &[0]].concat())
}

/// Returns the protected files that were replaced from outside the sandbox (as an editor does when
/// saving) while a process of a command of this session had them open for writing. Each is returned
/// once. They are covered again and the processes were killed, but the user should check what was
/// written before that. `temporary` is [`crate::Plan::temporary`].
pub fn take_replaced(temporary: &Path) -> Vec<PathBuf> {
    let Ok(file) = OpenOptions::new().read(true).write(true).open(temporary.join(NAME)) else {
        return Vec::new();
    };
    let mut bytes = Vec::new();
    if (&file).take(MAX_BYTES).read_to_end(&mut bytes).is_err() || file.set_len(0).is_err() {
        return Vec::new();
    }
    let names = bytes.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let mut paths: Vec<PathBuf> = names.map(|name| OsStr::from_bytes(name).into()).collect();
    paths.sort();
    paths.dedup();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_is_returned_once() {
        let directory = tempfile::tempdir().unwrap();
        assert!(take_replaced(directory.path()).is_empty());
        let report = open(directory.path()).unwrap();
        for path in ["/w/b", "/w/a\nc", "/w/b"] {
            add(&report, Path::new(path)).unwrap();
        }
        assert_eq!(take_replaced(directory.path()), [Path::new("/w/a\nc"), Path::new("/w/b")]);
        assert!(take_replaced(directory.path()).is_empty());
        add(&report, Path::new("/w/d")).unwrap();
        assert_eq!(take_replaced(directory.path()), [Path::new("/w/d")]);
    }
}
