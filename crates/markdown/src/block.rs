//! Renders Markdown blocks: headings, lists, quotes, code, tables.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use crate::excess_cells::escape_excess_pipes;
use crate::literal::{escape_link_definitions, is_target, label_key, literal};
use parallax_screen::{Line, Span, Style, wrap};
use pulldown_cmark::{
    BrokenLink, BrokenLinkCallback, CodeBlockKind, CowStr, Event, HeadingLevel, Options, Parser,
    Tag, TagEnd,
};

use super::code::{CodeBlockCache, code_rows};
use super::inline::InlineBuilder;
use super::numbers::Numbers;
use super::{mermaid, table};
use crate::render_options::RenderOptions;
use parallax_screen::layout::with_prefix;
use parallax_screen::sanitize;

/// The supported extensions of CommonMark.
const OPTIONS: Options = Options::ENABLE_TABLES
    .union(Options::ENABLE_STRIKETHROUGH)
    .union(Options::ENABLE_TASKLISTS)
    .union(Options::ENABLE_MATH)
    .union(Options::ENABLE_OLD_FOOTNOTES);

/// Minimum columns left for text after prefixes.
const MIN_TEXT: usize = 6;
/// Maximum number of remembered link definitions.
const MAX_DEFINITIONS: usize = 1_000;

/// The kind of a block, which determines the empty row between two blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MarkdownBlock {
    Text,
    List,
    /// Always separated by empty rows.
    Separate,
}

/// The state carried over from the previous part of the same text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockContext {
    /// The last block that had rows, if any.
    pub(super) last: Option<MarkdownBlock>,
    /// Whether an empty line precedes the next block.
    pub(super) blank: bool,
    /// The list numbering, if the text begins inside a list.
    pub(super) number: Option<Numbers>,
}

impl BlockContext {
    pub(super) const START: Self = Self { last: None, blank: false, number: None };

    /// Whether an empty row comes before a block of this kind.
    pub(super) fn needs_blank_row(
        last: Option<MarkdownBlock>,
        blank: bool,
        kind: MarkdownBlock,
    ) -> bool {
        match last {
            None => false,
            Some(last) => {
                blank || last == MarkdownBlock::Separate || kind == MarkdownBlock::Separate
            }
        }
    }
}

/// The targets of link labels.
#[derive(Debug, Clone, Default)]
pub(super) struct Definitions(HashMap<String, String>);

struct DefinitionLookup<'d>(&'d Definitions);

impl<'input> BrokenLinkCallback<'input> for DefinitionLookup<'_> {
    fn handle_broken_link(
        &mut self,
        link: BrokenLink<'input>,
    ) -> Option<(CowStr<'input>, CowStr<'input>)> {
        let target = self.0.0.get(&label_key(&link.reference))?;
        Some((target.clone().into(), "".into()))
    }
}

/// What rendering needs besides the text.
pub(super) struct RenderContext<'c> {
    pub(super) options: &'c RenderOptions<'c>,
    pub(super) codes: &'c mut CodeBlockCache,
}

/// Renders complete blocks. `flow` is the state after the previous text and is updated; labels that
/// the text defines are added to `definitions`.
pub(super) fn render(
    source: &str,
    context: &mut RenderContext<'_>,
    flow: &mut BlockContext,
    definitions: &mut Definitions,
) -> Vec<Line> {
    context.codes.begin();
    let known = definitions.clone();
    let parser =
        Parser::new_with_broken_link_callback(source, OPTIONS, Some(DefinitionLookup(&known)));
    for (label, definition) in parser.reference_definitions().iter() {
        if definitions.0.len() < MAX_DEFINITIONS && is_target(&definition.dest) {
            let key = label_key(label);
            definitions.0.entry(key).or_insert_with(|| definition.dest.to_string());
        }
    }
    let source = escape_link_definitions(source, parser.into_offset_iter());
    let parse = |source| {
        Parser::new_with_broken_link_callback(source, OPTIONS, Some(DefinitionLookup(&known)))
            .into_offset_iter()
    };
    let source = match source.contains('|') {
        true => escape_excess_pipes(&source, parse(&source)),
        false => Cow::Borrowed(source.as_ref()),
    };
    let source = source.as_ref();
    let options = context.options;
    let mut writer = Writer {
        source,
        options,
        context,
        rows: Vec::new(),
        prefixes: Vec::new(),
        levels: vec![NestingLevel { last: flow.last }],
        list_numbers: Vec::new(),
        quotes: 0,
        flow: *flow,
        inline: None,
        code: None,
        html: None,
        table: None,
    };
    for (event, range) in parse(source) {
        writer.handle_event(event, range);
    }
    writer.end_inline();
    let last = writer.levels.first().and_then(|level| level.last);
    let rows = writer.rows;
    *flow = BlockContext { last, blank: ends_blank(source), number: None };
    rows
}

/// Returns the parser for finding block starts.
pub(super) fn parser(source: &str) -> Parser<'_> {
    Parser::new_ext(source, OPTIONS)
}

/// Whether the last line of a string is empty.
pub(super) fn ends_blank(text: &str) -> bool {
    let mut lines = text.rsplit('\n');
    // Nothing follows the last line break.
    lines.next();
    lines.next().is_some_and(|line| line.trim().is_empty())
}

struct Prefix {
    first: Option<Vec<Span>>,
    rest: Vec<Span>,
    width: usize,
}

struct NestingLevel {
    last: Option<MarkdownBlock>,
}

struct Writer<'w, 'c> {
    source: &'w str,
    options: &'w RenderOptions<'w>,
    context: &'w mut RenderContext<'c>,
    rows: Vec<Line>,
    prefixes: Vec<Prefix>,
    /// One level for the text, and one for each nested container block.
    levels: Vec<NestingLevel>,
    /// The numbering of each open list.
    list_numbers: Vec<Option<Numbers>>,
    /// Number of open quotes.
    quotes: usize,
    flow: BlockContext,
    inline: Option<InlineBuilder<'w>>,
    code: Option<(String, String, usize)>,
    html: Option<(String, usize)>,
    table: Option<table::Table<'w>>,
}

impl<'w> Writer<'w, '_> {
    fn handle_event(&mut self, event: Event<'_>, range: Range<usize>) {
        let event = literal(event, self.source, &range);
        if let Some((_, code, _)) = &mut self.code {
            match event {
                Event::Text(text) => code.push_str(&text),
                Event::End(TagEnd::CodeBlock) => self.end_code(),
                _ => {}
            }
            return;
        }
        if let Some((html, _)) = &mut self.html {
            match event {
                Event::Html(text) | Event::Text(text) => html.push_str(&text),
                Event::End(TagEnd::HtmlBlock) => self.end_html(),
                _ => {}
            }
            return;
        }
        if let Some(table) = &mut self.table {
            if matches!(event, Event::End(TagEnd::Table)) {
                self.end_table();
            } else {
                table.handle_event(&event);
            }
            return;
        }
        match event {
            Event::Start(Tag::Paragraph) => self.begin_text(range.start, self.options.base),
            Event::Start(Tag::Heading { level, .. }) => {
                self.begin_block(MarkdownBlock::Separate, range.start);
                self.inline = Some(InlineBuilder::new(self.options, self.heading(level)));
            }
            Event::End(TagEnd::Paragraph | TagEnd::Heading(_)) => self.end_inline(),
            Event::Start(Tag::BlockQuote(_)) => {
                self.begin_block(MarkdownBlock::Text, range.start);
                let marker = if self.options.plain { "> " } else { "│ " };
                let bar = Span::styled(marker, self.options.theme.border);
                self.nest(vec![bar.clone()], vec![bar]);
                self.quotes += 1;
            }
            Event::Start(Tag::List(start)) => {
                self.begin_block(MarkdownBlock::List, range.start);
                let first = self.flow.number.take();
                let start = start.map(|start| first.unwrap_or(Numbers::from(start)));
                self.list_numbers.push(start);
                self.levels.push(NestingLevel { last: None });
            }
            Event::End(TagEnd::List(_)) => {
                self.list_numbers.pop();
                self.levels.pop();
            }
            Event::Start(Tag::Item) => self.begin_item(range.start),
            Event::Start(Tag::FootnoteDefinition(label)) => {
                self.begin_block(MarkdownBlock::Text, range.start);
                let label = sanitize::one_row(&format!("[^{label}] ")).into_owned();
                let rest = vec![Span::raw("    ")];
                self.nest(vec![Span::styled(label, self.options.theme.link)], rest);
            }
            Event::End(TagEnd::BlockQuote(_)) => {
                self.end_nesting();
                self.quotes = self.quotes.saturating_sub(1);
            }
            Event::End(TagEnd::Item | TagEnd::FootnoteDefinition) => self.end_nesting(),
            Event::Start(Tag::CodeBlock(kind)) => {
                self.end_inline();
                let language = match kind {
                    CodeBlockKind::Fenced(info) => info.to_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((language, String::new(), range.start));
            }
            Event::Start(Tag::HtmlBlock) => {
                self.end_inline();
                self.html = Some((String::new(), range.start));
            }
            Event::Start(Tag::Table(alignments)) => {
                self.begin_block(MarkdownBlock::Separate, range.start);
                self.table = Some(table::Table::new(self.options, alignments));
            }
            Event::Rule => {
                self.begin_block(MarkdownBlock::Separate, range.start);
                let columns = self.columns();
                let marker = if self.options.plain { "-" } else { "─" };
                self.push_rows(vec![Line::styled(
                    marker.repeat(columns),
                    self.options.theme.border,
                )]);
            }
            Event::TaskListMarker(done) => self.push_checkbox(done),
            inline => {
                if self.inline.is_none() {
                    self.begin_text(range.start, self.options.base);
                }
                // A backslash that continues a shell line is part of the text.
                let backslash = matches!(inline, Event::HardBreak)
                    && self.source.get(range).is_some_and(|text| text.starts_with('\\'));
                if let Some(block) = &mut self.inline {
                    if backslash {
                        block.push_text("\\");
                    }
                    block.event(&inline);
                }
            }
        }
    }

    fn heading(&self, level: HeadingLevel) -> Style {
        let theme = self.options.theme;
        match level {
            HeadingLevel::H1 => self.options.base.patch(theme.link).bold().underline(),
            HeadingLevel::H2 => self.options.base.patch(theme.link).bold(),
            HeadingLevel::H3 => self.options.base.bold(),
            _ => theme.secondary.italic(),
        }
    }

    /// Returns the columns left after the prefixes.
    fn columns(&self) -> usize {
        let prefix_width: usize = self.prefixes.iter().map(|prefix| prefix.width).sum();
        self.options.columns().saturating_sub(prefix_width).max(MIN_TEXT)
    }

    fn nest(&mut self, first: Vec<Span>, rest: Vec<Span>) {
        let width = |spans: &[Span]| spans.iter().map(Span::width).sum::<usize>();
        let wider = width(&first).max(width(&rest));
        let room = self.columns() >= wider + MIN_TEXT;
        // Too deep to leave space for text: do not indent further.
        let prefix = if room {
            let pad = wider - width(&rest);
            let mut rest = rest;
            if pad > 0 && self.options.plain {
                rest.push(Span::raw(" ".repeat(pad)));
            }
            Prefix { first: Some(first), rest, width: wider }
        } else {
            Prefix { first: None, rest: Vec::new(), width: 0 }
        };
        self.prefixes.push(prefix);
        self.levels.push(NestingLevel { last: None });
    }

    fn end_nesting(&mut self) {
        self.end_inline();
        // An empty item still shows its marker.
        if self.prefixes.last().is_some_and(|prefix| prefix.first.is_some()) {
            self.push_rows(vec![Line::EMPTY]);
        }
        self.prefixes.pop();
        self.levels.pop();
    }

    fn begin_item(&mut self, at: usize) {
        self.end_inline();
        if self.levels.last().is_some_and(|level| level.last.is_some()) && self.is_blank_before(at)
        {
            self.separate();
        }
        if let Some(level) = self.levels.last_mut() {
            level.last = Some(MarkdownBlock::List);
        }
        let depth = self.list_numbers.len();
        let marker = match self.list_numbers.last_mut() {
            Some(Some(numbers)) => numbers.marker(self.source, at),
            _ if self.options.plain => "- ".to_owned(),
            _ => ["• ", "◦ ", "▪ "][depth.saturating_sub(1) % 3].to_owned(),
        };
        let rest = vec![Span::raw(" ".repeat(parallax_screen::text_width(&marker)))];
        self.nest(vec![Span::styled(marker, self.options.theme.symbol)], rest);
    }

    fn push_checkbox(&mut self, done: bool) {
        let (marker, theme) = (if done { "[x] " } else { "[ ] " }, self.options.theme);
        let marker = match (self.options.plain, done) {
            (true, _) => marker,
            (false, true) => "☑ ",
            (false, false) => "☐ ",
        };
        let style = if done { theme.success } else { theme.secondary };
        // It replaces the bullet.
        if let Some(first) = self.prefixes.last_mut().and_then(|prefix| prefix.first.as_mut()) {
            let width: usize = first.iter().map(Span::width).sum();
            if width == 2 && parallax_screen::text_width(marker) == 2 {
                *first = vec![Span::styled(marker, style)];
                return;
            }
        }
        if self.inline.is_none() {
            self.begin_text(0, self.options.base);
        }
        if let Some(inline) = &mut self.inline {
            inline.push_literal(marker, style);
        }
    }

    fn begin_text(&mut self, at: usize, base: Style) {
        self.begin_block(MarkdownBlock::Text, at);
        self.inline = Some(InlineBuilder::new(self.options, base));
    }

    /// Ends text without a paragraph around it and adds the empty row before a block.
    fn begin_block(&mut self, kind: MarkdownBlock, at: usize) {
        self.end_inline();
        let last = self.levels.last().and_then(|level| level.last);
        if BlockContext::needs_blank_row(last, self.is_blank_before(at), kind) {
            self.separate();
        }
        if let Some(level) = self.levels.last_mut() {
            level.last = Some(kind);
        }
        if kind != MarkdownBlock::List && self.levels.len() == 1 {
            self.flow.number = None;
        }
    }

    fn separate(&mut self) {
        let mut row = Line::EMPTY;
        for prefix in &self.prefixes {
            row.spans.extend_from_slice(&prefix.rest);
        }
        while row.spans.last().is_some_and(|span| span.text.trim().is_empty()) {
            row.spans.pop();
        }
        if let Some(last) = row.spans.last_mut() {
            let length = last.text.trim_end().len();
            last.text.to_mut().truncate(length);
        }
        self.rows.push(row);
    }

    /// Whether the line before that of `at` is empty (apart from quote markers).
    fn is_blank_before(&self, at: usize) -> bool {
        let before = self.source.get(..at).unwrap_or("");
        let Some(line_start) = before.rfind('\n') else { return self.flow.blank };
        let line = &before[..line_start];
        let line = line.rfind('\n').map_or(line, |start| &line[start + 1..]);
        line.chars().all(|char| char.is_whitespace() || (char == '>' && self.quotes > 0))
    }

    fn end_inline(&mut self) {
        let Some(inline) = self.inline.take() else { return };
        let columns = self.columns();
        let lines = inline.end();
        let rows = lines.iter().flat_map(|line| wrap(line, columns, &[])).collect();
        self.push_rows(rows);
    }

    fn push_rows(&mut self, rows: Vec<Line>) {
        if self.prefixes.is_empty() {
            self.rows.extend(rows);
            return;
        }
        for row in rows {
            let mut prefix = Vec::new();
            for part in &mut self.prefixes {
                match part.first.take() {
                    Some(first) => prefix.extend(first),
                    None => prefix.extend_from_slice(&part.rest),
                }
            }
            self.rows.push(with_prefix(&prefix, row));
        }
    }

    fn end_code(&mut self) {
        let Some((language, code, at)) = self.code.take() else { return };
        if code.is_empty() {
            return;
        }
        self.begin_block(MarkdownBlock::Separate, at);
        let columns = self.columns();
        let code = sanitize::lines(&code);
        if mermaid::is_diagram(&language)
            && let Some(rows) = mermaid::rows(&code, columns, self.options)
        {
            return self.push_rows(rows);
        }
        let lines = self.context.codes.lines(&language, &code);
        let mut rows = Vec::with_capacity(lines.len());
        for (index, (text, pieces)) in lines.iter().enumerate() {
            rows.extend(code_rows(text, pieces, index + 1, columns, self.options));
        }
        self.push_rows(rows);
    }

    fn end_html(&mut self) {
        let Some((html, at)) = self.html.take() else { return };
        self.begin_block(MarkdownBlock::Text, at);
        let (columns, style) = (self.columns(), self.options.theme.secondary);
        let html = sanitize::lines(&html);
        let mut rows = Vec::new();
        for line in html.lines() {
            let line = Line::styled(sanitize::expand_tabs(line, &mut 0).into_owned(), style);
            rows.extend(wrap(&line, columns, &[]));
        }
        self.push_rows(rows);
    }

    fn end_table(&mut self) {
        let Some(table) = self.table.take() else { return };
        let rows = table.rows(self.columns());
        self.push_rows(rows);
    }
}
