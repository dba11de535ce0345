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

/// The style of a message line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Note,
    Warning,
    Error,
}

impl Pending {
    /// Writes one message line to stderr; `text` may be untrusted.
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
    /// Both are the same terminal.
    shared: bool,
    line: LineState,
}

/// Where a terminal that shows both streams is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineState {
    /// At the beginning of a line.
    Start,
    /// Behind text of stdout that no line end follows.
    Open,
    /// At the beginning of a line, as stderr ended a line that stdout had left open.
    Ended,
}

impl Output {
    /// `shared`: both streams are the same terminal.
    pub(crate) fn new(io: Io, shared: bool) -> Self {
        Self {
            pending: Pending::default(),
            stdout: Stream { writer: io.stdout, written: 0 },
            stderr: Stream { writer: io.stderr, written: 0 },
            shared,
            line: LineState::Start,
        }
    }

    /// Writes what is pending. Safe to cancel. A failing stderr is nobody's
    /// problem: there is no place left to say so.
    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        self.follow_stdout();
        if !self.pending.stdout.is_empty() {
            self.stdout.flush(&mut self.pending.stdout).await?;
        }
        self.flush_stderr().await;
        Ok(())
    }

    /// Notes how what is pending for stdout leaves the terminal's line. A line end that
    /// stderr has written already is left out.
    fn follow_stdout(&mut self) {
        let stdout = &mut self.pending.stdout;
        if !self.shared || self.stdout.written > 0 {
            return;
        }
        if self.line == LineState::Ended && stdout.first() == Some(&b'\n') {
            stdout.remove(0);
            self.line = LineState::Start;
        }
        match stdout.last() {
            Some(b'\n') => self.line = LineState::Start,
            Some(_) => self.line = LineState::Open,
            None => {}
        }
    }

    /// Drops the pending output for stdout, which has no reader anymore.
    pub(crate) fn discard_stdout(&mut self) {
        self.pending.stdout.clear();
        self.stdout.written = 0;
    }

    /// Writes what is pending for stderr alone.
    pub(crate) async fn flush_stderr(&mut self) {
        let stderr = &mut self.pending.stderr;
        if self.line == LineState::Open && !stderr.is_empty() && self.stderr.written == 0 {
            stderr.insert(0, b'\n');
            self.line = LineState::Ended;
        }
        if !self.pending.stderr.is_empty()
            && self.stderr.flush(&mut self.pending.stderr).await.is_err()
        {
            self.pending.stderr.clear();
            self.stderr.written = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Buffer;

    /// What the two streams get of pieces that are flushed one after another.
    async fn written(shared: bool, pieces: &[(&str, &str)]) -> (String, String) {
        let (stdout, stderr) = (Buffer::default(), Buffer::default());
        let io = Io { stdout: Box::new(stdout.clone()), stderr: Box::new(stderr.clone()) };
        let mut output = Output::new(io, shared);
        for (out, err) in pieces {
            output.pending.stdout.extend_from_slice(out.as_bytes());
            output.pending.stderr.extend_from_slice(err.as_bytes());
            output.flush().await.expect("a buffer takes all");
        }
        (stdout.text(), stderr.text())
    }

    #[tokio::test]
    async fn answer_ends_with_newline_before_notice_on_shared_terminal() {
        let pieces = [("Half a line", ""), ("", "warning: odd\n"), ("\n", "warning: more\n")];
        let (stdout, stderr) = written(true, &pieces).await;
        assert_eq!(
            (stdout.as_str(), stderr.as_str()),
            ("Half a line", "\nwarning: odd\nwarning: more\n")
        );
        // Text that goes on begins in a line of its own.
        let pieces = [("Half", "a\n"), (" and half", ""), ("\n", "b\n")];
        let (stdout, stderr) = written(true, &pieces).await;
        assert_eq!((stdout.as_str(), stderr.as_str()), ("Half and half\n", "\na\nb\n"));
        // A file gets the answer as it is, and a log no empty line.
        let (stdout, stderr) = written(false, &pieces).await;
        assert_eq!((stdout.as_str(), stderr.as_str()), ("Half and half\n", "a\nb\n"));
    }
}
