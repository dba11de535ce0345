//! Renders inline Markdown: emphasis, code, links, formulas.

use std::sync::Arc;

use crate::literal::{is_line_break, retains_brackets};
use parallax_screen::{Attributes, Line, Span, Style};
use pulldown_cmark::{Event, Tag, TagEnd};

use super::{latex, links};
use crate::render_options::RenderOptions;
use parallax_screen::sanitize;

/// Collects the inline events of one block into lines that are not wrapped yet.
pub(super) struct InlineBuilder<'l> {
    options: &'l RenderOptions<'l>,
    /// The active styles, innermost last; never empty.
    styles: Vec<Style>,
    /// The open link: its target and its text so far.
    link: Option<OpenLink>,
    /// Text of one style, not yet searched for URLs and formulas.
    pending: String,
    lines: Vec<Line>,
    current: Line,
    /// Whether `<br>` is a line break, as in table cells, where Markdown has no other syntax for
    /// one.
    in_table_cell: bool,
}

struct OpenLink {
    target: Arc<str>,
    href: Option<Arc<str>>,
    text: String,
    /// Whether it is shown in the angle brackets of the source.
    brackets: bool,
}

impl<'l> InlineBuilder<'l> {
    pub(super) fn new(options: &'l RenderOptions<'l>, base: Style) -> Self {
        Self {
            options,
            styles: vec![base],
            link: None,
            pending: String::new(),
            lines: Vec::new(),
            current: Line::EMPTY,
            in_table_cell: false,
        }
    }

    /// Creates a collector for the text of a table cell.
    pub(super) fn for_table_cell(look: &'l RenderOptions<'l>, base: Style) -> Self {
        Self { in_table_cell: true, ..Self::new(look, base) }
    }

    fn style(&self) -> Style {
        self.styles.last().copied().unwrap_or(self.options.base)
    }

    /// Handles an inline event. Returns whether it was one.
    pub(super) fn event(&mut self, event: &Event<'_>) -> bool {
        match event {
            Event::Text(text) => self.push_text(text),
            Event::Code(code) => {
                self.push_literal(code, self.style().patch(self.options.theme.code))
            }
            Event::InlineMath(math) => self.push_formula(math, "$"),
            Event::DisplayMath(math) => self.push_formula(math, "$$"),
            Event::InlineHtml(html) if self.in_table_cell && is_line_break(html) => {
                self.push_line_break()
            }
            Event::InlineHtml(html) => self.push_text(html),
            Event::FootnoteReference(label) => {
                self.push_literal(
                    &format!("[^{label}]"),
                    self.style().patch(self.options.theme.link),
                );
            }
            Event::SoftBreak | Event::HardBreak => self.push_line_break(),
            Event::Start(Tag::Emphasis) => self.open(Style::PLAIN.italic()),
            Event::Start(Tag::Strong) => self.open(Style::PLAIN.bold()),
            Event::Start(Tag::Strikethrough) => self.open(Style::PLAIN.with(Attributes::STRIKE)),
            Event::Start(
                Tag::Link { dest_url, link_type, .. } | Tag::Image { dest_url, link_type, .. },
            ) => {
                self.open(self.options.theme.link);
                let target = sanitize::one_row(dest_url);
                // For a link in an image's text or the other way round, the outer one is used.
                if self.link.is_none() {
                    let href = links::href(&target);
                    let brackets = retains_brackets(*link_type, &target);
                    let text = String::new();
                    self.link = Some(OpenLink { target: target.into(), href, text, brackets });
                    if brackets {
                        self.push("<".to_owned(), self.options.base, None);
                    }
                }
            }
            Event::End(TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough) => self.close(),
            Event::End(TagEnd::Link | TagEnd::Image) => {
                self.close();
                self.end_link();
            }
            _ => return false,
        }
        true
    }

    fn open(&mut self, over: Style) {
        self.flush();
        self.styles.push(self.style().patch(over));
    }

    fn close(&mut self) {
        self.flush();
        if self.styles.len() > 1 {
            self.styles.pop();
        }
    }

    fn end_link(&mut self) {
        let Some(link) = self.link.take() else { return };
        if link.brackets {
            return self.push(">".to_owned(), self.style(), None);
        }
        let shown = link.text.trim();
        let bare = |text: &str| text.trim_start_matches("mailto:").trim_end_matches('/').to_owned();
        if !link.target.is_empty() && bare(shown) != bare(&link.target) {
            let behind = if shown.is_empty() {
                link.target.to_string()
            } else {
                format!(" ({})", link.target)
            };
            self.push(behind, self.options.theme.secondary, link.href);
        }
    }

    /// Adds text with its tabs and line breaks replaced.
    pub(super) fn push_text(&mut self, text: &str) {
        let text = sanitize::one_row(text);
        if let Some(link) = &mut self.link {
            link.text.push_str(&text);
        }
        self.pending.push_str(&text);
    }

    /// Adds text with its own style, which is not searched for URLs and formulas.
    pub(super) fn push_literal(&mut self, text: &str, style: Style) {
        self.flush();
        let text = sanitize::one_row(text);
        let href = self.link.as_mut().and_then(|link| {
            link.text.push_str(&text);
            link.href.clone()
        });
        self.push(text.into_owned(), style, href);
    }

    fn push_formula(&mut self, math: &str, delimiter: &str) {
        // A single dollar sign is more often money or a variable than a formula; two are also a
        // shell's process id.
        let calculates = delimiter == "$$" && math.contains(['=', '+', '-', '_', '{']);
        if calculates || latex::is_formula(math) {
            let math = sanitize::one_row(math);
            let unicode = latex::to_unicode(math.trim());
            self.push_literal(&unicode, self.style().italic());
        } else {
            self.push_text(&format!("{delimiter}{math}{delimiter}"));
        }
    }

    fn push_line_break(&mut self) {
        self.flush();
        self.lines.push(std::mem::take(&mut self.current));
    }

    fn flush(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let text = std::mem::take(&mut self.pending);
        let style = self.style();
        if let Some(link) = &self.link {
            let href = link.href.clone();
            self.push(text, style, href);
            return;
        }
        let text = latex::fragments(&text);
        let linked = style.patch(self.options.theme.link);
        for (piece, href) in links::split_urls(&text) {
            let style = if href.is_some() { linked } else { style };
            self.push(piece.to_owned(), style, href);
        }
    }

    fn push(&mut self, text: String, style: Style, link: Option<Arc<str>>) {
        if !text.is_empty() {
            self.current.push(Span { text: text.into(), style, link });
        }
    }

    /// Returns the lines; none for a block without text.
    pub(super) fn end(mut self) -> Vec<Line> {
        self.flush();
        if !self.current.spans.is_empty() {
            self.lines.push(self.current);
        }
        self.lines
    }
}
