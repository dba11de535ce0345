//! Writing a journal: one line a record, one write a line, one writer a file.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use parallax_protocol::store::{Record, SessionHead, Store, StoreError};

use crate::load::{LoadError, LoadedSession, load_from};
use crate::paths::{create_private_dir, set_mode};

/// A journal that could not be opened for writing.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process writes it: fork it under a new id.
    #[error("the session `{}` is in use by another process", .path.display())]
    InUse {
        /// The journal.
        path: PathBuf,
    },
    /// It is not there or cannot be read.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The disk refuses.
    #[error("cannot open the journal `{}`: {source}", .path.display())]
    Io {
        /// The journal.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The journal of one session. The file is made at the first record, so that a
/// session without a prompt leaves nothing.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// The head, until it is written.
    head: Option<SessionHead>,
    /// The file, locked; `None` until the first record.
    file: Option<File>,
    /// The length of the file up to its last whole line.
    length: u64,
    /// Whether the folder still has to be made durable.
    new_entry: bool,
    /// The file that holds nothing yet but the head, to be removed again.
    reserved: Option<PathBuf>,
    /// Recording has stopped for good; the reason was told once.
    off: bool,
    /// What a person should know.
    notice: Option<String>,
}

impl Journal {
    /// A new journal. Nothing is written until the first record.
    pub fn create(path: impl Into<PathBuf>, head: SessionHead) -> Self {
        let inner = Inner {
            head: Some(head),
            file: None,
            length: 0,
            new_entry: false,
            reserved: None,
            off: false,
            notice: None,
        };
        Self { path: path.into(), inner: Mutex::new(inner) }
    }

    /// The journal of a session that goes on though its file cannot be written:
    /// nothing is.
    pub fn unwritten(path: impl Into<PathBuf>, head: SessionHead) -> Self {
        let journal = Self::create(path, head);
        journal.lock().off = true;
        journal
    }

    /// Makes the file now, so that the session's id is nobody else's from here on.
    /// Without a record it is removed again.
    ///
    /// # Errors
    /// `AlreadyExists` when somebody has it; what the disk says.
    pub fn reserve(&self) -> io::Result<()> {
        let mut inner = self.lock();
        if inner.file.is_none() {
            inner.file = Some(self.make()?);
            inner.new_entry = true;
            inner.reserved = Some(self.path.clone());
        }
        Ok(())
    }

    /// Opens a journal to continue it: locks it, reads it, and cuts a torn last
    /// line off.
    ///
    /// # Errors
    /// [`OpenError::InUse`] when another process has it open; others when the
    /// file cannot be read or is no journal.
    pub fn open_append(path: impl Into<PathBuf>) -> Result<(Self, LoadedSession), OpenError> {
        let path = path.into();
        let failed = |source| OpenError::Io { path: path.clone(), source };
        let mut file = OpenOptions::new().read(true).append(true).open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(OpenError::InUse { path }),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        let loaded = load_from(&file, &path)?;
        let mut length = loaded.good_length;
        if file.metadata().map_err(failed)?.len() > length {
            file.set_len(length).map_err(failed)?;
        }
        if loaded.unterminated {
            file.write_all(b"\n").map_err(failed)?;
            length += 1;
        }
        set_mode(&path, 0o600).map_err(failed)?;
        let inner = Inner {
            head: None,
            file: Some(file),
            length,
            new_entry: false,
            reserved: None,
            off: false,
            notice: None,
        };
        Ok((Self { path, inner: Mutex::new(inner) }, loaded))
    }

    /// Where the journal is (or will be).
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether recording has stopped (the disk is full).
    pub fn is_off(&self) -> bool {
        self.lock().off
    }

    /// Appends all records of another session, to fork it or to continue an
    /// imported one.
    ///
    /// # Errors
    /// As [`Store::append`].
    pub fn append_all(&self, session: &LoadedSession) -> Result<(), StoreError> {
        session.records.iter().try_for_each(|record| self.append(record))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn error(&self, doing: &str, source: &io::Error) -> StoreError {
        let no_space = is_no_space(source);
        let hint = if no_space { "; the session goes on without being recorded" } else { "" };
        StoreError {
            message: format!(
                "cannot {doing} the journal `{}`: {source}{hint}",
                self.path.display()
            ),
            no_space,
        }
    }

    /// Makes the file, locked from its first moment.
    fn make(&self) -> io::Result<File> {
        if let Some(parent) = self.path.parent() {
            create_private_dir(parent)?;
        }
        let mut options = OpenOptions::new();
        options.read(true).append(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&self.path)?;
        // The umask may have taken the owner's bits away.
        set_mode(&self.path, 0o600)?;
        file.try_lock().map_err(io::Error::from)?;
        Ok(file)
    }

    /// Somebody may have deleted the file, or the folder with it. What it held is
    /// still to be read as long as it is open, so it is made anew.
    fn make_again(&self, inner: &mut Inner) -> io::Result<()> {
        let Some(old) = inner.file.as_ref().filter(|file| !is_at(file, &self.path)) else {
            return Ok(());
        };
        let copied = old.try_clone().and_then(|mut old| {
            let mut new = self.make()?;
            old.seek(SeekFrom::Start(0))?;
            let length = io::copy(&mut old.take(inner.length), &mut new)?;
            Ok((new, length))
        });
        let (new, length) = copied.inspect_err(|_| inner.off = true)?;
        inner.length = length;
        inner.file = Some(new);
        inner.new_entry = true;
        inner.notice = Some(format!(
            "the file of this session was deleted while it ran; it was written again: `{}`",
            self.path.display()
        ));
        Ok(())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(path) = &self.reserved {
            // Nobody opens an empty file to go on with it.
            let _ = std::fs::remove_file(path);
        }
        // Closing alone is not enough: a child being started at this moment
        // shares the open file, and with it the lock, until it runs.
        if let Some(file) = &self.file {
            let _ = file.unlock();
        }
    }
}

impl Inner {
    /// Writes one line whole or not at all.
    fn write_line(&mut self, line: &[u8]) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let written = file.write_all(line).map(|()| line.len() as u64);
        self.written(written)
    }

    /// Writes a record that is too large to be copied for it. A crash in
    /// between leaves a torn last line, which the reader drops.
    fn write_large(&mut self, record: &Record) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let mut out = BufWriter::with_capacity(64 * 1024, &mut *file);
        let written = serde_json::to_writer(&mut out, record)
            .map_err(io::Error::from)
            .and_then(|()| out.write_all(b"\n"))
            .and_then(|()| out.flush());
        // What is left in the buffer of a failed write must not follow it.
        let _ = out.into_parts();
        let written = written.and_then(|()| file.metadata()).map(|now| now.len());
        let written = written.map(|now| now.saturating_sub(self.length));
        self.written(written)
    }

    fn written(&mut self, written: io::Result<u64>) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        match written {
            Ok(bytes) => {
                self.length += bytes;
                Ok(())
            }
            Err(error) => {
                // Half a line may be there. If it cannot be taken back nothing
                // more may be written behind it.
                let taken_back = file.set_len(self.length).is_ok();
                self.off = is_no_space(&error) || !taken_back;
                Err(error)
            }
        }
    }
}

impl Store for Journal {
    fn append(&self, record: &Record) -> Result<(), StoreError> {
        let mut inner = self.lock();
        if inner.off {
            return Ok(());
        }
        if let Record::Session(head) = record {
            // The head goes out with the first real record, and only once.
            if inner.file.is_none() {
                inner.head = Some(head.clone());
            }
            return Ok(());
        }
        let line = match is_large(record) {
            true => None,
            false => Some(line_of(record).map_err(|error| self.error("write to", &error.into()))?),
        };
        if inner.file.is_none() {
            match self.make() {
                Ok(file) => inner.file = Some(file),
                Err(error) => {
                    inner.off = is_no_space(&error);
                    return Err(self.error("make", &error));
                }
            }
            inner.new_entry = true;
        }
        self.make_again(&mut inner).map_err(|error| self.error("make again", &error))?;
        inner.reserved = None;
        if let Some(head) = inner.head.clone() {
            let head = line_of(&Record::Session(head))
                .map_err(|error| self.error("write to", &error.into()))?;
            inner.write_line(&head).map_err(|error| self.error("write to", &error))?;
            inner.head = None;
        }
        let written = match line {
            Some(line) => inner.write_line(&line),
            None => inner.write_large(record),
        };
        written.map_err(|error| self.error("write to", &error))
    }

    fn sync(&self) -> Result<(), StoreError> {
        let mut inner = self.lock();
        let Some(file) = inner.file.as_ref().filter(|_| !inner.off) else { return Ok(()) };
        file.sync_data().map_err(|error| self.error("sync", &error))?;
        if inner.new_entry {
            #[cfg(unix)]
            if let Some(parent) = self.path.parent() {
                let folder = File::open(parent).and_then(|folder| folder.sync_all());
                folder.map_err(|error| self.error("sync the folder of", &error))?;
            }
            inner.new_entry = false;
        }
        Ok(())
    }

    fn notice(&self) -> Option<String> {
        self.lock().notice.take()
    }
}

/// Whether an open file is the one that stands at a path.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let there = match std::fs::symlink_metadata(path) {
        Ok(there) => there,
        // What else may be wrong says nothing of the file.
        Err(error) => return error.kind() != io::ErrorKind::NotFound,
    };
    file.metadata().is_ok_and(|open| (open.dev(), open.ino()) == (there.dev(), there.ino()))
}

/// Whether an open file is the one that stands at a path.
#[cfg(not(unix))]
fn is_at(_: &File, path: &Path) -> bool {
    path.exists()
}

/// One record as a line. Raw JSON may hold line ends between its tokens; such a
/// record goes into the file as a JSON string, so that its bytes survive.
/// Contents from this many bytes on are written without a copy of the line.
const LARGE: usize = 256 * 1024;

/// Whether a record is written piece by piece. Raw JSON with a line end in it
/// needs the copy.
fn is_large(record: &Record) -> bool {
    match record {
        Record::Content(content) => {
            let json = content.wire.json();
            json.len() > LARGE && !json.contains('\n')
        }
        _ => false,
    }
}

fn line_of(record: &Record) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(record)?;
    if line.contains(&b'\n') {
        let text = String::from_utf8_lossy(&line).into_owned();
        line = serde_json::to_vec(&serde_json::json!({ "escaped": text }))?;
    }
    line.push(b'\n');
    Ok(line)
}

/// One record as the line of a journal, its end included.
///
/// # Errors
/// When it holds what JSON cannot.
pub fn record_line(record: &Record) -> serde_json::Result<String> {
    let line = line_of(record)?;
    // JSON is UTF-8.
    Ok(String::from_utf8_lossy(&line).into_owned())
}

fn is_no_space(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}
