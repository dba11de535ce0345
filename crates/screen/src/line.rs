//! A row of styled text: what every part of the interface draws, and the unit in
//! which rows are compared, painted and given to the scrollback.

use std::borrow::Cow;
use std::sync::Arc;

use crate::picture::Picture;
use crate::style::Style;
use crate::width::text_width;

/// Text of one style. Control characters in it are never sent to the terminal.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Span {
    /// The text, without line breaks.
    pub text: Cow<'static, str>,
    /// How it looks.
    pub style: Style,
    /// Where it leads (OSC 8), if anywhere.
    pub link: Option<Arc<str>>,
}

impl Span {
    /// Text in the terminal's own look.
    pub fn raw(text: impl Into<Cow<'static, str>>) -> Self {
        Self { text: text.into(), style: Style::PLAIN, link: None }
    }

    /// Text of a style.
    pub fn styled(text: impl Into<Cow<'static, str>>, style: Style) -> Self {
        Self { text: text.into(), style, link: None }
    }

    /// How many columns it takes.
    pub fn width(&self) -> usize {
        text_width(&self.text)
    }
}

/// One row, or text that is to be wrapped into rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Line {
    /// Its pieces, left to right.
    pub spans: Vec<Span>,
    /// How the rest of the row looks, to the right edge; `None` leaves it empty.
    pub fill: Option<Style>,
    /// What is drawn from behind the spans on, over this row and those below it
    /// ([`Picture::lines`]). Only finished rows show it.
    pub picture: Option<Arc<Picture>>,
}

impl Line {
    /// An empty row.
    pub const EMPTY: Self = Self { spans: Vec::new(), fill: None, picture: None };

    /// Text in the terminal's own look.
    pub fn raw(text: impl Into<Cow<'static, str>>) -> Self {
        Self { spans: vec![Span::raw(text)], fill: None, picture: None }
    }

    /// Text of one style.
    pub fn styled(text: impl Into<Cow<'static, str>>, style: Style) -> Self {
        Self { spans: vec![Span::styled(text, style)], fill: None, picture: None }
    }

    /// Puts another piece behind.
    pub fn push(&mut self, span: Span) {
        self.spans.push(span);
    }

    /// With another piece behind.
    #[must_use]
    pub fn and(mut self, text: impl Into<Cow<'static, str>>, style: Style) -> Self {
        self.spans.push(Span::styled(text, style));
        self
    }

    /// With this look to the right edge.
    #[must_use]
    pub fn filled(mut self, style: Style) -> Self {
        self.fill = Some(style);
        self
    }

    /// How many columns it takes.
    pub fn width(&self) -> usize {
        self.spans.iter().map(Span::width).sum()
    }

    /// The text without its looks.
    pub fn text(&self) -> String {
        self.spans.iter().map(|span| span.text.as_ref()).collect()
    }
}

impl From<Vec<Span>> for Line {
    fn from(spans: Vec<Span>) -> Self {
        Self { spans, fill: None, picture: None }
    }
}
