//! Splits a terminal stream into text and control sequences.

/// The unprocessed bytes of a stream.
#[derive(Debug, Default)]
pub(super) struct SequenceSplitter {
    pending: Vec<u8>,
}

impl SequenceSplitter {
    /// Adds bytes and returns complete pieces: a single control sequence, or text without any.
    /// Incomplete pieces wait for more bytes.
    pub(super) fn split(&mut self, bytes: &[u8]) -> Vec<String> {
        self.pending.extend_from_slice(bytes);
        let (mut pieces, mut at) = (Vec::new(), 0);
        while let Some(rest) = self.pending.get(at..).filter(|rest| !rest.is_empty()) {
            let Some(length) = piece(rest) else { break };
            pieces.push(String::from_utf8_lossy(rest.get(..length).unwrap_or(rest)).into_owned());
            at += length;
        }
        self.pending.drain(..at);
        pieces
    }
}

/// Returns the length of the first piece, if it is complete.
fn piece(bytes: &[u8]) -> Option<usize> {
    if bytes.first() != Some(&0x1b) {
        let text = bytes.iter().position(|byte| *byte == 0x1b);
        return text.or_else(|| Some(complete_characters_len(bytes)).filter(|length| *length > 0));
    }
    let end_of = |from: usize, is_end: fn(&u8) -> bool| {
        bytes.get(from..)?.iter().position(is_end).map(|index| from + index + 1)
    };
    match bytes.get(1)? {
        b'[' => end_of(2, |byte| (0x40..=0x7e).contains(byte)),
        b']' | b'P' | b'_' | b'^' | b'X' => string_end(bytes),
        0x20..=0x2f => end_of(2, |byte| (0x30..=0x7e).contains(byte)),
        _ => Some(2),
    }
}

/// Returns the end of a string sequence: after BEL or ST.
fn string_end(bytes: &[u8]) -> Option<usize> {
    let index = bytes.iter().skip(2).position(|byte| matches!(byte, 0x07 | 0x1b))? + 2;
    match (bytes.get(index), bytes.get(index + 1)) {
        (Some(0x07), _) => Some(index + 1),
        (_, Some(b'\\')) => Some(index + 2),
        // Another sequence ends the string.
        (_, Some(_)) => Some(index),
        (_, None) => None,
    }
}

/// Returns the length without an incomplete character at the end.
fn complete_characters_len(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::SequenceSplitter;

    #[test]
    fn pty_sequences_do_not_depend_on_chunking() {
        let stream =
            "a漢\x1b[1;31mred\x1b]0;title\x07\x1b]8;;http://x\x1b\\l\x1bP>|x\x1b\\\x1b7\x1b(B.";
        let whole = SequenceSplitter::default().split(stream.as_bytes());
        assert_eq!(whole.concat(), stream);
        assert!(whole.contains(&"\x1b]8;;http://x\x1b\\".to_owned()));
        let mut split = SequenceSplitter::default();
        let pieces: Vec<String> = stream.bytes().flat_map(|byte| split.split(&[byte])).collect();
        let controls = |pieces: &[String]| -> Vec<String> {
            pieces.iter().filter(|piece| piece.starts_with('\x1b')).cloned().collect()
        };
        assert_eq!(pieces.concat(), stream);
        assert_eq!(controls(&pieces), controls(&whole));
    }
}
