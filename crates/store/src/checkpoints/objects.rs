//! The store of old file contents: one file for each content, named by its SHA-256 hash.
//!
//! Objects are not synced to disk one by one, because checkpoints must be fast. An object damaged
//! by a crash is detected by its hash when it is restored.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use sha1::Sha1;
use sha2::{Digest as _, Sha256};

use super::confined_root::temporary_name;
use super::state::{GitId, ObjectId};
use crate::private_files::create_private_dir;

/// Files up to this size in bytes are read into memory as a whole.
const SMALL: u64 = 1024 * 1024;

/// The objects below one directory.
#[derive(Debug)]
pub(super) struct Objects {
    folder: PathBuf,
    /// Number of bytes that this process added.
    pub added: AtomicU64,
}

/// The result of [`Objects::store`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StoreResult {
    /// The contents are in the store.
    Stored(ObjectId),
    /// The file exceeds the limit.
    TooLarge,
}

impl Objects {
    pub fn new(directory: PathBuf) -> Self {
        Self { folder: directory, added: AtomicU64::new(0) }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the path of an object.
    pub fn path(&self, id: &ObjectId) -> PathBuf {
        let hex = id.hex();
        let (head, tail) = hex.split_at(2);
        self.folder.join(head).join(tail)
    }

    /// Whether an object of this size exists. Marks it as used, so that a cleanup does not remove
    /// it before a record refers to it.
    pub fn has(&self, id: &ObjectId, size: u64) -> bool {
        let path = self.path(id);
        let there = fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.len() == size);
        if there {
            let now = rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
            let times = rustix::fs::Timestamps { last_access: now, last_modification: now };
            let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
            let _ = rustix::fs::utimensat(rustix::fs::CWD, &path, &times, flags);
        }
        there
    }

    /// Stores the contents of a file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or the store cannot be written.
    pub fn store(&self, file: &File, size: u64, limit: u64) -> io::Result<StoreResult> {
        if size > limit {
            return Ok(StoreResult::TooLarge);
        }
        if size > SMALL {
            return self.store_large(file, limit);
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 1);
        file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > limit {
            return Ok(StoreResult::TooLarge);
        }
        let id = ObjectId(Sha256::digest(&bytes).into());
        if !self.has(&id, bytes.len() as u64) {
            let (path, mut out) = self.create_temporary_file()?;
            let done = out.write_all(&bytes).and_then(|()| self.name(&path, &id));
            self.finish(&path, done, bytes.len() as u64)?;
        }
        Ok(StoreResult::Stored(id))
    }

    fn store_large(&self, file: &File, limit: u64) -> io::Result<StoreResult> {
        let (path, mut out) = self.create_temporary_file()?;
        let copied = if reflink(&out, file) {
            // The clone no longer changes, so the hash matches the stored contents.
            File::open(&path).and_then(|clone| hash_copy(clone, io::sink(), limit))
        } else {
            hash_copy(file, &mut out, limit)
        };
        match copied {
            Ok(Some((id, length))) => {
                if self.has(&id, length) {
                    let _ = fs::remove_file(&path);
                } else {
                    self.finish(&path, self.name(&path, &id), length)?;
                }
                Ok(StoreResult::Stored(id))
            }
            Ok(None) => {
                let _ = fs::remove_file(&path);
                Ok(StoreResult::TooLarge)
            }
            Err(error) => {
                let _ = fs::remove_file(&path);
                Err(error)
            }
        }
    }

    fn create_temporary_file(&self) -> io::Result<(PathBuf, File)> {
        let path = self.folder.join(temporary_name());
        let open =
            || OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path);
        let file = match open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                create_private_dir(&self.folder)?;
                open()?
            }
            result => result?,
        };
        Ok((path, file))
    }

    fn name(&self, path: &Path, id: &ObjectId) -> io::Result<()> {
        let target = self.path(id);
        match fs::rename(path, &target) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                create_private_dir(target.parent().unwrap_or(&self.folder))?;
                fs::rename(path, &target)
            }
            result => result,
        }
    }

    fn finish(&self, path: &Path, done: io::Result<()>, length: u64) -> io::Result<()> {
        match &done {
            Ok(()) => {
                self.added.fetch_add(length, Ordering::Relaxed);
            }
            Err(_) => {
                let _ = fs::remove_file(path);
            }
        }
        done
    }

    /// Writes the contents of an object to `out` and returns whether they are intact.
    ///
    /// # Errors
    /// Returns an error if the object does not exist or an I/O operation fails.
    pub fn copy_to(&self, id: &ObjectId, out: &mut impl Write) -> io::Result<bool> {
        let file = File::open(self.path(id))?;
        let found = hash_copy(file, out, u64::MAX)?;
        Ok(found.is_some_and(|(found, _)| found == *id))
    }
}

#[cfg(target_os = "linux")]
fn reflink(to: &File, from: &File) -> bool {
    rustix::fs::ioctl_ficlone(to, from).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn reflink(_to: &File, _from: &File) -> bool {
    false
}

/// Returns the hash of a stream, or `None` if it is longer than `limit`.
pub(super) fn hash_of(reader: impl Read, limit: u64) -> io::Result<Option<ObjectId>> {
    Ok(hash_copy(reader, io::sink(), limit)?.map(|(id, _)| id))
}

fn hash_copy(
    mut reader: impl Read,
    mut out: impl Write,
    limit: u64,
) -> io::Result<Option<(ObjectId, u64)>> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 128 * 1024];
    let mut length = 0u64;
    loop {
        let count = match reader.read(&mut buffer) {
            Ok(0) => return Ok(Some((ObjectId(hasher.finalize().into()), length))),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let bytes = buffer.get(..count).unwrap_or_default();
        length += bytes.len() as u64;
        if length > limit {
            return Ok(None);
        }
        hasher.update(bytes);
        out.write_all(bytes)?;
    }
}

/// Returns the git blob ID of these bytes.
pub(super) fn blob_id(bytes: &[u8]) -> GitId {
    let mut hasher = Sha1::new();
    hasher.update(format!("blob {}\0", bytes.len()));
    hasher.update(bytes);
    GitId(hasher.finalize().into())
}

/// Returns the git blob ID of a stream, which must have `size` bytes.
pub(super) fn file_blob_id(reader: &mut impl Read, size: u64) -> io::Result<Option<GitId>> {
    let mut hasher = Sha1::new();
    hasher.update(format!("blob {size}\0"));
    let mut buffer = vec![0; 128 * 1024];
    let mut length = 0u64;
    loop {
        let count = match reader.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        length += count as u64;
        if length > size {
            return Ok(None);
        }
        hasher.update(buffer.get(..count).unwrap_or_default());
    }
    Ok((length == size).then(|| GitId(hasher.finalize().into())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(objects: &Objects, path: &Path, limit: u64) -> StoreResult {
        let file = File::open(path).expect("file");
        let size = file.metadata().expect("facts").len();
        objects.store(&file, size, limit).expect("taken")
    }

    #[test]
    fn equal_objects_are_stored_once_and_truncated_ones_detected() {
        let directory = tempfile::tempdir().expect("directory");
        let objects = Objects::new(directory.path().join("objects"));
        for size in [0, 10, 3 * 1024 * 1024] {
            let before = objects.added.load(Ordering::Relaxed);
            let file = directory.path().join("file");
            fs::write(&file, vec![7; size]).expect("write");
            let StoreResult::Stored(id) = take(&objects, &file, u64::MAX) else { panic!("kept") };
            assert_eq!(take(&objects, &file, u64::MAX), StoreResult::Stored(id));
            assert_eq!(objects.added.load(Ordering::Relaxed) - before, size as u64);
            let mut out = Vec::new();
            assert!(objects.copy_to(&id, &mut out).expect("copied") && out == vec![7; size]);
            if size > 0 {
                fs::write(objects.path(&id), vec![8; size]).expect("tear");
                assert!(!objects.copy_to(&id, &mut io::sink()).expect("copied"));
                assert_eq!(take(&objects, &file, size as u64 - 1), StoreResult::TooLarge);
            }
        }
    }

    #[test]
    fn blob_ids_match_git() {
        let hello = "ce013625030ba8dba906f756967f9e9ca394464a";
        assert_eq!(blob_id(b"hello\n").hex(), hello);
        let id = file_blob_id(&mut &b"hello\n"[..], 6).expect("read");
        assert_eq!(id.map(|id| id.hex()).as_deref(), Some(hello));
        assert_eq!(file_blob_id(&mut &b"hello\n"[..], 5).expect("read"), None);
    }
}
