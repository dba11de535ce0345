//! The connection of a front end to a running session.

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use parallax_files::ShortSocketPath;
use serde_json::{Value, json};

use crate::directory::{BackgroundSession, file_error};
use crate::error::BackgroundError;
use crate::record::SessionRecord;
use crate::view_protocol::{FeedLine, VIEW_VERSION, ViewerLine};

/// Maximum length of a line from the session, in bytes.
const MAX_LINE_LENGTH: u64 = 64 << 20;

/// The lines of the session.
#[derive(Debug)]
pub struct FeedReader(BufReader<OwnedReadHalf>);

/// The lines to the session.
#[derive(Debug)]
pub struct ViewerWriter(OwnedWriteHalf);

/// Attaches a front end to a session.
///
/// # Errors
/// Returns [`BackgroundError::NotRunning`], or [`BackgroundError::OtherVersion`] if the session
/// belongs to another version of the program.
pub async fn attach_viewer(
    session: &BackgroundSession,
    record: &SessionRecord,
) -> Result<(FeedReader, ViewerWriter), BackgroundError> {
    let path = session.file("socket");
    let not_running = |_| BackgroundError::NotRunning(record.id.clone());
    let address = ShortSocketPath::new(&path).map_err(not_running)?;
    let stream = UnixStream::connect(address.path()).await.map_err(not_running)?;
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let first = format!("{}\n", json!({"type": "view", "version": VIEW_VERSION}));
    writer.write_all(first.as_bytes()).await.map_err(file_error(&path))?;
    let mut response = String::new();
    let read = (&mut reader).take(MAX_LINE_LENGTH).read_line(&mut response).await;
    read.map_err(file_error(&path))?;
    let response: Value = serde_json::from_str(&response).unwrap_or_default();
    match response.get("ok").and_then(Value::as_bool) {
        Some(true) => Ok((FeedReader(reader), ViewerWriter(writer))),
        Some(false) => Err(BackgroundError::OtherVersion(record.id.clone())),
        None => Err(BackgroundError::NotRunning(record.id.clone())),
    }
}

impl FeedReader {
    /// Returns the next line, or `None` when the session ended. Skips lines of an unknown kind.
    pub async fn next(&mut self) -> Option<FeedLine> {
        loop {
            let mut line = Vec::new();
            let read = (&mut self.0).take(MAX_LINE_LENGTH).read_until(b'\n', &mut line).await;
            if !matches!(read, Ok(1..)) || !line.ends_with(b"\n") {
                return None;
            }
            match serde_json::from_slice(&line) {
                Ok(line) => return Some(line),
                Err(error) => tracing::debug!(%error, "a line of the session was skipped"),
            }
        }
    }
}

impl ViewerWriter {
    /// Sends a line. Returns whether the session is still there.
    pub async fn send(&mut self, line: &ViewerLine) -> bool {
        let Ok(mut line) = serde_json::to_vec(line) else { return true };
        line.push(b'\n');
        self.0.write_all(&line).await.is_ok()
    }
}
