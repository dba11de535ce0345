//! Reads small files safely: only regular files, and never more than a limit.

use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// Why a file was not read.
#[derive(Debug)]
pub(crate) enum ReadError {
    NotAFile,
    TooLarge,
    Io(io::Error),
}

/// The bytes that were read.
pub(crate) struct FileBytes {
    pub(crate) bytes: Vec<u8>,
    /// Whether the file is larger than the limit.
    pub(crate) is_truncated: bool,
    pub(crate) metadata: Metadata,
}

/// Whether the error means that the file does not exist.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Reads at most `limit` bytes of a file; `None` if it does not exist. Never opens a pipe or a
/// device.
pub(crate) fn read_at_most(path: &Path, limit: u64) -> Result<Option<FileBytes>, ReadError> {
    read_with(path, limit, fs::metadata(path), 0)
}

/// Like [`read_at_most`], but a symlink is not a regular file.
pub(crate) fn read_no_follow(path: &Path, limit: u64) -> Result<Option<FileBytes>, ReadError> {
    #[cfg(unix)]
    let no_follow = rustix::fs::OFlags::NOFOLLOW.bits();
    #[cfg(not(unix))]
    let no_follow = 0;
    read_with(path, limit, fs::symlink_metadata(path), no_follow)
}

fn read_with(
    path: &Path,
    limit: u64,
    metadata: io::Result<Metadata>,
    flags: u32,
) -> Result<Option<FileBytes>, ReadError> {
    match metadata {
        Ok(metadata) if metadata.is_file() => {}
        Ok(_) => return Err(ReadError::NotAFile),
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(ReadError::Io(error)),
    }
    let file = match open(path, flags) {
        Ok(file) => file,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(ReadError::Io(error)),
    };
    // Checks the opened file, because the path may have been replaced.
    let metadata = file.metadata().map_err(ReadError::Io)?;
    if !metadata.is_file() {
        return Err(ReadError::NotAFile);
    }
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(ReadError::Io)?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let is_truncated = bytes.len() > limit;
    bytes.truncate(limit);
    Ok(Some(FileBytes { bytes, is_truncated, metadata }))
}

/// Opens a file for reading without blocking on a pipe.
#[cfg(unix)]
fn open(path: &Path, flags: u32) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = flags | (rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY).bits();
    fs::OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path)
}

#[cfg(not(unix))]
fn open(path: &Path, _flags: u32) -> io::Result<File> {
    File::open(path)
}

/// Reads the whole text of a file. Replaces invalid UTF-8 and removes a byte order mark.
pub(crate) fn read_text(path: &Path, limit: u64) -> Result<Option<String>, ReadError> {
    match read_at_most(path, limit)? {
        None => Ok(None),
        Some(read) if read.is_truncated => Err(ReadError::TooLarge),
        Some(read) => Ok(Some(to_text(&read.bytes))),
    }
}

/// Like [`read_text`], but a symlink is not a regular file.
pub(crate) fn read_text_no_follow(path: &Path, limit: u64) -> Result<Option<String>, ReadError> {
    match read_no_follow(path, limit)? {
        None => Ok(None),
        Some(read) if read.is_truncated => Err(ReadError::TooLarge),
        Some(read) => Ok(Some(to_text(&read.bytes))),
    }
}

/// Whether the bytes are binary: they contain a NUL near the beginning.
pub(crate) fn is_binary(bytes: &[u8]) -> bool {
    bytes.iter().take(8 * 1024).any(|byte| *byte == 0)
}

pub(crate) fn to_text(bytes: &[u8]) -> String {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    String::from_utf8_lossy(bytes).into_owned()
}
