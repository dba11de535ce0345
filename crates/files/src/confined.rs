//! A checked path, and the only ways to open it.

use parallax_protocol::editor_files::{EditorFiles, SessionEditor};
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, Stat};

use crate::error::FileError;
use crate::open::{anchor, open_directory_below, open_leaf, split};

/// The kind of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link (only in listings).
    Link,
    /// A pipe, a socket, or a device, by its name.
    Other(&'static str),
}

impl EntryKind {
    fn from_file_type(file_type: FileType) -> Self {
        match file_type {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Link,
            FileType::Fifo => Self::Other("named pipe"),
            FileType::Socket => Self::Other("socket"),
            FileType::CharacterDevice | FileType::BlockDevice => Self::Other("device"),
            FileType::Unknown => Self::Other("special file"),
        }
    }
}

/// The metadata of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileMetadata {
    /// The kind.
    pub kind: EntryKind,
    /// Size in bytes.
    pub size: u64,
    /// Last modification, in seconds and nanoseconds since 1970.
    pub modified: (i64, i64),
    /// Device and inode, which identify the file.
    pub identity: (u64, u64),
    /// Permission bits.
    pub mode: u32,
    /// Number of hard links.
    pub links: u64,
    /// Owner and group.
    pub owner: (u32, u32),
}

impl FileMetadata {
    // The widths of these fields differ between systems.
    #[expect(clippy::unnecessary_cast, reason = "the field types differ between systems")]
    pub(crate) fn from_stat(stat: &Stat) -> Self {
        Self {
            kind: EntryKind::from_file_type(FileType::from_raw_mode(stat.st_mode)),
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            identity: (stat.st_dev as u64, stat.st_ino as u64),
            mode: stat.st_mode as u32 & 0o7777,
            links: stat.st_nlink as u64,
            owner: (stat.st_uid, stat.st_gid),
        }
    }

    /// Returns the time of the last modification.
    pub fn modified_time(&self) -> SystemTime {
        let (seconds, nanoseconds) = self.modified;
        let seconds = u64::try_from(seconds).unwrap_or(0);
        let nanoseconds = u32::try_from(nanoseconds).unwrap_or(0);
        SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds.min(999_999_999))
    }
}

/// Creates a directory and its parents, accessible only to their owner.
fn make_private(directory: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// One entry of a directory.
#[derive(Debug, Clone)]
pub struct DirectoryEntry {
    /// The name.
    pub name: OsString,
    /// The kind, according to the directory.
    pub kind: EntryKind,
}

/// The entries of a directory, in disk order.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// The entries.
    pub entries: Vec<DirectoryEntry>,
    /// Whether there were more entries than the limit.
    pub is_truncated: bool,
}

/// A path inside the allowed directories. It can only be opened in ways that links created
/// after the check cannot redirect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedPath {
    display_path: PathBuf,
    path: PathBuf,
    anchor: PathBuf,
    relative: PathBuf,
    /// Whether the directory that it is opened from belongs to Parallax, so that a write may create
    /// it.
    is_own_directory: bool,
    /// The editor that has the file open.
    editor: SessionEditor,
}

impl AllowedPath {
    /// Creates a confined path. Returns `None` if the path is not below the anchor.
    pub(crate) fn new(display_path: PathBuf, path: PathBuf, anchor: PathBuf) -> Option<Self> {
        let relative = path.strip_prefix(&anchor).ok()?.to_path_buf();
        Some(Self {
            display_path,
            path,
            anchor,
            relative,
            is_own_directory: false,
            editor: SessionEditor::default(),
        })
    }

    /// Marks a path in a Parallax directory, which may not exist yet.
    pub(crate) fn marked_own(self, is_own_directory: bool) -> Self {
        Self { is_own_directory, ..self }
    }

    /// Marks a path that an editor reads and writes.
    pub(crate) fn in_editor(self, editor: SessionEditor) -> Self {
        Self { editor, ..self }
    }

    /// Whether an editor may have another content than the disk.
    pub fn may_be_in_editor(&self) -> bool {
        self.editor().is_some()
    }

    pub(crate) fn editor(&self) -> Option<&dyn EditorFiles> {
        self.editor.files()
    }

    /// Returns the real path: absolute, links resolved. Use it for effects, keys, and rules.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the absolute path as requested. Use it for messages.
    pub fn display_path(&self) -> &Path {
        &self.display_path
    }

    /// Returns the directory that this path is opened from.
    pub(crate) fn open_anchor(&self) -> Result<OwnedFd, FileError> {
        anchor(&self.anchor).map_err(|error| self.error("open", error))
    }

    /// Returns the directory that contains the file, and the file's name.
    pub(crate) fn parent(&self, create: bool) -> Result<(OwnedFd, OsString), FileError> {
        let (folder, name) = split(&self.relative);
        let root = match self.open_anchor() {
            Err(FileError::NotFound { .. }) if create && self.is_own_directory => {
                make_private(&self.anchor)
                    .map_err(|error| FileError::from_io(&self.display_path, "create", error))?;
                self.open_anchor()
            }
            opened => opened,
        }?;
        let directory = open_directory_below(&root, folder, create)
            .map_err(|error| self.error(if create { "create" } else { "open" }, error))?;
        Ok((directory, name))
    }

    pub(crate) fn error(&self, action: &'static str, error: rustix::io::Errno) -> FileError {
        FileError::from_errno(&self.display_path, action, error)
    }

    /// Returns the metadata of the file. A symbolic link is an error, because it was created after
    /// the check.
    ///
    /// # Errors
    /// Returns an error if it does not exist or cannot be reached.
    pub fn metadata(&self) -> Result<FileMetadata, FileError> {
        let (folder, name) = self.parent(false)?;
        self.metadata_in(&folder, &name)
    }

    pub(crate) fn metadata_in(
        &self,
        directory: &OwnedFd,
        name: &OsString,
    ) -> Result<FileMetadata, FileError> {
        let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|error| self.error("read", error))?;
        let metadata = FileMetadata::from_stat(&stat);
        if metadata.kind == EntryKind::Link {
            return Err(FileError::Moved { path: self.display_path.clone() });
        }
        Ok(metadata)
    }

    /// Whether it exists.
    pub fn exists(&self) -> bool {
        self.metadata().is_ok()
    }

    /// Opens a regular file for reading. Never blocks: a named pipe, a socket, or a device is an
    /// error.
    ///
    /// # Errors
    /// Returns an error if it is missing, not a regular file, or not readable.
    pub fn open(&self) -> Result<(File, FileMetadata), FileError> {
        let (folder, name) = self.parent(false)?;
        self.open_in(&folder, &name, OFlags::RDONLY)
    }

    pub(crate) fn open_in(
        &self,
        directory: &OwnedFd,
        name: &OsString,
        flags: OFlags,
    ) -> Result<(File, FileMetadata), FileError> {
        // Check before opening: opening some devices has side effects.
        self.regular(self.metadata_in(directory, name)?)?;
        // Read access is the absence of a write flag.
        let writes = flags.intersects(OFlags::WRONLY | OFlags::RDWR);
        let action = if writes { "write" } else { "read" };
        let file = open_leaf(directory, name, flags, Mode::empty())
            .map_err(|error| self.error(action, error))?;
        let stat = rustix::fs::fstat(&file).map_err(|error| self.error(action, error))?;
        let metadata = self.regular(FileMetadata::from_stat(&stat))?;
        Ok((File::from(file), metadata))
    }

    fn regular(&self, metadata: FileMetadata) -> Result<FileMetadata, FileError> {
        let path = self.display_path.clone();
        match metadata.kind {
            EntryKind::File => Ok(metadata),
            EntryKind::Directory => Err(FileError::IsDirectory { path }),
            EntryKind::Link => Err(FileError::Moved { path }),
            EntryKind::Other(kind) => Err(FileError::NotRegular { path, kind }),
        }
    }

    /// Lists a directory, at most `limit` entries.
    ///
    /// # Errors
    /// Returns an error if it is missing, not a directory, or not readable.
    pub fn list(&self, limit: usize) -> Result<Listing, FileError> {
        let (folder, name) = self.parent(false)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let directory = open_leaf(&folder, &name, flags, Mode::empty())
            .map_err(|error| self.error("list", error))?;
        list_directory(&directory, limit).map_err(|error| self.error("list", error))
    }
}

/// Reads the entries of an open directory.
fn list_directory(directory: &OwnedFd, limit: usize) -> rustix::io::Result<Listing> {
    use std::os::unix::ffi::OsStringExt;
    let mut listing = Listing::default();
    let mut buffer = Vec::with_capacity(32 * 1024);
    let mut entries = RawDir::new(directory, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        if listing.entries.len() >= limit {
            listing.is_truncated = true;
            break;
        }
        let name = OsString::from_vec(name.to_vec());
        let kind = match entry.file_type() {
            FileType::Unknown => {
                match rustix::fs::statat(directory, &name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => FileMetadata::from_stat(&stat).kind,
                    Err(_) => continue,
                }
            }
            known => EntryKind::from_file_type(known),
        };
        listing.entries.push(DirectoryEntry { name, kind });
    }
    Ok(listing)
}
