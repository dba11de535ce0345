//! A row of styled text: what all parts of the interface draw, and the unit in which rows are
//! compared, painted, and moved to the scrollback.

use std::borrow::Cow;
use std::sync::Arc;

use crate::image::TerminalImage;
use crate::style::Style;
use crate::width::text_width;

/// Text with one style. Its control characters are never sent to the terminal.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Span {
    /// The text, without line breaks.
    pub text: Cow<'static, str>,
    /// The style.
    pub style: Style,
    /// The link target (OSC 8), if any.
    pub link: Option<Arc<str>>,
}

impl Span {
    /// Creates text in the default style.
    pub fn raw(text: impl Into<Cow<'static, str>>) -> Self {
        Self { text: text.into(), style: Style::PLAIN, link: None }
    }

    /// Creates text with a style.
    pub fn styled(text: impl Into<Cow<'static, str>>, style: Style) -> Self {
        Self { text: text.into(), style, link: None }
    }

    /// Returns the width in columns.
    pub fn width(&self) -> usize {
        text_width(&self.text)
    }
}

/// One row, or text to be wrapped into rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Line {
    /// The spans, left to right.
    pub spans: Vec<Span>,
    /// The style of the rest of the row up to the right edge; `None` leaves it empty.
    pub fill_style: Option<Style>,
    /// The image drawn after the spans, over this row and those below it
    /// ([`TerminalImage::lines`]). Only finished rows show it.
    pub picture: Option<Arc<TerminalImage>>,
}

impl Line {
    /// An empty row.
    pub const EMPTY: Self = Self { spans: Vec::new(), fill_style: None, picture: None };

    /// Creates a row in the default style.
    pub fn raw(text: impl Into<Cow<'static, str>>) -> Self {
        Self { spans: vec![Span::raw(text)], fill_style: None, picture: None }
    }

    /// Creates a row with one style.
    pub fn styled(text: impl Into<Cow<'static, str>>, style: Style) -> Self {
        Self { spans: vec![Span::styled(text, style)], fill_style: None, picture: None }
    }

    /// Appends a span.
    pub fn push(&mut self, span: Span) {
        self.spans.push(span);
    }

    /// Appends text with a style.
    #[must_use]
    pub fn with_span(mut self, text: impl Into<Cow<'static, str>>, style: Style) -> Self {
        self.spans.push(Span::styled(text, style));
        self
    }

    /// Sets the style up to the right edge.
    #[must_use]
    pub fn filled(mut self, style: Style) -> Self {
        self.fill_style = Some(style);
        self
    }

    /// Returns the width in columns.
    pub fn width(&self) -> usize {
        self.spans.iter().map(Span::width).sum()
    }

    /// Returns the text without styles.
    pub fn text(&self) -> String {
        self.spans.iter().map(|span| span.text.as_ref()).collect()
    }
}

impl From<Vec<Span>> for Line {
    fn from(spans: Vec<Span>) -> Self {
        Self { spans, fill_style: None, picture: None }
    }
}

impl TerminalImage {
    /// Returns the rows that the image occupies, after `indent` blank columns.
    pub fn lines(self: &Arc<Self>, indent: usize) -> Vec<Line> {
        let mut lines = vec![Line::EMPTY; self.size().1];
        if let Some(first) = lines.first_mut() {
            *first = Line::raw(" ".repeat(indent));
            first.picture = Some(Arc::clone(self));
        }
        lines
    }
}
