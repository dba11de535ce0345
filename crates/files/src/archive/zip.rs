//! Unpacks zip archives.

use std::fs::File;
use std::io::{self, Read as _};

use zip::ZipArchive;
use zip::read::ZipFile;
use zip::result::ZipError;

use super::{ArchiveError, UnpackTarget, display_name};

/// Unpacks a file.
pub(super) fn unpack(file: File, target: &mut UnpackTarget<'_>) -> Result<(), ArchiveError> {
    let mut archive = ZipArchive::new(io::BufReader::new(file)).map_err(|error| match error {
        ZipError::Io(error) => ArchiveError::Io(error),
        _ => ArchiveError::Malformed("its directory"),
    })?;
    // The library knows only the last of several entries with one name.
    if archive.has_duplicate_names() {
        return Err(ArchiveError::Malformed("an entry is duplicated"));
    }
    for index in 0..archive.len() {
        // Only the facts of the entry, so that it is rejected before its data is opened.
        let entry =
            archive.by_index_raw(index).map_err(|_| ArchiveError::Malformed("a file in it"))?;
        let name = String::from_utf8_lossy(entry.name_raw()).into_owned();
        // The upper half is the Unix mode, if the writer set one.
        let mode = entry.unix_mode().unwrap_or(0);
        let is_directory = check(&entry, &name, mode)?;
        drop(entry);
        if is_directory {
            target.directory(&name)?;
            continue;
        }
        let to_error = |reason| ArchiveError::Entry { name: display_name(&name), reason };
        let mut entry = archive.by_index(index).map_err(|error| match error {
            ZipError::CompressionMethodNotSupported(_) | ZipError::UnsupportedArchive(_) => {
                to_error("uses an unknown compression method")
            }
            ZipError::Io(error) => ArchiveError::Io(error),
            _ => ArchiveError::Malformed("a file in it"),
        })?;
        let size = entry.size();
        target.file(&name, size, mode & 0o111 != 0, &mut entry)?;
        // Reading to the end verifies the checksum. More data than declared is not checked.
        if !matches!(entry.read(&mut [0; 1]), Ok(0)) {
            return Err(to_error("is damaged"));
        }
    }
    match target.entries {
        0 => Err(ArchiveError::Malformed("it is empty")),
        _ => Ok(()),
    }
}

/// Rejects what is not a plain file or a directory. Returns whether it is a directory.
fn check(entry: &ZipFile<'_, impl io::Read>, name: &str, mode: u32) -> Result<bool, ArchiveError> {
    let to_error = |reason| ArchiveError::Entry { name: display_name(name), reason };
    match mode & 0o170_000 {
        0o120_000 => return Err(ArchiveError::Link(display_name(name))),
        0 | 0o100_000 | 0o040_000 => {}
        _ => return Err(to_error("is not a file or directory")),
    }
    if name.ends_with('/') || name.ends_with('\\') || mode & 0o170_000 == 0o040_000 {
        return Ok(true);
    }
    if entry.encrypted() {
        return Err(to_error("is encrypted"));
    }
    Ok(false)
}
