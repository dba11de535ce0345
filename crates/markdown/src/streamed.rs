//! Renders Markdown that arrives in pieces.
//!
//! Everything is decided line by line, never piece by piece, so how the text was split does not
//! matter. Lines are final
//! - in fenced code at the top level: as soon as they end;
//! - in a list at the top level: when the next item begins;
//! - in a paragraph of several lines: from the third line on, two lines later, if no later text can
//!   change them; such a paragraph is never a heading;
//! - in another paragraph, a heading, or a table: when it ends;
//! - elsewhere: when the next block begins.
//!
//! Rows of a long paragraph are final before its line ends if no later text can change them; such a
//! paragraph is never a heading. A block without an end is split at 64 KiB, a line at 16 KiB, so
//! that the work for each frame is bounded.

use std::collections::VecDeque;

use parallax_screen::Line;

use super::block::{self, BlockContext, Definitions, MarkdownBlock, RenderContext};
use super::code::{CodeBlockCache, code_rows};
use super::open_block::{self, Fence, Leaf};
use super::{mermaid, raw};
use crate::highlight::Highlighter;
use crate::render_options::RenderOptions;
use parallax_screen::sanitize;

/// Maximum size of a block in bytes.
const MAX_BLOCK: usize = 64 * 1024;
/// Maximum length of a line in bytes.
const MAX_LINE: usize = 16 * 1024;
/// A paragraph of this many bytes may be split before its line ends.
const LONG_PARAGRAPH: usize = 256;
/// How many rows of an open paragraph are kept.
const OPEN_ROWS: usize = 2;
/// How many complete lines of an open paragraph are kept.
pub(super) const OPEN_LINES: usize = 2;
/// The smallest number of lines of a paragraph that is released before its end.
pub(super) const RELEASED_LINES: usize = 3;
/// Up to this size, a block is parsed again at each line that may begin a new one.
const SMALL_BLOCK: usize = 4 * 1024;

/// Markdown that grows at its end. See [`super::render`] for complete text.
#[derive(Debug)]
pub struct StreamedMarkdown {
    /// Text that is not processed yet: possibly complete lines and an open one.
    incoming: String,
    /// Sanitized complete lines that can still change.
    open: String,
    /// The open code fence, if any, instead of `open`.
    code: Option<OpenCode>,
    flow: BlockContext,
    definitions: Definitions,
    codes: CodeBlockCache,
    /// The size of `open` when it was last parsed without result.
    parsed_size: usize,
    /// The size of `open` from which it is worth looking for finished lines of a paragraph.
    next_lines_size: usize,
    /// The size of `incoming` from which it is worth splitting.
    next_split_size: usize,
    /// Final rows not taken yet.
    ready: Vec<Line>,
    rendered_tail: Option<RenderedTail>,
}

#[derive(Debug)]
struct OpenCode {
    fence: Fence,
    highlighter: Highlighter,
    lines: usize,
}

/// The cached rows of what can still change.
#[derive(Debug)]
struct RenderedTail {
    width: usize,
    theme: String,
    raw: bool,
    rows: Vec<Line>,
}

impl Default for StreamedMarkdown {
    fn default() -> Self {
        Self::new()
    }
}

impl StreamedMarkdown {
    /// Creates an empty text.
    pub fn new() -> Self {
        Self {
            incoming: String::new(),
            open: String::new(),
            code: None,
            flow: BlockContext::START,
            definitions: Definitions::default(),
            codes: CodeBlockCache::default(),
            parsed_size: 0,
            next_lines_size: 0,
            next_split_size: LONG_PARAGRAPH,
            ready: Vec::new(),
            rendered_tail: None,
        }
    }

    /// Adds text. Costs no more than copying it.
    pub fn push(&mut self, text: &str) {
        if !text.is_empty() {
            self.incoming.push_str(text);
            self.rendered_tail = None;
        }
    }

    /// Returns final rows not returned before.
    pub fn take_finished(&mut self, options: &RenderOptions<'_>) -> Vec<Line> {
        self.advance(options);
        self.split_paragraph(options);
        std::mem::take(&mut self.ready)
    }

    /// Releases the rows of a paragraph that no later text can change.
    fn split_paragraph(&mut self, options: &RenderOptions<'_>) {
        let is_new_block = self.code.is_none() && self.open.is_empty();
        if !is_new_block
            || options.raw
            || options.plain
            || self.incoming.len() < self.next_split_size
        {
            return;
        }
        self.next_split_size = self.incoming.len() + options.columns() / 2;
        let text = &self.incoming;
        if sanitize::lines(text) != text.as_str() {
            return;
        }
        let mut render = |text: &str| {
            let mut context = RenderContext { options, codes: &mut self.codes };
            let (mut flow, mut definitions) = (self.flow, self.definitions.clone());
            block::render(text, &mut context, &mut flow, &mut definitions)
        };
        let rows = render(text);
        let Some(last) = rows.len().checked_sub(OPEN_ROWS).filter(|count| *count > 0) else {
            return;
        };
        // The first character after the split begins a row, so it must not begin another block.
        let splits: Vec<usize> = text
            .match_indices(' ')
            .map(|(at, _)| at)
            .filter(|at| text[at + 1..].starts_with(char::is_alphabetic))
            .collect();
        let fitting = splits.partition_point(|at| render(&text[..*at]).len() <= last);
        let Some(at) = fitting.checked_sub(1).and_then(|index| splits.get(index).copied()) else {
            return;
        };
        let (first, rest) = (&text[..at], &text[at + 1..]);
        if open_block::complete_leaf(first) != Some(Leaf::Paragraph)
            || render(first) != rows[..last]
        {
            return;
        }
        let rest = rest.to_owned();
        self.open = std::mem::replace(&mut self.incoming, rest);
        self.open.truncate(at);
        self.release(at, options);
        self.next_split_size = LONG_PARAGRAPH.min(options.columns() * (OPEN_ROWS + 1));
        self.rendered_tail = None;
    }

    /// Ends the text and returns all remaining rows.
    pub fn finish(&mut self, options: &RenderOptions<'_>) -> Vec<Line> {
        self.advance(options);
        if !self.incoming.is_empty() {
            self.incoming.push('\n');
            self.advance(options);
        }
        self.release(self.open.len(), options);
        self.code = None;
        self.rendered_tail = None;
        std::mem::take(&mut self.ready)
    }

    /// Returns the rows not returned by [`Self::take_finished`], as they look now.
    pub fn remaining_rows(&mut self, options: &RenderOptions<'_>) -> Vec<Line> {
        self.advance(options);
        let current = self.rendered_tail.as_ref().is_some_and(|shown| {
            shown.width == options.width
                && shown.raw == options.raw
                && shown.theme == options.theme.name
        });
        if !current {
            let rows = self.open_rows(options);
            let theme = options.theme.name.clone();
            self.rendered_tail =
                Some(RenderedTail { width: options.width, theme, raw: options.raw, rows });
        }
        let open = self.rendered_tail.iter().flat_map(|shown| &shown.rows);
        self.ready.iter().chain(open).cloned().collect()
    }

    fn open_rows(&mut self, options: &RenderOptions<'_>) -> Vec<Line> {
        let line = sanitize::lines(self.incoming.trim_end_matches('\r'));
        if let Some(code) = &self.code {
            if line.is_empty() || code.fence.closes(&line) {
                return Vec::new();
            }
            if options.raw {
                return raw::code_row(&line, options);
            }
            let text = code.fence.content(&line);
            let pieces = code.highlighter.clone().line(text);
            let mut rows = separator(self.flow, code.lines);
            rows.extend(code_rows(text, &pieces, code.lines + 1, options.columns(), options));
            return rows;
        }
        if self.open.is_empty() && line.trim().is_empty() {
            return Vec::new();
        }
        let source = format!("{}{line}", self.open);
        if options.raw {
            return source.lines().flat_map(|line| raw::row(line, options)).collect();
        }
        let mut flow = self.flow;
        let mut context = RenderContext { options, codes: &mut self.codes };
        // Definitions of an open block apply to it and are not kept.
        let mut definitions = self.definitions.clone();
        block::render(&source, &mut context, &mut flow, &mut definitions)
    }

    /// Processes the complete lines received.
    fn advance(&mut self, options: &RenderOptions<'_>) {
        if !self.incoming.contains('\n') && self.incoming.len() <= MAX_LINE {
            return;
        }
        let incoming = std::mem::take(&mut self.incoming);
        let mut rest = incoming.as_str();
        let mut requeued = VecDeque::new();
        loop {
            let end = rest.find('\n');
            let length = end.unwrap_or(rest.len());
            let line = if length > MAX_LINE {
                let cut = rest.floor_char_boundary(MAX_LINE);
                let (line, after) = rest.split_at(cut);
                rest = after;
                line
            } else if let Some(end) = end {
                let line = &rest[..end];
                rest = &rest[end + 1..];
                line
            } else {
                break;
            };
            let line = sanitize::lines(line.strip_suffix('\r').unwrap_or(line));
            self.process_line(&line, options, &mut requeued);
            while let Some(line) = requeued.pop_front() {
                self.process_line(&line, options, &mut requeued);
            }
        }
        self.incoming = rest.to_owned();
    }

    /// Processes a complete line. Lines of a fence that was detected late go to `again`.
    fn process_line(
        &mut self,
        line: &str,
        options: &RenderOptions<'_>,
        again: &mut VecDeque<String>,
    ) {
        if self.code.is_some() {
            self.push_code_line(line, options);
            return;
        }
        if self.open.is_empty() && line.trim().is_empty() {
            self.flow.blank = true;
            if options.raw && self.flow.last.is_some() {
                self.ready.push(Line::EMPTY);
            }
            return;
        }
        let after_blank = block::ends_blank(&self.open);
        self.open.push_str(line);
        self.open.push('\n');
        let grown = self.open.len() < SMALL_BLOCK
            || self.open.len() >= self.parsed_size + self.parsed_size / 8;
        if open_block::may_begin(line, after_blank) && grown {
            self.render_complete_blocks(options, again);
        } else if line.trim().is_empty() && grown && open_block::complete_leaf(&self.open).is_some()
        {
            self.release(self.open.len(), options);
        } else if self.open.len() >= self.next_lines_size {
            self.release_paragraph_lines(options);
        }
        if self.open.len() > MAX_BLOCK {
            self.release(self.open.len(), options);
        }
    }

    /// Releases the first lines of an open paragraph that no later text can change, so that a list
    /// of plain lines does not stay open as a whole.
    fn release_paragraph_lines(&mut self, options: &RenderOptions<'_>) {
        if options.raw || options.plain {
            return;
        }
        let text = &self.open;
        // The first line after the split is parsed alone, so it must not begin another block.
        let starts: Vec<usize> = text
            .match_indices('\n')
            .map(|(at, _)| at + 1)
            .filter(|at| text[*at..].starts_with(char::is_alphabetic))
            .collect();
        let kept_bytes: usize =
            text.lines().rev().take(OPEN_LINES).map(|line| line.len() + 1).sum();
        let last = text.len().saturating_sub(kept_bytes);
        let end = starts.into_iter().rfind(|at| *at <= last).filter(|at| {
            let first = &text[..*at];
            first.lines().count() >= RELEASED_LINES
                && open_block::complete_leaf(first) == Some(Leaf::Paragraph)
        });
        match end {
            Some(end) => {
                self.release(end, options);
                self.next_lines_size = 0;
            }
            // The open block may stay open for a long time.
            None => self.next_lines_size = text.len() + text.len() / 8,
        }
    }

    /// Renders everything before the last block.
    fn render_complete_blocks(
        &mut self,
        options: &RenderOptions<'_>,
        again: &mut VecDeque<String>,
    ) {
        self.parsed_size = self.open.len();
        let Some(last) = open_block::find(&self.open, self.flow.number) else { return };
        if last.start > 0 {
            self.release(last.start, options);
            self.flow.number = last.number;
        }
        // A diagram is drawn when it is complete.
        let is_drawn =
            |fence: &Fence| !options.raw && !options.plain && mermaid::is_diagram(&fence.info);
        if let Some(fence) = last.fence.filter(|fence| !is_drawn(fence)) {
            let lines = std::mem::take(&mut self.open);
            // The fence itself is known; the following lines are code.
            for line in lines.lines().skip(1).collect::<Vec<_>>().into_iter().rev() {
                again.push_front(line.to_owned());
            }
            if options.raw {
                self.ready.extend(
                    lines.lines().next().into_iter().flat_map(|line| raw::row(line, options)),
                );
                self.flow.last = Some(MarkdownBlock::Separate);
            }
            let highlighter = Highlighter::new(&fence.info);
            self.code = Some(OpenCode { fence, highlighter, lines: 0 });
            self.codes.clear();
            self.parsed_size = 0;
        }
    }

    fn push_code_line(&mut self, line: &str, options: &RenderOptions<'_>) {
        let Some(code) = &mut self.code else { return };
        if options.raw {
            self.ready.extend(raw::code_row(line, options));
        }
        if code.fence.closes(line) {
            let seen = code.lines > 0;
            if seen {
                self.flow.last = Some(MarkdownBlock::Separate);
            }
            self.flow.blank = false;
            self.code = None;
            return;
        }
        let text = code.fence.content(line);
        let pieces = code.highlighter.line(text);
        if !options.raw {
            self.ready.extend(separator(self.flow, code.lines));
            self.ready.extend(code_rows(text, &pieces, code.lines + 1, options.columns(), options));
        }
        code.lines += 1;
    }

    /// Renders the first `length` bytes of the open lines.
    fn release(&mut self, length: usize, options: &RenderOptions<'_>) {
        if length == 0 {
            return;
        }
        let rest = self.open.split_off(length);
        let text = std::mem::replace(&mut self.open, rest);
        self.parsed_size = 0;
        if options.raw {
            self.ready.extend(text.lines().flat_map(|line| raw::row(line, options)));
            self.flow = BlockContext {
                last: Some(MarkdownBlock::Text),
                blank: block::ends_blank(&text),
                number: None,
            };
            return;
        }
        let mut context = RenderContext { options, codes: &mut self.codes };
        let rows = block::render(&text, &mut context, &mut self.flow, &mut self.definitions);
        self.ready.extend(rows);
        self.codes.clear();
    }
}

/// Returns the empty row before the first line of fenced code.
fn separator(flow: BlockContext, lines: usize) -> Vec<Line> {
    let needed =
        lines == 0 && BlockContext::needs_blank_row(flow.last, flow.blank, MarkdownBlock::Separate);
    if needed { vec![Line::EMPTY] } else { Vec::new() }
}
