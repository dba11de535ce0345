//! The records of one session. They are appended as lines and read incrementally, because two
//! processes may write them.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::history::CheckpointHistory;
use super::record::Record;
use crate::private_files::create_private_dir;

/// Maximum length of a line in bytes; longer lines are skipped.
pub(super) const MAX_LINE: u64 = 256 * 1024 * 1024;

/// The journal of the changes of one session.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    /// Holds a shared lock while this process is running, to show that the session is in use.
    file: Option<File>,
    /// Number of bytes read.
    offset: u64,
    pub history: CheckpointHistory,
}

impl Journal {
    pub fn new(path: PathBuf) -> Self {
        Self { path, file: None, offset: 0, history: CheckpointHistory::default() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends one complete record, and reads records that others appended.
    pub fn append(&mut self, record: &Record) -> io::Result<()> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        let lock = self.lock()?;
        let mut file = self.open()?;
        let length = file.metadata()?.len();
        if length > 0 && !ends_with_newline(&file, length)? {
            // End a line that a crash tore, so that it is skipped.
            line.insert(0, b'\n');
        }
        if let Err(error) = file.write_all(&line) {
            let _ = file.set_len(length);
            return Err(error);
        }
        let _ = lock.unlock();
        self.refresh()
    }

    fn lock(&self) -> io::Result<File> {
        let path = lock_path(&self.path);
        let open =
            || OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let lock = match open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                create_private_dir(self.path.parent().unwrap_or(Path::new(".")))?;
                open()?
            }
            result => result?,
        };
        lock.lock()?;
        Ok(lock)
    }

    fn open(&mut self) -> io::Result<File> {
        if let Some(file) = &self.file {
            // A cleanup may still have removed the file.
            if file.metadata()?.nlink_is_positive() {
                return file.try_clone();
            }
            self.clear();
        }
        let file =
            OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&self.path)?;
        let _ = file.try_lock_shared();
        self.file = Some(file.try_clone()?);
        Ok(file)
    }

    fn clear(&mut self) {
        *self = Self::new(std::mem::take(&mut self.path));
    }

    /// Reads what was appended since the last call.
    pub fn refresh(&mut self) -> io::Result<()> {
        let mut file = match File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            result => result?,
        };
        if file.metadata()?.len() < self.offset {
            self.clear();
        }
        file.seek(SeekFrom::Start(self.offset))?;
        let mut reader = BufReader::with_capacity(64 * 1024, file);
        let mut line = Vec::new();
        loop {
            line.clear();
            let length = (&mut reader).take(MAX_LINE).read_until(b'\n', &mut line)? as u64;
            if line.last() != Some(&b'\n') {
                if length < MAX_LINE {
                    // The line is torn or being written.
                    return Ok(());
                }
                reader.skip_until(b'\n')?;
                self.offset = reader.stream_position()?;
                continue;
            }
            self.offset += length;
            if let Ok(record) = serde_json::from_slice::<Record>(&line) {
                self.history.apply(record);
            }
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // Unlock explicitly: a child process that is being started shares the open file.
        if let Some(file) = &self.file {
            let _ = file.unlock();
        }
    }
}

trait LinkedFile {
    fn nlink_is_positive(&self) -> bool;
}

impl LinkedFile for std::fs::Metadata {
    fn nlink_is_positive(&self) -> bool {
        std::os::unix::fs::MetadataExt::nlink(self) > 0
    }
}

/// Returns the path of the lock file that serializes writers of a journal.
pub(super) fn lock_path(journal: &Path) -> PathBuf {
    journal.with_extension("lock")
}

fn ends_with_newline(file: &File, length: u64) -> io::Result<bool> {
    use std::os::unix::fs::FileExt as _;
    let mut last = [0];
    file.read_exact_at(&mut last, length.saturating_sub(1))?;
    Ok(last == *b"\n")
}
