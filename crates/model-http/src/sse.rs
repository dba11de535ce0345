//! An incremental decoder of server-sent events, over bytes.
//!
//! It returns the data of each event. Besides proper events it accepts what gateways send: JSON
//! objects without `data:` (one error object, or the elements of an array), and a missing final
//! blank line. Its work is linear in the bytes, however they are chunked.

/// The default limit of one event, large enough for inline images.
const MAX_EVENT: usize = 64 << 20;

/// A stream that cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// One event exceeds the limit.
    #[error("one event of the response is larger than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The stream ended inside an event.
    #[error("incomplete JSON segment at the end of the stream")]
    Incomplete,
}

/// The state inside a bare JSON object.
#[derive(Debug, Default)]
struct BareObject {
    depth: usize,
    in_string: bool,
    escaped: bool,
}

/// The decoder. Feed it with [`SseDecoder::push`] and end with [`SseDecoder::finish`].
#[derive(Debug)]
pub struct SseDecoder {
    limit: usize,
    /// The current line without its end.
    line: Vec<u8>,
    /// The data of the current event.
    data: Vec<u8>,
    has_data: bool,
    /// A `[DONE]` was received.
    is_done: bool,
    after_cr: bool,
    /// Inside a JSON object that is not in a `data:` line.
    bare: Option<BareObject>,
    /// Bytes of the byte order mark received; 3 = past it.
    mark: usize,
}

impl Default for SseDecoder {
    fn default() -> Self {
        Self::with_limit(MAX_EVENT)
    }
}

const MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

impl SseDecoder {
    /// Creates a decoder that rejects events of more than `limit` bytes.
    pub fn with_limit(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            data: Vec::new(),
            has_data: false,
            is_done: false,
            after_cr: false,
            bare: None,
            mark: 0,
        }
    }

    /// Adds bytes and calls `event` with the data of each completed event.
    ///
    /// # Errors
    /// Returns an error if an event exceeds the limit.
    pub fn push(
        &mut self,
        mut bytes: &[u8],
        mut event: impl FnMut(Vec<u8>),
    ) -> Result<(), SseError> {
        while let Some(&first) = bytes.first() {
            if self.mark < MARK.len() {
                if MARK.get(self.mark) == Some(&first) {
                    self.mark += 1;
                    bytes = bytes.get(1..).unwrap_or_default();
                    continue;
                }
                self.mark = MARK.len();
            }
            let length = if self.bare.is_some() {
                self.feed_bare_json(bytes, &mut event)
            } else {
                self.take_line(bytes, first, &mut event)
            };
            if self.line.len() + self.data.len() > self.limit {
                return Err(SseError::TooLarge { limit: self.limit });
            }
            bytes = bytes.get(length..).unwrap_or_default();
        }
        Ok(())
    }

    /// Ends the stream and returns the data of an event without its blank line. (The caller must
    /// check whether it is complete, that is, whether it parses.)
    ///
    /// # Errors
    /// Returns an error if the remaining bytes are not an event.
    pub fn finish(mut self) -> Result<Option<Vec<u8>>, SseError> {
        if self.bare.is_some() {
            return Err(SseError::Incomplete);
        }
        if !self.line.is_empty() && !self.end_field() {
            return Err(SseError::Incomplete);
        }
        Ok(self.take_event())
    }

    /// Handles bytes up to and including the next line ending; returns how many.
    fn take_line(&mut self, bytes: &[u8], first: u8, event: &mut impl FnMut(Vec<u8>)) -> usize {
        if std::mem::take(&mut self.after_cr) && first == b'\n' {
            return 1;
        }
        if self.line.is_empty() && !self.has_data {
            match first {
                b'{' => {
                    self.bare = Some(BareObject::default());
                    return 0;
                }
                b'[' | b']' | b',' | b' ' | b'\t' => return 1,
                _ => {}
            }
        }
        match bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            None => {
                self.line.extend_from_slice(bytes);
                bytes.len()
            }
            Some(end) => {
                self.line.extend_from_slice(bytes.get(..end).unwrap_or_default());
                self.after_cr = bytes.get(end) == Some(&b'\r');
                if self.line.is_empty() {
                    if let Some(data) = self.take_event() {
                        event(data);
                    }
                } else {
                    self.end_field();
                }
                end + 1
            }
        }
    }

    /// Ends a field line. Returns whether it was a field.
    fn end_field(&mut self) -> bool {
        let line = std::mem::take(&mut self.line);
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = match colon {
            Some(at) => (line.get(..at), line.get(at + 1..).unwrap_or_default()),
            None => (Some(line.as_slice()), &[][..]),
        };
        let known = match name.unwrap_or_default() {
            b"data" => {
                let value = value.strip_prefix(b" ").unwrap_or(value);
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
                true
            }
            b"" | b"event" | b"id" | b"retry" => true,
            _ => false,
        };
        // Keep the allocation for the next line.
        self.line = line;
        self.line.clear();
        known
    }

    /// Whether the stream sent `[DONE]`: nothing from the response follows.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    fn take_event(&mut self) -> Option<Vec<u8>> {
        if !std::mem::take(&mut self.has_data) {
            return None;
        }
        let data = std::mem::take(&mut self.data);
        let text = data.trim_ascii();
        self.is_done |= text == b"[DONE]";
        (!text.is_empty() && text != b"[DONE]").then_some(data)
    }

    /// Handles bytes of a bare JSON object up to its end; returns how many.
    fn feed_bare_json(&mut self, bytes: &[u8], event: &mut impl FnMut(Vec<u8>)) -> usize {
        let Some(state) = &mut self.bare else { return 0 };
        for (index, byte) in bytes.iter().enumerate() {
            if state.in_string {
                match byte {
                    _ if std::mem::take(&mut state.escaped) => {}
                    b'\\' => state.escaped = true,
                    b'"' => state.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => state.in_string = true,
                b'{' | b'[' => state.depth += 1,
                b'}' | b']' => {
                    state.depth = state.depth.saturating_sub(1);
                    if state.depth == 0 {
                        self.data.extend_from_slice(bytes.get(..=index).unwrap_or_default());
                        self.bare = None;
                        event(std::mem::take(&mut self.data));
                        return index + 1;
                    }
                }
                _ => {}
            }
        }
        self.data.extend_from_slice(bytes);
        bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(chunks: &[&[u8]]) -> (Vec<String>, Result<(), SseError>) {
        let mut decoder = SseDecoder::with_limit(1000);
        let mut events = Vec::new();
        let mut take = |data: Vec<u8>| events.push(String::from_utf8_lossy(&data).into_owned());
        for chunk in chunks {
            if let Err(error) = decoder.push(chunk, &mut take) {
                return (events, Err(error));
            }
        }
        match decoder.finish() {
            Ok(last) => {
                last.into_iter().for_each(take);
                (events, Ok(()))
            }
            Err(error) => (events, Err(error)),
        }
    }

    fn events(text: &str) -> Vec<String> {
        let (events, end) = decode(&[text.as_bytes()]);
        assert_eq!(end, Ok(()), "{text:?}");
        events
    }

    #[test]
    fn all_line_endings_separate_events() {
        for end in ["\n", "\r\n", "\r"] {
            let text = "data: {\"a\":1}||: comment|event: x|data:{\"b\":2}||".replace('|', end);
            assert_eq!(events(&text), [r#"{"a":1}"#, r#"{"b":2}"#], "{end:?}");
        }
    }

    #[test]
    fn data_lines_join_and_done_is_dropped() {
        assert_eq!(events("data: a\ndata:  b\ndata\n\ndata: [DONE]\n\n"), ["a\n b\n"]);
    }

    #[test]
    fn missing_last_blank_line_is_accepted() {
        assert_eq!(events("\u{feff}data: {}"), ["{}"]);
        assert_eq!(events("data: {}\n"), ["{}"]);
    }

    #[test]
    fn json_array_and_bare_object_are_accepted() {
        assert_eq!(
            events("[{\n \"a\": \"}\\\"{\"\n}\n,\r\n{\"b\":[{}]}]"),
            ["{\n \"a\": \"}\\\"{\"\n}", r#"{"b":[{}]}"#]
        );
        assert_eq!(events("data: 1\n\n{\n\n\"error\":{}}\n"), ["1", "{\n\n\"error\":{}}"]);
    }

    #[test]
    fn incomplete_final_event_is_an_error() {
        for text in ["{\"a\":", "data: {}\n\n{\"err", "data: 1\n\ndat"] {
            assert_eq!(decode(&[text.as_bytes()]).1, Err(SseError::Incomplete), "{text}");
        }
    }

    #[test]
    fn event_size_is_limited_and_stream_size_is_not() {
        let event = format!("data: {}\n\n", "x".repeat(900));
        let many = event.repeat(50);
        assert_eq!(decode(&[many.as_bytes()]).0.len(), 50);
        for start in ["data: ", "{\"", "junk"] {
            let endless = format!("{start}{}", "x".repeat(2000));
            let (_, end) = decode(&[endless.as_bytes()]);
            assert_eq!(end, Err(SseError::TooLarge { limit: 1000 }));
        }
    }

    proptest! {
        #[test]
        fn events_do_not_depend_on_chunking(
            pieces in prop::collection::vec(
                prop::sample::select(vec![
                    "data: ", "data:", "{\"t\":\"ü€😀\"}", "\n", "\r\n", "\r", "\n\n", ": hi", "[",
                    ",", "]", "{", "}", "\"", "\\", "[DONE]", "id: 1", "\u{feff}",
                ]),
                0..40,
            ),
            cuts in prop::collection::vec(0usize..400, 0..12),
        ) {
            let text = pieces.concat();
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.push(0);
            cuts.push(bytes.len());
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|w| &bytes[w[0]..w[1]]).collect();
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            let whole = decode(&[bytes]);
            prop_assert_eq!(&decode(&chunks), &whole);
            prop_assert_eq!(&decode(&single), &whole);
        }

        #[test]
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            let _ = decode(&bytes.chunks(7).collect::<Vec<_>>());
        }
    }
}
