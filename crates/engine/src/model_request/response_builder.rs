//! Collects the chunks of a response into a model content.

use parallax_protocol::content::{Content, Part, PartView, SYNTHETIC_SIGNATURE};
use parallax_protocol::model::{Chunk, Citation, Finish, FinishReason, Usage};

use crate::part_text::{replace_text, visible_text};
use crate::tokens;

/// Maximum number of citations per response.
const MAX_CITATIONS: usize = 500;

/// A visible piece of a response.
#[derive(Debug, PartialEq)]
pub(crate) enum StreamedText {
    Text(String),
    Thought(String),
}

/// A response under construction.
#[derive(Debug, Default)]
pub(crate) struct ResponseBuilder {
    parts: Vec<Part>,
    /// Thought summaries, one entry per run of thought parts.
    pub(crate) thoughts: Vec<String>,
    in_thought: bool,
    missing_signature: bool,
    pub(crate) finish: Option<Finish>,
    pub(crate) finish_message: Option<String>,
    pub(crate) usage: Option<Usage>,
    pub(crate) blocked: Option<String>,
    pub(crate) citations: Vec<Citation>,
    pub(crate) model_version: Option<String>,
    pub(crate) response_id: Option<String>,
}

impl ResponseBuilder {
    /// Adds a chunk and returns its visible pieces.
    pub(crate) fn push(&mut self, chunk: Chunk) -> Vec<StreamedText> {
        let mut pieces = Vec::new();
        for part in chunk.parts {
            self.push_part(part, &mut pieces);
        }
        self.finish = chunk.finish.or(self.finish.take());
        self.finish_message = chunk.finish_message.or(self.finish_message.take());
        self.usage = chunk.usage.or(self.usage);
        self.blocked = chunk.blocked.or(self.blocked.take());
        self.model_version = chunk.model_version.or(self.model_version.take());
        self.response_id = chunk.response_id.or(self.response_id.take());
        self.citations.extend(chunk.citations);
        if let Some(grounding) = &chunk.grounding {
            self.citations.extend(grounding.sources.iter().cloned());
        }
        self.citations.truncate(MAX_CITATIONS);
        pieces
    }

    fn push_part(&mut self, part: Part, pieces: &mut Vec<StreamedText>) {
        match part.view() {
            PartView::Thought(text) => {
                self.missing_signature |= part.signature().is_some();
                if !text.is_empty() {
                    if self.in_thought
                        && let Some(last) = self.thoughts.last_mut()
                    {
                        last.push_str(text);
                    } else {
                        self.thoughts.push(text.to_owned());
                    }
                    self.in_thought = true;
                    pieces.push(StreamedText::Thought(text.to_owned()));
                }
                // The provider wants its data back; the thought itself is not sent.
                if part.opaque_data().is_some() {
                    self.in_thought = false;
                    self.parts.push(part);
                }
                return;
            }
            PartView::Text("")
                if part.signature().is_none()
                    && part.opaque_data().is_none()
                    && part.object().len() == 1 =>
            {
                return;
            }
            PartView::Text(text) if !text.is_empty() => {
                pieces.push(StreamedText::Text(text.to_owned()))
            }
            _ => {}
        }
        self.in_thought = false;
        let apart = match self.parts.last_mut() {
            Some(last) => last.try_join(part),
            None => Err(part),
        };
        if let Err(part) = apart {
            self.parts.push(part);
        }
    }

    /// Returns the parts so far.
    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Returns the estimated tokens of what was received so far.
    pub(crate) fn estimated_tokens(&self) -> u64 {
        let parts = self.parts.iter().map(|part| match part.view() {
            PartView::Text(text) => tokens::estimate_text(text),
            _ => serde_json::to_string(part).map_or(0, |json| tokens::estimate_content(&json)),
        });
        let thoughts = self.thoughts.iter().map(|text| tokens::estimate_text(text));
        parts.chain(thoughts).sum()
    }

    /// Returns the visible text so far.
    pub(crate) fn text(&self) -> String {
        visible_text(&self.parts)
    }

    /// Replaces the text. A response with only calls gets no text.
    pub(crate) fn replace_text(&mut self, text: &str) {
        if !replace_text(&mut self.parts, text) && !self.has_calls() && !text.is_empty() {
            self.parts.push(Part::text(text));
        }
    }

    /// Whether the response contains function calls.
    pub(crate) fn has_calls(&self) -> bool {
        self.parts.iter().any(|part| matches!(part.view(), PartView::Call(_)))
    }

    /// Whether the response contains nothing but thoughts.
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.iter().all(Part::is_thought)
    }

    /// Whether it ended because the context window is full.
    pub(crate) fn is_context_full(&self) -> bool {
        let reason = self.finish.as_ref().map(|finish| finish.reason);
        reason == Some(FinishReason::ContextFull) && !self.has_calls()
    }

    /// Whether it ended because it reached the output limit.
    pub(crate) fn is_output_limit_reached(&self) -> bool {
        self.finish.as_ref().is_some_and(|finish| finish.reason == FinishReason::MaxTokens)
    }

    /// Whether any text is visible: zero-width characters, HTML comments, and whitespace do not
    /// count.
    pub(crate) fn has_visible_text(&self) -> bool {
        self.parts.iter().any(|part| match part.view() {
            PartView::Text(text) => has_visible(text),
            _ => false,
        })
    }

    /// Returns the content to send back. Thought summaries are never sent back; if one of them
    /// carried the only signature, the first call gets the synthetic one, which the service accepts
    /// instead.
    pub(crate) fn into_content(self) -> Content {
        let mut parts = self.parts;
        let signed = parts.iter().any(|part| part.signature().is_some());
        if self.missing_signature && !signed {
            let first = parts.iter_mut().find(|part| matches!(part.view(), PartView::Call(_)));
            if let Some(call) = first {
                *call = call.with_signature(SYNTHETIC_SIGNATURE);
            }
        }
        Content::model(parts)
    }

    /// Returns the content of an interrupted response: its text without calls, because those never
    /// ran and would need results.
    pub(crate) fn into_partial(self) -> Content {
        let mut content = self.into_content();
        content
            .parts
            .retain(|part| matches!(part.view(), PartView::Text(_) | PartView::Inline { .. }));
        content
    }
}

fn has_visible(text: &str) -> bool {
    let mut rest = text;
    loop {
        let (before, after) = match rest.find("<!--") {
            Some(start) => (&rest[..start], Some(&rest[start..])),
            None => (rest, None),
        };
        if before.chars().any(|c| !c.is_whitespace() && !is_zero_width(c)) {
            return true;
        }
        let Some(comment) = after else { return false };
        match comment.find("-->") {
            Some(end) => rest = &comment[end + 3..],
            // An unclosed comment hides the rest.
            None => return false,
        }
    }
}

fn is_zero_width(c: char) -> bool {
    matches!(c, '\u{200B}'..='\u{200F}' | '\u{2060}' | '\u{FEFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(parts: &str) -> Chunk {
        Chunk { parts: serde_json::from_str(parts).expect("parts"), ..Chunk::default() }
    }

    #[test]
    fn response_builder_keeps_order_signatures_and_empty_signed_parts() {
        let mut answer = ResponseBuilder::default();
        answer.push(chunk(r#"[{"text":"a"}]"#));
        answer.push(chunk(r#"[{"text":"b"},{"text":"c","thoughtSignature":"S1"}]"#));
        answer.push(chunk(r#"[{"functionCall":{"name":"x","args":{}},"thoughtSignature":"S2"}]"#));
        answer.push(chunk(r#"[{"text":""},{"text":"","thoughtSignature":"S3"}]"#));
        assert_eq!(
            answer.into_content().seal().json(),
            concat!(
                r#"{"role":"model","parts":[{"text":"ab"},{"text":"c","thoughtSignature":"S1"},"#,
                r#"{"functionCall":{"name":"x","args":{}},"thoughtSignature":"S2"},"#,
                r#"{"text":"","thoughtSignature":"S3"}]}"#
            )
        );
    }

    #[test]
    fn signature_of_a_dropped_thought_moves_to_the_first_call() {
        let mut answer = ResponseBuilder::default();
        answer.push(chunk(
            r#"[{"text":"**Plan** go","thought":true,"thoughtSignature":"S"},{"functionCall":{"name":"a"}},{"functionCall":{"name":"b"}}]"#,
        ));
        assert_eq!(answer.thoughts, ["**Plan** go"]);
        let content = answer.into_content();
        let signatures: Vec<_> = content.parts.iter().map(Part::signature).collect();
        assert_eq!(signatures, [Some(SYNTHETIC_SIGNATURE), None]);
    }

    #[test]
    fn comments_and_zero_width_text_are_not_an_answer() {
        assert!(!has_visible(" \u{200B}<!-- hm --> \n<!-- open"));
        assert!(has_visible("<!-- a -->b"));
    }
}
