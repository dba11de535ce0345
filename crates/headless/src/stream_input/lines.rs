//! Reads the lines of a conversation.

use tokio::io::{AsyncRead, BufReader};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::input_line::{InputLine, parse};
use crate::line_reader::next_line;

/// A parsed line with its number.
pub(super) struct NumberedLine {
    pub(super) number: u64,
    pub(super) operation: Result<InputLine, String>,
}

/// The lines, and the task that reads them.
pub(super) struct LineSource {
    pub(super) receiver: mpsc::Receiver<NumberedLine>,
    pub(super) task: JoinHandle<()>,
}

/// Reads lines in a task, at most one ahead.
pub(super) fn read_lines(input: impl AsyncRead + Send + Unpin + 'static) -> LineSource {
    let (sender, receiver) = mpsc::channel(1);
    let task = tokio::spawn(async move {
        let mut input = BufReader::new(input);
        let mut number = 0;
        loop {
            let operation = match next_line(&mut input, &mut number).await {
                Ok(Some(Ok(line))) => parse(&line),
                Ok(Some(Err(problem))) => Err(problem),
                // Unreadable input counts as ended.
                Ok(None) | Err(_) => return,
            };
            if sender.send(NumberedLine { number, operation }).await.is_err() {
                return;
            }
        }
    });
    LineSource { receiver, task }
}
