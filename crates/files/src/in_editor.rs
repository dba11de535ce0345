//! Files that are open in an editor: the content in the editor is used instead of the one on disk.

use std::io;

use crate::confined::{AllowedPath, EntryKind, FileMetadata};
use crate::error::FileError;

const BYTE_ORDER_MARK: char = '\u{feff}';

type ReadFile = (Vec<u8>, FileMetadata);

/// Returns the content in the editor instead of the one on disk, for text files. Content of more than
/// `limit` bytes is an error: that on disk may be another.
pub(crate) fn replace_by_editor(
    path: &AllowedPath,
    limit: u64,
    on_disk: Result<ReadFile, FileError>,
) -> Result<ReadFile, FileError> {
    let Some(editor) = path.editor() else { return on_disk };
    let metadata = match &on_disk {
        Ok((bytes, metadata)) if is_plain_text(bytes) => *metadata,
        Err(FileError::NotFound { .. }) => unsaved_metadata(),
        _ => return on_disk,
    };
    match editor.read(path.path()) {
        Ok(Some(text)) if text.len() as u64 > limit => Err(FileError::TooLarge {
            path: path.display_path().to_path_buf(),
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
            Err(FileError::from_io(path.display_path(), "read", io::Error::other(message)))
        }
    }
}

/// Whether the bytes are UTF-8 without a byte order mark, which editors hide.
pub(crate) fn is_plain_text(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| !text.starts_with(BYTE_ORDER_MARK))
}

/// Returns the metadata of a file that was never saved.
pub(crate) fn unsaved_metadata() -> FileMetadata {
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
