//! Rows as text, with a description of their styles, for tests.

use crate::{Color, Line, Span, Style};

/// Returns each row, followed by `‹…›` with the columns and style of everything that is not plain.
pub fn describe_rows(rows: &[Line]) -> String {
    let mut text = String::new();
    for row in rows {
        let marks = marks(row);
        let line = row.text();
        text.push_str(if marks.is_empty() { line.trim_end() } else { &line });
        if !marks.is_empty() {
            text.push_str(&format!("  ‹{}›", marks.join(" ")));
        }
        text.push('\n');
    }
    text
}

fn marks(row: &Line) -> Vec<String> {
    let mut marks: Vec<(usize, usize, String)> = Vec::new();
    let mut column = 0;
    for span in &row.spans {
        let end = column + span.width();
        let style = style(span);
        match marks.last_mut() {
            Some((_, last, same)) if *last == column && *same == style => *last = end,
            _ if !style.is_empty() && end > column => marks.push((column, end, style)),
            _ => {}
        }
        column = end;
    }
    let mut marks: Vec<String> =
        marks.into_iter().map(|(start, end, style)| format!("{start}-{end}:{style}")).collect();
    marks.extend(row.fill_style.map(|fill| format!("fill:{}", describe_style(fill))));
    marks
}

fn style(span: &Span) -> String {
    let mut style = describe_style(span.style);
    if let Some(link) = &span.link {
        style.push_str(&format!("→{link}"));
    }
    style
}

fn describe_style(style: Style) -> String {
    let color = |color: Color| match color {
        Color::Ansi(index) | Color::Indexed(index) => index.to_string(),
        Color::Rgb(red, green, blue) => format!("#{red:02x}{green:02x}{blue:02x}"),
    };
    let mut text = style.fg.map(color).unwrap_or_default();
    text.extend(style.bg.map(|behind| format!("/{}", color(behind))));
    let names = ["b", "d", "i", "u", "r", "s"];
    text.extend(
        names
            .iter()
            .enumerate()
            .filter(|(bit, _)| style.attributes.0 & 1 << bit != 0)
            .map(|(_, name)| *name),
    );
    text
}
