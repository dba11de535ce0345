//! The open and locked file of a journal: one line per record, one write per line.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use parallax_protocol::store::Record;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::OpenError;
use super::lock_handover;
use crate::cipher::Cipher;
use crate::keys::{KeyError, Keys};
use crate::lines::JournalReader;
use crate::load::{LoadedSession, load_from};
use crate::locked_file::LockedFile;
use crate::private_files::{create_private_dir, set_mode};

/// How often a locked file is tried again before it counts as in use.
const LOCK_ATTEMPTS: u32 = 3;
/// The time between these attempts.
const LOCK_INTERVAL: Duration = Duration::from_millis(3);

/// Whether another process wrote to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ModificationState {
    No,
    /// The length is the same, but the modification time differs.
    Unknown,
    Yes,
}

/// The file, locked.
#[derive(Debug)]
pub(super) struct JournalFile {
    file: LockedFile,
    /// The cipher, and the number of the next record.
    cipher: Option<(Cipher, u64)>,
    /// Length of the file up to its last complete line, in bytes.
    length: u64,
    /// The modification time after the last own write.
    written_at: Option<SystemTime>,
    /// Device and inode, known since the last own write.
    identity: Option<(u64, u64)>,
    /// Whether a partial line could not be removed.
    is_unwritable: bool,
}

impl JournalFile {
    /// Creates the file and locks it immediately.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        if let Some(parent) = path.parent() {
            create_private_dir(parent)?;
        }
        let mut options = OpenOptions::new();
        options.read(true).append(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = match options.open(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return open_abandoned_empty(path).map(LockedFile).map(Self::empty).ok_or(error);
            }
            file => file?,
        };
        // The umask may have removed permissions of the owner.
        set_mode(path, 0o600)?;
        match file.try_lock() {
            // Another process locked it as a leftover empty journal.
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::AlreadyExists.into()),
            locked => locked.map_err(io::Error::from).map(|()| Self::empty(LockedFile(file))),
        }
    }

    fn empty(file: LockedFile) -> Self {
        let mut empty = Self::unread(file);
        empty.record_modified_time();
        empty
    }

    /// Creates the state of a file whose contents are not known yet.
    fn unread(file: LockedFile) -> Self {
        Self {
            file,
            cipher: None,
            length: 0,
            written_at: None,
            identity: None,
            is_unwritable: false,
        }
    }

    /// Opens an existing file to append to it; see [`super::Journal::open_append`].
    pub(super) fn open(path: &Path, keys: &Keys) -> Result<(Self, LoadedSession), OpenError> {
        let failed = |source| OpenError::Io { path: path.to_owned(), source };
        let mut opened = match lock_unless_in_use(path) {
            Ok(locked) => Self::unread(locked),
            Err(TryLockError::WouldBlock) => {
                return Err(OpenError::InUse { path: path.to_owned() });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        };
        let (loaded, cipher) = load_from(&*opened.file, path, keys)?;
        (opened.cipher, opened.length) = (cipher, loaded.valid_length);
        if loaded.broken {
            return Ok((opened, loaded));
        }
        opened.repair_end(path, &loaded).map_err(failed)?;
        if opened.cipher.is_none() && keys.is_enabled() {
            opened = opened
                .encrypt_existing(path, loaded.head.session_id.as_str(), keys)
                .map_err(failed)?;
        }
        Ok((opened, loaded))
    }

    /// Removes a torn line, or ends the last line.
    fn repair_end(&mut self, path: &Path, loaded: &LoadedSession) -> io::Result<()> {
        if self.file.metadata()?.len() > self.length {
            self.file.set_len(self.length)?;
        }
        if loaded.unterminated {
            self.file.write_all(b"\n")?;
            self.length += 1;
        }
        self.record_modified_time();
        set_mode(path, 0o600)
    }

    /// Replaces the journal with an encrypted copy.
    fn encrypt_existing(mut self, path: &Path, session: &str, keys: &Keys) -> io::Result<Self> {
        let new = temporary_path(path);
        let created = (|| {
            let mut created = Self::create(&new)?;
            created.encrypt(session, keys)?;
            self.file.seek(SeekFrom::Start(0))?;
            let none = Keys::default();
            let mut lines = JournalReader::new(&*self.file, path, &none);
            while let Some(line) = lines.next().map_err(io::Error::other)? {
                created.write(line.text)?;
            }
            created.sync()?;
            fs::rename(&new, path)?;
            Ok(created)
        })();
        created.inspect_err(|_| drop(fs::remove_file(&new)))
    }

    /// Copies the contents to a new file and returns that file for further writing.
    pub(super) fn copy_to(&self, path: &Path) -> io::Result<Self> {
        let mut created = Self::create(path)?;
        let mut old = self.file.try_clone()?;
        old.seek(SeekFrom::Start(0))?;
        created.length = io::copy(&mut old.take(self.length), &mut *created.file)?;
        created.cipher = self.cipher.as_ref().map(|(cipher, next)| (cipher.clone(), *next));
        created.record_modified_time();
        Ok(created)
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Ends writing.
    pub(super) fn into_locked_file(self) -> LockedFile {
        self.file
    }

    /// Whether another process wrote to the file, by its length and modification time.
    pub(super) fn modification_state(&self) -> ModificationState {
        match self.file.metadata() {
            Ok(facts) if facts.len() == self.length => match facts.modified().ok() {
                time if time == self.written_at => ModificationState::No,
                _ => ModificationState::Unknown,
            },
            _ => ModificationState::Yes,
        }
    }

    /// Reads the current contents. Writing continues after the last line.
    pub(super) fn read(&self, path: &Path, keys: &Keys) -> Result<LoadedSession, OpenError> {
        let failed = |source| OpenError::Io { path: path.to_owned(), source };
        (&*self.file).seek(SeekFrom::Start(0)).map_err(failed)?;
        Ok(load_from(&*self.file, path, keys)?.0)
    }

    /// Records the modification time; everything written until then counts as our own.
    pub(super) fn record_modified_time(&mut self) {
        let metadata = self.file.metadata().ok();
        self.identity = metadata.as_ref().and_then(identity);
        self.written_at = metadata.and_then(|metadata| metadata.modified().ok());
    }

    /// Whether the file at the path is this one, as it was left. `false` says nothing.
    pub(super) fn is_unchanged_at(&self, path: &Path) -> bool {
        let Ok(metadata) = fs::symlink_metadata(path) else { return false };
        self.identity.is_some()
            && identity(&metadata) == self.identity
            && metadata.len() == self.length
            && metadata.modified().ok() == self.written_at
    }

    /// Syncs the file to disk. Then updates the seal of an encrypted journal, which therefore never
    /// counts more records than are on disk.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        let Some((cipher, records)) = &self.cipher else { return Ok(()) };
        let at = cipher.first_line()?.len() as u64;
        let seal = cipher.seal(*records).ok_or_else(|| io::Error::other(KeyError::NoRandom))?;
        let written = self.write_at(at, &seal);
        self.record_modified_time();
        written
    }

    /// Writes inside the file, which is otherwise only appended to.
    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let flags = fcntl_getfl(&*self.file)?;
        fcntl_setfl(&*self.file, flags - OFlags::APPEND)?;
        let written = std::os::unix::fs::FileExt::write_all_at(&*self.file, bytes, at);
        let restored_flags = fcntl_setfl(&*self.file, flags);
        // The next line would be written at an arbitrary position.
        self.is_unwritable |= restored_flags.is_err();
        restored_flags?;
        written
    }

    /// Whether nothing more may be written to the file.
    pub(super) fn is_unwritable(&self) -> bool {
        self.is_unwritable
    }

    /// Enables encryption for an empty file, if the keys say so.
    pub(super) fn encrypt(&mut self, session: &str, keys: &Keys) -> io::Result<()> {
        if self.cipher.is_some() {
            return Ok(());
        }
        let Some(key) = keys.key_for_new_sessions().map_err(io::Error::other)? else {
            return Ok(());
        };
        self.begin(Cipher::new(session, &key).map_err(io::Error::other)?)
    }

    /// Enables encryption if another file of the session is encrypted.
    pub(super) fn encrypt_if_encrypted(
        &mut self,
        old: &Self,
        session: &str,
        keys: &Keys,
    ) -> io::Result<()> {
        let Some((cipher, _)) = &old.cipher else { return self.encrypt(session, keys) };
        let key = keys.find(cipher.key_id()).map_err(io::Error::other)?;
        self.begin(Cipher::new(session, &key).map_err(io::Error::other)?)
    }

    fn begin(&mut self, cipher: Cipher) -> io::Result<()> {
        let seal = cipher.seal(0).ok_or_else(|| io::Error::other(KeyError::NoRandom))?;
        let opening = [cipher.first_line()?, seal].concat();
        self.write_line(&opening)?;
        self.cipher = Some((cipher, 0));
        Ok(())
    }

    /// Writes a record completely or not at all.
    pub(super) fn append(&mut self, record: &Record) -> io::Result<()> {
        if self.cipher.is_none() && is_large(record) {
            return self.write_large(record);
        }
        let line = line_of(record)?;
        match self.cipher {
            Some(_) => self.write(line.trim_ascii_end()),
            None => self.write_line(&line),
        }
    }

    /// Writes the text of a record.
    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        let line = match &self.cipher {
            Some((cipher, next)) => cipher
                .encrypt_record(*next, text)
                .ok_or_else(|| io::Error::other(KeyError::NoRandom))?,
            None => [text, b"\n"].concat(),
        };
        self.write_line(&line)?;
        if let Some((_, next)) = &mut self.cipher {
            *next += 1;
        }
        Ok(())
    }

    fn write_line(&mut self, line: &[u8]) -> io::Result<()> {
        let written = self.file.write_all(line).map(|()| line.len() as u64);
        self.handle_written(written)
    }

    /// Writes a large record without building a copy of the line. A crash during the write leaves a
    /// torn last line, which the reader drops.
    fn write_large(&mut self, record: &Record) -> io::Result<()> {
        let mut out = BufWriter::with_capacity(64 * 1024, &mut *self.file);
        let written = serde_json::to_writer(&mut out, record)
            .map_err(io::Error::from)
            .and_then(|()| out.write_all(b"\n"))
            .and_then(|()| out.flush());
        // Discard what is left in the buffer after a failed write.
        let _ = out.into_parts();
        let written = written.and_then(|()| self.file.metadata()).map(|now| now.len());
        let written = written.map(|now| now.saturating_sub(self.length));
        self.handle_written(written)
    }

    fn handle_written(&mut self, written: io::Result<u64>) -> io::Result<()> {
        match written {
            Ok(bytes) => {
                self.length += bytes;
                self.record_modified_time();
                Ok(())
            }
            Err(error) => {
                self.is_unwritable = self.file.set_len(self.length).is_err();
                self.record_modified_time();
                Err(error)
            }
        }
    }
}

#[cfg(unix)]
fn identity(metadata: &fs::Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn identity(_: &fs::Metadata) -> Option<(u64, u64)> {
    None
}

/// Opens and locks an empty journal that no process has open, left by a process that was killed
/// before the first prompt.
fn open_abandoned_empty(path: &Path) -> Option<File> {
    let is_empty = |facts: fs::Metadata| facts.is_file() && facts.len() == 0;
    if !fs::symlink_metadata(path).is_ok_and(is_empty) {
        return None;
    }
    let file = OpenOptions::new().read(true).append(true).open(path).ok()?;
    file.try_lock().ok()?;
    // The previous holder of the lock may have written or removed the file.
    (file.metadata().is_ok_and(is_empty) && super::is_file_at(&file, path)).then_some(file)
}

/// Opens and locks an existing file, or takes it over from the session of this process that was
/// closed to be reopened. Whether a file is locked is tested by locking it for a moment, so a
/// lock of another process counts only if it lasts.
fn lock_unless_in_use(path: &Path) -> Result<LockedFile, TryLockError> {
    let failed = TryLockError::Error;
    let file = OpenOptions::new().read(true).append(true).open(path).map_err(failed)?;
    for attempt in 0..=LOCK_ATTEMPTS {
        if let Some(mut closed) = lock_handover::take(path) {
            closed.seek(SeekFrom::Start(0)).map_err(failed)?;
            return Ok(closed);
        }
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if attempt < LOCK_ATTEMPTS => {
                std::thread::sleep(LOCK_INTERVAL);
            }
            Err(error) => return Err(error),
            Ok(()) => break,
        }
    }
    Ok(LockedFile(file))
}

/// Returns the path of a temporary file that will replace another file.
pub(crate) fn temporary_path(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let new = path.with_file_name(format!(".{name}.{}", std::process::id()));
    // Remove a file that a crash left.
    let _ = fs::remove_file(&new);
    new
}

/// Contents with at least this many bytes are written without a copy of the line.
const LARGE: usize = 256 * 1024;

/// Whether a record is written in pieces. Raw JSON that contains a line ending requires the copy.
fn is_large(record: &Record) -> bool {
    match record {
        Record::Content(content) => {
            let json = content.wire.json();
            json.len() > LARGE && !json.contains('\n')
        }
        _ => false,
    }
}

/// Serializes a record as a line. Raw JSON may contain line endings between tokens; such a record
/// is stored as a JSON string to preserve its bytes.
fn line_of(record: &Record) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(record)?;
    if line.contains(&b'\n') {
        let text = String::from_utf8_lossy(&line).into_owned();
        line = serde_json::to_vec(&serde_json::json!({ "escaped": text }))?;
    }
    line.push(b'\n');
    Ok(line)
}

/// Serializes a record as a line of a journal, including the line ending.
///
/// # Errors
/// Returns an error if the record cannot be represented in JSON.
pub fn record_line(record: &Record) -> serde_json::Result<String> {
    let line = line_of(record)?;
    // JSON is UTF-8.
    Ok(String::from_utf8_lossy(&line).into_owned())
}

pub(crate) fn is_disk_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}
