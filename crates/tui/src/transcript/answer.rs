//! An answer of the model: a stream while it arrives, shared text afterwards.

use std::sync::Arc;

use parallax_screen::{Line, Span, wrap};

use super::ViewOptions;
use super::draw::ItemRenderer;
use crate::highlight::{is_loaded, wait_a_moment};
use crate::layout::with_prefix;
use crate::markdown::{self, StreamedMarkdown};

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    /// The whole text when it is complete, before that what arrived so far.
    text: AnswerText,
    /// The stream while rows may still be returned for the scrollback. A loaded answer needs none:
    /// it is rendered when it is shown.
    stream: Option<Box<StreamedMarkdown>>,
    /// Whether rows were returned for the scrollback.
    is_committed: bool,
    /// Whether the attempt failed.
    is_dropped: bool,
    /// The cached rows for views that show the whole answer while it arrives.
    row_cache: Option<Box<AnswerRowCache>>,
}

/// The rows of an answer that is still arriving; final rows are cached.
#[derive(Debug)]
struct AnswerRowCache {
    stream: StreamedMarkdown,
    /// How many bytes of the text the stream has received.
    streamed_bytes: usize,
    rows: Vec<Line>,
    width: usize,
    theme: String,
    options: ViewOptions,
    /// Whether the rows were rendered with syntax highlighting available.
    colored: bool,
}

#[derive(Debug)]
enum AnswerText {
    Streaming(String),
    Complete(Arc<String>),
}

/// The note after a broken answer whose rows are in the scrollback.
const BROKEN: &str = "The answer was interrupted here; it restarts below";

impl Answer {
    pub(super) fn new() -> Self {
        Self {
            text: AnswerText::Streaming(String::new()),
            stream: Some(Box::new(StreamedMarkdown::new())),
            is_committed: false,
            is_dropped: false,
            row_cache: None,
        }
    }

    /// Creates a complete answer of which no row was returned for the scrollback.
    pub(super) fn complete(text: Arc<String>) -> Self {
        Self {
            text: AnswerText::Complete(text),
            stream: None,
            is_committed: false,
            is_dropped: false,
            row_cache: None,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.text, AnswerText::Streaming(_))
    }

    pub(super) fn push(&mut self, more: &str) {
        if let AnswerText::Streaming(text) = &mut self.text {
            text.push_str(more);
            if let Some(stream) = &mut self.stream {
                stream.push(more);
            }
        }
    }

    /// Ends the answer; `whole` is its complete text.
    pub(super) fn end(&mut self, whole: Arc<String>, dropped: bool) {
        if let (AnswerText::Streaming(text), Some(stream)) = (&self.text, &mut self.stream)
            && *text != *whole
        {
            match whole.strip_prefix(text.as_str()) {
                Some(missing) => stream.push(missing),
                // Rows in the scrollback cannot change.
                None if self.is_committed => {}
                None => {
                    **stream = StreamedMarkdown::new();
                    stream.push(&whole);
                }
            }
        }
        self.text = AnswerText::Complete(whole);
        self.is_dropped = dropped;
        self.row_cache = None;
    }

    pub(super) fn text(&self) -> &str {
        match &self.text {
            AnswerText::Streaming(text) => text,
            AnswerText::Complete(text) => text,
        }
    }

    /// Returns final rows not returned before.
    pub(super) fn take_finished(&mut self, renderer: &ItemRenderer<'_>) -> Vec<Line> {
        let first = !self.is_committed;
        if self.is_open() {
            let Some(stream) = &mut self.stream else { return Vec::new() };
            let rows = stream.take_finished(&render_options(renderer));
            self.is_committed |= !rows.is_empty();
            return with_answer_marker(rows, first, renderer);
        }
        let stream = self.stream.take();
        if self.is_dropped {
            return if self.is_committed { interruption_notice(renderer) } else { Vec::new() };
        }
        let rows = match stream {
            Some(mut stream) => stream.finish(&render_options(renderer)),
            None if first => {
                if ["```", "~~~"].iter().any(|fence| self.text().contains(fence)) {
                    wait_a_moment();
                }
                markdown::render(self.text(), &render_options(renderer))
            }
            None => Vec::new(),
        };
        self.is_committed |= !rows.is_empty();
        with_answer_marker(rows, first, renderer)
    }

    /// Returns the rows not returned before, as they look now.
    pub(super) fn remaining_rows(&mut self, renderer: &ItemRenderer<'_>) -> Vec<Line> {
        let first = !self.is_committed;
        let mut rows = match &mut self.stream {
            _ if self.is_dropped => Vec::new(),
            Some(stream) => with_answer_marker(
                stream.remaining_rows(&render_options(renderer)),
                first,
                renderer,
            ),
            None if first => self.rows(renderer),
            None => Vec::new(),
        };
        if renderer.is_transient {
            // What is painted over stays as short as its text.
            rows.iter_mut().for_each(|row| row.fill_style = None);
        }
        rows
    }

    /// Whether rows were returned for the scrollback.
    pub(super) fn is_committed(&self) -> bool {
        self.is_committed
    }

    /// Whether the answer has any rows.
    pub(super) fn is_shown(&self) -> bool {
        !self.is_dropped && !self.text().trim().is_empty()
    }

    /// Like [`Self::rows`] while more text may arrive: renders only what is new.
    pub(super) fn growing_rows(&mut self, renderer: &ItemRenderer<'_>) -> Vec<Line> {
        let AnswerText::Streaming(text) = &self.text else { return self.rows(renderer) };
        let current = self.row_cache.take().filter(|seen| {
            seen.width == renderer.width
                && seen.options == renderer.options
                && seen.theme == renderer.theme.name
                && seen.colored == is_loaded()
        });
        let mut seen = current.unwrap_or_else(|| {
            Box::new(AnswerRowCache {
                stream: StreamedMarkdown::new(),
                streamed_bytes: 0,
                rows: Vec::new(),
                width: renderer.width,
                theme: renderer.theme.name.clone(),
                options: renderer.options,
                colored: is_loaded(),
            })
        });
        seen.stream.push(text.get(seen.streamed_bytes..).unwrap_or(""));
        seen.streamed_bytes = text.len();
        let first = seen.rows.is_empty();
        let more = seen.stream.take_finished(&render_options(renderer));
        seen.rows.extend(with_answer_marker(more, first, renderer));
        let mut rows = seen.rows.clone();
        rows.extend(with_answer_marker(
            seen.stream.remaining_rows(&render_options(renderer)),
            rows.is_empty(),
            renderer,
        ));
        self.row_cache = Some(seen);
        rows
    }

    /// Returns all rows, whether returned before or not.
    pub(super) fn rows(&self, renderer: &ItemRenderer<'_>) -> Vec<Line> {
        if self.is_dropped {
            return Vec::new();
        }
        with_answer_marker(markdown::render(self.text(), &render_options(renderer)), true, renderer)
    }
}

fn render_options<'a>(renderer: &ItemRenderer<'a>) -> markdown::RenderOptions<'a> {
    markdown::RenderOptions {
        width: if renderer.options.screen_reader {
            renderer.width
        } else {
            renderer.width.saturating_sub(2)
        },
        line_numbers: renderer.options.line_numbers,
        plain: renderer.options.screen_reader,
        raw: renderer.options.raw_markdown,
        ..markdown::RenderOptions::new(renderer.theme, renderer.width)
    }
}

/// Puts the model's marker before the first row and indents the others.
fn with_answer_marker(rows: Vec<Line>, first: bool, renderer: &ItemRenderer<'_>) -> Vec<Line> {
    if renderer.options.screen_reader {
        let head = (first && !rows.is_empty()).then(|| Line::raw("Model:"));
        return head.into_iter().chain(rows).collect();
    }
    let marker = [Span::styled("✦ ", renderer.theme.symbol)];
    let indent = [Span::raw("  ")];
    let add_marker = |(index, row): (usize, Line)| match (first && index == 0, row.spans.is_empty())
    {
        (true, _) => with_prefix(&marker, row),
        (false, true) => row,
        (false, false) => with_prefix(&indent, row),
    };
    rows.into_iter().enumerate().map(add_marker).collect()
}

fn interruption_notice(renderer: &ItemRenderer<'_>) -> Vec<Line> {
    let text = match renderer.options.screen_reader {
        true => BROKEN.to_owned(),
        false => format!("{} {BROKEN}", crate::tokens::RETRY),
    };
    wrap(&Line::styled(text, renderer.theme.warning), renderer.width, &[])
}
