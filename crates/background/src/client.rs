//! A client connection to the process of a background session. Blocking.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use parallax_files::ShortSocketPath;
use serde_json::{Value, json};

use crate::directory::{BackgroundSession, file_error};
use crate::error::BackgroundError;
use crate::record::SessionRecord;

/// Time limit for a response of the session.
const TIME: Duration = Duration::from_secs(10);

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
        let path = session.file("socket");
        let stream = ShortSocketPath::new(&path)
            .and_then(|address| UnixStream::connect(address.path()))
            .map_err(|_| BackgroundError::NotRunning(record.id.clone()))?;
        stream.set_read_timeout(Some(TIME)).map_err(file_error(&path))?;
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
        let path = self.session.file("socket");
        let text = format!("{line}\n");
        self.stream.get_mut().write_all(text.as_bytes()).map_err(file_error(&path))?;
        let mut answer = String::new();
        self.stream.read_line(&mut answer).map_err(file_error(&path))?;
        let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
        if answer.get("ok").and_then(Value::as_bool) == Some(true) {
            return Ok(());
        }
        let reason = answer.get("error").and_then(Value::as_str).unwrap_or("the session has ended");
        Err(BackgroundError::Rejected(reason.to_owned()))
    }
}
