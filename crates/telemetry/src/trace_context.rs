//! The W3C trace context: which trace and span something belongs to.
//!
//! Ids of spans are computed from what they describe, so that the part of the program that passes a
//! context on to another process does not have to wait for the thread that records the span.

use sha2::{Digest as _, Sha256};

/// A trace and a span in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace.
    pub trace: [u8; 16],
    /// The span.
    pub span: [u8; 8],
    /// Whether the trace is recorded. The program that starts a trace decides for all others.
    pub is_sampled: bool,
}

impl TraceContext {
    /// Reads a `traceparent`: `00-<trace>-<span>-<flags>`; ids of zeros are not valid.
    pub fn parse(text: &str) -> Option<Self> {
        let mut fields = text.trim().split('-');
        let (version, trace, span) = (fields.next()?, fields.next()?, fields.next()?);
        let flags = fields.next()?;
        let is_known = version == "00" && fields.next().is_none();
        let is_newer = version.len() == 2 && version != "ff" && is_hex(version);
        if !(is_known || (is_newer && version != "00")) || flags.len() != 2 || !is_hex(flags) {
            return None;
        }
        let is_sampled = u8::from_str_radix(flags, 16).ok()? & 1 == 1;
        let (trace, span) = (bytes::<16>(trace)?, bytes::<8>(span)?);
        (trace != [0; 16] && span != [0; 8]).then_some(Self { trace, span, is_sampled })
    }

    /// Returns the `traceparent` that names the span.
    pub fn traceparent(&self) -> String {
        format!("00-{}-{}-0{}", hex(&self.trace), hex(&self.span), self.flags())
    }

    /// Returns the trace flags.
    pub(crate) fn flags(self) -> u8 {
        u8::from(self.is_sampled)
    }

    /// Creates the child span with this name.
    pub(crate) fn child(&self, name: &str) -> Self {
        Self { span: digest(&[&self.trace, &self.span, name.as_bytes()]), ..*self }
    }

    /// Creates the span of a subagent's turn, below the call that started it.
    pub(crate) fn subagent_turn(&self, turn: u64) -> Self {
        self.child(&format!("turn-{turn}"))
    }

    /// Creates the span of the request to an MCP server, below the call that sends it.
    pub(crate) fn mcp_request(&self) -> Self {
        self.child("mcp")
    }

    /// Creates the first span of a turn: in the parent's trace, otherwise in one of its own.
    pub(crate) fn for_turn(parent: Option<Self>, seed: &[u8; 16], turn: u64) -> Self {
        let number = turn.to_le_bytes();
        let trace = parent.map_or_else(|| digest(&[seed, &number]), |parent| parent.trace);
        let is_sampled = parent.is_none_or(|parent| parent.is_sampled);
        Self { trace, span: digest(&[&trace, seed, &number, b"turn"]), is_sampled }
    }

    /// Creates the span of something that belongs to no turn: below the parent, otherwise in a
    /// trace of its own.
    pub(crate) fn outside_turns(parent: Option<Self>, seed: &[u8; 16], name: &str) -> Self {
        let own = || {
            let trace = digest(&[seed, name.as_bytes()]);
            Self { trace, span: [0; 8], is_sampled: true }
        };
        parent.unwrap_or_else(own).child(name)
    }
}

fn digest<const N: usize>(pieces: &[&[u8]]) -> [u8; N] {
    let mut hasher = Sha256::new();
    for piece in pieces {
        hasher.update((piece.len() as u64).to_le_bytes());
        hasher.update(piece);
    }
    let mut id = [0; N];
    for (byte, from) in id.iter_mut().zip(hasher.finalize()) {
        *byte = from;
    }
    id
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != 2 * N || !is_hex(text) {
        return None;
    }
    let mut id = [0; N];
    for (index, byte) in id.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(id)
}

/// Returns the bytes as lowercase hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traceparent_is_parsed_and_formatted() {
        let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let context = TraceContext::parse(text).expect("a context");
        assert_eq!(context.traceparent(), text);
        for (flags, is_sampled) in [("00", false), ("02", false), ("03", true), ("ff", true)] {
            let text = text.replace("-01", &format!("-{flags}"));
            let context = TraceContext::parse(&text).expect("a context");
            assert_eq!(context.is_sampled, is_sampled, "{flags}");
            assert_eq!(context.child("x").is_sampled, is_sampled, "{flags}");
            assert!(context.traceparent().ends_with(if is_sampled { "-01" } else { "-00" }));
        }
        for invalid in [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-é-é-01",
        ] {
            assert_eq!(TraceContext::parse(invalid), None, "{invalid}");
        }
    }

    #[test]
    fn spans_of_a_turn_stay_in_its_trace() {
        let seed = [7; 16];
        let turn = TraceContext::for_turn(None, &seed, 1);
        assert_ne!(turn.trace, TraceContext::for_turn(None, &seed, 2).trace);
        let (one, other) = (turn.child("tool-1"), turn.child("tool-2"));
        assert_eq!(one.trace, turn.trace);
        assert_ne!(one.span, other.span);
        assert_eq!(one, turn.child("tool-1"));
        let parent = TraceContext { trace: [1; 16], span: [2; 8], is_sampled: false };
        let turn = TraceContext::for_turn(Some(parent), &seed, 1);
        assert_eq!((turn.trace, turn.is_sampled), (parent.trace, false));
        let outside = TraceContext::outside_turns(None, &seed, "request-1");
        assert_ne!(outside.trace, turn.trace);
        assert_eq!(TraceContext::outside_turns(Some(parent), &seed, "x"), parent.child("x"));
    }
}
