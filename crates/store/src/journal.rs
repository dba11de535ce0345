//! Writes journals: one line per record, one write per line, one writer per file.

mod file;
mod lock_handover;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use parallax_protocol::store::{JournalHeader, Record, Store, StoreError};

pub use file::record_line;
pub(crate) use file::{is_disk_full, temporary_path};
pub use lock_handover::JournalLockHandover;

use crate::keys::Keys;
use crate::load::{Builder, LoadedSession};
use crate::load_error::LoadError;
use file::{JournalFile, ModificationState};

/// Why a journal could not be opened for writing.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process is writing it; the caller can fork the session under a new ID.
    #[error("the session `{}` is in use by another process", .path.display())]
    InUse {
        /// The journal.
        path: PathBuf,
    },
    /// The journal does not exist or cannot be read.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// An I/O operation failed.
    #[error("failed to open the journal `{}`: {source}", .path.display())]
    Io {
        /// The journal.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// The journal of a session. The file is created with the first record, so that a session without a
/// prompt leaves no file.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    keys: Keys,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// The head, until it is written.
    head: Option<JournalHeader>,
    /// The file, locked; `None` until the first record.
    file: Option<JournalFile>,
    /// The initial contents of the file; together with the records written since, they allow
    /// writing the file again if another program damages it.
    initial_contents: Option<(JournalHeader, Arc<[Record]>)>,
    new_records: Vec<Record>,
    /// Whether the directory entry must still be synced.
    new_entry: bool,
    /// The file while it is reserved but has no records; removed on drop.
    reserved: Option<ReservedFile>,
    /// Whether recording has stopped permanently; the reason was reported once.
    off: bool,
    /// A message for the user.
    notice: Option<String>,
}

impl Journal {
    /// Creates a new journal. Nothing is written until the first record.
    pub fn create(path: impl Into<PathBuf>, head: JournalHeader) -> Self {
        let inner = Inner { head: Some(head), ..Inner::default() };
        Self { path: path.into(), keys: Keys::default(), inner: Mutex::new(inner) }
    }

    /// Encrypts the journal if the keys say so.
    #[must_use]
    pub fn with_keys(mut self, keys: &Keys) -> Self {
        self.keys = keys.clone();
        self
    }

    /// Creates the journal of a session that continues although its file cannot be written. Nothing
    /// is written.
    pub fn without_file(path: impl Into<PathBuf>, head: JournalHeader) -> Self {
        let journal = Self::create(path, head);
        journal.lock().off = true;
        journal
    }

    /// Creates the file immediately, so that no other process can use the ID of the session. The
    /// file is removed if no record follows.
    ///
    /// # Errors
    /// Returns `AlreadyExists` if the file exists, or another I/O error.
    pub fn reserve(&self) -> io::Result<()> {
        let mut inner = self.lock();
        if inner.file.is_none() {
            inner.file = Some(JournalFile::create(&self.path)?);
            inner.new_entry = true;
            inner.reserved = Some(ReservedFile(Some(self.path.clone())));
        }
        Ok(())
    }

    /// Writes the head immediately, so that another process can open the session by its ID before
    /// it has a prompt. It is not listed until then.
    ///
    /// # Errors
    /// See [`Store::append`].
    pub fn write_head(&self) -> Result<(), StoreError> {
        self.begin(&mut self.lock())
    }

    /// Creates the file and writes the head, unless that was done.
    fn begin(&self, inner: &mut Inner) -> Result<(), StoreError> {
        if inner.file.is_none() {
            match JournalFile::create(&self.path) {
                Ok(file) => inner.file = Some(file),
                Err(error) => {
                    inner.off = is_disk_full(&error);
                    return Err(self.error("create", &error));
                }
            }
            inner.new_entry = true;
        }
        if let Some(head) = inner.head.clone() {
            if let Some(file) = &mut inner.file {
                let encrypted = file.encrypt(head.session_id.as_str(), &self.keys);
                encrypted.map_err(|error| self.error("encrypt", &error))?;
            }
            inner
                .write(&Record::Session(head.clone()))
                .map_err(|error| self.error("write to", &error))?;
            inner.head = None;
            inner.initial_contents = Some((head, Arc::default()));
        }
        if let Some(mut reserved) = inner.reserved.take() {
            reserved.0 = None;
        }
        Ok(())
    }

    /// Opens a journal to continue it: locks it, reads it, and removes a torn last line. An
    /// unencrypted journal becomes encrypted if the keys say so; an encrypted journal stays
    /// encrypted. Nothing is appended to a [`LoadedSession::broken`] journal.
    ///
    /// # Errors
    /// Returns [`OpenError::InUse`] if another process has it open, or another error if the file
    /// cannot be read or is not a journal.
    pub fn open_append(
        path: impl Into<PathBuf>,
        keys: &Keys,
    ) -> Result<(Self, LoadedSession), OpenError> {
        let path = path.into();
        let (file, loaded) = JournalFile::open(&path, keys)?;
        let inner = Inner { file: Some(file), off: loaded.broken, ..Inner::default() };
        Ok((Self { path, keys: keys.clone(), inner: Mutex::new(inner) }, loaded))
    }

    /// Sets the initial contents that were read from or copied to the file, in case it has to be
    /// written again. They include everything appended so far.
    pub fn set_initial_contents(&self, head: JournalHeader, records: Arc<[Record]>) {
        let mut inner = self.lock();
        inner.initial_contents = Some((head, records));
        inner.new_records = Vec::new();
    }

    /// Returns the path of the journal, which may not exist yet.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether recording has stopped, for example because the disk is full.
    pub fn is_off(&self) -> bool {
        self.lock().off
    }

    /// Appends all records of another session, to fork it or to continue an imported session.
    ///
    /// # Errors
    /// See [`Store::append`].
    pub fn append_all(&self, session: &LoadedSession) -> Result<(), StoreError> {
        session.records.iter().try_for_each(|record| self.append(record))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn error(&self, doing: &str, source: &io::Error) -> StoreError {
        let disk_full = is_disk_full(source);
        let hint = if disk_full { "; the session continues without being recorded" } else { "" };
        StoreError {
            message: format!(
                "failed to {doing} the journal `{}`: {source}{hint}",
                self.path.display()
            ),
            disk_full,
        }
    }

    /// Whether the file contains what was written to it. If only its modification time differs, the
    /// contents are compared, so touching the file has no effect.
    fn is_intact(&self, inner: &mut Inner) -> bool {
        let Some(file) = &mut inner.file else { return true };
        let is_whole = match file.modification_state() {
            ModificationState::No => return true,
            ModificationState::Yes => false,
            ModificationState::Unknown => match &inner.initial_contents {
                Some((head, records)) => {
                    let expected = comparable_from_records(
                        head,
                        records.iter().chain(&inner.new_records),
                        &self.path,
                    );
                    let existing = file.read(&self.path, &self.keys).ok();
                    let existing = existing.filter(|existing| !existing.broken);
                    let same = |there: &LoadedSession| comparable_records(there) == expected;
                    expected.is_some() && existing.is_some_and(|existing| same(&existing))
                }
                // The initial contents are unknown.
                None => true,
            },
        };
        if is_whole {
            file.record_modified_time();
        }
        is_whole
    }

    /// Writes the journal again if another program deleted, replaced, or modified the file. The
    /// version of the other program is kept next to it.
    fn rewrite(&self, inner: &mut Inner) -> io::Result<()> {
        if inner.file.as_ref().is_some_and(|file| file.is_unchanged_at(&self.path)) {
            return Ok(());
        }
        let is_whole = self.is_intact(inner);
        let Some(old) = &inner.file else { return Ok(()) };
        if is_whole && is_file_at(old.file(), &self.path) {
            return Ok(());
        }
        let written = (|| {
            let is_there = fs::symlink_metadata(&self.path).is_ok();
            if is_there && !is_file_at(old.file(), &self.path) && is_in_use(&self.path) {
                return Err(io::Error::other("another process is using it"));
            }
            let new = if is_there { temporary_path(&self.path) } else { self.path.clone() };
            let created = if is_whole {
                // A deleted file can still be read while it is open.
                old.copy_to(&new)?
            } else {
                let Some((head, records)) = &inner.initial_contents else {
                    return Err(io::Error::other("another program changed it"));
                };
                let mut created = JournalFile::create(&new)?;
                created.encrypt_if_encrypted(old, head.session_id.as_str(), &self.keys)?;
                created.append(&Record::Session(head.clone()))?;
                for record in records.iter().chain(&inner.new_records) {
                    created.append(record)?;
                }
                created
            };
            let mut change = "was deleted during the session and was written again";
            let mut aside = String::new();
            if is_there {
                let now = jiff::Timestamp::now().as_millisecond();
                let backup = self.path.with_extension(format!("{now}.changed"));
                fs::rename(&self.path, &backup)?;
                fs::rename(&new, &self.path)?;
                change = "was changed by another program during the session and was rewritten \
                    completely";
                aside = format!(
                    "; the version of the other program was saved as `{}`",
                    backup.display()
                );
            }
            let display_path = self.path.display();
            Ok((created, format!("the file of this session {change}: `{display_path}`{aside}")))
        })();
        let (new, notice) = written.inspect_err(|_| inner.off = true)?;
        inner.file = Some(new);
        inner.new_entry = true;
        inner.notice = Some(notice);
        Ok(())
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = inner.file.take().filter(|_| inner.reserved.is_none()) {
            lock_handover::hand_over_lock(file.into_locked_file());
        }
    }
}

/// An empty file that is removed on drop.
#[derive(Debug)]
struct ReservedFile(Option<PathBuf>);

impl Drop for ReservedFile {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // No process opens an empty file to continue it.
            let _ = fs::remove_file(path);
        }
    }
}

impl Inner {
    /// Writes a record completely or not at all.
    fn write(&mut self, record: &Record) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        file.append(record).inspect_err(|error| {
            // A partial line may have been written. If it could not be removed, nothing may be
            // appended after it.
            self.off = is_disk_full(error) || file.is_unwritable();
        })
    }
}

impl Store for Journal {
    fn append(&self, record: &Record) -> Result<(), StoreError> {
        let mut inner = self.lock();
        if inner.off {
            return Ok(());
        }
        if let Record::Session(head) = record {
            // The head is written once, with the first other record.
            if inner.file.is_none() {
                inner.head = Some(head.clone());
            }
            return Ok(());
        }
        let Some(record) = self.keys.redacted_record(record) else {
            let reason = io::Error::other("secrets cannot be redacted from a record");
            return Err(self.error("write to", &reason));
        };
        let record = record.as_ref();
        self.rewrite(&mut inner).map_err(|error| self.error("recreate", &error))?;
        self.begin(&mut inner)?;
        inner.write(record).map_err(|error| self.error("write to", &error))?;
        inner.new_records.push(record.clone());
        Ok(())
    }

    fn sync(&self) -> Result<(), StoreError> {
        let mut inner = self.lock();
        let off = inner.off;
        let Some(file) = inner.file.as_mut().filter(|_| !off) else { return Ok(()) };
        file.sync().map_err(|error| self.error("sync", &error))?;
        if inner.new_entry {
            #[cfg(unix)]
            if let Some(parent) = self.path.parent() {
                let directory = File::open(parent).and_then(|directory| directory.sync_all());
                directory.map_err(|error| self.error("sync the directory of", &error))?;
            }
            inner.new_entry = false;
        }
        Ok(())
    }

    fn notice(&self) -> Option<String> {
        self.lock().notice.take()
    }
}

/// Returns the comparable form of the session that these records describe; see
/// [`comparable_records`].
fn comparable_from_records<'a>(
    head: &JournalHeader,
    records: impl Iterator<Item = &'a Record>,
    path: &Path,
) -> Option<Vec<String>> {
    let mut builder = Builder::default();
    builder.record(Record::Session(head.clone()));
    records.for_each(|record| builder.record(record.clone()));
    builder.finish(path).ok().and_then(|session| comparable_records(&session))
}

/// Returns the effective records in a form that can be compared.
fn comparable_records(session: &LoadedSession) -> Option<Vec<String>> {
    session.records.iter().map(|record| record_line(record).ok()).collect()
}

/// Whether another process has a journal open.
pub(crate) fn is_in_use(journal: &Path) -> bool {
    let Ok(file) = File::open(journal) else { return false };
    // Shared, so that two tests at the same moment do not see each other.
    let free = file.try_lock_shared().is_ok();
    let _ = file.unlock();
    !free
}

/// Whether an open file is the file at a path.
#[cfg(unix)]
fn is_file_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        // Other errors do not say anything about the file.
        Err(error) => return error.kind() != io::ErrorKind::NotFound,
    };
    file.metadata().is_ok_and(|open| (open.dev(), open.ino()) == (metadata.dev(), metadata.ino()))
}

/// Whether an open file is the file at a path.
#[cfg(not(unix))]
fn is_file_at(_: &File, path: &Path) -> bool {
    path.exists()
}
