//! The project of all scenes.

use std::path::{Path, PathBuf};

/// The project directory, removed when dropped.
pub(super) struct Project(PathBuf);

const FILES: [(&str, &str); 8] = [
    (".git/HEAD", "ref: refs/heads/retry-delay\n"),
    (".git/refs/keep", ""),
    (".git/objects/keep", ""),
    ("Cargo.toml", "[package]\nname = \"ferry\"\nversion = \"0.3.0\"\n"),
    ("GEMINI.md", "# ferry\n\nMoves files between hosts.\n"),
    ("src/main.rs", "mod retry;\n\nfn main() {}\n"),
    ("src/retry.rs", RETRY),
    ("tests/retry.rs", "#[test]\nfn waits_between_attempts() {}\n"),
];

/// A loop that never waits.
const RETRY: &str = "\
use std::time::Duration;

pub fn send(packet: &Packet, link: &mut Link) -> Result<(), Error> {
    let mut attempt = 0;
    loop {
        match link.write(packet) {
            Ok(()) => return Ok(()),
            Err(error) if attempt == MOST => return Err(error),
            Err(_) => {
                let delay = Duration::from_millis(100) * 2_u32.pow(attempt);
                attempt += 1;
            }
        }
    }
}
";

impl Project {
    /// Creates it in a directory. Fails if it exists, because it could belong to someone else.
    pub(super) fn new(parent: &Path) -> std::io::Result<Self> {
        let directory = parent.join("ferry");
        std::fs::create_dir(&directory)?;
        let project = Self(directory.canonicalize()?);
        for (path, text) in FILES {
            let path = project.0.join(path);
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent)?;
            }
            std::fs::write(path, text)?;
        }
        Ok(project)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        // It is in a directory for temporary files, so a failure is harmless.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
