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
    /// After an opening tag within the text, which is text unless a closing tag follows.
    MaybeThought,
}

/// Separates reasoning from text, however the tags are split. A tag at the beginning may stay open;
/// later ones count only with a closing tag, and not within code, because they may be text about
/// tags.
#[derive(Debug, Default)]
pub(crate) struct ThoughtTags {
    state: TagState,
    /// Text that may be the beginning of a tag, or whitespace before it.
    pending_text: String,
    /// The number of backticks that began the code in which the text is.
    code: Option<usize>,
}

impl ThoughtTags {
    /// Adds a piece and returns the parts that can already be classified.
    pub(crate) fn push(&mut self, text: &str) -> Vec<TaggedText> {
        let mut pieces = Vec::new();
        self.pending_text.push_str(text);
        loop {
            match self.state {
                TagState::Text => {
                    let (end, is_tag) = self.scan();
                    let rest = self.pending_text.split_off(end);
                    push(
                        &mut pieces,
                        TaggedText::Text(std::mem::replace(&mut self.pending_text, rest)),
                    );
                    if !is_tag {
                        return pieces;
                    }
                    self.state = TagState::MaybeThought;
                }
                TagState::MaybeThought => {
                    let Some(offset) = self.pending_text.find(CLOSE) else { return pieces };
                    let rest = self.pending_text.split_off(offset);
                    let thought =
                        self.pending_text.get(OPEN.len()..).unwrap_or_default().to_owned();
                    push(&mut pieces, TaggedText::Thought(thought));
                    self.pending_text = rest.get(CLOSE.len()..).unwrap_or_default().to_owned();
                    self.state = TagState::Text;
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

    /// Returns the length of the text that is certainly not part of a tag, and whether a tag
    /// follows. Counts backticks to recognize code.
    fn scan(&mut self) -> (usize, bool) {
        let mut at = 0;
        while let Some(found) = self.pending_text.get(at..).and_then(|it| it.find(['`', '<', '\n']))
        {
            at += found;
            let rest = self.pending_text.get(at..).unwrap_or_default();
            let ticks = rest.len() - rest.trim_start_matches('`').len();
            if ticks > 0 {
                if ticks == rest.len() {
                    // More of them may follow.
                    return (at, false);
                }
                self.code = match self.code {
                    None => Some(ticks),
                    Some(open) => Some(open).filter(|open| *open != ticks),
                };
                at += ticks;
            } else if rest.starts_with('\n') {
                // Only a fence spans lines.
                self.code = self.code.filter(|ticks| *ticks >= 3);
                at += 1;
            } else if self.code.is_none() && rest.starts_with(OPEN) {
                return (at, true);
            } else if self.code.is_none() && OPEN.starts_with(rest) {
                return (at, false);
            } else {
                at += 1;
            }
        }
        (self.pending_text.len(), false)
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

/// Returns the length of the longest suffix of a string that is a prefix of the tag.
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

    #[test]
    fn later_tags_are_reasoning_unless_they_are_open_or_in_code() {
        let both = |thought: &str, text: &str| (thought.to_owned(), text.to_owned());
        assert_eq!(split(&["Hi <th", "ink>a</thi", "nk>yes"]), both("a", "Hi yes"));
        let two = ["<think>a</think>b<think>c</think>d"];
        assert_eq!(split(&two), both("ac", "bd"));
        for text in [
            "`<think>a</think>` are tags",
            "``a ` <think>b</think>`` c",
            "```\n<think>a</think>\n```\n",
            "open <think> only",
            "a < b <thin air",
        ] {
            assert_eq!(split(&[text]), both("", text));
        }
        assert_eq!(split(&["a ` b\n<think>c</think>d"]), both("c", "a ` b\nd"));
    }

    proptest! {
        #[test]
        fn tagged_thoughts_do_not_depend_on_chunking(text in "(<think>)?[a<>/thinkü ]{0,30}(</think>)?[a<ü ]{0,9}[`\n]{0,4}(<think>)?[a`\n]{0,5}(</think>)?a?", at in 0usize..80) {
            let offset = (0..=at.min(text.len())).rev().find(|&offset| text.is_char_boundary(offset)).unwrap_or(0);
            let (head, tail) = text.split_at(offset);
            prop_assert_eq!(split(&[head, tail]), split(&[&text]));
        }
    }
}
