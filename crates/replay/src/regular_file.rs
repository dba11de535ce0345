//! Opens files that the user names, but only regular ones: a pipe blocks, and a device may never
//! end.

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::path::Path;

/// Why a file could not be read.
#[derive(Debug)]
pub(crate) enum FileReadError {
    /// Not a regular file, but this kind of file.
    Special(&'static str),
    TooLarge,
    Io(io::Error),
}

/// Returns what a path is, if not a regular file.
pub(crate) fn describe_special_file(metadata: &Metadata) -> Option<&'static str> {
    let kind = metadata.file_type();
    if kind.is_file() {
        return None;
    }
    if kind.is_dir() {
        return Some("a directory");
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt as _;
        if kind.is_fifo() {
            return Some("a pipe");
        }
        if kind.is_socket() {
            return Some("a socket");
        }
        if kind.is_char_device() || kind.is_block_device() {
            return Some("a device");
        }
    }
    Some("something else")
}

/// Reads a regular file of at most `max_bytes` bytes.
pub(crate) fn read(path: &Path, max_bytes: u64) -> Result<Vec<u8>, FileReadError> {
    // Check before opening: opening a pipe blocks.
    let metadata = std::fs::metadata(path).map_err(FileReadError::Io)?;
    if let Some(what) = describe_special_file(&metadata) {
        return Err(FileReadError::Special(what));
    }
    if metadata.len() > max_bytes {
        return Err(FileReadError::TooLarge);
    }
    let file = File::open(path).map_err(FileReadError::Io)?;
    // Kernel files have no length, and others may grow.
    let mut bytes = Vec::new();
    file.take(max_bytes + 1).read_to_end(&mut bytes).map_err(FileReadError::Io)?;
    if bytes.len() as u64 > max_bytes { Err(FileReadError::TooLarge) } else { Ok(bytes) }
}
