//! Caches the output of the discovery command on disk, so that a session can declare the tools at
//! once and check later whether they changed.

use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use parallax_tools::discovered::Discovery;
use sha2::{Digest, Sha256};

/// Age after which cached results are ignored.
const CACHE_TTL: Duration = Duration::from_secs(7 * 24 * 3600);
const LIMIT: u64 = 16 * 1024 * 1024;

/// The cache file of one discovery command.
pub(super) struct DiscoveryCache {
    path: PathBuf,
}

impl DiscoveryCache {
    /// Returns the cache file for this command and directory.
    pub(super) fn new(home: &Path, discovery: &Discovery) -> Self {
        let mut hash = Sha256::new();
        let directory = discovery.directory.as_os_str().as_encoded_bytes();
        for piece in discovery.discover.iter().map(String::as_bytes).chain([directory]) {
            hash.update((piece.len() as u64).to_le_bytes());
            hash.update(piece);
        }
        let mut name = String::new();
        for byte in hash.finalize().iter().take(16) {
            // Writing to a string cannot fail.
            let _ = write!(name, "{byte:02x}");
        }
        Self { path: home.join("discovery-cache").join(format!("{name}.json")) }
    }

    /// Returns the cached output, unless it is too old. Blocking.
    pub(super) fn read(&self) -> Option<Vec<u8>> {
        let file = std::fs::File::open(&self.path).ok()?;
        let age = file.metadata().ok()?.modified().ok()?.elapsed().unwrap_or_default();
        let mut bytes = Vec::new();
        file.take(LIMIT + 1).read_to_end(&mut bytes).ok()?;
        (age < CACHE_TTL && bytes.len() as u64 <= LIMIT).then_some(bytes)
    }

    /// Caches the output. Blocking.
    pub(super) fn write(&self, output: &[u8]) {
        if let Err(error) = self.replace(output) {
            tracing::debug!(%error, "failed to cache discovered tools");
        }
    }

    fn replace(&self, report: &[u8]) -> io::Result<()> {
        let directory = self.path.parent().unwrap_or(Path::new("."));
        parallax_exec::create_private_folder(directory)?;
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        file.write_all(report)?;
        file.persist(&self.path).map_err(|error| error.error)?;
        Ok(())
    }
}
