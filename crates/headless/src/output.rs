//! Buffers and writes the output to stdout and stderr.

use std::io;

use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::options::OutputWriters;
use crate::sanitize::one_line;

/// Output that the formats have produced and that is not written yet.
#[derive(Debug, Default)]
pub(crate) struct PendingOutput {
    /// For stdout.
    pub(crate) stdout: Vec<u8>,
    /// For stderr.
    pub(crate) stderr: Vec<u8>,
}

/// Style of a message line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageStyle {
    Note,
    Warning,
    Error,
}

impl PendingOutput {
    /// Writes one message line to stderr; `text` may be untrusted.
    pub(crate) fn write_message(&mut self, tone: MessageStyle, color: bool, text: &str) {
        let (label, paint) = match tone {
            MessageStyle::Note => ("", ""),
            MessageStyle::Warning => ("warning: ", "\x1b[33m"),
            MessageStyle::Error => ("error: ", "\x1b[31m"),
        };
        if color && !label.is_empty() {
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
    written_bytes: usize,
}

impl Stream {
    /// Writes all bytes. Safe to cancel: a later call continues at the same position.
    async fn flush(&mut self, bytes: &mut Vec<u8>) -> io::Result<()> {
        while let Some(rest) = bytes.get(self.written_bytes..).filter(|rest| !rest.is_empty()) {
            match self.writer.write(rest).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                count => self.written_bytes += count,
            }
        }
        bytes.clear();
        self.written_bytes = 0;
        self.writer.flush().await
    }
}

/// The two streams and their pending output.
pub(crate) struct OutputStreams {
    pub(crate) pending: PendingOutput,
    stdout: Stream,
    stderr: Stream,
    /// Whether both are the same terminal, file, or pipe.
    are_same: bool,
    line: LineState,
}

/// Cursor position in the destination that both streams share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineState {
    /// At the beginning of a line.
    Start,
    /// After text of stdout without a line ending.
    Open,
    /// At the beginning of a line, because stderr ended a line of stdout.
    Ended,
}

impl OutputStreams {
    /// `are_same`: both streams are the same terminal, file, or pipe.
    pub(crate) fn new(io: OutputWriters, are_same: bool) -> Self {
        Self {
            pending: PendingOutput::default(),
            stdout: Stream { writer: io.stdout, written_bytes: 0 },
            stderr: Stream { writer: io.stderr, written_bytes: 0 },
            are_same,
            line: LineState::Start,
        }
    }

    /// Writes pending output. Safe to cancel. Errors of stderr are ignored, because there is
    /// nowhere to report them.
    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        self.follow_stdout();
        if !self.pending.stdout.is_empty() {
            self.stdout.flush(&mut self.pending.stdout).await?;
        }
        self.flush_stderr().await;
        Ok(())
    }

    /// Tracks the cursor position after the pending stdout. Skips a line ending that stderr has
    /// already written.
    fn follow_stdout(&mut self) {
        let stdout = &mut self.pending.stdout;
        if !self.are_same || self.stdout.written_bytes > 0 {
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
        self.stdout.written_bytes = 0;
    }

    /// Writes pending output for stderr only.
    pub(crate) async fn flush_stderr(&mut self) {
        let stderr = &mut self.pending.stderr;
        if self.line == LineState::Open && !stderr.is_empty() && self.stderr.written_bytes == 0 {
            stderr.insert(0, b'\n');
            self.line = LineState::Ended;
        }
        if !self.pending.stderr.is_empty()
            && self.stderr.flush(&mut self.pending.stderr).await.is_err()
        {
            self.pending.stderr.clear();
            self.stderr.written_bytes = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Buffer;

    /// Returns what the two streams receive for pieces flushed one after another.
    async fn written(shared: bool, pieces: &[(&str, &str)]) -> (String, String) {
        let (stdout, stderr) = (Buffer::default(), Buffer::default());
        let io =
            OutputWriters { stdout: Box::new(stdout.clone()), stderr: Box::new(stderr.clone()) };
        let mut output = OutputStreams::new(io, shared);
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
        // Text that continues starts on its own line.
        let pieces = [("Half", "a\n"), (" and half", ""), ("\n", "b\n")];
        let (stdout, stderr) = written(true, &pieces).await;
        assert_eq!((stdout.as_str(), stderr.as_str()), ("Half and half\n", "\na\nb\n"));
        // A file receives the answer unchanged, and a log no empty line.
        let (stdout, stderr) = written(false, &pieces).await;
        assert_eq!((stdout.as_str(), stderr.as_str()), ("Half and half\n", "a\nb\n"));
    }
}
