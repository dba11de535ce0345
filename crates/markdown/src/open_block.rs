//! Finds the start of the last block of a growing text, so that everything before it can be
//! rendered.
//!
//! CommonMark is parsed line by line: a block that was closed by a later line does not change, and
//! the later text is parsed as if it stood alone (apart from link definitions). The same is true
//! for the items of a list.

use pulldown_cmark::{CodeBlockKind, Event, Tag};

use super::block::parser;
use super::numbers::Numbers;

/// The last block of text that consists of complete lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OpenBlock {
    /// The start of its first line.
    pub(super) start: usize,
    /// The numbering, if it is an ordered list that is split before an item other than its first.
    pub(super) number: Option<Numbers>,
    /// The code fence that it begins with.
    pub(super) fence: Option<Fence>,
}

/// The opening line of fenced code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fence {
    delimiter: char,
    length: usize,
    indent: usize,
    /// The text after the fence markers.
    pub(super) info: String,
}

impl Fence {
    fn parse(line: &str, info: &str) -> Option<Self> {
        let indent = line.bytes().take_while(|byte| *byte == b' ').count();
        let rest = line.get(indent..)?;
        let delimiter = rest.chars().next().filter(|char| matches!(char, '`' | '~'))?;
        let length = rest.chars().take_while(|char| *char == delimiter).count();
        (indent <= 3 && length >= 3).then(|| Self {
            delimiter,
            length,
            indent,
            info: info.to_owned(),
        })
    }

    /// Whether the line closes the fence.
    pub(super) fn closes(&self, line: &str) -> bool {
        let rest = line.trim_start_matches(' ');
        let length = rest.chars().take_while(|char| *char == self.delimiter).count();
        line.len() - rest.len() <= 3
            && length >= self.length
            && rest[length..].chars().all(|char| matches!(char, ' ' | '\t'))
    }

    /// Returns a line of code without the indentation of the fence.
    pub(super) fn content<'t>(&self, line: &'t str) -> &'t str {
        let spaces = line.bytes().take_while(|byte| *byte == b' ').count();
        &line[spaces.min(self.indent)..]
    }
}

/// The last item of a list.
struct LastItem {
    at: usize,
    /// The numbering before and after the item.
    before: Option<Numbers>,
    numbers: Option<Numbers>,
    /// The position in the list, from 1.
    nth: usize,
}

/// Finds the last block. `number` is the numbering if the text begins inside an ordered list.
pub(super) fn find(source: &str, number: Option<Numbers>) -> Option<OpenBlock> {
    let mut depth = 0usize;
    let mut last: Option<(usize, Option<String>)> = None;
    // The last item of the last block, if it is a list.
    let mut list: Option<LastItem> = None;
    let mut first_block = true;
    for (event, range) in parser(source).into_offset_iter() {
        match event {
            Event::Start(tag) => {
                if depth == 0 {
                    let info = match &tag {
                        Tag::CodeBlock(CodeBlockKind::Fenced(info)) => Some(info.to_string()),
                        _ => None,
                    };
                    list = match &tag {
                        Tag::List(start) => {
                            let numbers = start.map(|start| {
                                number.filter(|_| first_block).unwrap_or(Numbers::from(start))
                            });
                            Some(LastItem { at: range.start, before: numbers, numbers, nth: 0 })
                        }
                        _ => None,
                    };
                    first_block = false;
                    last = Some((range.start, info));
                } else if depth == 1
                    && tag == Tag::Item
                    && let Some(item) = &mut list
                {
                    item.at = range.start;
                    item.nth += 1;
                    item.before = item.numbers;
                    if let Some(numbers) = &mut item.numbers {
                        numbers.marker(source, range.start);
                    }
                }
                depth += 1;
            }
            Event::End(_) => depth = depth.saturating_sub(1),
            Event::Rule if depth == 0 => {
                (last, list) = (Some((range.start, None)), None);
                first_block = false;
            }
            _ => {}
        }
    }
    let (start, info) = last?;
    let line_start = |at: usize| {
        source.get(..at).and_then(|text| text.rfind('\n')).map_or(0, |offset| offset + 1)
    };
    let (start, number) = match list {
        Some(item) => (item.at, item.before.filter(|_| item.nth > 1 || number.is_some())),
        None => (start, None),
    };
    let start = line_start(start);
    let fence = info.and_then(|info| {
        let rest = source.get(start..)?;
        Fence::parse(rest.lines().next()?, &info)
    });
    Some(OpenBlock { start, number, fence })
}

/// A block without blocks inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaf {
    Paragraph,
    Other,
}

/// Returns the last block of text that ends with an empty line or inside a paragraph, if later text
/// cannot change it: the block contains no nested blocks, and no markup in it is open.
pub(super) fn complete_leaf(source: &str) -> Option<Leaf> {
    let mut leaf = None;
    let mut depth = 0usize;
    for (event, range) in parser(source).into_offset_iter() {
        match event {
            Event::Start(tag) => {
                if depth == 0 {
                    leaf = match tag {
                        Tag::Paragraph => Some(Leaf::Paragraph),
                        Tag::Heading { .. } | Tag::Table(_) => Some(Leaf::Other),
                        _ => None,
                    };
                }
                depth += 1;
            }
            Event::End(_) => depth = depth.saturating_sub(1),
            Event::Rule if depth == 0 => leaf = Some(Leaf::Other),
            Event::Text(_) => {
                let text = source.get(range.clone()).unwrap_or("");
                if text
                    .char_indices()
                    .any(|(offset, char)| may_open(source, range.start + offset, char))
                {
                    return None;
                }
            }
            Event::Code(_) | Event::SoftBreak | Event::HardBreak => {}
            _ => return None,
        }
    }
    leaf
}

/// Whether a character of plain text could begin markup that later text completes.
fn may_open(source: &str, at: usize, char: char) -> bool {
    let is_letter = |char: Option<char>| char.is_some_and(char::is_alphanumeric);
    match char {
        // Inside a word it is a part of the word.
        '_' => {
            let before = source.get(..at).and_then(|text| text.chars().next_back());
            let after = source.get(at + 1..).and_then(|text| text.chars().next());
            !is_letter(before) || !is_letter(after)
        }
        char => matches!(char, '*' | '~' | '`' | '[' | ']' | '<' | '$' | '|' | '\\'),
    }
}

/// Whether a complete line can begin a block, so that searching is worthwhile.
pub(super) fn may_begin(line: &str, after_blank: bool) -> bool {
    let text = line.trim_start();
    if text.is_empty() {
        return false;
    }
    if after_blank {
        return true;
    }
    if line.len() - text.len() > 3 {
        return false;
    }
    match text.as_bytes() {
        [b'#', ..] | [b'`', b'`', b'`', ..] | [b'~', b'~', b'~', ..] => true,
        [b'-' | b'*' | b'+', b' ' | b'\t', ..] => true,
        [first, ..] if first.is_ascii_digit() => {
            let rest = text.trim_start_matches(|char: char| char.is_ascii_digit());
            rest.starts_with(". ") || rest.starts_with(") ")
        }
        _ => false,
    }
}
