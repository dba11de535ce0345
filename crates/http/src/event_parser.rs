//! Splits a stream of server-sent events (WHATWG HTML, section 9.2) into events.

/// An event of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerEvent {
    /// The field `event`; empty if the event has none.
    pub name: Vec<u8>,
    /// The fields `data`, joined by line feeds.
    pub data: Vec<u8>,
}

/// An event exceeds the limit. The rest of the stream is unreadable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the event is too large")]
pub struct EventTooLarge;

/// The parser, with its state between two chunks.
#[derive(Debug)]
pub struct EventParser {
    limit: usize,
    line: Vec<u8>,
    event: ServerEvent,
    has_data: bool,
}

impl EventParser {
    /// Creates a parser that rejects events of more than `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { limit, line: Vec::new(), event: ServerEvent::default(), has_data: false }
    }

    /// Returns the events that this chunk completes.
    ///
    /// # Errors
    /// Returns an error if an event exceeds the limit.
    pub fn push(&mut self, chunk: &[u8]) -> Result<Vec<ServerEvent>, EventTooLarge> {
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
        let known = self.line.len() + self.event.name.len() + self.event.data.len();
        if known + bytes.len() > self.limit {
            return Err(EventTooLarge);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self) -> Option<ServerEvent> {
        let mut line = std::mem::take(&mut self.line);
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            return std::mem::take(&mut self.has_data).then_some(event);
        }
        let value = |rest: &[u8]| rest.strip_prefix(b" ").unwrap_or(rest).to_vec();
        // Comments, ids, and retry delays are ignored.
        if let Some(rest) = line.strip_prefix(b"data:") {
            if std::mem::replace(&mut self.has_data, true) {
                self.event.data.push(b'\n');
            }
            self.event.data.extend(value(rest));
        } else if let Some(rest) = line.strip_prefix(b"event:") {
            self.event.name = value(rest);
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
            let mut parser = EventParser::new(64);
            let events: Vec<ServerEvent> =
                stream.chunks(size).flat_map(|chunk| parser.push(chunk).expect("small")).collect();
            let event =
                |name: &str, data: &str| ServerEvent { name: name.into(), data: data.into() };
            let expected = [event("message", "{\"a\":\n1}"), event("", "x")];
            assert_eq!(events, expected, "chunks of {size}");
        }
    }

    #[test]
    fn endless_event_is_rejected() {
        let mut parser = EventParser::new(64);
        let chunk = [b'x'; 32];
        assert!(parser.push(&chunk).is_ok() && parser.push(&chunk).is_ok());
        assert_eq!(parser.push(b"x"), Err(EventTooLarge));
    }
}
