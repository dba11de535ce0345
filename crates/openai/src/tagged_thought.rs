//! Separates reasoning between `<think>` tags from text.

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// A piece of the text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TaggedText {
    Thought(String),
    Text(String),
}

#[derive(Debug, Default, PartialEq, Eq)]
enum TagState {
    /// Only whitespace was received so far.
    #[default]
    Start,
    Thought,
    /// Between the closing tag and the text.
    AfterThought,
    Text,
}

/// Separates reasoning from text, however the tags are split. Only a tag at the beginning counts,
/// because later ones are text about tags.
#[derive(Debug, Default)]
pub(crate) struct ThoughtTags {
    state: TagState,
    /// Text that may be the beginning of a tag, or whitespace before it.
    pending_text: String,
}

impl ThoughtTags {
    /// Adds a piece and returns the parts that can already be classified.
    pub(crate) fn push(&mut self, text: &str) -> Vec<TaggedText> {
        let mut pieces = Vec::new();
        self.pending_text.push_str(text);
        loop {
            match self.state {
                TagState::Text => {
                    push(&mut pieces, TaggedText::Text(std::mem::take(&mut self.pending_text)));
                    return pieces;
                }
                TagState::Start => {
                    let rest = self.pending_text.trim_start();
                    if let Some(rest) = rest.strip_prefix(OPEN) {
                        (self.state, self.pending_text) = (TagState::Thought, rest.to_owned());
                    } else if OPEN.starts_with(rest) {
                        return pieces;
                    } else {
                        self.state = TagState::Text;
                    }
                }
                TagState::Thought => match self.pending_text.find(CLOSE) {
                    Some(at) => {
                        let rest = self.pending_text.split_off(at);
                        push(
                            &mut pieces,
                            TaggedText::Thought(std::mem::take(&mut self.pending_text)),
                        );
                        self.pending_text = rest.get(CLOSE.len()..).unwrap_or_default().to_owned();
                        self.state = TagState::AfterThought;
                    }
                    None => {
                        let keep = partial_suffix(&self.pending_text, CLOSE);
                        let tail = self.pending_text.split_off(self.pending_text.len() - keep);
                        push(
                            &mut pieces,
                            TaggedText::Thought(std::mem::take(&mut self.pending_text)),
                        );
                        self.pending_text = tail;
                        return pieces;
                    }
                },
                TagState::AfterThought => {
                    let rest = self.pending_text.trim_start().to_owned();
                    self.pending_text = rest;
                    if self.pending_text.is_empty() {
                        return pieces;
                    }
                    self.state = TagState::Text;
                }
            }
        }
    }

    /// Returns the held-back text at the end.
    pub(crate) fn finish(&mut self) -> Option<TaggedText> {
        let held = std::mem::take(&mut self.pending_text);
        match self.state {
            _ if held.is_empty() => None,
            TagState::Thought => Some(TaggedText::Thought(held)),
            _ => Some(TaggedText::Text(held)),
        }
    }
}

fn push(pieces: &mut Vec<TaggedText>, piece: TaggedText) {
    let (TaggedText::Thought(text) | TaggedText::Text(text)) = &piece;
    if !text.is_empty() {
        pieces.push(piece);
    }
}

/// Returns the length of the longest suffix of a text that is a prefix of the tag.
fn partial_suffix(text: &str, tag: &str) -> usize {
    (1..tag.len()).rev().find(|&length| text.ends_with(&tag[..length])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(pieces: &[&str]) -> (String, String) {
        let mut tags = ThoughtTags::default();
        let mut all: Vec<TaggedText> = pieces.iter().flat_map(|piece| tags.push(piece)).collect();
        all.extend(tags.finish());
        let (mut thought, mut text) = (String::new(), String::new());
        for piece in all {
            match piece {
                TaggedText::Thought(more) => thought.push_str(&more),
                TaggedText::Text(more) => text.push_str(&more),
            }
        }
        (thought, text)
    }

    #[test]
    fn leading_tags_are_reasoning() {
        let both = |thought: &str, text: &str| (thought.to_owned(), text.to_owned());
        assert_eq!(split(&["\n<th", "ink>a < b</thi", "nk>\n\nyes"]), both("a < b", "yes"));
        assert_eq!(split(&["the tag <think> is text"]), both("", "the tag <think> is text"));
        assert_eq!(split(&["<think>open"]), both("open", ""));
        assert_eq!(split(&["<thin"]), both("", "<thin"));
        assert_eq!(split(&["  plain"]), both("", "  plain"));
    }

    proptest! {
        #[test]
        fn tagged_thoughts_do_not_depend_on_chunking(text in "(<think>)?[a<>/thinkü ]{0,30}(</think>)?[a<ü ]{0,9}", at in 0usize..40) {
            let at = (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
            let (head, tail) = text.split_at(at);
            prop_assert_eq!(split(&[head, tail]), split(&[&text]));
        }
    }
}
