//! Renders diffs as rows with line numbers, signs, and highlighted changed words.

mod hunks;
mod marks;

use std::path::Path;

use parallax_protocol::tool::FileDiff;
use parallax_screen::{Line, Span, Style};

use crate::highlight::{Highlighter, Pieces, Role};
use crate::layout::{count, space_wrap, truncate_text};
use crate::sanitize;
use crate::theme::Theme;
use hunks::{DiffRow, LineChange};
use marks::WordMarks;

/// The markers before added or removed lines.
const SIGNS: [&str; 4] = ["+ ", "- ", "added: ", "removed: "];

/// Display options of a diff.
#[derive(Debug, Clone, Copy)]
pub struct DiffOptions<'a> {
    /// The theme.
    pub theme: &'a Theme,
    /// The width in columns.
    pub width: usize,
    /// The maximum number of rows; the last one shows how many are missing.
    pub max_rows: usize,
    /// Whether to use words instead of colors, for screen readers.
    pub plain: bool,
}

impl<'a> DiffOptions<'a> {
    /// Options without a row limit.
    pub fn new(theme: &'a Theme, width: usize) -> Self {
        Self { theme, width, max_rows: usize::MAX, plain: false }
    }
}

/// Returns the rows of a change. The lines of a new file are highlighted as code.
pub fn rows(diff: &FileDiff, options: &DiffOptions<'_>) -> Vec<Line> {
    let changes = hunks::parse(&diff.diff);
    let mut page = RowCollector::new(&changes, options);
    let only_added =
        changes.iter().all(|row| matches!(row, DiffRow::Line { change: LineChange::Added, .. }));
    if changes.is_empty() {
        page.note(if diff.is_new_file { "a new empty file" } else { "no changes" });
    } else if diff.is_new_file && only_added {
        new_file(&changes, &diff.file_path, &mut page);
    } else {
        if hunks::only_whitespace_changed(&changes) {
            page.note("only whitespace changed");
        }
        render_changes(&changes, &diff.file_path, &mut page);
    }
    page.end()
}

/// Returns the index of the first changed row, or 0 if there is none.
pub fn first_change(rows: &[Line]) -> usize {
    let is_change = |row: &Line| row.spans.iter().take(2).any(|span| SIGNS.contains(&&*span.text));
    rows.iter().position(is_change).unwrap_or(0)
}

/// Returns a highlighter for the file.
fn highlighter(path: &Path) -> Highlighter {
    let name = path.extension().or_else(|| path.file_name()).unwrap_or_default();
    Highlighter::new(&name.to_string_lossy())
}

/// Syntax highlighting for both sides of a change.
struct ChangeHighlighting {
    old: Highlighter,
    new: Highlighter,
    path: std::path::PathBuf,
}

impl ChangeHighlighting {
    fn new(path: &Path) -> Self {
        Self { old: highlighter(path), new: highlighter(path), path: path.to_owned() }
    }

    /// Returns the pieces of the next row.
    fn next_row_spans(&mut self, row: &DiffRow<'_>) -> Pieces {
        match row {
            DiffRow::Line { change: LineChange::Added, text, .. } => self.new.line(text),
            DiffRow::Line { change: LineChange::Removed, text, .. } => self.old.line(text),
            DiffRow::Line { text, .. } => {
                self.old.line(text);
                self.new.line(text)
            }
            // The omitted lines may have changed the state of the grammar.
            DiffRow::Gap => {
                *self = Self::new(&self.path);
                Pieces::new()
            }
        }
    }
}

fn new_file(changes: &[DiffRow<'_>], path: &Path, page: &mut RowCollector<'_>) {
    let mut highlighter = highlighter(path);
    let [added, _, added_in_words, _] = SIGNS;
    let sign = if page.options.plain { added_in_words } else { added };
    let style = page.options.theme.added;
    for row in changes {
        let DiffRow::Line { text, new, .. } = row else { continue };
        if page.is_full() {
            page.skip(1);
            continue;
        }
        let text = sanitize::line_in_full(text.strip_suffix('\r').unwrap_or(text));
        let pieces = highlighter.line(&text);
        let options = crate::markdown::RenderOptions::new(page.options.theme, page.options.width);
        let mut spans = crate::markdown::code_spans(&text, &pieces, &options);
        for span in &mut spans {
            span.style = on_row(span.style, style, page.options.theme);
        }
        page.push_line(*new, sign, spans, style);
    }
}

fn render_changes(changes: &[DiffRow<'_>], path: &Path, page: &mut RowCollector<'_>) {
    let theme = page.options.theme;
    // Without a grammar, the whole text shows what was added and removed.
    let is_highlighted = theme.colors_code() && highlighter(path).has_grammar();
    let mut code = is_highlighted.then(|| ChangeHighlighting::new(path));
    let mut pieces = |row: &DiffRow<'_>| match &mut code {
        Some(code) => code.next_row_spans(row),
        None => Pieces::new(),
    };
    let mut at = 0;
    while at < changes.len() {
        // Removed lines and their replacements.
        let kind = |at: usize| match changes.get(at) {
            Some(DiffRow::Line { change, .. }) => Some(*change),
            _ => None,
        };
        let mut end = at;
        while kind(end) == Some(LineChange::Removed) {
            end += 1;
        }
        let middle = end;
        while kind(end) == Some(LineChange::Added) {
            end += 1;
        }
        if at == end {
            if let Some(row) = changes.get(at) {
                let pieces = if page.is_full() { Pieces::new() } else { pieces(row) };
                page.push_row(row, (&WordMarks::new(), &pieces), Style::PLAIN, Style::PLAIN);
            }
            at += 1;
            continue;
        }
        if page.is_full() {
            page.skip(end - at);
        } else {
            let (removed, added) = (&changes[at..middle], &changes[middle..end]);
            let (old, new) = marks::mark_words(removed, added);
            for (row, marks) in removed.iter().zip(&old) {
                page.push_row(row, (marks, &pieces(row)), theme.removed, theme.removed_word);
            }
            for (row, marks) in added.iter().zip(&new) {
                page.push_row(row, (marks, &pieces(row)), theme.added, theme.added_word);
            }
        }
        at = end;
    }
}

/// Returns the style of text in a row. Without a tint, the text has its own color.
fn on_row(text: Style, row: Style, theme: &Theme) -> Style {
    let text = Style { bg: None, ..text };
    match row.bg {
        Some(_) => theme.on_tint(text, row),
        None => Style { attributes: text.attributes.union(row.attributes), ..text },
    }
}

/// Splits a line into stretches of one style: the end of each, whether it changed, and its role in
/// code.
fn style_runs(
    length: usize,
    marks: &[(usize, bool)],
    pieces: &[(usize, Role)],
) -> Vec<(usize, bool, Option<Role>)> {
    let mut ends: Vec<usize> =
        marks.iter().map(|mark| mark.0).chain(pieces.iter().map(|piece| piece.0)).collect();
    ends.push(length);
    ends.retain(|end| *end <= length);
    ends.sort_unstable();
    ends.dedup();
    let offset = |end: usize| {
        let marked = marks.iter().find(|mark| mark.0 >= end).is_some_and(|mark| mark.1);
        let role = pieces.iter().find(|piece| piece.0 >= end).map(|piece| piece.1);
        (end, marked, role)
    };
    ends.into_iter().map(offset).collect()
}

/// Collects rows up to the maximum.
struct RowCollector<'l> {
    options: &'l DiffOptions<'l>,
    digits: usize,
    rows: Vec<Line>,
    /// Number of lines that did not fit.
    hidden: usize,
}

impl<'l> RowCollector<'l> {
    fn new(changes: &[DiffRow<'_>], options: &'l DiffOptions<'l>) -> Self {
        let largest = changes.iter().filter_map(|row| match row {
            DiffRow::Line { old, new, .. } => Some((*old).max(*new)),
            DiffRow::Gap => None,
        });
        let digits = largest.max().unwrap_or(0).to_string().len();
        Self { options, digits, rows: Vec::new(), hidden: 0 }
    }

    fn is_full(&self) -> bool {
        self.rows.len() >= self.options.max_rows
    }

    fn skip(&mut self, lines: usize) {
        self.hidden += lines;
    }

    fn note(&mut self, text: &str) {
        let text = truncate_text(text, self.options.width);
        self.rows.push(Line::styled(text, self.options.theme.secondary.italic()));
    }

    /// Adds a row with its changed words and code pieces.
    fn push_row(
        &mut self,
        row: &DiffRow<'_>,
        (marks, pieces): (&WordMarks, &Pieces),
        style: Style,
        word: Style,
    ) {
        let DiffRow::Line { change, text, old, new } = row else {
            if !self.is_full() {
                let sign = if self.options.plain { "…" } else { "⋯" };
                let gap = format!("{}{sign}", " ".repeat(self.digits.saturating_sub(1)));
                self.rows.push(Line::styled(gap, self.options.theme.secondary));
            }
            return;
        };
        if self.is_full() {
            self.hidden += 1;
            return;
        }
        let (number, sign) = match (change, self.options.plain) {
            (LineChange::Same, _) => (*new, "  "),
            (LineChange::Added, false) => (*new, SIGNS[0]),
            (LineChange::Removed, false) => (*old, SIGNS[1]),
            (LineChange::Added, true) => (*new, SIGNS[2]),
            (LineChange::Removed, true) => (*old, SIGNS[3]),
        };
        let (mut spans, mut start, mut column) = (Vec::new(), 0, 0);
        // The line ending is not part of the text.
        let text = text.strip_suffix('\r').unwrap_or(text);
        for (end, marked, role) in style_runs(text.len(), marks, pieces) {
            let piece = sanitize::line_in_full(text.get(start..end).unwrap_or(""));
            let piece = sanitize::expand_tabs(&piece, &mut column).into_owned();
            let own = match role {
                // Red and green would contradict a line without a tint.
                Some(Role::Plain | Role::Text) if style.bg.is_none() && style.fg.is_some() => style,
                Some(role) => on_row(role.style(self.options.theme), style, self.options.theme),
                None => style,
            };
            spans.push(Span::styled(piece, if marked { own.patch(word) } else { own }));
            start = end;
        }
        self.push_line(number, sign, spans, style);
    }

    /// Adds one line of the file: number, sign, and text, wrapped as needed.
    fn push_line(&mut self, number: usize, sign: &str, spans: Vec<Span>, style: Style) {
        let theme = self.options.theme;
        let gutter = format!("{number:>width$} ", width = self.digits);
        let used = gutter.len() + sign.len();
        // In a very narrow window the text matters more than its number.
        let (gutter, used) = if used + 4 > self.options.width {
            (String::new(), sign.len())
        } else {
            (gutter, used)
        };
        let blank = " ".repeat(gutter.len());
        let room = self.options.width.saturating_sub(used);
        let fill_style = style.bg.is_some().then_some(style);
        for (index, pieces) in space_wrap(spans, room).into_iter().enumerate() {
            let (number, sign) = match index {
                0 => (gutter.clone(), sign.to_owned()),
                _ => (blank.clone(), " ".repeat(sign.len())),
            };
            let number_style = on_row(theme.secondary, style, theme);
            let mut row = vec![
                Span::styled(number, number_style),
                Span::styled(sign, theme.diff_sign(style)),
            ];
            row.extend(pieces);
            row.retain(|span| !span.text.is_empty());
            self.rows.push(Line { spans: row, fill_style, picture: None });
        }
    }

    fn end(mut self) -> Vec<Line> {
        let limit = self.options.max_rows;
        if self.rows.len() > limit {
            // A wrapped line exceeded the maximum.
            self.rows.truncate(limit);
            self.hidden += 1;
        }
        if self.hidden > 0 {
            if self.rows.len() >= limit {
                self.rows.truncate(limit.saturating_sub(1));
                self.hidden += 1;
            }
            let text = truncate_text(
                &format!("… {}", count(self.hidden, "more line")),
                self.options.width,
            );
            self.rows.push(Line::styled(text, self.options.theme.secondary));
        }
        self.rows
    }
}

#[cfg(test)]
mod tests;
