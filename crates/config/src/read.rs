//! Small files, safely: regular ones only, and never more than a limit.

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

/// What was read.
pub(crate) struct Bytes {
    pub(crate) bytes: Vec<u8>,
    /// There was more than the limit.
    pub(crate) cut: bool,
    pub(crate) metadata: Metadata,
}

/// At most `limit` bytes of a file; `None` when it is not there. A pipe or a
/// device is never opened.
pub(crate) fn read_at_most(path: &Path, limit: u64) -> Result<Option<Bytes>, ReadError> {
    let absent =
        |error: &io::Error| matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory);
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if absent(&error) => return Ok(None),
        Err(error) => return Err(ReadError::Io(error)),
    };
    if !metadata.is_file() {
        return Err(ReadError::NotAFile);
    }
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if absent(&error) => return Ok(None),
        Err(error) => return Err(ReadError::Io(error)),
    };
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(ReadError::Io)?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let cut = bytes.len() > limit;
    bytes.truncate(limit);
    Ok(Some(Bytes { bytes, cut, metadata }))
}

/// The whole text of a file, bytes that are no UTF-8 replaced, without a byte
/// order mark.
pub(crate) fn read_text(path: &Path, limit: u64) -> Result<Option<String>, ReadError> {
    match read_at_most(path, limit)? {
        None => Ok(None),
        Some(read) if read.cut => Err(ReadError::TooLarge),
        Some(read) => Ok(Some(to_text(&read.bytes))),
    }
}

pub(crate) fn to_text(bytes: &[u8]) -> String {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    String::from_utf8_lossy(bytes).into_owned()
}
