//! Records what the model has seen of each file, to detect changes by others.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest, Sha256};

use crate::confined::FileMetadata;

/// Files up to this size are identified by content, larger ones by size, time, and inode.
pub(crate) const HASHED_SIZE: u64 = 16 * 1024 * 1024;
/// Maximum size of a file of which a copy is kept, to show what changed.
const COPIED_SIZE: usize = 128 * 1024;
/// Maximum size of all copies.
const COPIES_SIZE: usize = 8 * 1024 * 1024;

/// The hash of a file's content.
pub type Hash = [u8; 32];

/// Hashes content in chunks.
pub(crate) struct Hasher(Sha256);

impl Hasher {
    pub(crate) fn new() -> Self {
        Self(Sha256::new())
    }
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }
    pub(crate) fn finish(self) -> Hash {
        self.0.finalize().into()
    }
}

/// Returns the hash of bytes.
pub fn hash(bytes: &[u8]) -> Hash {
    Sha256::digest(bytes).into()
}

/// The state of a file at one point in time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Snapshot {
    /// The metadata.
    pub metadata: FileMetadata,
    /// The hash; `None` for very large files.
    pub hash: Option<Hash>,
}

impl Snapshot {
    /// Returns the state of a file whose content is in memory.
    pub fn from_bytes(metadata: FileMetadata, bytes: &[u8]) -> Self {
        Self { metadata, hash: (bytes.len() as u64 <= HASHED_SIZE).then(|| hash(bytes)) }
    }

    /// Whether both states are known to have the same content.
    pub fn same_content(&self, other: &Self) -> bool {
        match (self.hash, other.hash) {
            (Some(one), Some(two)) => one == two,
            _ => {
                let key =
                    |metadata: &FileMetadata| (metadata.size, metadata.modified, metadata.identity);
                key(&self.metadata) == key(&other.metadata)
            }
        }
    }
}

/// How a file on disk compares with what the model saw.
#[derive(Debug, Clone, PartialEq)]
pub enum Freshness {
    /// The model has never seen it.
    NeverSeen,
    /// It is unchanged since the model saw it.
    Fresh,
    /// It was changed. Contains the old bytes, if a copy was kept.
    Changed(Option<Arc<[u8]>>),
}

#[derive(Debug)]
struct SeenFile {
    snapshot: Snapshot,
    copy: Option<Arc<[u8]>>,
    order: u64,
}

/// The files that the model of a session has seen. Shared.
#[derive(Debug, Default)]
pub struct SeenFiles {
    ledger: Mutex<SeenFilesState>,
}

#[derive(Debug, Default)]
struct SeenFilesState {
    files: HashMap<PathBuf, SeenFile>,
    next: u64,
    copied: usize,
}

impl SeenFiles {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Records that the model knows this state of a file (by its real path). `bytes`: the whole
    /// content, if in memory.
    pub fn record(&self, path: &Path, snapshot: Snapshot, bytes: Option<&[u8]>) {
        let copy = bytes.filter(|bytes| bytes.len() <= COPIED_SIZE).map(Arc::from);
        let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        ledger.insert(path, snapshot, copy);
    }

    /// Compares a state with what the model saw.
    pub fn compare(&self, path: &Path, now: &Snapshot) -> Freshness {
        let ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        match ledger.files.get(path) {
            None => Freshness::NeverSeen,
            Some(seen) if seen.snapshot.same_content(now) => Freshness::Fresh,
            Some(file) => Freshness::Changed(file.copy.clone()),
        }
    }

    /// Whether the model saw the file at all.
    pub fn has_seen(&self, path: &Path) -> bool {
        let ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        ledger.files.contains_key(path)
    }

    /// Forgets a file, so that a change applies to its current content.
    pub fn forget(&self, path: &Path) {
        let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        let old = ledger.files.remove(path);
        ledger.copied -= old.and_then(|old| old.copy).map_or(0, |copy| copy.len());
    }

    /// Forgets all files, for a new conversation.
    pub fn clear(&self) {
        *self.ledger.lock().unwrap_or_else(PoisonError::into_inner) = SeenFilesState::default();
    }
}

impl SeenFilesState {
    fn insert(&mut self, path: &Path, snapshot: Snapshot, copy: Option<Arc<[u8]>>) {
        let order = self.next;
        self.next += 1;
        self.copied += copy.as_ref().map_or(0, |copy| copy.len());
        let old = self.files.insert(path.to_path_buf(), SeenFile { snapshot, copy, order });
        self.copied -= old.and_then(|old| old.copy).map_or(0, |copy| copy.len());
        while self.copied > COPIES_SIZE {
            let oldest = self
                .files
                .values_mut()
                .filter(|file| file.copy.is_some())
                .min_by_key(|file| file.order);
            let Some(copy) = oldest.and_then(|file| file.copy.take()) else { break };
            self.copied -= copy.len();
        }
    }
}
