//! Combines the prompt from the command line and stdin.

use std::io::Read;
use std::time::Duration;

use parallax_protocol::event::{Failure, FailureKind};
use tokio::sync::mpsc;

/// Maximum number of bytes read from stdin.
const MAX_STDIN: usize = 8 * 1024 * 1024;
/// How long to wait for the first byte if a prompt is given: an open pipe without a writer must not
/// block the run.
const FIRST_BYTE: Duration = Duration::from_millis(500);

/// The text of stdin, and a warning about it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct StdinText {
    pub(crate) text: String,
    pub(crate) warnings: Vec<String>,
}

/// Reads stdin to its end or to the limit. If a prompt is given, waits only briefly for the first
/// byte.
pub(crate) async fn read_stdin(stdin: impl Read + Send + 'static, has_prompt: bool) -> StdinText {
    let mut chunks = read_on_thread(stdin);
    let mut bytes = Vec::new();
    let mut warnings = Vec::new();
    let first = if has_prompt {
        tokio::time::timeout(FIRST_BYTE, chunks.recv()).await.unwrap_or(None)
    } else {
        chunks.recv().await
    };
    let mut next = first;
    while let Some(chunk) = next {
        match chunk {
            Ok(chunk) => bytes.extend_from_slice(&chunk),
            Err(error) => {
                warnings.push(format!("Failed to read stdin: {error}"));
                break;
            }
        }
        if bytes.len() > MAX_STDIN {
            bytes.truncate(MAX_STDIN);
            trim_split_character(&mut bytes);
            warnings.push("Stdin is longer than 8 MiB; the rest was ignored".to_owned());
            break;
        }
        next = chunks.recv().await;
    }
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            warnings.push("Stdin is not valid UTF-8; invalid bytes were replaced".to_owned());
            String::from_utf8_lossy(error.as_bytes()).into_owned()
        }
    };
    StdinText { text, warnings }
}

/// Reads on a separate thread, which ends with the process, because a blocking read cannot be
/// cancelled.
fn read_on_thread(
    mut stdin: impl Read + Send + 'static,
) -> mpsc::Receiver<std::io::Result<Vec<u8>>> {
    let (sender, receiver) = mpsc::channel(2);
    std::thread::spawn(move || {
        loop {
            let mut chunk = vec![0; 64 * 1024];
            let result = match stdin.read(&mut chunk) {
                Ok(0) => return,
                Ok(count) => {
                    chunk.truncate(count);
                    Ok(chunk)
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                // A background process may not read its terminal.
                Err(error) if error.raw_os_error() == Some(5) => return,
                Err(error) => Err(error),
            };
            let failed = result.is_err();
            if sender.blocking_send(result).is_err() || failed {
                return;
            }
        }
    });
    receiver
}

/// Removes a character that the limit has split.
fn trim_split_character(bytes: &mut Vec<u8>) {
    if let Err(error) = std::str::from_utf8(bytes)
        && error.error_len().is_none()
    {
        bytes.truncate(error.valid_up_to());
    }
}

/// Combines the two strings.
///
/// # Errors
/// [`FailureKind::Input`] if both are empty.
pub(crate) fn assemble(stdin: &str, prompt: Option<&str>) -> Result<String, Failure> {
    let input_failure = |message| Err(Failure { kind: FailureKind::Input, message, status: None });
    let text = match prompt {
        Some(prompt) if stdin.is_empty() => prompt.to_owned(),
        Some(prompt) => format!("{stdin}\n\n{prompt}"),
        None => stdin.to_owned(),
    };
    if text.trim().is_empty() {
        return input_failure("No prompt given; use `-p \"…\"` or pipe one to stdin".to_owned());
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stdin_is_prepended_to_the_prompt() {
        assert_eq!(assemble("log\n", Some("why?")).unwrap(), "log\n\n\nwhy?");
        assert_eq!(assemble("", Some("why?")).unwrap(), "why?");
        assert_eq!(assemble("why?\n", None).unwrap(), "why?\n");
        assert_eq!(assemble("/etc/hosts is odd", None).unwrap(), "/etc/hosts is odd");
        for (stdin, prompt) in [("", None), (" \n", Some(""))] {
            assert_eq!(assemble(stdin, prompt).unwrap_err().kind, FailureKind::Input);
        }
    }

    #[tokio::test]
    async fn silent_pipe_does_not_block_a_run_with_a_prompt() {
        let (reader, writer) = std::io::pipe().unwrap();
        tokio::time::pause();
        let read = read_stdin(reader, true).await;
        assert_eq!(read, StdinText::default());
        drop(writer);
    }

    #[tokio::test]
    async fn long_input_is_truncated_at_a_character_boundary() {
        let mut input = "x".repeat(MAX_STDIN - 1).into_bytes();
        input.extend_from_slice("ä and more".as_bytes());
        let read = read_stdin(std::io::Cursor::new(input), false).await;
        assert_eq!((read.text.len(), read.warnings.len()), (MAX_STDIN - 1, 1));
        let read = read_stdin(&b"a\xffb"[..], false).await;
        assert_eq!((read.text.as_str(), read.warnings.len()), ("a\u{fffd}b", 1));
    }
}
