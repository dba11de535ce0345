//! Splits a stream of server-sent events into the data of its events.

/// Maximum bytes of an event; a diff contains a whole file.
pub(crate) const MAX_EVENT_BYTES: usize = 32 * 1024 * 1024;

/// An event is larger than [`MAX_EVENT_BYTES`]. The rest of the stream is unreadable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventTooLarge;

/// Parser state between two chunks.
#[derive(Debug, Default)]
pub(crate) struct EventParser {
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
}

impl EventParser {
    /// Returns the data of the events that this chunk completes.
    pub(crate) fn push(&mut self, chunk: &[u8]) -> Result<Vec<Vec<u8>>, EventTooLarge> {
        let mut events = Vec::new();
        let mut rest = chunk;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, after) = rest.split_at(end);
            self.extend(line)?;
            rest = after.get(1..).unwrap_or_default();
            events.extend(self.end_line());
        }
        self.extend(rest)?;
        Ok(events)
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), EventTooLarge> {
        if self.line.len() + self.data.len() + bytes.len() > MAX_EVENT_BYTES {
            return Err(EventTooLarge);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self) -> Option<Vec<u8>> {
        let mut line = std::mem::take(&mut self.line);
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        if line.is_empty() {
            let is_complete = std::mem::take(&mut self.has_data);
            return is_complete.then(|| std::mem::take(&mut self.data));
        }
        // Comments, event names, ids, and retry delays are ignored.
        if let Some(value) = line.strip_prefix(b"data:") {
            if std::mem::replace(&mut self.has_data, true) {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(value.strip_prefix(b" ").unwrap_or(value));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_do_not_depend_on_chunk_boundaries() {
        let stream = b": hello\r\nevent: message\r\nid: 1\r\ndata: {\"a\":\r\ndata: 1}\r\n\r\n\
                       retry: 5\n\ndata:x\n\ndata: unfinished";
        for size in 1..stream.len() {
            let mut parser = EventParser::default();
            let events: Vec<Vec<u8>> =
                stream.chunks(size).flat_map(|chunk| parser.push(chunk).expect("small")).collect();
            assert_eq!(events, [b"{\"a\":\n1}".to_vec(), b"x".to_vec()], "chunks of {size}");
        }
    }

    #[test]
    fn endless_event_is_refused() {
        let mut parser = EventParser::default();
        let chunk = vec![b'x'; MAX_EVENT_BYTES / 2];
        assert!(parser.push(&chunk).is_ok() && parser.push(&chunk).is_ok());
        assert_eq!(parser.push(b"x"), Err(EventTooLarge));
    }
}
