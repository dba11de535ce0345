//! Reads lines of bounded length from a stream.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// Maximum bytes of a line.
pub(crate) const MAX_LINE: usize = 8 * 1024 * 1024;

/// A line, or why it is invalid.
pub(crate) type ReadLine = Result<String, String>;

/// Reads the next line without its line ending. Blank lines are skipped. A line that is too long or
/// not UTF-8 is read to its end and rejected. `number` counts lines.
pub(crate) async fn next_line(
    input: &mut (impl AsyncBufRead + Unpin),
    number: &mut u64,
) -> io::Result<Option<ReadLine>> {
    loop {
        let mut line = Vec::new();
        let mut too_long = false;
        let mut any = false;
        let complete = loop {
            let bytes = input.fill_buf().await?;
            if bytes.is_empty() {
                break false;
            }
            any = true;
            let end = bytes.iter().position(|&byte| byte == b'\n');
            let piece = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or(bytes);
            let used = piece.len() + usize::from(end.is_some());
            if line.len() + piece.len() > MAX_LINE {
                too_long = true;
                line = Vec::new();
            } else if !too_long {
                line.extend_from_slice(piece);
            }
            input.consume(used);
            if end.is_some() {
                break true;
            }
        };
        if !any {
            return Ok(None);
        }
        *number += 1;
        if too_long {
            return Ok(Some(Err("the line is longer than 8 MiB".to_owned())));
        }
        match String::from_utf8(line) {
            Ok(text) if text.trim().is_empty() && complete => {}
            Ok(text) if text.trim().is_empty() => return Ok(None),
            Ok(text) => return Ok(Some(Ok(text))),
            Err(_) => return Ok(Some(Err("the line is not valid UTF-8".to_owned()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn oversized_and_invalid_lines_are_rejected_and_the_rest_read() {
        let mut input = b"one\r\n\n \n".to_vec();
        input.extend(std::iter::repeat_n(b'x', MAX_LINE + 1));
        input.extend_from_slice(b"\n\xff\nlast");
        let mut reader = tokio::io::BufReader::new(io::Cursor::new(input));
        let mut number = 0;
        let mut seen = Vec::new();
        while let Some(line) = next_line(&mut reader, &mut number).await.unwrap() {
            seen.push((number, line));
        }
        assert_eq!(
            seen,
            [
                (1, Ok("one\r".to_owned())),
                (4, Err("the line is longer than 8 MiB".to_owned())),
                (5, Err("the line is not valid UTF-8".to_owned())),
                (6, Ok("last".to_owned())),
            ]
        );
    }
}
