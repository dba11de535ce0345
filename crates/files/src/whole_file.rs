//! Reads whole files with bounded memory, as an editor has them or from disk.

use std::io::Read as _;

use crate::confined::{AllowedPath, FileMetadata};
use crate::error::FileError;
use crate::in_editor::replace_by_editor;

/// Reads a whole file of at most `limit` bytes.
///
/// # Errors
/// Returns an error if it cannot be read or is larger.
pub fn read_capped(path: &AllowedPath, limit: u64) -> Result<(Vec<u8>, FileMetadata), FileError> {
    replace_by_editor(path, limit, read_from_disk(path, limit))
}

pub(crate) fn read_from_disk(
    path: &AllowedPath,
    limit: u64,
) -> Result<(Vec<u8>, FileMetadata), FileError> {
    let (file, metadata) = path.open()?;
    let too_large =
        |size| FileError::TooLarge { path: path.display_path().to_path_buf(), size, limit };
    if metadata.size > limit {
        return Err(too_large(metadata.size));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.size).unwrap_or(0));
    // Kernel files report size 0 but have content; other files may grow.
    file.take(limit.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|error| FileError::from_io(path.display_path(), "read", error))?;
    if bytes.len() as u64 > limit {
        return Err(too_large(bytes.len() as u64));
    }
    Ok((bytes, metadata))
}

/// Reads the first bytes of a file, at most `limit`.
///
/// # Errors
/// Returns an error if it cannot be read.
pub fn read_head(path: &AllowedPath, limit: u64) -> Result<(Vec<u8>, FileMetadata), FileError> {
    let (file, metadata) = path.open()?;
    let mut bytes = Vec::new();
    file.take(limit)
        .read_to_end(&mut bytes)
        .map_err(|error| FileError::from_io(path.display_path(), "read", error))?;
    Ok((bytes, metadata))
}
