//! Writes files that are open in an editor through the editor.

use std::io;

use crate::confined::AllowedPath;
use crate::error::FileError;
use crate::in_editor::{is_plain_text, unsaved_metadata};
use crate::seen_files::{Snapshot, hash};
use crate::whole_file::{read_capped, read_from_disk};
use crate::write_state::{ExpectedState, WriteResult};

/// Maximum size of a file that is written through an editor.
const MAX_WRITTEN: u64 = 64 * 1024 * 1024;

/// Writes through the editor. Returns `None` if the file must be written to disk.
pub(crate) fn write_in_editor(
    target: &AllowedPath,
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
        return Some(Err(FileError::Changed { path: target.display_path().to_path_buf() }));
    }
    // Also creates missing directories.
    if let Err(error) = target.parent(true) {
        return Some(Err(error));
    }
    let failed = |message: String| {
        FileError::from_io(target.display_path(), "write", io::Error::other(message))
    };
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
        let metadata = target.open().map_or_else(|_| unsaved_metadata(), |(_, metadata)| metadata);
        WriteResult {
            created,
            rewritten_in_place: true,
            snapshot: Snapshot::from_bytes(metadata, bytes),
        }
    }))
}
