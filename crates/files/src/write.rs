//! Replacing a file so that at every moment either the old or the new content
//! is there, whole.
//!
//! A process whose file size is limited (`RLIMIT_FSIZE`) must ignore `SIGXFSZ`
//! to get the error reported here instead of being killed.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

use crate::confined::{Confined, Facts};
use crate::error::FileError;
use crate::open::open_leaf;
use crate::seen::{Hash, Hasher, Snapshot, hash};

/// A hard-linked file up to this size is kept in memory while it is rewritten.
const MAX_IN_PLACE: u64 = 64 * 1024 * 1024;

/// Names that are tried for a temporary file.
const MOST_NAMES: u32 = 16;

/// What must be there for the write to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// Whatever.
    Anything,
    /// Nothing: the file is new.
    Absent,
    /// A file with this content.
    Content(Hash),
}

/// What a write did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Written {
    /// Whether the file is new.
    pub created: bool,
    /// Whether it was rewritten in place (hard links, foreign owner), not
    /// exchanged by a rename.
    pub in_place: bool,
    /// The state of the file now.
    pub snapshot: Snapshot,
}

/// Writes a whole file: into a temporary file beside it, made durable, then
/// renamed over it. Mode, owner and extended attributes stay; a new file gets
/// the usual mode, missing folders are made. A file with several hard links,
/// or one whose owner or folder forbids the exchange, is rewritten in place,
/// with the old content put back if that fails.
///
/// # Errors
/// When something else is there than expected, or the system refuses. The old
/// content is then as it was, and nothing is left behind.
pub fn atomic_write(
    target: &Confined,
    bytes: &[u8],
    expected: Expected,
) -> Result<Written, FileError> {
    let (folder, name) = target.parent(true)?;
    let write = Job { target, folder: &folder, name: &name, bytes, expected };
    let facts = match target.facts_in(&folder, &name) {
        Err(FileError::NotFound { .. }) => return write.create(),
        result => result?,
    };
    // Also tells a read-only file apart, which a rename would not.
    let (file, facts) = match target.open_in(&folder, &name, OFlags::RDWR) {
        Ok(opened) => (Some(opened.0), opened.1),
        // Execute-only or write-only files, and programs that run: the rename works.
        Err(FileError::Io { code, .. }) if code == "ETXTBSY" => (None, facts),
        Err(FileError::PermissionDenied { .. }) => {
            let (file, facts) = target.open_in(&folder, &name, OFlags::WRONLY)?;
            drop(file);
            (None, facts)
        }
        Err(error) => return Err(error),
    };
    if facts.links > 1
        && let Some(file) = file
    {
        return write.in_place(file, facts);
    }
    match write.exchange(facts) {
        Err(Failure::NotExchangeable(error)) => match file {
            Some(file) => write.in_place(file, facts),
            None => Err(error),
        },
        Err(Failure::Final(error)) => Err(error),
        Ok(written) => Ok(written),
    }
}

enum Failure {
    /// The folder does not let files be exchanged; the file itself may be
    /// written all the same.
    NotExchangeable(FileError),
    Final(FileError),
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        Self::Final(error)
    }
}

/// Why there is no temporary file.
enum Unfilled {
    /// It could not be made.
    System(Errno),
    /// It could not be filled.
    Told(FileError),
}

impl From<FileError> for Unfilled {
    fn from(error: FileError) -> Self {
        Self::Told(error)
    }
}

struct Job<'a> {
    target: &'a Confined,
    folder: &'a OwnedFd,
    name: &'a OsString,
    bytes: &'a [u8],
    expected: Expected,
}

/// A temporary file that is removed unless it was renamed.
struct Temporary<'a> {
    folder: &'a OwnedFd,
    name: String,
    armed: bool,
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if self.armed {
            // Nothing more can be done about a file that does not go away.
            let _ = rustix::fs::unlinkat(self.folder, &self.name, AtFlags::empty());
        }
    }
}

impl Job<'_> {
    fn error(&self, error: Errno) -> FileError {
        self.target.error("write", error)
    }

    fn io_error(&self, error: std::io::Error) -> FileError {
        FileError::from_io(self.target.shown(), "write", error)
    }

    fn changed(&self) -> FileError {
        FileError::Changed { path: self.target.shown().to_path_buf() }
    }

    /// A temporary file with all of the content, durable. It gets its name when
    /// the content is in it, where the system can do that: a process that is
    /// killed meanwhile leaves nothing behind.
    fn temporary(&self, mode: u32) -> Result<(Temporary<'_>, File), Unfilled> {
        if let Some(file) = self.nameless(mode) {
            self.fill(&file)?;
            if let Some(temporary) = self.give_name(&file) {
                return Ok((temporary, file));
            }
        }
        let (temporary, file) = self.named(mode).map_err(Unfilled::System)?;
        self.fill(&file)?;
        Ok((temporary, file))
    }

    fn named(&self, mode: u32) -> Result<(Temporary<'_>, File), Errno> {
        for attempt in 0..MOST_NAMES {
            let name = temporary_name(attempt);
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
            match open_leaf(self.folder, name.as_ref(), flags, mode_of(mode)) {
                Ok(file) => {
                    let temporary = Temporary { folder: self.folder, name, armed: true };
                    return Ok((temporary, File::from(file)));
                }
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Errno::EXIST)
    }

    /// A file in the folder that has no name; `None` where there are none.
    #[cfg(target_os = "linux")]
    fn nameless(&self, mode: u32) -> Option<File> {
        let flags = OFlags::WRONLY | OFlags::TMPFILE;
        open_leaf(self.folder, ".".as_ref(), flags, mode_of(mode)).ok().map(File::from)
    }

    #[cfg(not(target_os = "linux"))]
    fn nameless(&self, _mode: u32) -> Option<File> {
        None
    }

    /// Gives a nameless file a name; `None` where that cannot be done.
    fn give_name(&self, file: &File) -> Option<Temporary<'_>> {
        use std::os::fd::AsRawFd as _;
        let file = format!("/proc/self/fd/{}", file.as_raw_fd());
        for attempt in 0..MOST_NAMES {
            let name = temporary_name(attempt);
            let flags = AtFlags::SYMLINK_FOLLOW;
            match rustix::fs::linkat(rustix::fs::CWD, &file, self.folder, &name, flags) {
                Ok(()) => return Some(Temporary { folder: self.folder, name, armed: true }),
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

    fn create(&self) -> Result<Written, FileError> {
        if matches!(self.expected, Expected::Content(_)) {
            return Err(self.changed());
        }
        let (mut temporary, file) = self.temporary(0o666).map_err(|error| match error {
            Unfilled::System(error) => self.error(error),
            Unfilled::Told(error) => error,
        })?;
        match rename_new(self.folder, &temporary.name, self.name) {
            Ok(()) => temporary.armed = false,
            Err(Errno::EXIST) => {
                return Err(FileError::Exists { path: self.target.shown().to_path_buf() });
            }
            Err(error) => return Err(self.error(error)),
        }
        self.finish(&file, true, false)
    }

    fn exchange(&self, facts: Facts) -> Result<Written, Failure> {
        let refused = |error: Errno| {
            let wrapped = self.error(error);
            match error {
                // Busy: the file is a mount of its own, as containers have them.
                Errno::ACCESS | Errno::PERM | Errno::BUSY => Failure::NotExchangeable(wrapped),
                _ => Failure::Final(wrapped),
            }
        };
        let (mut temporary, file) = self.temporary(0o600).map_err(|error| match error {
            Unfilled::System(error) => refused(error),
            Unfilled::Told(error) => Failure::Final(error),
        })?;
        self.keep_properties(&file, facts)?;
        self.check_expected()?;
        rustix::fs::renameat(self.folder, &temporary.name, self.folder, self.name)
            .map_err(refused)?;
        temporary.armed = false;
        Ok(self.finish(&file, false, false)?)
    }

    /// Owner, attributes and mode of the old file. A foreign owner that cannot
    /// be kept speaks against the exchange.
    fn keep_properties(&self, file: &File, facts: Facts) -> Result<(), Failure> {
        let stat = rustix::fs::fstat(file).map_err(|error| self.error(error))?;
        if Facts::of(&stat).owner != facts.owner {
            let (user, group) = facts.owner;
            rustix::fs::fchown(file, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))
                .map_err(|error| Failure::NotExchangeable(self.error(error)))?;
        }
        // Best effort: many attributes belong to the system.
        let old = open_leaf(self.folder, self.name, OFlags::RDONLY, Mode::empty());
        if let Ok(old) = old {
            copy_attributes(&old, file);
        }
        rustix::fs::fchmod(file, mode_of(facts.mode)).map_err(|error| self.error(error))?;
        Ok(())
    }

    /// Right before the rename: is the file still the one that was meant?
    fn check_expected(&self) -> Result<(), FileError> {
        match self.expected {
            Expected::Anything => Ok(()),
            Expected::Absent => Err(FileError::Exists { path: self.target.shown().to_path_buf() }),
            Expected::Content(wanted) => {
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

    fn in_place(&self, mut file: File, facts: Facts) -> Result<Written, FileError> {
        if facts.size > MAX_IN_PLACE {
            let path = self.target.shown().to_path_buf();
            return Err(FileError::TooLarge { path, size: facts.size, limit: MAX_IN_PLACE });
        }
        let mut old = Vec::new();
        (&mut file)
            .take(MAX_IN_PLACE + 1)
            .read_to_end(&mut old)
            .map_err(|error| self.io_error(error))?;
        match self.expected {
            Expected::Absent => self.check_expected()?,
            Expected::Content(wanted) if hash(&old) != wanted => return Err(self.changed()),
            _ => {}
        }
        // Takes the room before the first byte is overwritten.
        let missing = (self.bytes.len() as u64).saturating_sub(old.len() as u64);
        if missing > 0 {
            self.reserve(&file, old.len() as u64, missing)?;
        }
        if let Err(error) = overwrite(&mut file, self.bytes) {
            // The room of the old content is still there.
            let _ = overwrite(&mut file, &old);
            return Err(self.io_error(error));
        }
        self.finish(&file, false, true)
    }

    #[cfg(target_os = "linux")]
    fn reserve(&self, file: &File, offset: u64, length: u64) -> Result<(), FileError> {
        use rustix::fs::{FallocateFlags, fallocate};
        match fallocate(file, FallocateFlags::KEEP_SIZE, offset, length) {
            // Not every file system can.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(()),
            Err(error) => Err(self.error(error)),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn reserve(&self, _file: &File, _offset: u64, _length: u64) -> Result<(), FileError> {
        Ok(())
    }

    fn finish(&self, file: &File, created: bool, in_place: bool) -> Result<Written, FileError> {
        // The name is durable when the folder is; some folders cannot be synced.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        if let Ok(folder) = open_leaf(self.folder, ".".as_ref(), flags, Mode::empty()) {
            let _ = rustix::fs::fsync(folder);
        }
        let stat = rustix::fs::fstat(file).map_err(|error| self.error(error))?;
        let snapshot = Snapshot::of(Facts::of(&stat), self.bytes);
        Ok(Written { created, in_place, snapshot })
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

/// Gives a file its name unless the name is taken.
fn rename_new(folder: &OwnedFd, from: &str, to: &OsString) -> rustix::io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    {
        use rustix::fs::{RenameFlags, renameat_with};
        match renameat_with(folder, from, folder, to, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
            result => return result,
        }
    }
    // Where the rename cannot say "only if new", a hard link can.
    match rustix::fs::linkat(folder, from, folder, to, AtFlags::empty()) {
        Ok(()) => rustix::fs::unlinkat(folder, from, AtFlags::empty()),
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::MLINK) => {
            match rustix::fs::statat(folder, to, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(_) => Err(Errno::EXIST),
                Err(_) => rustix::fs::renameat(folder, from, folder, to),
            }
        }
        Err(error) => Err(error),
    }
}

fn temporary_name(attempt: u32) -> String {
    use std::hash::{BuildHasher, Hasher as _};
    // A fresh state is seeded from the system's random numbers.
    let mut state = std::hash::RandomState::new().build_hasher();
    state.write_u32(attempt);
    format!(".parallax-{:016x}.tmp", state.finish())
}

fn mode_of(mode: u32) -> Mode {
    // The width of a mode differs between systems; twelve bits fit in all.
    Mode::from_raw_mode((mode & 0o7777) as rustix::fs::RawMode)
}

/// Copies extended attributes as far as the system lets us.
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
