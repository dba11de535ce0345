//! A client connection to the process of a background session. Blocking.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use parallax_files::ShortSocketPath;
use serde_json::{Value, json};

use crate::directory::{BackgroundSession, file_error};
use crate::error::BackgroundError;
use crate::record::SessionRecord;

/// Time limit for a response of the session.
const TIME: Duration = Duration::from_secs(10);
/// Time limit for the state of a session, which is also in its directory.
const QUERY_TIME: Duration = Duration::from_secs(1);
/// Maximum number of bytes of a response.
const MAX_ANSWER_BYTES: u64 = 8 * 1024 * 1024;

/// A client connection.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
    session: BackgroundSession,
}

impl Client {
    /// Connects to the session.
    ///
    /// # Errors
    /// Returns an error if the session is not running.
    pub fn connect(
        session: &BackgroundSession,
        record: &SessionRecord,
    ) -> Result<Self, BackgroundError> {
        Self::connect_with_limit(session, record, TIME)
    }

    /// Returns what the session says about itself, or `record` from its directory if it does not
    /// answer. The file is old if the session could not write it, for example on a full disk.
    pub fn current_record(session: &BackgroundSession, record: SessionRecord) -> SessionRecord {
        let ask = || Self::connect_with_limit(session, &record, QUERY_TIME).ok()?.record().ok();
        let answer = if record.state.is_running() { ask() } else { None };
        answer.filter(|answer| answer.id == record.id).unwrap_or(record)
    }

    fn connect_with_limit(
        session: &BackgroundSession,
        record: &SessionRecord,
        limit: Duration,
    ) -> Result<Self, BackgroundError> {
        let path = session.file("socket");
        let stream = ShortSocketPath::new(&path)
            .and_then(|address| UnixStream::connect(address.path()))
            .map_err(|_| BackgroundError::NotRunning(record.id.clone()))?;
        stream.set_read_timeout(Some(limit)).map_err(file_error(&path))?;
        Ok(Self { stream: BufReader::new(stream), session: session.clone() })
    }

    /// Keeps the session running after its turn until this connection ends.
    ///
    /// # Errors
    /// See [`Self::send`].
    pub fn attach(&mut self) -> Result<(), BackgroundError> {
        self.send(&json!({"type": "attach"}))
    }

    /// Sends a line of the conversation.
    ///
    /// # Errors
    /// Returns an error if the connection was closed or the session rejects the line.
    pub fn send(&mut self, line: &Value) -> Result<(), BackgroundError> {
        self.request(line).map(drop)
    }

    /// Returns the state of the session.
    ///
    /// # Errors
    /// Returns an error if the connection was closed, or if the session has another version.
    pub fn record(&mut self) -> Result<SessionRecord, BackgroundError> {
        let answer = self.request(&json!({"type": "record"}))?;
        let record = answer.get("record").cloned().unwrap_or_default();
        serde_json::from_value(record).map_err(|error| BackgroundError::Rejected(error.to_string()))
    }

    fn request(&mut self, line: &Value) -> Result<Value, BackgroundError> {
        let path = self.session.file("socket");
        let text = format!("{line}\n");
        self.stream.get_mut().write_all(text.as_bytes()).map_err(file_error(&path))?;
        let mut answer = String::new();
        let mut reader = (&mut self.stream).take(MAX_ANSWER_BYTES);
        reader.read_line(&mut answer).map_err(file_error(&path))?;
        let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
        if answer.get("ok").and_then(Value::as_bool) == Some(true) {
            return Ok(answer);
        }
        let reason = answer.get("error").and_then(Value::as_str).unwrap_or("the session has ended");
        Err(BackgroundError::Rejected(reason.to_owned()))
    }
}
