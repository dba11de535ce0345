//! An answer of the model: a stream while it comes, a shared text afterwards.

use std::sync::Arc;

use parallax_screen::{Line, Span};

use super::ViewOptions;
use super::draw::Draw;
use crate::highlight::{is_loaded, wait_a_moment};
use crate::layout::prefixed;
use crate::markdown::{self, StreamedMarkdown};

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    /// All of it, once it is over; before that what came so far.
    text: Text,
    /// While rows of it may still be given out. One that was loaded needs none:
    /// it is rendered when it is seen.
    stream: Option<Box<StreamedMarkdown>>,
    /// Whether rows of it were given out.
    given: bool,
    /// The attempt broke.
    dropped: bool,
    /// For a view that shows the whole answer while it comes.
    seen: Option<Box<Seen>>,
}

/// All rows of an answer that still comes: those that are final are kept.
#[derive(Debug)]
struct Seen {
    stream: StreamedMarkdown,
    /// How much of the text the stream has.
    fed: usize,
    rows: Vec<Line>,
    width: usize,
    theme: String,
    options: ViewOptions,
    /// Whether code in it could have its colours.
    coloured: bool,
}

#[derive(Debug)]
enum Text {
    Coming(String),
    Whole(Arc<String>),
}

/// What is left when an answer breaks whose rows are in the scrollback.
const BROKEN: &str = "The answer was interrupted here; it restarts below";

impl Answer {
    pub(super) fn new() -> Self {
        Self {
            text: Text::Coming(String::new()),
            stream: Some(Box::new(StreamedMarkdown::new())),
            given: false,
            dropped: false,
            seen: None,
        }
    }

    /// One that is over, and of which no row was given out.
    pub(super) fn whole(text: Arc<String>) -> Self {
        Self { text: Text::Whole(text), stream: None, given: false, dropped: false, seen: None }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.text, Text::Coming(_))
    }

    pub(super) fn push(&mut self, more: &str) {
        if let Text::Coming(text) = &mut self.text {
            text.push_str(more);
            if let Some(stream) = &mut self.stream {
                stream.push(more);
            }
        }
    }

    /// The answer is over; `whole` is all of it.
    pub(super) fn end(&mut self, whole: Arc<String>, dropped: bool) {
        if let (Text::Coming(text), Some(stream)) = (&self.text, &mut self.stream)
            && *text != *whole
        {
            match whole.strip_prefix(text.as_str()) {
                Some(missing) => stream.push(missing),
                // Rows in the scrollback stay as they are.
                None if self.given => {}
                None => {
                    **stream = StreamedMarkdown::new();
                    stream.push(&whole);
                }
            }
        }
        self.text = Text::Whole(whole);
        self.dropped = dropped;
        self.seen = None;
    }

    pub(super) fn text(&self) -> &str {
        match &self.text {
            Text::Coming(text) => text,
            Text::Whole(text) => text,
        }
    }

    /// Rows that are final and were not given out.
    pub(super) fn take_finished(&mut self, draw: &Draw<'_>) -> Vec<Line> {
        let first = !self.given;
        if self.is_open() {
            let Some(stream) = &mut self.stream else { return Vec::new() };
            let rows = stream.take_finished(&look(draw));
            self.given |= !rows.is_empty();
            return signed(rows, first, draw);
        }
        let stream = self.stream.take();
        if self.dropped {
            return if self.given { vec![broken(draw)] } else { Vec::new() };
        }
        let rows = match stream {
            Some(mut stream) => stream.finish(&look(draw)),
            None if first => {
                if ["```", "~~~"].iter().any(|fence| self.text().contains(fence)) {
                    wait_a_moment();
                }
                markdown::render(self.text(), &look(draw))
            }
            None => Vec::new(),
        };
        self.given |= !rows.is_empty();
        signed(rows, first, draw)
    }

    /// Rows that were not given out, as they look now.
    pub(super) fn rest(&mut self, draw: &Draw<'_>) -> Vec<Line> {
        let first = !self.given;
        match &mut self.stream {
            _ if self.dropped => Vec::new(),
            Some(stream) => signed(stream.rest(&look(draw)), first, draw),
            None if first => self.rows(draw),
            None => Vec::new(),
        }
    }

    /// Whether rows of it were given out.
    pub(super) fn is_given(&self) -> bool {
        self.given
    }

    /// Whether it has rows at all.
    pub(super) fn is_shown(&self) -> bool {
        !self.dropped && !self.text().trim().is_empty()
    }

    /// All its rows, as [`Self::rows`], while more may come: only what is new is
    /// rendered.
    pub(super) fn growing_rows(&mut self, draw: &Draw<'_>) -> Vec<Line> {
        let Text::Coming(text) = &self.text else { return self.rows(draw) };
        let current = self.seen.take().filter(|seen| {
            seen.width == draw.width
                && seen.options == draw.options
                && seen.theme == draw.theme.name
                && seen.coloured == is_loaded()
        });
        let mut seen = current.unwrap_or_else(|| {
            Box::new(Seen {
                stream: StreamedMarkdown::new(),
                fed: 0,
                rows: Vec::new(),
                width: draw.width,
                theme: draw.theme.name.clone(),
                options: draw.options,
                coloured: is_loaded(),
            })
        });
        seen.stream.push(text.get(seen.fed..).unwrap_or(""));
        seen.fed = text.len();
        let first = seen.rows.is_empty();
        let more = seen.stream.take_finished(&look(draw));
        seen.rows.extend(signed(more, first, draw));
        let mut rows = seen.rows.clone();
        rows.extend(signed(seen.stream.rest(&look(draw)), rows.is_empty(), draw));
        self.seen = Some(seen);
        rows
    }

    /// All its rows, given out or not.
    pub(super) fn rows(&self, draw: &Draw<'_>) -> Vec<Line> {
        if self.dropped {
            return Vec::new();
        }
        signed(markdown::render(self.text(), &look(draw)), true, draw)
    }
}

fn look<'a>(draw: &Draw<'a>) -> markdown::Look<'a> {
    markdown::Look {
        width: if draw.options.screen_reader { draw.width } else { draw.width.saturating_sub(2) },
        line_numbers: draw.options.line_numbers,
        plain: draw.options.screen_reader,
        raw: draw.options.raw_markdown,
        ..markdown::Look::new(draw.theme, draw.width)
    }
}

/// Puts the sign of the model before the first row, and the others in line.
fn signed(rows: Vec<Line>, first: bool, draw: &Draw<'_>) -> Vec<Line> {
    if draw.options.screen_reader {
        let head = (first && !rows.is_empty()).then(|| Line::raw("Model:"));
        return head.into_iter().chain(rows).collect();
    }
    let sign = [Span::styled("✦ ", draw.theme.symbol)];
    let indent = [Span::raw("  ")];
    let put = |(index, row): (usize, Line)| match (first && index == 0, row.spans.is_empty()) {
        (true, _) => prefixed(&sign, row),
        (false, true) => row,
        (false, false) => prefixed(&indent, row),
    };
    rows.into_iter().enumerate().map(put).collect()
}

fn broken(draw: &Draw<'_>) -> Line {
    let sign = if draw.options.screen_reader { "" } else { "↻ " };
    Line::styled(format!("{sign}{BROKEN}"), draw.theme.warning)
}
