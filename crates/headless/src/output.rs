//! Bytes on their way to stdout and stderr.

use std::io;

use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::options::Io;
use crate::sanitize::one_line;

/// What the faces have written and the streams have not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// For stdout.
    pub(crate) stdout: Vec<u8>,
    /// For stderr.
    pub(crate) stderr: Vec<u8>,
}

/// How a line for people is marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Note,
    Warning,
    Error,
}

impl Pending {
    /// Writes one line for people to stderr; `text` may be foreign.
    pub(crate) fn say(&mut self, tone: Tone, colour: bool, text: &str) {
        let (label, paint) = match tone {
            Tone::Note => ("", ""),
            Tone::Warning => ("warning: ", "\x1b[33m"),
            Tone::Error => ("error: ", "\x1b[31m"),
        };
        if colour && !label.is_empty() {
            self.stderr.extend_from_slice(format!("{paint}{label}\x1b[0m").as_bytes());
        } else {
            self.stderr.extend_from_slice(label.as_bytes());
        }
        self.stderr.extend_from_slice(one_line(text).as_bytes());
        self.stderr.push(b'\n');
    }
}

struct Stream {
    writer: Box<dyn AsyncWrite + Send + Unpin>,
    written: usize,
}

impl Stream {
    /// Writes all of it. Safe to cancel: goes on where it was.
    async fn flush(&mut self, bytes: &mut Vec<u8>) -> io::Result<()> {
        while let Some(rest) = bytes.get(self.written..).filter(|rest| !rest.is_empty()) {
            match self.writer.write(rest).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                count => self.written += count,
            }
        }
        bytes.clear();
        self.written = 0;
        self.writer.flush().await
    }
}

/// The two streams and what waits for them.
pub(crate) struct Output {
    pub(crate) pending: Pending,
    stdout: Stream,
    stderr: Stream,
}

impl Output {
    pub(crate) fn new(io: Io) -> Self {
        Self {
            pending: Pending::default(),
            stdout: Stream { writer: io.stdout, written: 0 },
            stderr: Stream { writer: io.stderr, written: 0 },
        }
    }

    /// Writes what is pending. Safe to cancel. A failing stderr is nobody's
    /// problem: there is no place left to say so.
    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        if !self.pending.stdout.is_empty() {
            self.stdout.flush(&mut self.pending.stdout).await?;
        }
        self.flush_stderr().await;
        Ok(())
    }

    /// Drops what is pending for stdout: nobody will read it.
    pub(crate) fn discard_stdout(&mut self) {
        self.pending.stdout.clear();
        self.stdout.written = 0;
    }

    /// Writes what is pending for stderr alone.
    pub(crate) async fn flush_stderr(&mut self) {
        if !self.pending.stderr.is_empty()
            && self.stderr.flush(&mut self.pending.stderr).await.is_err()
        {
            self.pending.stderr.clear();
            self.stderr.written = 0;
        }
    }
}
