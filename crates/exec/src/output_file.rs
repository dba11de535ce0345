//! Output files: the full copy of a long output, and the logs of background processes.

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parallax_protocol::secret::Redact;
use rustix::fs::OFlags;

/// Text is buffered up to this size before it is written.
const BATCH: usize = 256 * 1024;
/// Number of bytes of the end that are kept when a log is restarted.
const KEPT_LOG_BYTES: u64 = 64 * 1024;

/// What happens when a file reaches its size limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitBehavior {
    /// The beginning is kept, and the rest is ignored.
    Stop,
    /// The file is restarted with its end, because the newest part matters.
    KeepNewest,
}

/// The file of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputFile {
    /// The path.
    pub path: PathBuf,
    /// Whether it contains the full output.
    pub complete: bool,
    /// Why the file could not be written, if so.
    pub problem: Option<String>,
}

/// Appends text to a file. A write error does not affect the output: the writer records it and
/// ignores further text.
#[derive(Debug)]
pub(crate) struct OutputFileWriter {
    path: PathBuf,
    limit: u64,
    limit_behavior: LimitBehavior,
    file: Option<File>,
    created: bool,
    pending: Vec<u8>,
    written_bytes: u64,
    is_full: bool,
    problem: Option<String>,
    redact: Option<Arc<dyn Redact>>,
}

impl OutputFileWriter {
    /// Creates a writer. The file is created with the first text.
    pub(crate) fn new(path: PathBuf, limit: u64, limit_behavior: LimitBehavior) -> Self {
        Self {
            path,
            limit,
            limit_behavior,
            file: None,
            created: false,
            pending: Vec::new(),
            written_bytes: 0,
            is_full: false,
            problem: None,
            redact: None,
        }
    }

    /// Sets the redactor for the text.
    pub(crate) fn with_redactor(self, redact: Option<Arc<dyn Redact>>) -> Self {
        Self { redact, ..self }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) async fn append(&mut self, text: &str) {
        if self.is_full || self.problem.is_some() {
            return;
        }
        self.pending.extend_from_slice(text.as_bytes());
        if self.pending.len() >= BATCH {
            self.flush_lines().await;
        }
    }

    /// Writes the buffered text.
    pub(crate) async fn flush(&mut self) {
        if !self.pending.is_empty() {
            self.create().await;
        }
    }

    /// Like [`flush`](Self::flush), but holds back the possible beginning of a secret until the
    /// rest arrives.
    pub(crate) async fn flush_lines(&mut self) {
        let certain = match self.redact {
            Some(_) => redactable_length(&self.pending),
            None => self.pending.len(),
        };
        let held = self.pending.split_off(certain);
        self.flush().await;
        self.pending = held;
    }

    /// Like [`OutputFileWriter::flush`], but also creates an empty file. Works on a blocking
    /// thread.
    pub(crate) async fn create(&mut self) {
        let mut batch = WriteBatch {
            path: self.path.clone(),
            limit: self.limit,
            limit_behavior: self.limit_behavior,
            file: self.file.take(),
            created: self.created,
            text: std::mem::take(&mut self.pending),
            redact: self.redact.clone(),
            written_bytes: self.written_bytes,
            is_full: false,
        };
        let done = tokio::task::spawn_blocking(move || {
            let result = batch.write();
            (batch, result)
        })
        .await;
        match done {
            Ok((batch, result)) => {
                self.file = batch.file;
                self.created = batch.created;
                self.written_bytes = batch.written_bytes;
                self.is_full = batch.is_full;
                self.pending = batch.text;
                self.pending.clear();
                self.problem = result.err().map(|error| error.to_string());
            }
            // Only when the runtime ends or the write panicked.
            Err(error) => self.problem = Some(error.to_string()),
        }
    }

    /// Returns the state of the file, or `None` if there is none.
    pub(crate) fn file(&self) -> Option<OutputFile> {
        (self.created || self.problem.is_some()).then(|| OutputFile {
            path: self.path.clone(),
            complete: self.created && !self.is_full && self.problem.is_none(),
            problem: self.problem.clone(),
        })
    }
}

struct WriteBatch {
    path: PathBuf,
    limit: u64,
    limit_behavior: LimitBehavior,
    file: Option<File>,
    created: bool,
    text: Vec<u8>,
    redact: Option<Arc<dyn Redact>>,
    written_bytes: u64,
    is_full: bool,
}

impl WriteBatch {
    fn write(&mut self) -> io::Result<()> {
        let mut file = match self.file.take() {
            Some(file) => file,
            None => create_private(&self.path)?,
        };
        self.created = true;
        if let Some(redact) = &self.redact {
            let text = String::from_utf8_lossy(&self.text);
            if let Cow::Owned(redacted) = redact.redact(&text) {
                self.text = redacted.into_bytes();
            }
        }
        let mut text = self.text.as_slice();
        if self.written_bytes + text.len() as u64 > self.limit {
            match self.limit_behavior {
                LimitBehavior::Stop => {
                    let room =
                        usize::try_from(self.limit - self.written_bytes).unwrap_or(usize::MAX);
                    text = text.get(..room).unwrap_or(text);
                    self.is_full = true;
                }
                LimitBehavior::KeepNewest => self.written_bytes = start_over(&mut file)?,
            }
        }
        file.write_all(text)?;
        self.written_bytes += text.len() as u64;
        self.file = Some(file);
        Ok(())
    }
}

/// Returns how many bytes can be redacted: complete lines, except for a private key that has begun;
/// for a very long line, everything except its last word; for a very long private key, everything.
fn redactable_length(pending: &[u8]) -> usize {
    let after = |byte: u8| pending.iter().rposition(|it| *it == byte).map(|index| index + 1);
    let lines = match after(b'\n') {
        Some(lines) => lines,
        None if pending.len() < BATCH => return 0,
        None => return after(b' ').unwrap_or(pending.len()),
    };
    let whole = pending.get(..lines).unwrap_or_default();
    let key_start = memchr::memmem::rfind(whole, b"-----BEGIN ").filter(|key_start| {
        let key = whole.get(*key_start..).unwrap_or_default();
        key.len() < BATCH / 4 && memchr::memmem::find(key, b"-----END ").is_none()
    });
    key_start.unwrap_or(lines)
}

fn start_over(file: &mut File) -> io::Result<u64> {
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(length.saturating_sub(KEPT_LOG_BYTES)))?;
    let mut end = Vec::new();
    file.take(KEPT_LOG_BYTES).read_to_end(&mut end)?;
    let border = end.iter().position(|byte| *byte == b'\n').map_or(0, |index| index + 1);
    let end = end.get(border..).unwrap_or_default();
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    let note = b"[earlier output dropped]\n";
    file.write_all(note)?;
    file.write_all(end)?;
    Ok((note.len() + end.len()) as u64)
}

/// Creates a new private file. An existing file (of an earlier session) is removed, and links are
/// never followed. The directory is created if it does not exist.
fn create_private(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        create_private_folder(folder)?;
    }
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(no_follow())
        .open(path)
}

/// Opens a file for reading unless it is a symbolic link.
pub(crate) fn open_no_follow(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(no_follow()).open(path)
}

/// Creates a directory that only the user can access.
///
/// # Errors
/// Returns an error if it cannot be created.
pub fn create_private_folder(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn no_follow() -> i32 {
    OFlags::NOFOLLOW.bits().cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_protocol::secret::Secret;
    use std::os::unix::fs::PermissionsExt;

    #[tokio::test]
    async fn copy_is_private_and_stops_at_its_limit() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("copy.txt");
        let mut recorder = OutputFileWriter::new(path.clone(), 10, LimitBehavior::Stop);
        assert_eq!(recorder.file(), None);
        recorder.append("12345").await;
        recorder.flush().await;
        assert!(recorder.file().unwrap().complete);
        recorder.append("67890abc").await;
        recorder.flush().await;
        recorder.append("more").await;
        recorder.flush().await;
        assert!(!recorder.file().unwrap().complete);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "1234567890");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[tokio::test]
    async fn split_secret_is_redacted_in_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let redact: Arc<dyn Redact> =
            Arc::new(crate::Redactor::new(vec![Secret::new("abcdefgh1234")]));
        let mut recorder = OutputFileWriter::new(path.clone(), 1 << 20, LimitBehavior::KeepNewest)
            .with_redactor(Some(Arc::clone(&redact)));
        let pieces = [
            "one\nx abcd",
            "efgh12",
            "34 y\n-----BEGIN PRIVATE KEY-----\nMII\n",
            "abc\n",
            "-----END PRIVATE KEY-----\nz",
        ];
        for piece in pieces {
            recorder.append(piece).await;
            recorder.flush_lines().await;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let key = "-----BEGIN PRIVATE KEY-----[redacted]\n";
        assert_eq!(text, format!("one\nx [redacted] y\n{key}"));
        recorder.flush().await;
        assert!(std::fs::read_to_string(&path).unwrap().ends_with(&format!("{key}z")));
    }

    #[tokio::test]
    async fn log_keeps_its_tail() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let mut recorder = OutputFileWriter::new(path.clone(), 200_000, LimitBehavior::KeepNewest);
        for number in 0..40_000 {
            recorder.append(&format!("line {number}\n")).await;
        }
        recorder.flush().await;
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.len() <= 400_000, "{}", text.len());
        assert!(text.starts_with("[earlier output dropped]\nline "), "{}", &text[..60]);
        assert!(text.ends_with("line 39999\n"));
    }

    #[tokio::test]
    async fn write_failure_is_remembered() {
        let mut recorder = OutputFileWriter::new("/dev/null/copy".into(), 10, LimitBehavior::Stop);
        recorder.append("x").await;
        recorder.flush().await;
        let file = recorder.file().unwrap();
        assert!(!file.complete && file.problem.is_some());
    }
}
