//! Writes the session in Gemini CLI's transcript format for hooks to read: one line of JSON for the
//! header, then one per message. The transcript is derived from the journal and updated before
//! hooks run.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use parallax_protocol::store::Record;
use parallax_store::{JournalTail, Keys};
use serde_json::Value;

use crate::export::Messages;
use crate::gemini_record::{head, record_name, to_gemini_message};

/// Name of the transcript file in the session's artifact directory.
pub const TRANSCRIPT: &str = "transcript.jsonl";

/// The transcript file and its position in the journal.
pub struct TranscriptFile {
    /// Path that hooks receive. If no transcript is written, this is the journal.
    path: PathBuf,
    converter: Option<Arc<Mutex<TranscriptConverter>>>,
}

/// Where to write the transcript.
pub enum TranscriptTarget {
    /// To this file.
    File(PathBuf),
    /// Into this directory, with the file name that Gemini CLI would use.
    Chats(PathBuf),
}

/// Converts a growing journal to Gemini CLI's transcript format.
pub struct TranscriptConverter {
    journal: JournalTail,
    target: TranscriptTarget,
    messages: Messages,
    /// Number of messages already written.
    written_messages: usize,
    /// The file that this process created. It replaces the file of an earlier process.
    file: Option<File>,
}

impl TranscriptFile {
    /// `path` is the transcript file; with `None`, no transcript is written.
    pub fn new(journal: PathBuf, keys: Keys, path: Option<PathBuf>) -> Self {
        let Some(path) = path else { return Self { path: journal, converter: None } };
        let new_converter =
            TranscriptConverter::new(journal, keys, TranscriptTarget::File(path.clone()));
        Self { path, converter: Some(Arc::new(Mutex::new(new_converter))) }
    }

    /// Returns the path that hooks receive.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends what is new in the journal. Errors are only logged, because most hooks do not read
    /// the transcript.
    pub async fn update(&self) {
        let Some(converter) = self.converter.clone() else { return };
        let update_task = tokio::task::spawn_blocking(move || {
            converter.lock().unwrap_or_else(PoisonError::into_inner).update()
        });
        if let Ok(Err(error)) = update_task.await {
            tracing::debug!("failed to update the transcript for hooks: {error}");
        }
    }
}

impl TranscriptConverter {
    /// Writes nothing until the first [`update`](Self::update).
    pub fn new(journal: PathBuf, keys: Keys, target: TranscriptTarget) -> Self {
        let journal = JournalTail::new(journal, keys);
        Self { journal, target, messages: Messages::default(), written_messages: 0, file: None }
    }

    /// Writes what is new in the journal. Blocking.
    pub fn update(&mut self) -> io::Result<()> {
        let mut records = Vec::new();
        self.journal.lines(|line| {
            // A record that does not parse comes from a newer version.
            records.extend(serde_json::from_slice(line));
            Ok(())
        })?;
        let mut out = Vec::new();
        for record in records {
            match record {
                Record::Session(session) => {
                    session.session_id.as_str().clone_into(&mut self.messages.session);
                    let mut line = head(&session);
                    if let TranscriptTarget::Chats(chats) = &self.target {
                        // Parallax's own session list skips files with this key.
                        line[parallax_store::MIRROR_KEY] = true.into();
                        self.target = TranscriptTarget::File(chats.join(record_name(&session)));
                    }
                    push(&mut out, &line)?;
                }
                record => self.record(&record, &mut out)?,
            }
        }
        self.messages(&mut out)?;
        if out.is_empty() {
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => match &self.target {
                TranscriptTarget::File(path) => none.insert(create(path)?),
                TranscriptTarget::Chats(_) => {
                    return Err(io::Error::other("the journal has no header"));
                }
            },
        };
        file.write_all(&out)
    }

    /// Writes a message when it is complete, and again when its tool calls have results, as Gemini
    /// CLI does.
    fn record(&mut self, record: &Record, out: &mut Vec<u8>) -> io::Result<()> {
        let answered = self.messages.pending_calls_index();
        self.messages(out)?;
        self.messages.record(record)?;
        if let Some(at) = answered.filter(|at| self.messages.pending_calls_index() != Some(*at)) {
            if let Some(message) = self.messages.list.get(at) {
                push(out, &to_gemini_message(message))?;
            }
            self.free_written();
        }
        Ok(())
    }

    /// Writes the messages that were not written yet.
    fn messages(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        for message in self.messages.list.get(self.written_messages..).unwrap_or_default() {
            push(out, &to_gemini_message(message))?;
        }
        self.written_messages = self.messages.list.len();
        self.free_written();
        Ok(())
    }

    /// Frees written messages. Only the one whose tool calls are pending is needed again.
    fn free_written(&mut self) {
        let pending_index = self.messages.pending_calls_index();
        for (index, message) in self.messages.list.iter_mut().enumerate().rev() {
            if Some(index) != pending_index && index < self.written_messages {
                if message.is_null() {
                    break;
                }
                *message = Value::Null;
            }
        }
    }
}

fn push(out: &mut Vec<u8>, line: &Value) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.push(b'\n');
    Ok(())
}

fn create(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    if let Some(folder) = path.parent() {
        parallax_exec::create_private_folder(folder)?;
    }
    // Replaces the file of an earlier process. A symbolic link is removed, not followed.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().append(true).create_new(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const JOURNAL: [&str; 5] = [
        r#"{"session":{"version":1,"sessionId":"s","project":"/p","startTime":"2026-01-01T00:00:00Z"}}"#,
        r#"{"content":{"time":"2026-01-01T00:00:01Z","wire":{"role":"user","parts":[{"text":"<session_context/>"},{"text":"go"}]},"display":"go","turn":1}}"#,
        r#"{"content":{"time":"2026-01-01T00:00:02Z","wire":{"role":"model","parts":[{"text":"look"},{"functionCall":{"name":"x","args":{}}}]},"model":"m"}}"#,
        r#"{"result":{"time":"2026-01-01T00:00:03Z","call":"x_1","index":0,"name":"x","wire":[{"functionResponse":{"name":"x","response":{"output":"y"}}}],"status":"success"}}"#,
        r#"{"round":{"results":1}}"#,
    ];

    #[test]
    fn transcript_entries_are_written_once_and_updated_with_results() {
        let directory = tempfile::tempdir().expect("a directory");
        let (journal, path) = (directory.path().join("j"), directory.path().join("a/t"));
        let transcript = TranscriptFile::new(journal.clone(), Keys::default(), Some(path.clone()));
        let update = || {
            let converter = transcript.converter.clone().expect("it is made");
            converter.lock().expect("no panic").update().expect("written");
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let lines = text.lines().map(|line| serde_json::from_str(line).expect("json"));
            lines.collect::<Vec<Value>>()
        };
        assert!(update().is_empty());
        let write = |lines: &[&str]| {
            std::fs::write(&journal, lines.join("\n") + "\n").expect("written");
        };
        write(&JOURNAL[..3]);
        let lines = update();
        assert_eq!((lines.len(), lines[0]["kind"].as_str()), (3, Some("main")));
        assert_eq!(
            (&lines[1]["type"], &lines[1]["content"]),
            (&json!("user"), &json!([{"text": "go"}]))
        );
        assert_eq!((&lines[2]["type"], &lines[2]["content"]), (&json!("gemini"), &json!("look")));
        // An incomplete line is read later.
        std::fs::write(&journal, JOURNAL[..4].join("\n")).expect("written");
        assert_eq!(update().len(), 3);
        write(&JOURNAL);
        let lines = update();
        assert_eq!((lines.len(), &lines[3]["id"]), (4, &lines[2]["id"]));
        assert_eq!(lines[3]["toolCalls"][0]["status"], "success");
        assert_eq!(update().len(), 4);
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(&path).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
