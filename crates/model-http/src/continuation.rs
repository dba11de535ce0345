//! An answer that arrives in several hops: a response ends with a token, and the next request
//! continues it. Tokens inside a response are checkpoints, from which a cut response is resumed.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use parallax_protocol::content::{Part, PartView};
use parallax_protocol::model::{Chunk, Finish, FinishReason, Usage};

/// Maximum number of reconnections without a new piece of the answer.
const RECONNECTIONS: u32 = 3;

/// The state of one answer.
#[derive(Debug, Default)]
pub(crate) struct Continuation {
    /// The newest token.
    token: Option<String>,
    /// The visible text since the newest token.
    text_since_token: String,
    /// Whether something other than text was received since then.
    has_more_than_text: bool,
    /// The text that a resumed response repeats.
    skip: String,
    /// The token counts of earlier hops.
    previous_usage: Option<Usage>,
    hop: Option<Usage>,
    reconnections: u32,
    /// The hop ended, and the next one follows.
    has_next_hop: bool,
    /// The end of a hop whose token has not been received yet.
    held_finish: Option<Finish>,
    /// Whether the hop ended with a reason of its own.
    has_finish: bool,
    /// Whether the current hop had a piece of the answer.
    has_piece: bool,
    /// Hashes of the tokens that hops began with.
    earlier_tokens: HashSet<u64>,
}

/// What to do with a chunk.
#[derive(Debug)]
pub(crate) enum ChunkAction {
    Emit(Box<Chunk>),
    Skip,
    /// The response cannot be joined to what was received before.
    Incompatible(&'static str),
}

impl Continuation {
    /// Continues an answer that was received in part, up to the token.
    pub(crate) fn from_token(token: Option<String>) -> Self {
        let earlier_tokens = token.as_deref().map(hash).into_iter().collect();
        Self { token, earlier_tokens, ..Self::default() }
    }

    /// Returns the token that a request continues from.
    pub(crate) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// Takes a chunk of the current hop.
    pub(crate) fn track(&mut self, mut chunk: Chunk) -> ChunkAction {
        if let Some(usage) = chunk.usage {
            self.hop = Some(usage);
            chunk.usage = Some(self.total());
        }
        if !self.skip.is_empty() && !self.skip_repeated(&mut chunk) {
            return ChunkAction::Incompatible(
                "the resumed answer differs from what was received before",
            );
        }
        if self.token.is_some() {
            for part in &chunk.parts {
                match part.view() {
                    PartView::Text(text) => self.text_since_token.push_str(text),
                    PartView::Thought(_) => {}
                    _ => self.has_more_than_text = true,
                }
            }
        }
        if !chunk.parts.is_empty() {
            self.reconnections = 0;
            self.has_piece = true;
        }
        let is_hop_end = |finish: &Finish| finish.reason == FinishReason::Continue;
        let is_end = chunk.finish.as_ref().is_some_and(is_hop_end);
        self.has_finish |= (chunk.finish.is_some() && !is_end) || chunk.blocked.is_some();
        let ends = is_end || self.held_finish.is_some();
        let has_token = chunk.continuation.is_some();
        if let Some(token) = &chunk.continuation {
            if ends && self.earlier_tokens.contains(&hash(token)) {
                return ChunkAction::Incompatible(
                    "the service returned the same continuation token twice",
                );
            }
            self.token = Some(token.clone());
            self.text_since_token.clear();
            self.has_more_than_text = false;
            // More was shown than this token covers: text that is stored with it would be received
            // twice when another process continues from it.
            if !self.skip.is_empty() {
                chunk.continuation = None;
            }
        }
        if is_end && !has_token {
            // Some services send it in a chunk of its own.
            self.held_finish = chunk.finish.take();
        }
        if ends && has_token {
            self.held_finish = None;
            if !self.has_piece {
                self.reconnections += 1;
            }
            if self.reconnections > RECONNECTIONS {
                return ChunkAction::Incompatible(
                    "the service continues it without sending more of it",
                );
            }
            self.has_next_hop = true;
            if is_end {
                chunk.finish = None;
            }
        }
        let is_empty = chunk.parts.is_empty()
            && chunk.finish.is_none()
            && chunk.continuation.is_none()
            && chunk.usage.is_none()
            && chunk.blocked.is_none()
            && chunk.citations.is_empty()
            && chunk.grounding.is_none();
        if is_empty { ChunkAction::Skip } else { ChunkAction::Emit(Box::new(chunk)) }
    }

    /// Removes text that was received before the connection was cut; `false` when the text differs.
    fn skip_repeated(&mut self, chunk: &mut Chunk) -> bool {
        let mut parts = Vec::with_capacity(chunk.parts.len());
        for part in std::mem::take(&mut chunk.parts) {
            if self.skip.is_empty() {
                parts.push(part);
                continue;
            }
            match part.view() {
                // Thoughts were shown before, too.
                PartView::Thought(_) => {}
                PartView::Text(text) => {
                    // Nevertheless, it was received after the token.
                    if let Some(rest) = self.skip.strip_prefix(text) {
                        self.text_since_token.push_str(text);
                        self.skip = rest.to_owned();
                    } else if let Some(rest) = text.strip_prefix(self.skip.as_str()) {
                        self.text_since_token.push_str(&self.skip);
                        parts.push(Part::text(rest));
                        self.skip.clear();
                    } else {
                        return false;
                    }
                }
                _ => return false,
            }
        }
        chunk.parts = parts;
        true
    }

    /// Returns the token counts of the answer so far: the prompt is that of the first hop, the rest
    /// is summed.
    fn total(&self) -> Usage {
        let hop = self.hop.unwrap_or_default();
        let Some(earlier) = self.previous_usage else { return hop };
        let output = earlier.output.saturating_add(hop.output);
        let thought = earlier.thought.saturating_add(hop.thought);
        let tool_prompt = earlier.tool_prompt.saturating_add(hop.tool_prompt);
        Usage {
            prompt: earlier.prompt,
            cached: earlier.cached,
            cache_write: earlier.cache_write,
            output,
            thought,
            tool_prompt,
            charged_cost: None,
            total: [earlier.prompt, output, thought, tool_prompt]
                .into_iter()
                .fold(0, u64::saturating_add),
        }
    }

    /// Called when the response ended properly. Returns whether another hop follows.
    pub(crate) fn advance(&mut self) -> bool {
        if !std::mem::take(&mut self.has_next_hop) {
            return false;
        }
        self.begin();
        true
    }

    /// Whether the response, which ended properly, lacks its end: the service cut it off.
    pub(crate) fn is_cut(&self) -> bool {
        self.token.is_some() && !self.has_finish && !self.has_more_than_text
    }

    /// Returns the end of an answer that cannot be continued, because its token is missing.
    pub(crate) fn take_finish(&mut self) -> Option<Chunk> {
        let finish = self.held_finish.take()?;
        Some(Chunk { finish: Some(finish), ..Chunk::default() })
    }

    /// Called when the response was cut off. Returns whether it can be resumed from a checkpoint.
    pub(crate) fn resume(&mut self) -> bool {
        if self.token.is_none() || self.has_more_than_text || self.reconnections >= RECONNECTIONS {
            return false;
        }
        self.reconnections += 1;
        self.has_next_hop = false;
        let mut received = std::mem::take(&mut self.text_since_token);
        // The text that this response still had to repeat was shown, too.
        received.push_str(&self.skip);
        self.begin();
        self.skip = received;
        true
    }

    /// Returns the number of attempts for a connection without a response while an answer is
    /// continued.
    pub(crate) fn attempts_left(&self) -> Option<u32> {
        self.token.as_ref().map(|_| (RECONNECTIONS + 1).saturating_sub(self.reconnections).max(1))
    }

    /// Whether it was resumed as often as is allowed without a new piece: another request
    /// would not make progress either.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.token.is_some() && self.reconnections >= RECONNECTIONS
    }

    fn begin(&mut self) {
        self.text_since_token.clear();
        self.has_piece = false;
        self.held_finish = None;
        self.has_finish = false;
        self.earlier_tokens.extend(self.token.as_deref().map(hash));
        if self.hop.is_some() {
            self.previous_usage = Some(self.total());
            self.hop = None;
        }
    }

    /// Returns how often the answer was resumed without a new piece of it.
    pub(crate) fn reconnections(&self) -> u32 {
        self.reconnections
    }
}

fn hash(token: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    token.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_protocol::content::Content;

    fn chunk(text: &str, token: Option<&str>, word: Option<&str>) -> Chunk {
        Chunk {
            parts: if text.is_empty() { Vec::new() } else { vec![Part::text(text)] },
            continuation: token.map(str::to_owned),
            finish: word.map(Finish::from_gemini_word),
            ..Chunk::default()
        }
    }

    fn text(tracked: ChunkAction) -> String {
        match tracked {
            ChunkAction::Emit(chunk) => Content::model(chunk.parts).visible_text(),
            ChunkAction::Skip => String::new(),
            ChunkAction::Incompatible(reason) => format!("broken: {reason}"),
        }
    }

    #[test]
    fn continuation_hops_are_joined_and_counted() {
        let mut answer = Continuation::default();
        let mut first = chunk("one", Some("t1"), Some("CONTINUATION"));
        first.usage = Some(Usage { prompt: 100, output: 5, total: 105, ..Usage::default() });
        assert_eq!(text(answer.track(first)), "one");
        assert!(answer.advance() && answer.token() == Some("t1"));
        let mut second = chunk(" two", None, Some("STOP"));
        second.usage = Some(Usage { prompt: 170, output: 7, total: 177, ..Usage::default() });
        let ChunkAction::Emit(second) = answer.track(second) else { unreachable!("a chunk") };
        let usage = second.usage.expect("counts");
        assert_eq!((usage.prompt, usage.output, usage.total), (100, 12, 112));
        assert!(second.finish.is_some() && !answer.advance());
    }

    #[test]
    fn end_of_a_response_waits_for_its_token() {
        // The token follows in a chunk of its own.
        let mut answer = Continuation::default();
        let first = answer.track(chunk("one", None, Some("CONTINUATION")));
        assert!(matches!(&first, ChunkAction::Emit(chunk) if chunk.finish.is_none()), "{first:?}");
        answer.track(chunk("", Some("t1"), None));
        assert!(answer.advance() && answer.token() == Some("t1"));
        // The next one has none, so its hop is requested again.
        answer.track(chunk(" two", None, Some("CONTINUATION")));
        assert!(!answer.advance() && answer.is_cut() && answer.resume());
        assert_eq!(text(answer.track(chunk(" two three", None, Some("STOP")))), " three");
        assert!(!answer.advance() && !answer.is_cut());
        // Without any token, the answer ends.
        let mut answer = Continuation::default();
        answer.track(chunk("one", None, Some("CONTINUATION")));
        assert!(!answer.advance() && !answer.is_cut());
        let finish = answer.take_finish().and_then(|chunk| chunk.finish).expect("the end");
        assert_eq!(finish.reason, FinishReason::Continue);
    }

    #[test]
    fn same_token_twice_is_an_error() {
        let mut answer = Continuation::default();
        answer.track(chunk("a", Some("t"), Some("CONTINUATION")));
        assert!(answer.advance());
        let second = answer.track(chunk("b", Some("t"), Some("CONTINUATION")));
        assert!(text(second).contains("twice"));
    }

    #[test]
    fn endless_continuations_are_stopped() {
        let mut answer = Continuation::default();
        let mut ends = |text: &str, token: &str| {
            let tracked = answer.track(chunk(text, Some(token), Some("CONTINUATION")));
            answer.advance();
            super::tests::text(tracked)
        };
        // Tokens that alternate, with text each time.
        assert_eq!((ends("a", "t1").as_str(), ends("b", "t2").as_str()), ("a", "b"));
        assert!(ends("c", "t1").contains("twice"));
        // New tokens, without anything else.
        let mut answer = Continuation::default();
        answer.track(chunk("a", Some("t"), Some("CONTINUATION")));
        answer.advance();
        for number in 0..RECONNECTIONS {
            let empty = chunk("", Some(&format!("e{number}")), Some("CONTINUATION"));
            assert!(!text(answer.track(empty)).contains("broken"));
            assert!(answer.advance());
        }
        let last = answer.track(chunk("", Some("last"), Some("CONTINUATION")));
        assert!(text(last).contains("without sending more"));
    }

    #[test]
    fn cut_response_resumes_without_printing_text_twice() {
        let mut answer = Continuation::default();
        assert!(!answer.resume());
        answer.track(chunk("a ", Some("t1"), None));
        answer.track(chunk("shown ", None, None));
        assert!(answer.resume() && answer.token() == Some("t1"));
        assert_eq!(text(answer.track(chunk("sho", None, None))), "");
        assert_eq!(text(answer.track(chunk("wn and new", None, None))), "and new");
        assert!(answer.resume());
        assert_eq!(
            text(answer.track(chunk("shown and other", None, None))),
            "broken: the resumed answer differs from what was received before"
        );
    }

    #[test]
    fn response_cut_during_repeated_text_resumes_without_duplicates() {
        for token in [None, Some("t2")] {
            let mut answer = Continuation::default();
            answer.track(chunk("a ", Some("t1"), None));
            answer.track(chunk("b c d ", None, None));
            assert!(answer.resume());
            let repeated = answer.track(chunk("b ", token, None));
            // A token that precedes shown text cannot be stored with that text.
            assert!(matches!(repeated, ChunkAction::Skip), "{repeated:?}");
            assert!(answer.resume());
            let rest = if token.is_some() { "c d e" } else { "b c d e" };
            assert_eq!(answer.token(), token.or(Some("t1")));
            assert_eq!(text(answer.track(chunk(rest, None, Some("STOP")))), "e");
        }
        // A hop that ends there.
        let mut answer = Continuation::default();
        answer.track(chunk("a ", Some("t1"), None));
        answer.track(chunk("b c d ", None, None));
        assert!(answer.resume());
        assert_eq!(text(answer.track(chunk("b ", Some("t2"), Some("CONTINUATION")))), "");
        assert!(answer.advance() && answer.resume());
        assert_eq!(text(answer.track(chunk("c d e", None, Some("STOP")))), "e");
    }

    #[test]
    fn reconnections_without_progress_are_limited() {
        let mut answer = Continuation::default();
        answer.track(chunk("a", Some("t1"), None));
        for _ in 0..RECONNECTIONS {
            assert!(!answer.is_exhausted() && answer.resume());
        }
        assert!(!answer.resume() && answer.is_exhausted());
        let mut calls = Continuation::default();
        calls.track(chunk("a", Some("t1"), None));
        let part = crate::parts::function_call("i", "x", "{}");
        calls.track(Chunk { parts: vec![part], ..Chunk::default() });
        assert!(!calls.resume());
    }
}
