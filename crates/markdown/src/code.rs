//! Renders code, with a cache that avoids repeated highlighting.

use parallax_screen::{Line, Span};

use crate::highlight::{Highlighter, Pieces};
use crate::render_options::RenderOptions;
use parallax_screen::layout::space_wrap;
use parallax_screen::sanitize;

/// The indentation of code.
const INDENT: &str = "  ";

/// Returns the rows of one line of code. `number` counts from 1.
pub fn code_rows(
    text: &str,
    pieces: &Pieces,
    number: usize,
    columns: usize,
    options: &RenderOptions<'_>,
) -> Vec<Line> {
    let gutter = if options.line_numbers { format!("{number:>3} ") } else { String::new() };
    // In a very narrow window the code matters more than its frame.
    let wide = columns >= gutter.len() + INDENT.len() + 8;
    let mut prefix = Vec::new();
    if wide && !options.plain {
        prefix.push(Span::raw(INDENT));
    }
    let gutter = if wide { gutter } else { String::new() };
    if !gutter.is_empty() {
        prefix.push(Span::styled(gutter.clone(), options.theme.secondary));
    }
    let prefix_width: usize = prefix.iter().map(Span::width).sum();
    let spans = code_spans(text, pieces, options);
    let mut rows = Vec::new();
    for (index, spans) in
        space_wrap(spans, columns.saturating_sub(prefix_width)).into_iter().enumerate()
    {
        if index == 1 && !gutter.is_empty() {
            prefix.pop();
            prefix.push(Span::raw(" ".repeat(gutter.len())));
        }
        // A line of a diff is tinted across the width.
        let fill = spans.last().map(|span| span.style).filter(|style| style.bg.is_some());
        let mut row = prefix.clone();
        row.extend(spans);
        rows.push(Line { fill_style: fill, ..Line::from(row) });
    }
    rows
}

/// Returns one line of code with highlighting and expanded tabs.
pub fn code_spans(text: &str, pieces: &Pieces, options: &RenderOptions<'_>) -> Vec<Span> {
    let (mut spans, mut start, mut column) = (Vec::new(), 0, 0);
    for (end, role) in pieces {
        let piece = sanitize::expand_tabs(text.get(start..*end).unwrap_or(""), &mut column);
        spans.push(Span::styled(piece.into_owned(), role.style(options.theme)));
        start = *end;
    }
    spans
}

/// The code blocks of a growing text that is rendered repeatedly.
#[derive(Debug, Default)]
pub(super) struct CodeBlockCache {
    blocks: Vec<CachedCodeBlock>,
    next: usize,
}

#[derive(Debug)]
struct CachedCodeBlock {
    language: String,
    /// All lines as they were last rendered.
    lines: Vec<(String, Pieces)>,
    /// How many of them the highlighter has processed: all but the last, which may still grow.
    highlighted: usize,
    highlighter: Highlighter,
}

impl CodeBlockCache {
    /// Starts a rendering with the first block of the text.
    pub(super) fn begin(&mut self) {
        self.next = 0;
    }

    /// Clears the cache.
    pub(super) fn clear(&mut self) {
        self.blocks.clear();
        self.next = 0;
    }

    /// Returns the next block's lines with their pieces. Unchanged lines are not highlighted again.
    pub(super) fn lines(&mut self, language: &str, code: &str) -> &[(String, Pieces)] {
        let at = self.next;
        self.next += 1;
        if self.blocks.get(at).is_none_or(|known| known.language != language) {
            self.blocks.truncate(at);
            self.blocks.push(CachedCodeBlock {
                language: language.to_owned(),
                lines: Vec::new(),
                highlighted: 0,
                highlighter: Highlighter::new(language),
            });
        }
        let Some(block) = self.blocks.get_mut(at) else { return &[] };
        block.update(code);
        &block.lines
    }
}

impl CachedCodeBlock {
    fn update(&mut self, code: &str) {
        let settled = self.lines.iter().take(self.highlighted);
        let same = settled.zip(code.lines()).take_while(|(old, new)| old.0 == *new).count();
        if same < self.highlighted || self.highlighter.is_waiting() {
            self.highlighted = 0;
            self.highlighter = Highlighter::new(&self.language);
        }
        self.lines.truncate(self.highlighted);
        let mut lines = code.lines().skip(self.highlighted).peekable();
        while let Some(line) = lines.next() {
            let pieces = if lines.peek().is_some() {
                self.highlighted += 1;
                self.highlighter.line(line)
            } else {
                self.highlighter.clone().line(line)
            };
            self.lines.push((line.to_owned(), pieces));
        }
    }
}
