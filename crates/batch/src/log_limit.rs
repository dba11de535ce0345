//! Limits the log of a task, which commands write to directly.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use crate::blocking::blocking;
use crate::error::BatchError;

/// Size in bytes above which a log is shortened.
const MAX_LENGTH: u64 = 16 * 1024 * 1024;
/// Number of bytes kept from its beginning.
const HEAD_LENGTH: u64 = 8 * 1024 * 1024;
/// Number of bytes kept from its end.
const TAIL_LENGTH: u64 = 1024 * 1024;
const NOTE: &[u8] = b"\n[\xe2\x80\xa6 lines of a long output were left out here \xe2\x80\xa6]\n";

/// Shortens a log that has become too long to its beginning and its end.
pub(crate) async fn limit_log(log: PathBuf) -> Result<(), BatchError> {
    blocking(move || {
        shorten(&log).map_err(|source| BatchError::Write { file: log.clone(), source })
    })
    .await
}

/// Commands append to the file meanwhile; what they write at this moment may be lost.
fn shorten(log: &Path) -> io::Result<()> {
    let length = match log.metadata() {
        Ok(data) => data.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if length <= MAX_LENGTH {
        return Ok(());
    }
    let mut end = Vec::new();
    let mut read = File::open(log)?;
    read.seek(SeekFrom::Start(length - TAIL_LENGTH))?;
    read.take(TAIL_LENGTH).read_to_end(&mut end)?;
    let mut file = OpenOptions::new().append(true).open(log)?;
    file.set_len(HEAD_LENGTH)?;
    file.write_all(&[NOTE, &end].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_log_keeps_its_beginning_and_its_end() {
        let directory = tempfile::tempdir().expect("a directory");
        let log = directory.path().join("log.txt");
        shorten(&log).expect("nothing to do");
        let length = usize::try_from(MAX_LENGTH).expect("a size");
        let text = format!("$ first{}last\n", "x".repeat(length));
        std::fs::write(&log, &text).expect("written");
        shorten(&log).expect("shortened");
        let text = std::fs::read_to_string(&log).expect("text");
        assert!(text.len() < 10 * 1024 * 1024, "{}", text.len());
        assert!(text.starts_with("$ first") && text.ends_with("last\n"));
        assert!(text.contains("[… lines of a long output were left out here …]"));
        shorten(&log).expect("nothing to do");
        assert_eq!(std::fs::read_to_string(&log).expect("text"), text);
    }
}
