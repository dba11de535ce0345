//! Identifies files independently of their paths.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::UNIX_EPOCH;

/// Identifies a file or directory independently of its path. Inodes are reused; with the
/// creation time (in nanoseconds since 1970) they are unique.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FileIdentity {
    /// The inode number.
    pub(crate) inode: u64,
    /// The creation time.
    pub(crate) created: u128,
}

impl FileIdentity {
    /// Returns the identity of what is at the path, without following links.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        Some(Self::from(&path.symlink_metadata().ok()?))
    }
}

impl From<&std::fs::Metadata> for FileIdentity {
    fn from(data: &std::fs::Metadata) -> Self {
        // Some file systems store no creation time; a move does not change the modification time.
        let changed = || data.modified().ok().filter(|_| !data.is_dir());
        let time = data.created().ok().or_else(changed);
        let born = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        Self { inode: data.ino(), created: born.map_or(0, |born| born.as_nanos()) }
    }
}
