//! Reads small files of git repositories.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// Returns the text of a single-line file.
pub(crate) fn line_of(path: &Path) -> Option<String> {
    let bytes = bytes_of(path, 16 * 1024)?;
    String::from_utf8(bytes).ok().map(|text| text.trim().to_owned())
}

/// Returns the bytes of a regular file, unless it is larger than `limit`.
pub(crate) fn bytes_of(path: &Path, limit: u64) -> Option<Vec<u8>> {
    // Opening a pipe would block.
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(limit + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= limit).then_some(bytes)
}
