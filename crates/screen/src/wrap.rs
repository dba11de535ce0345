//! Wraps styled text at word boundaries.

use std::borrow::Cow;

use parallax_protocol::code_text::{is_deceptive, is_filler};
use unicode_segmentation::UnicodeSegmentation;

use crate::line::{Line, Span};
use crate::sanitize;
use crate::width::grapheme_width;

/// Wraps `line` into rows of at most `columns` columns: between words if possible, inside a word
/// that is too wide by itself. Rows after the first start with `indent`. Spaces at a break are
/// dropped. Control characters are spelled out. Always returns at least one row.
pub fn wrap(line: &Line, columns: usize, indent: &[Span]) -> Vec<Line> {
    let columns = columns.max(1);
    let is_hidden = |char: char| char != '\t' && (is_deceptive(char) || is_filler(char));
    if line.spans.iter().any(|span| span.text.contains(is_hidden)) {
        return wrap(&with_visible_characters(line), columns, indent);
    }
    if line.width() <= columns {
        return vec![line.clone()];
    }
    let indent_width: usize = indent.iter().map(Span::width).sum();
    // An indent that leaves no space for text is omitted.
    let (indent, indent_width) =
        if indent_width + 2 > columns { (&[][..], 0) } else { (indent, indent_width) };
    let mut rows = RowWrapper {
        columns,
        indent,
        indent_width,
        rows: Vec::new(),
        row: Vec::new(),
        used_columns: 0,
        has_started: false,
    };
    let mut word: Vec<(usize, &str)> = Vec::new();
    for (index, span) in line.spans.iter().enumerate() {
        for cluster in span.text.graphemes(true) {
            let is_space = cluster == " " || cluster == "\t";
            if is_space {
                rows.push_word(&mut word, line);
                rows.push_space(index, cluster, line);
            } else {
                word.push((index, cluster));
                // A break is possible anywhere between wide characters.
                if grapheme_width(cluster) == 2 {
                    rows.push_word(&mut word, line);
                }
            }
        }
    }
    rows.push_word(&mut word, line);
    rows.end(line)
}

/// Returns a line in which every character is visible.
pub fn with_visible_characters(line: &Line) -> Line {
    let mut line = line.clone();
    for span in &mut line.spans {
        if let Cow::Owned(full) = sanitize::line_in_full(&span.text) {
            span.text = full.into();
        }
    }
    line
}

/// Returns the columns of the longest word.
pub fn longest_word(line: &Line) -> usize {
    let (mut longest, mut word) = (0, 0);
    for cluster in line.spans.iter().flat_map(|span| span.text.graphemes(true)) {
        if cluster == " " || cluster == "\t" {
            word = 0;
            continue;
        }
        word += grapheme_width(cluster);
        longest = longest.max(word);
        if grapheme_width(cluster) == 2 {
            word = 0;
        }
    }
    longest
}

struct RowWrapper<'a> {
    columns: usize,
    indent: &'a [Span],
    indent_width: usize,
    rows: Vec<Line>,
    row: Vec<Span>,
    used_columns: usize,
    has_started: bool,
}

impl RowWrapper<'_> {
    fn push_cluster(&mut self, index: usize, cluster: &str, line: &Line) {
        let source = &line.spans[index];
        self.used_columns += grapheme_width(cluster);
        match self.row.last_mut() {
            Some(last)
                if self.has_started && last.style == source.style && last.link == source.link =>
            {
                last.text.to_mut().push_str(cluster);
            }
            _ => {
                self.row.push(Span {
                    text: cluster.to_owned().into(),
                    style: source.style,
                    link: source.link.clone(),
                });
                self.has_started = true;
            }
        }
    }

    fn push_space(&mut self, index: usize, cluster: &str, line: &Line) {
        if self.used_columns < self.columns {
            self.push_cluster(index, cluster, line);
        }
    }

    fn push_word(&mut self, word: &mut Vec<(usize, &str)>, line: &Line) {
        let width: usize = word.iter().map(|(_, cluster)| grapheme_width(cluster)).sum();
        let room = self.columns - self.indent_width;
        if self.used_columns + width > self.columns
            && (width <= room || self.used_columns >= self.columns)
        {
            self.break_row(line);
        }
        for (index, cluster) in word.drain(..) {
            if self.used_columns + grapheme_width(cluster) > self.columns {
                self.break_row(line);
            }
            self.push_cluster(index, cluster, line);
        }
    }

    fn break_row(&mut self, line: &Line) {
        // Only the indent: breaking would not help.
        if !self.has_started {
            return;
        }
        let mut row = std::mem::take(&mut self.row);
        while let Some(last) = row.last_mut() {
            let length = last.text.trim_end_matches([' ', '\t']).len();
            if length == last.text.len() {
                break;
            }
            if length == 0 {
                row.pop();
            } else {
                last.text.to_mut().truncate(length);
                break;
            }
        }
        self.rows.push(Line { spans: row, fill_style: line.fill_style, picture: None });
        self.row = self.indent.to_vec();
        self.used_columns = self.indent_width;
        self.has_started = false;
    }

    fn end(mut self, line: &Line) -> Vec<Line> {
        if self.has_started || self.rows.is_empty() {
            self.rows.push(Line { spans: self.row, fill_style: line.fill_style, picture: None });
        }
        self.rows
    }
}
