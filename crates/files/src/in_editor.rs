//! Files that are open in an editor: the content in the editor is used instead of the one on disk.

use std::io;

use crate::confined::{Confined, EntryKind, FileMetadata};
use crate::error::FileError;
use crate::lines::{read_capped, read_from_disk};
use crate::seen_files::{Snapshot, hash};
use crate::write::{ExpectedState, WriteResult};

/// Maximum size of a file that is written through an editor.
const MAX_WRITTEN: u64 = 64 * 1024 * 1024;

const BYTE_ORDER_MARK: char = '\u{feff}';

type ReadFile = (Vec<u8>, FileMetadata);

/// Returns the content in the editor instead of the one on disk, for text files. Content of more than
/// `limit` bytes is an error: that on disk may be another.
pub(crate) fn replace_by_editor(
    path: &Confined,
    limit: u64,
    on_disk: Result<ReadFile, FileError>,
) -> Result<ReadFile, FileError> {
    let Some(editor) = path.editor() else { return on_disk };
    let metadata = match &on_disk {
        Ok((bytes, metadata)) if is_plain_text(bytes) => *metadata,
        Err(FileError::NotFound { .. }) => unsaved(),
        _ => return on_disk,
    };
    match editor.read(path.path()) {
        Ok(Some(text)) if text.len() as u64 > limit => Err(FileError::TooLarge {
            path: path.shown().to_path_buf(),
            size: text.len() as u64,
            limit,
        }),
        Ok(Some(mut text)) => {
            // Editors hide the byte order mark, so it could not be written back.
            if text.starts_with(BYTE_ORDER_MARK) {
                text.remove(0);
            }
            let size = text.len() as u64;
            Ok((text.into_bytes(), FileMetadata { size, ..metadata }))
        }
        Ok(None) => on_disk,
        // Clients have no common error for a file that they do not have.
        Err(_) if on_disk.is_err() => on_disk,
        Err(message) => {
            let message = format!("the editor: {message}");
            Err(FileError::from_io(path.shown(), "read", io::Error::other(message)))
        }
    }
}

/// Writes through the editor. Returns `None` if the file must be written to disk.
pub(crate) fn write_in_editor(
    target: &Confined,
    bytes: &[u8],
    expected: ExpectedState,
) -> Option<Result<WriteResult, FileError>> {
    let editor = target.editor()?;
    let text = std::str::from_utf8(bytes).ok().filter(|_| is_plain_text(bytes))?;
    let before = read_capped(target, MAX_WRITTEN);
    let created = match &before {
        Ok((before, _)) if is_plain_text(before) => false,
        Err(FileError::NotFound { .. }) => true,
        _ => return None,
    };
    let is_expected = match (expected, &before) {
        (ExpectedState::Anything, _) | (ExpectedState::Absent, Err(_)) => true,
        (ExpectedState::Content(wanted), Ok((before, _))) => hash(before) == wanted,
        _ => false,
    };
    if !is_expected {
        return Some(Err(FileError::Changed { path: target.shown().to_path_buf() }));
    }
    // Also creates missing directories.
    if let Err(error) = target.parent(true) {
        return Some(Err(error));
    }
    let failed =
        |message: String| FileError::from_io(target.shown(), "write", io::Error::other(message));
    let Some(written) = editor.write(target.path(), text) else {
        // The disk is written, whose content may be older than what the editor shows.
        let is_unsaved = match (&before, read_from_disk(target, MAX_WRITTEN)) {
            (Ok((shown, _)), Ok((saved, _))) => *shown != saved,
            (Ok(_), Err(_)) => true,
            _ => false,
        };
        let message = "it has unsaved changes in the editor: save it there first".to_owned();
        return is_unsaved.then(|| Err(failed(message)));
    };
    let written = written.map_err(failed);
    Some(written.map(|()| {
        let metadata = target.open().map_or_else(|_| unsaved(), |(_, metadata)| metadata);
        WriteResult { created, in_place: true, snapshot: Snapshot::of(metadata, bytes) }
    }))
}

/// Whether the bytes are UTF-8 without a byte order mark, which editors hide.
fn is_plain_text(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| !text.starts_with(BYTE_ORDER_MARK))
}

/// Returns the metadata of a file that was never saved.
fn unsaved() -> FileMetadata {
    FileMetadata {
        kind: EntryKind::File,
        size: 0,
        modified: (0, 0),
        identity: (0, 0),
        mode: 0o644,
        links: 1,
        owner: (0, 0),
    }
}
