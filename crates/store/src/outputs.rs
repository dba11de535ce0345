//! Outputs of tools that are too long to be sent again and again.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::paths::{create_private_dir, path_hash};

/// Writes an output to a file of its own that only its owner can read, and
/// gives where it is. The same output of a tool has one file. Blocking.
///
/// # Errors
/// When the folder or the file cannot be written.
pub fn keep_output(folder: &Path, tool: &str, text: &str) -> io::Result<PathBuf> {
    create_private_dir(folder)?;
    let tool: String =
        tool.chars().filter(|char| char.is_ascii_alphanumeric() || *char == '_').take(64).collect();
    let hash = path_hash(Path::new(text));
    let path = folder.join(format!("{tool}_{}.txt", hash.get(..16).unwrap_or(&hash)));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = match options.open(&path) {
        Ok(mut file) => file.write_all(text.as_bytes()),
        // It was kept before; a shorter one is what a crash left.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let whole = std::fs::metadata(&path)?.len() == text.len() as u64;
            if whole { Ok(()) } else { std::fs::write(&path, text) }
        }
        Err(error) => Err(error),
    };
    written.map(|()| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_is_kept_once_and_privately() {
        let folder = tempfile::tempdir().expect("folder");
        let outputs = folder.path().join("tool-outputs");
        let one = keep_output(&outputs, "../run shell", "all of it").expect("kept");
        assert_eq!(keep_output(&outputs, "../run shell", "all of it").expect("kept"), one);
        assert_eq!(one.parent(), Some(outputs.as_path()));
        assert_eq!(std::fs::read_to_string(&one).expect("text"), "all of it");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::metadata(&one).expect("file").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }
}
