//! Unpacks untrusted archives (`.tar.gz`, `.tar`, `.zip`) into a new directory: no entry leaves
//! the directory, links are rejected, and sizes are limited.

mod tar;
mod zip;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

/// Maximum directory depth.
const MAX_DEPTH: usize = 64;
/// Maximum bytes of a name.
const MAX_NAME: usize = 4_096;

/// Limits of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArchiveLimits {
    /// Maximum number of files and directories.
    pub entries: usize,
    /// Maximum number of bytes of all unpacked files.
    pub bytes: u64,
}

/// Why an archive is rejected.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// A name that is outside the directory.
    #[error("archive rejected: entry `{0}` is outside the directory")]
    Escape(String),
    /// A link, which could point anywhere.
    #[error("archive rejected: entry `{0}` is a link")]
    Link(String),
    /// A special file (such as a device or a named pipe) or a duplicate entry.
    #[error("archive rejected: entry `{name}` {reason}")]
    Entry {
        /// The name.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// It exceeds a limit, by its headers or while unpacking.
    #[error("archive rejected: it contains more than {entries} files or {bytes} bytes")]
    TooLarge {
        /// The limit of files.
        entries: usize,
        /// The limit of bytes.
        bytes: u64,
    },
    /// It cannot be parsed.
    #[error("invalid archive: {0}")]
    Malformed(&'static str),
    /// A disk error, or truncated data.
    #[error("failed to unpack the archive: {0}")]
    Io(#[from] io::Error),
}

/// Unpacks an archive into an existing, empty directory. Files written before an error stay: use a
/// temporary directory. Blocking.
///
/// # Errors
/// Returns an error if the archive is invalid, contains something forbidden, or cannot be written.
pub fn unpack(archive: &Path, into: &Path, limits: ArchiveLimits) -> Result<(), ArchiveError> {
    let mut file = File::open(archive)?;
    let mut start = [0; 4];
    let count = file.read(&mut start)?;
    file.seek(SeekFrom::Start(0))?;
    let mut target = UnpackTarget { root: into, limits, remaining: limits.bytes, entries: 0 };
    match start.get(..count).unwrap_or_default() {
        [0x1f, 0x8b, ..] => tar::unpack(MultiGzDecoder::new(io::BufReader::new(file)), &mut target),
        [b'P', b'K', 3, 4] => zip::unpack(file, &mut target),
        _ => tar::unpack(io::BufReader::new(file), &mut target),
    }
}

/// The target directory of an archive and its remaining limits.
struct UnpackTarget<'a> {
    root: &'a Path,
    limits: ArchiveLimits,
    remaining: u64,
    entries: usize,
}

impl UnpackTarget<'_> {
    fn too_large(&self) -> ArchiveError {
        ArchiveError::TooLarge { entries: self.limits.entries, bytes: self.limits.bytes }
    }

    fn count(&mut self) -> Result<(), ArchiveError> {
        self.entries += 1;
        if self.entries > self.limits.entries { Err(self.too_large()) } else { Ok(()) }
    }

    fn directory(&mut self, name: &str) -> Result<(), ArchiveError> {
        self.count()?;
        if let Some(path) = path_of(name)? {
            fs::create_dir_all(self.root.join(path))?;
        }
        Ok(())
    }

    /// Writes a file of `size` bytes.
    fn file(
        &mut self,
        name: &str,
        size: u64,
        program: bool,
        from: &mut dyn Read,
    ) -> Result<(), ArchiveError> {
        self.count()?;
        let to_error = |reason| ArchiveError::Entry { name: display_name(name), reason };
        let relative = path_of(name)?.ok_or_else(|| to_error("has no name"))?;
        self.remaining = self.remaining.checked_sub(size).ok_or_else(|| self.too_large())?;
        let path = self.root.join(relative);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut options = OpenOptions::new();
        // Never write through an existing entry, such as a link or a duplicate.
        options.write(true).create_new(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt as _;
            options.mode(if program { 0o755 } else { 0o644 });
        }
        #[cfg(not(unix))]
        let _ = program;
        let mut file = match options.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(to_error("is duplicated"));
            }
            opened => opened?,
        };
        let written = io::copy(&mut from.take(size), &mut file)?;
        file.flush()?;
        if written < size {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        Ok(())
    }
}

/// Returns the path of an entry in the directory; `None` for the directory itself.
fn path_of(name: &str) -> Result<Option<PathBuf>, ArchiveError> {
    let escape = || ArchiveError::Escape(display_name(name));
    // Control characters could affect the terminal of a reader.
    if name.len() > MAX_NAME || name.chars().any(char::is_control) {
        return Err(ArchiveError::Entry {
            name: display_name(name),
            reason: "has an invalid name",
        });
    }
    // Some archives use the Windows separator.
    let name = name.replace('\\', "/");
    let has_drive = name.as_bytes().get(1) == Some(&b':');
    if name.starts_with('/') || has_drive {
        return Err(escape());
    }
    let mut path = PathBuf::new();
    for part in name.split('/') {
        match part {
            "" | "." => {}
            ".." => return Err(escape()),
            part => path.push(part),
        }
    }
    if path.components().count() > MAX_DEPTH {
        return Err(ArchiveError::Entry {
            name: display_name(&name),
            reason: "is nested too deeply",
        });
    }
    Ok((!path.as_os_str().is_empty()).then_some(path))
}

/// Returns a name for display in messages.
fn display_name(name: &str) -> String {
    name.chars().filter(|char| !char.is_control()).take(200).collect()
}

#[cfg(test)]
mod tests;
