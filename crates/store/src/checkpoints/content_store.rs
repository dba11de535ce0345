//! The saved contents of files, and the size limit of their store.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use super::CheckpointOptions;
use super::confined_root::{ConfinedPath, EntryHandle, read_state};
use super::objects::{Objects, StoreResult, file_blob_id, hash_of};
use super::state::{EncodedPath, GitId, PathState, StoredContent, human_size};

/// Files up to this size in bytes may use the part of the store that is reserved for small files.
const SMALL_BYTES: u64 = 1024 * 1024;

/// What to do with the contents of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContentHandling {
    /// Store them.
    Store,
    /// Only hash them.
    Hash,
}

/// The contents that the sessions of all projects saved, as seen by one session.
#[derive(Debug)]
pub(super) struct ContentStore {
    /// The checkpoint directory.
    pub folder: PathBuf,
    pub objects: Objects,
    /// The records of this session, which a cleanup never removes.
    pub journal: PathBuf,
    /// Size limit of the whole store in bytes.
    pub total_bytes: u64,
    /// Size limit of a saved file in bytes.
    file_bytes: u64,
    /// The size of the store in bytes when it was last measured, `u64::MAX` before that.
    pub measured_size: AtomicU64,
    /// When the store was last cleaned up, in nanoseconds since 1970.
    pub cleaned_at: AtomicI64,
}

impl ContentStore {
    /// Opens the store for a session with this journal. Does not access the disk.
    pub fn new(options: &CheckpointOptions, journal: PathBuf) -> Self {
        Self {
            folder: options.folder.clone(),
            objects: Objects::new(options.folder.join("objects")),
            journal,
            total_bytes: options.total_bytes,
            file_bytes: options.file_bytes,
            measured_size: AtomicU64::new(u64::MAX),
            cleaned_at: AtomicI64::new(0),
        }
    }

    /// Returns the state of a path including its contents: stored, hashed, or identical to a git
    /// blob. `blob` is a git blob that the contents may be identical to.
    pub fn snapshot(
        &self,
        location: &ConfinedPath,
        blob: Option<(&EncodedPath, GitId)>,
        handling: ContentHandling,
    ) -> io::Result<PathState> {
        let mut state = read_state(location)?;
        let PathState::File { content, stamp } = &mut state else { return Ok(state) };
        let limit = self.file_bytes;
        if stamp.size > limit {
            *content = StoredContent::Unavailable(too_large(stamp.size));
            return Ok(state);
        }
        let (file, opened) = match EntryHandle::open(location, false)?.file() {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                *content = StoredContent::Unavailable("it could not be read".to_owned());
                return Ok(state);
            }
            Err(error) => return Err(error),
        };
        *stamp = opened;
        if let Some((top, blob)) = blob {
            if file_blob_id(&mut &file, stamp.size)? == Some(blob) {
                *content = StoredContent::Git { top: top.clone(), blob };
                return Ok(state);
            }
            io::Seek::seek(&mut &file, io::SeekFrom::Start(0))?;
        }
        *content = match handling {
            ContentHandling::Hash => match hash_of(&file, limit)? {
                Some(id) => StoredContent::Hashed(id),
                None => StoredContent::Unavailable(too_large(stamp.size)),
            },
            ContentHandling::Store
                if !self.has_space_for(stamp.size) && !self.free_space(stamp.size) =>
            {
                StoredContent::Unavailable(store_full())
            }
            ContentHandling::Store => match self.objects.store(&file, stamp.size, limit) {
                Ok(StoreResult::Stored(id)) => StoredContent::Stored(id),
                Ok(StoreResult::TooLarge) => StoredContent::Unavailable(too_large(stamp.size)),
                Err(error) if is_full(&error) => StoredContent::Unavailable(disk_full()),
                Err(error) => return Err(error),
            },
        };
        Ok(state)
    }

    /// Returns the size limit of the store for adding this many bytes. The last tenth is reserved
    /// for small files.
    pub fn limit_with(&self, bytes: u64) -> u64 {
        match bytes > SMALL_BYTES {
            true => self.total_bytes / 10 * 9,
            false => self.total_bytes,
        }
    }

    /// Whether the store has space for this many more bytes.
    pub fn has_space_for(&self, bytes: u64) -> bool {
        let measured = self.measured_size.load(Ordering::Relaxed);
        let measured = if measured == u64::MAX { 0 } else { measured };
        let used = measured.saturating_add(self.objects.added.load(Ordering::Relaxed));
        used.saturating_add(bytes) <= self.limit_with(bytes)
    }
}

pub(super) fn too_large(size: u64) -> String {
    format!("its previous content was not saved ({})", human_size(size))
}

fn disk_full() -> String {
    "its previous content was not saved (the disk is full)".to_owned()
}

/// Whether an error means that the file system or the quota has no space.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

pub(super) fn store_full() -> String {
    "its previous content was not saved (the checkpoint store is full)".to_owned()
}
