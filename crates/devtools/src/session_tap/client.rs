//! The other end of a session's tap.

use std::io;

use parallax_protocol::ids::SessionId;
use parallax_store::SessionDirs;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;

use super::socket;

/// Maximum size of a message in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// A session cannot be attached.
#[derive(Debug, thiserror::Error)]
pub enum TapError {
    /// The session is not running.
    #[error("The session is not running")]
    NotRunning,
    /// Its socket cannot be used.
    #[error("Failed to attach to the session: {0}")]
    Connect(#[source] io::Error),
}

/// A viewer that is attached to a running session.
#[derive(Debug)]
pub struct TapConnection {
    stream: BufReader<UnixStream>,
}

impl TapConnection {
    /// Attaches to a session. Drop it to detach.
    ///
    /// # Errors
    /// Returns an error if the session does not run, or belongs to another user.
    pub async fn open(dirs: &SessionDirs, session: &SessionId) -> Result<Self, TapError> {
        let directory = socket::directory(dirs, session).ok_or(TapError::NotRunning)?;
        let connect = async {
            let address = socket::address(&directory)?;
            let mut stream = UnixStream::connect(address.path()).await?;
            stream.write_all(socket::ATTACH).await?;
            Ok(stream)
        };
        let stream = connect.await.map_err(|error: io::Error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => TapError::NotRunning,
            _ => TapError::Connect(error),
        })?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Returns the next message, a line of JSON; `None` when the session ended.
    pub async fn next(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = (&mut self.stream).take(MAX_BYTES).read_line(&mut line).await;
        let is_whole = matches!(read, Ok(1..)) && line.ends_with('\n');
        is_whole.then(|| {
            line.pop();
            line
        })
    }
}
