//! A message that a server prints over several lines, as pretty-printed JSON.

/// Maximum size in bytes of the lines that are held.
const MAX_BYTES: usize = 512 * 1024;
/// Maximum number of lines that are held.
const MAX_LINES: usize = 5_000;

/// Lines that may be the beginning of a JSON object.
#[derive(Debug, Default)]
pub(crate) struct MultilineObject {
    lines: Vec<Vec<u8>>,
    bytes: usize,
    /// Brackets that are open.
    depth: usize,
}

impl MultilineObject {
    /// Adds a line, if it can begin or continue the object. Otherwise returns `false`.
    pub(crate) fn push(&mut self, line: &[u8]) -> bool {
        let trimmed = line.trim_ascii();
        let starts = match self.lines.is_empty() {
            true => trimmed.starts_with(b"{"),
            false => trimmed.first().is_some_and(|first| b"\"{}[],:-0123456789tfn".contains(first)),
        };
        let Some(depth) = starts.then(|| depth_after(trimmed, self.depth)).flatten() else {
            return false;
        };
        let is_full = self.lines.len() >= MAX_LINES || self.bytes + line.len() > MAX_BYTES;
        if is_full || (self.lines.is_empty() && depth == 0) {
            return false;
        }
        self.depth = depth;
        self.bytes += line.len();
        self.lines.push(line.to_vec());
        true
    }

    /// Whether all brackets are closed.
    pub(crate) fn is_complete(&self) -> bool {
        self.depth == 0 && !self.lines.is_empty()
    }

    /// Returns the lines and starts over.
    pub(crate) fn take(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(self).lines
    }
}

/// Counts the brackets that are open after a line of JSON. `None`: the line is not JSON, because
/// strings end on their line, or it closes more than was opened.
fn depth_after(line: &[u8], mut depth: usize) -> Option<usize> {
    let (mut in_string, mut is_escaped) = (false, false);
    for (index, byte) in line.iter().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 && index + 1 < line.len() {
                    return None;
                }
            }
            _ => {}
        }
    }
    (!in_string).then_some(depth)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_spread_lines(lines: &[&str]) -> (bool, bool) {
        let mut object = MultilineObject::default();
        let all = lines.iter().all(|line| object.push(line.as_bytes()));
        (all, object.is_complete())
    }

    #[test]
    fn multiline_json_is_buffered_until_it_is_complete() {
        assert_eq!(
            parse_spread_lines(&["{", "  \"a\": [", "    \"}\\\"\"", "  ]", "}"]),
            (true, true)
        );
        assert_eq!(parse_spread_lines(&["{ \"jsonrpc\": \"2.0\",", "  \"id\": 1,"]), (true, false));
        for lines in [
            &["plain"][..],
            &["{\"a\": 1}"],
            &["{\"a\": \"cut"],
            &["{", "Starting server"],
            &["{", "} and more"],
            &["[", "]"],
        ] {
            assert!(!parse_spread_lines(lines).0, "{lines:?}");
        }
        let many = vec!["{"; MAX_LINES + 1];
        assert!(!parse_spread_lines(&many).0);
    }
}
