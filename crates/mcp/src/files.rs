//! Small private files, replaced atomically.

use std::io::{self, Read as _, Write as _};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Reads JSON; `None` if the file is missing, too large, or invalid.
pub(crate) fn read<T: DeserializeOwned>(path: &Path, limit: u64) -> Option<T> {
    let mut text = Vec::new();
    let file = std::fs::File::open(path).ok()?;
    file.take(limit + 1).read_to_end(&mut text).ok()?;
    if text.len() as u64 > limit {
        return None;
    }
    serde_json::from_slice(&text).ok()
}

/// Writes JSON with mode 0600 into a directory with mode 0700.
pub(crate) fn write(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    parallax_exec::create_private_folder(directory)?;
    // Serialized at once: each small write would be a system call.
    let text = serde_json::to_vec(value)?;
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(&text)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}
