//! Command output: colors are kept, other control sequences are removed, and overwritten lines
//! (`\r`) are shown in their final state.

use parallax_protocol::shell::Screen;
use parallax_screen::{Attributes, Color, Line, Span, Style};

use crate::layout::{count, hard_wrap};
use crate::sanitize::{self, TextSegment};
use crate::theme::Theme;

/// Maximum number of bytes kept, counted from the end.
const MAX_KEPT: usize = 200_000;

/// The output of a command.
#[derive(Debug, Clone, Default)]
pub(super) struct CommandOutput {
    text: String,
    /// Whether the beginning was dropped.
    is_truncated: bool,
    /// Number of lines known to precede the text.
    lines_before: usize,
    /// Whether the text is the contents of a terminal.
    is_screen: bool,
}

/// Returns the last `limit` bytes of a string, starting at a line if possible.
pub(super) fn tail_of(text: &str, limit: usize) -> &str {
    if text.len() <= limit {
        return text;
    }
    let tail = &text[text.ceil_char_boundary(text.len() - limit)..];
    tail.split_once('\n').map_or(tail, |(_, lines)| lines)
}

impl CommandOutput {
    pub(super) fn from_text(text: &str) -> Self {
        let tail = tail_of(text, MAX_KEPT);
        let is_truncated = tail.len() < text.len();
        Self { text: tail.to_owned(), is_truncated, ..Self::default() }
    }

    /// Returns the contents of a command's terminal.
    pub(super) fn from_screen(screen: &Screen) -> Self {
        let lines_before = usize::try_from(screen.scrolled).unwrap_or(usize::MAX);
        Self { lines_before, is_screen: true, ..Self::from_text(&screen.rows.join("\n")) }
    }

    /// Adds text. What a command writes to its terminal is followed by the terminal's new contents,
    /// which show it where it belongs.
    pub(super) fn push(&mut self, more: &str) {
        if self.is_screen {
            return;
        }
        self.text.push_str(more);
        if self.text.len() > MAX_KEPT {
            truncate_start(&mut self.text, MAX_KEPT);
            self.is_truncated = true;
        }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.trim().is_empty()
    }

    /// Returns the last `max_rows` rows, with a note above them if there are more.
    pub(super) fn rows(&self, columns: usize, max_rows: usize, theme: &Theme) -> Vec<Line> {
        let text = self.text.trim_end();
        let base = theme.secondary;
        // Only the end is parsed. Colors set above it are lost, so that not everything is parsed
        // for each frame.
        let limit = max_rows.saturating_mul(3).max(200);
        let start = if max_rows == usize::MAX {
            0
        } else {
            text.rmatch_indices('\n').nth(limit).map_or(0, |(offset, _)| offset + 1)
        };
        let mut style = Style::PLAIN;
        let mut rows = Vec::new();
        for line in text[start..].split('\n') {
            let spans = spans(line, base, &mut style);
            rows.extend(hard_wrap(spans, columns).into_iter().map(Line::from));
        }
        if text.is_empty() {
            rows.clear();
        }
        let lines_above = text[..start].matches('\n').count().saturating_add(self.lines_before);
        let hidden = rows.len().saturating_sub(max_rows);
        rows.drain(..hidden);
        let hidden = hidden.saturating_add(lines_above);
        if hidden > 0 || (self.is_truncated && max_rows == usize::MAX) {
            let lines = if self.is_truncated {
                "earlier output was discarded".to_owned()
            } else {
                count(hidden, "more line")
            };
            rows.insert(
                0,
                Line::styled(crate::layout::truncate_text(&format!("… {lines}"), columns), base),
            );
        }
        rows
    }
}

/// Parses a line into spans with colors; `set` is the style carried from line to line.
fn spans(line: &str, base: Style, set: &mut Style) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    let mut column = 0;
    // After a carriage return, further text replaces the line.
    let mut replace = false;
    for piece in sanitize::split_segments(line) {
        match piece {
            TextSegment::Control('\r') => replace = true,
            TextSegment::Control('\t') => {
                push(&mut spans, "\t", overlay_style(base, *set), &mut column, &mut replace)
            }
            TextSegment::Control(_) => {}
            TextSegment::Hidden(char) => {
                let shown = sanitize::code_point(char);
                push(&mut spans, &shown, overlay_style(base, *set), &mut column, &mut replace)
            }
            TextSegment::Sequence(sequence) => {
                if let Some(parameters) =
                    sequence.strip_prefix("\u{1b}[").and_then(|rest| rest.strip_suffix('m'))
                {
                    apply_color(parameters, set);
                }
            }
            TextSegment::Text(text) => {
                push(&mut spans, text, overlay_style(base, *set), &mut column, &mut replace)
            }
        }
    }
    spans
}

/// Applies the output's colors to the default style.
fn overlay_style(base: Style, set: Style) -> Style {
    if set.fg.is_some() || set.bg.is_some() { set } else { base.patch(set) }
}

fn push(spans: &mut Vec<Span>, text: &str, style: Style, column: &mut usize, replace: &mut bool) {
    if std::mem::take(replace) {
        spans.clear();
        *column = 0;
    }
    let text = sanitize::expand_tabs(text, column);
    match spans.last_mut() {
        Some(last) if last.style == style => last.text.to_mut().push_str(&text),
        _ => spans.push(Span::styled(text.into_owned(), style)),
    }
}

/// Applies the parameters of a color sequence (SGR).
fn apply_color(parameters: &str, style: &mut Style) {
    let mut numbers = parameters.split([';', ':']).map(|number| match number {
        "" => Some(0),
        number => number.parse::<u16>().ok(),
    });
    while let Some(number) = numbers.next() {
        let Some(number) = number else { return };
        let ansi = |base: u16, bright: u8| {
            Some(Color::Ansi(u8::try_from(number - base).unwrap_or(7) + bright))
        };
        match number {
            0 => *style = Style::PLAIN,
            1 => *style = style.bold(),
            2 => *style = style.dim(),
            3 => *style = style.italic(),
            4 => *style = style.underline(),
            7 => *style = style.with(Attributes::REVERSE),
            9 => *style = style.with(Attributes::STRIKE),
            22 => clear(style, Attributes::BOLD.union(Attributes::DIM)),
            23 => clear(style, Attributes::ITALIC),
            24 => clear(style, Attributes::UNDERLINE),
            27 => clear(style, Attributes::REVERSE),
            29 => clear(style, Attributes::STRIKE),
            30..=37 => style.fg = ansi(30, 0),
            40..=47 => style.bg = ansi(40, 0),
            90..=97 => style.fg = ansi(90, 8),
            100..=107 => style.bg = ansi(100, 8),
            39 => style.fg = None,
            49 => style.bg = None,
            38 | 48 => {
                let mut byte = || u8::try_from(numbers.next()??).ok();
                let color = match byte() {
                    Some(5) => byte().map(Color::Indexed),
                    Some(2) => match (byte(), byte(), byte()) {
                        (Some(red), Some(green), Some(blue)) => Some(Color::Rgb(red, green, blue)),
                        _ => None,
                    },
                    _ => None,
                };
                if number == 38 { style.fg = color } else { style.bg = color }
            }
            _ => {}
        }
    }
}

fn clear(style: &mut Style, attributes: Attributes) {
    style.attributes = Attributes(style.attributes.0 & !attributes.0);
}

/// Keeps only the end of a string.
fn truncate_start(text: &mut String, limit: usize) {
    if text.len() > limit {
        *text = tail_of(text, limit / 2).to_owned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rows_as_text(text: &str, columns: usize, limit: usize) -> Vec<String> {
        let rows = CommandOutput::from_text(text).rows(columns, limit, &Theme::default());
        rows.iter().map(Line::text).collect()
    }

    #[test]
    fn colors_are_kept_and_other_sequences_removed() {
        let rows = CommandOutput::from_text(
            "\u{1b}[1;31mred\u{1b}[0m \u{1b}[38;5;99mx\u{1b}[2Jy\nz\u{1b}]0;t\u{7}",
        )
        .rows(20, 9, &Theme::default());
        assert_eq!(rows[0].text(), "red xy");
        assert_eq!(rows[0].spans[0].style.fg, Some(Color::Ansi(1)));
        assert_eq!(rows[0].spans[2].style.fg, Some(Color::Indexed(99)));
        // A color carries over to the next line.
        assert_eq!(rows[1].spans[0].style.fg, Some(Color::Indexed(99)));
    }

    #[test]
    fn progress_output_shows_its_final_state() {
        assert_eq!(rows_as_text(" 10%\r 50%\r100%\r\ndone", 20, 9), ["100%", "done"]);
    }

    #[test]
    fn output_tail_is_shown_and_the_rest_counted() {
        let text: String = (0..500).map(|number| format!("{number}\n")).collect();
        assert_eq!(rows_as_text(&text, 20, 2), ["… 498 more lines", "498", "499"]);
    }

    #[test]
    fn text_written_to_a_terminal_waits_for_the_screen() {
        let screen = Screen { rows: vec!["line 1".to_owned()], ..Screen::default() };
        let mut output = CommandOutput::from_screen(&screen);
        output.push("line 2\n");
        assert_eq!(output.text(), "line 1");
    }

    #[test]
    fn rows_scrolled_off_a_command_screen_are_counted() {
        let rows = (11..31).map(|line| format!("line{line}")).collect();
        let screen = Screen { rows, scrolled: 10, ..Screen::default() };
        let rows = CommandOutput::from_screen(&screen).rows(20, 15, &Theme::default());
        assert_eq!(rows[0].text(), "… 15 more lines");
        assert_eq!(rows[1].text(), "line16");
    }

    proptest! {
        #[test]
        fn output_rows_fit_the_width(text in "(?s)[\u{0}-\u{7f}世界é]{0,200}", columns in 4usize..40) {
            for row in CommandOutput::from_text(&text).rows(columns, 5, &Theme::default()) {
                prop_assert!(row.width() <= columns);
                prop_assert!(!row.text().contains(char::is_control));
            }
        }
    }
}
