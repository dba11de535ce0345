//! Replaces a file so that at any moment either the old or the new content is there, complete.
//!
//! A process whose file size is limited (`RLIMIT_FSIZE`) must ignore `SIGXFSZ` to get the error
//! reported here instead of being killed.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FlockOperation, Gid, Mode, OFlags, Uid, flock};
use rustix::io::Errno;

use crate::confined::{AllowedPath, FileMetadata};
use crate::editor_write::write_in_editor;
use crate::error::FileError;
use crate::open::open_leaf;
use crate::seen_files::{Hash, Hasher, Snapshot, hash};
use crate::write_state::{ExpectedState, WriteResult};

/// Maximum size of a hard-linked file, which is kept in memory while it is rewritten.
const MAX_IN_PLACE: u64 = 64 * 1024 * 1024;

/// How long a write waits for another process that writes in the same directory.
const MAX_TURN: Duration = Duration::from_secs(1);

/// Maximum number of attempts to find a name for a temporary file.
const MAX_NAMES: u32 = 16;

/// Writes a whole file: to a temporary file next to it, synced, then renamed over it. Mode, owner,
/// and extended attributes are preserved; a new file gets the usual mode, and missing directories
/// are created. A file with several hard links, or one whose owner or directory prevents the
/// replacement, is rewritten in place, and the old content is restored if that fails.
///
/// # Errors
/// Returns an error if the file is not in the expected state, or an I/O operation fails. The old
/// content is then unchanged, and nothing is left behind.
pub fn atomic_write(
    target: &AllowedPath,
    bytes: &[u8],
    expected: ExpectedState,
) -> Result<WriteResult, FileError> {
    if let Some(written) = write_in_editor(target, bytes, expected) {
        return written;
    }
    let (folder, name) = target.parent(true)?;
    let write = WriteJob { target, folder: &folder, name: &name, bytes, expected };
    let metadata = match target.metadata_in(&folder, &name) {
        Err(FileError::NotFound { .. }) => return write.create(),
        result => result?,
    };
    // Also detects a read-only file, which a rename would not.
    let (file, metadata) = match target.open_in(&folder, &name, OFlags::RDWR) {
        Ok(opened) => (Some(opened.0), opened.1),
        // Execute-only or write-only files, and running programs: the rename works.
        Err(FileError::Io { code, .. }) if code == "ETXTBSY" => (None, metadata),
        Err(FileError::PermissionDenied { .. }) => {
            let (file, metadata) = target.open_in(&folder, &name, OFlags::WRONLY)?;
            drop(file);
            (None, metadata)
        }
        Err(error) => return Err(error),
    };
    if metadata.links > 1
        && let Some(file) = file
    {
        return write.write_in_place(file, metadata);
    }
    match write.exchange(metadata) {
        Err(ReplaceError::NotReplaceable(error)) => match file {
            Some(file) => write.write_in_place(file, metadata),
            None => Err(error),
        },
        Err(ReplaceError::Final(error)) => Err(error),
        Ok(written) => Ok(written),
    }
}

enum ReplaceError {
    /// The directory does not permit the replacement; the file itself may still be writable.
    NotReplaceable(FileError),
    Final(FileError),
}

impl From<FileError> for ReplaceError {
    fn from(error: FileError) -> Self {
        Self::Final(error)
    }
}

/// Why there is no temporary file.
enum TemporaryFileError {
    /// It could not be created.
    System(Errno),
    /// It could not be written, with the error to return.
    Reported(FileError),
}

impl From<FileError> for TemporaryFileError {
    fn from(error: FileError) -> Self {
        Self::Reported(error)
    }
}

struct WriteJob<'a> {
    target: &'a AllowedPath,
    folder: &'a OwnedFd,
    name: &'a OsString,
    bytes: &'a [u8],
    expected: ExpectedState,
}

/// A temporary file that is removed unless it was renamed.
struct TemporaryFile<'a> {
    folder: &'a OwnedFd,
    name: String,
    is_active: bool,
}

impl Drop for TemporaryFile<'_> {
    fn drop(&mut self) {
        if self.is_active {
            // Nothing more can be done about a file that cannot be removed.
            let _ = rustix::fs::unlinkat(self.folder, &self.name, AtFlags::empty());
        }
    }
}

impl WriteJob<'_> {
    fn error(&self, error: Errno) -> FileError {
        self.target.error("write", error)
    }

    fn io_error(&self, error: std::io::Error) -> FileError {
        FileError::from_io(self.target.display_path(), "write", error)
    }

    fn changed(&self) -> FileError {
        FileError::Changed { path: self.target.display_path().to_path_buf() }
    }

    /// Returns a temporary file with all of the content, synced. If supported, it gets its name
    /// only when it is complete, so that a killed process leaves nothing behind.
    fn temporary(&self, mode: u32) -> Result<(TemporaryFile<'_>, File), TemporaryFileError> {
        if let Some(file) = self.create_unnamed(mode) {
            self.fill(&file)?;
            if let Some(temporary) = self.link_name(&file) {
                return Ok((temporary, file));
            }
        }
        let (temporary, file) = self.create_named(mode).map_err(TemporaryFileError::System)?;
        self.fill(&file)?;
        Ok((temporary, file))
    }

    fn create_named(&self, mode: u32) -> Result<(TemporaryFile<'_>, File), Errno> {
        for attempt in 0..MAX_NAMES {
            let name = temporary_name(attempt);
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
            match open_leaf(self.folder, name.as_ref(), flags, mode_of(mode)) {
                Ok(file) => {
                    let temporary = TemporaryFile { folder: self.folder, name, is_active: true };
                    return Ok((temporary, File::from(file)));
                }
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Errno::EXIST)
    }

    /// Returns an unnamed file in the directory, or `None` if not supported.
    #[cfg(target_os = "linux")]
    fn create_unnamed(&self, mode: u32) -> Option<File> {
        let flags = OFlags::WRONLY | OFlags::TMPFILE;
        open_leaf(self.folder, ".".as_ref(), flags, mode_of(mode)).ok().map(File::from)
    }

    #[cfg(not(target_os = "linux"))]
    fn create_unnamed(&self, _mode: u32) -> Option<File> {
        None
    }

    /// Names an unnamed file. Returns `None` if not supported.
    fn link_name(&self, file: &File) -> Option<TemporaryFile<'_>> {
        use std::os::fd::AsRawFd as _;
        let file = format!("/proc/self/fd/{}", file.as_raw_fd());
        for attempt in 0..MAX_NAMES {
            let name = temporary_name(attempt);
            let flags = AtFlags::SYMLINK_FOLLOW;
            match rustix::fs::linkat(rustix::fs::CWD, &file, self.folder, &name, flags) {
                Ok(()) => {
                    return Some(TemporaryFile { folder: self.folder, name, is_active: true });
                }
                Err(Errno::EXIST) => {}
                Err(_) => return None,
            }
        }
        None
    }

    fn fill(&self, mut file: &File) -> Result<(), FileError> {
        file.write_all(self.bytes).map_err(|error| self.io_error(error))?;
        file.sync_all().map_err(|error| self.io_error(error))
    }

    fn create(&self) -> Result<WriteResult, FileError> {
        if matches!(self.expected, ExpectedState::Content(_)) {
            return Err(self.changed());
        }
        let (mut temporary, file) = self.temporary(0o666).map_err(|error| match error {
            TemporaryFileError::System(error) => self.error(error),
            TemporaryFileError::Reported(error) => error,
        })?;
        match rename_without_replacing(self.folder, &temporary.name, self.name) {
            Ok(()) => temporary.is_active = false,
            Err(Errno::EXIST) => {
                return Err(FileError::Exists { path: self.target.display_path().to_path_buf() });
            }
            Err(error) => return Err(self.error(error)),
        }
        self.finish(&file, true, false)
    }

    fn exchange(&self, metadata: FileMetadata) -> Result<WriteResult, ReplaceError> {
        let replace_error = |error: Errno| {
            let wrapped = self.error(error);
            match error {
                // Busy: the file is a mount point, as in containers.
                Errno::ACCESS | Errno::PERM | Errno::BUSY => ReplaceError::NotReplaceable(wrapped),
                _ => ReplaceError::Final(wrapped),
            }
        };
        let (mut temporary, file) = self.temporary(0o600).map_err(|error| match error {
            TemporaryFileError::System(error) => replace_error(error),
            TemporaryFileError::Reported(error) => ReplaceError::Final(error),
        })?;
        self.preserve_properties(&file, metadata)?;
        let _turn = self.lock_directory();
        self.check_expected()?;
        rustix::fs::renameat(self.folder, &temporary.name, self.folder, self.name)
            .map_err(replace_error)?;
        temporary.is_active = false;
        Ok(self.finish(&file, false, false)?)
    }

    /// Preserves owner, attributes, and mode of the old file. A foreign owner that cannot be
    /// preserved prevents the replacement.
    fn preserve_properties(&self, file: &File, metadata: FileMetadata) -> Result<(), ReplaceError> {
        let stat = rustix::fs::fstat(file).map_err(|error| self.error(error))?;
        if FileMetadata::from_stat(&stat).owner != metadata.owner {
            let (user, group) = metadata.owner;
            rustix::fs::fchown(file, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))
                .map_err(|error| ReplaceError::NotReplaceable(self.error(error)))?;
        }
        // Best effort: many attributes belong to the system.
        let old = open_leaf(self.folder, self.name, OFlags::RDONLY, Mode::empty());
        if let Ok(old) = old {
            copy_attributes(&old, file);
        }
        rustix::fs::fchmod(file, mode_of(metadata.mode)).map_err(|error| self.error(error))?;
        Ok(())
    }

    /// Waits until no other process of Parallax is between its check and its rename in the same
    /// directory. Without a lock, as on some network file systems, writing continues.
    fn lock_directory(&self) -> Option<File> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let directory =
            File::from(open_leaf(self.folder, ".".as_ref(), flags, Mode::empty()).ok()?);
        let end = Instant::now() + MAX_TURN;
        while let Err(error) = flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            if error != Errno::WOULDBLOCK || Instant::now() > end {
                return None;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Some(directory)
    }

    /// Checks the expected state immediately before the rename.
    fn check_expected(&self) -> Result<(), FileError> {
        match self.expected {
            ExpectedState::Anything => Ok(()),
            ExpectedState::Absent => {
                Err(FileError::Exists { path: self.target.display_path().to_path_buf() })
            }
            ExpectedState::Content(wanted) => {
                let (file, _) = self
                    .target
                    .open_in(self.folder, self.name, OFlags::RDONLY)
                    .map_err(|error| match error {
                        FileError::NotFound { .. } => self.changed(),
                        other => other,
                    })?;
                let found = hash_file(file).map_err(|error| self.io_error(error))?;
                if found == wanted { Ok(()) } else { Err(self.changed()) }
            }
        }
    }

    fn write_in_place(
        &self,
        mut file: File,
        metadata: FileMetadata,
    ) -> Result<WriteResult, FileError> {
        if metadata.size > MAX_IN_PLACE {
            let path = self.target.display_path().to_path_buf();
            return Err(FileError::TooLarge { path, size: metadata.size, limit: MAX_IN_PLACE });
        }
        let mut old = Vec::new();
        (&mut file)
            .take(MAX_IN_PLACE + 1)
            .read_to_end(&mut old)
            .map_err(|error| self.io_error(error))?;
        match self.expected {
            ExpectedState::Absent => self.check_expected()?,
            ExpectedState::Content(wanted) if hash(&old) != wanted => return Err(self.changed()),
            _ => {}
        }
        // Reserve the space before overwriting the first byte.
        let missing = (self.bytes.len() as u64).saturating_sub(old.len() as u64);
        if missing > 0 {
            self.reserve(&file, old.len() as u64, missing)?;
        }
        if let Err(error) = overwrite(&mut file, self.bytes) {
            // The space of the old content is still reserved.
            let _ = overwrite(&mut file, &old);
            return Err(self.io_error(error));
        }
        self.finish(&file, false, true)
    }

    #[cfg(target_os = "linux")]
    fn reserve(&self, file: &File, offset: u64, length: u64) -> Result<(), FileError> {
        use rustix::fs::{FallocateFlags, fallocate};
        match fallocate(file, FallocateFlags::KEEP_SIZE, offset, length) {
            // Not supported by every file system.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(()),
            Err(error) => Err(self.error(error)),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn reserve(&self, _file: &File, _offset: u64, _length: u64) -> Result<(), FileError> {
        Ok(())
    }

    fn finish(
        &self,
        file: &File,
        created: bool,
        rewritten_in_place: bool,
    ) -> Result<WriteResult, FileError> {
        // The name is durable when the directory is synced; some directories cannot be.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        if let Ok(folder) = open_leaf(self.folder, ".".as_ref(), flags, Mode::empty()) {
            let _ = rustix::fs::fsync(folder);
        }
        let stat = rustix::fs::fstat(file).map_err(|error| self.error(error))?;
        let snapshot = Snapshot::from_bytes(FileMetadata::from_stat(&stat), self.bytes);
        Ok(WriteResult { created, rewritten_in_place, snapshot })
    }
}

fn overwrite(file: &mut File, bytes: &[u8]) -> std::io::Result<()> {
    file.seek(SeekFrom::Start(0))?;
    file.write_all(bytes)?;
    file.set_len(bytes.len() as u64)?;
    file.sync_all()
}

fn hash_file(mut file: File) -> std::io::Result<Hash> {
    let mut hasher = Hasher::new();
    let mut buffer = vec![0; 128 * 1024];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(hasher.finish()),
            Ok(count) => hasher.update(buffer.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Renames a file unless the target exists.
fn rename_without_replacing(
    directory: &OwnedFd,
    from: &str,
    to: &OsString,
) -> rustix::io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    {
        use rustix::fs::{RenameFlags, renameat_with};
        match renameat_with(directory, from, directory, to, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
            result => return result,
        }
    }
    // If a rename cannot be limited to new names, use a hard link.
    match rustix::fs::linkat(directory, from, directory, to, AtFlags::empty()) {
        Ok(()) => rustix::fs::unlinkat(directory, from, AtFlags::empty()),
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::MLINK) => {
            match rustix::fs::statat(directory, to, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(_) => Err(Errno::EXIST),
                Err(_) => rustix::fs::renameat(directory, from, directory, to),
            }
        }
        Err(error) => Err(error),
    }
}

fn temporary_name(attempt: u32) -> String {
    use std::hash::{BuildHasher, Hasher as _};
    // A new hasher state is seeded with random numbers from the system.
    let mut state = std::hash::RandomState::new().build_hasher();
    state.write_u32(attempt);
    format!(".parallax-{:016x}.tmp", state.finish())
}

/// Returns a mode without the set-user-ID and set-group-ID bits: new contents must not run with the
/// privileges of another user.
fn mode_of(mode: u32) -> Mode {
    // The width of a mode differs between systems; these bits fit in all of them.
    Mode::from_raw_mode((mode & 0o1777) as rustix::fs::RawMode)
}

/// Copies extended attributes as far as the system permits.
fn copy_attributes(from: &OwnedFd, to: &File) {
    const MAX: usize = 64 * 1024;
    let mut names = vec![0u8; MAX];
    let Ok(length) = rustix::fs::flistxattr(from, names.as_mut_slice()) else { return };
    let mut value = vec![0u8; MAX];
    let names = names.get(..length).unwrap_or_default();
    for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        if let Ok(length) = rustix::fs::fgetxattr(from, name, value.as_mut_slice()) {
            let value = value.get(..length).unwrap_or_default();
            let _ = rustix::fs::fsetxattr(to, name, value, rustix::fs::XattrFlags::empty());
        }
    }
}
