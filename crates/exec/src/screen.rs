//! The current screen of a command's terminal.

use std::fmt::Write as _;

use parallax_protocol::shell::Screen;
use vt100::{Cell, Color};

/// Live output of a command.
#[derive(Debug)]
pub enum LiveOutput<'a> {
    /// More text, as written by the command.
    Text(&'a str),
    /// The terminal screen after that text; only for commands with a terminal.
    Screen(Screen),
}

/// Reads the screen of the emulator.
pub(crate) fn screen_of(screen: &vt100::Screen, color: bool) -> Screen {
    let (rows, columns) = screen.size();
    let mut texts: Vec<String> =
        (0..rows.get()).map(|row| text_of(screen, row, columns.get(), color)).collect();
    let used = texts.iter().rposition(|text| !text.is_empty()).map_or(0, |last| last + 1);
    texts.truncate(used);
    Screen {
        rows: texts,
        scrolled: 0,
        cursor: (!screen.hide_cursor()).then(|| screen.cursor_position()),
        full_screen: screen.alternate_screen(),
        application_cursor: screen.application_cursor(),
    }
}

/// The style of a cell.
#[derive(Clone, Copy, PartialEq, Eq)]
struct CellStyle {
    foreground: Color,
    background: Color,
    bold: bool,
    dim: bool,
    italic: bool,
    underline: bool,
    inverse: bool,
}

impl CellStyle {
    const PLAIN: Self = Self {
        foreground: Color::Default,
        background: Color::Default,
        bold: false,
        dim: false,
        italic: false,
        underline: false,
        inverse: false,
    };

    fn from_cell(cell: &Cell) -> Self {
        Self {
            foreground: cell.fgcolor(),
            background: cell.bgcolor(),
            bold: cell.bold(),
            dim: cell.dim(),
            italic: cell.italic(),
            underline: cell.underline(),
            inverse: cell.inverse(),
        }
    }

    /// Whether a space in this style is invisible.
    fn is_invisible(self) -> bool {
        self.background == Color::Default && !self.inverse && !self.underline
    }

    /// Writes the sequence that sets exactly this style. Writing to a `String` cannot fail.
    fn write(self, text: &mut String) {
        text.push_str("\x1b[0");
        let flags = [
            (self.bold, ";1"),
            (self.dim, ";2"),
            (self.italic, ";3"),
            (self.underline, ";4"),
            (self.inverse, ";7"),
        ];
        flags.into_iter().filter(|(on, _)| *on).for_each(|(_, code)| text.push_str(code));
        for (color, base) in [(self.foreground, 30), (self.background, 40)] {
            let _ = match color {
                Color::Default => Ok(()),
                Color::Idx(index @ 0..=7) => write!(text, ";{}", base + u16::from(index)),
                Color::Idx(index @ 8..=15) => write!(text, ";{}", base + 52 + u16::from(index)),
                Color::Idx(index) => write!(text, ";{};5;{index}", base + 8),
                Color::Rgb(red, green, blue) => {
                    write!(text, ";{};2;{red};{green};{blue}", base + 8)
                }
            };
        }
        text.push('m');
    }
}

fn text_of(screen: &vt100::Screen, row: u16, columns: u16, color: bool) -> String {
    let mut text = String::new();
    let mut style = CellStyle::PLAIN;
    // Spaces that are written only if something follows them.
    let mut pending_spaces = 0;
    for column in 0..columns {
        let Some(cell) = screen.cell(row, column) else { continue };
        if cell.is_wide_continuation() {
            continue;
        }
        let cell_style = if color { CellStyle::from_cell(cell) } else { CellStyle::PLAIN };
        let is_blank = matches!(cell.contents(), "" | " ");
        if is_blank && cell_style.is_invisible() {
            pending_spaces += 1;
            continue;
        }
        if pending_spaces > 0 {
            if !style.is_invisible() {
                style = CellStyle::PLAIN;
                style.write(&mut text);
            }
            text.extend(std::iter::repeat_n(' ', std::mem::take(&mut pending_spaces)));
        }
        if cell_style != style {
            style = cell_style;
            style.write(&mut text);
        }
        text.push_str(if is_blank { " " } else { cell.contents() });
    }
    if style != CellStyle::PLAIN {
        CellStyle::PLAIN.write(&mut text);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use super::*;

    fn render_screen(bytes: &str, color: bool) -> Screen {
        let size = |number| NonZeroU16::new(number).unwrap();
        let mut parser = vt100::Parser::new(size(5), size(20), 0);
        parser.process(bytes.as_bytes());
        screen_of(parser.screen(), color)
    }

    #[test]
    fn progress_bar_renders_as_one_row() {
        let screen = render_screen("building\r\n [=>  ] 1/3\r\x1b[K [==> ] 2/3", true);
        assert_eq!(screen.rows, ["building", " [==> ] 2/3"]);
        assert_eq!((screen.cursor, screen.full_screen), (Some((1, 11)), false));
    }

    #[test]
    fn rows_keep_their_colors_and_reset_at_the_end() {
        let screen = render_screen("\x1b[1;31mred\x1b[0m  \x1b[48;5;200mx\x1b[0m  \x1b[94my", true);
        assert_eq!(screen.rows, ["\x1b[0;1;31mred  \x1b[0;48;5;200mx\x1b[0m  \x1b[0;94my\x1b[0m"]);
        assert_eq!(render_screen("\x1b[31mred", false).rows, ["red"]);
    }

    #[test]
    fn full_screen_program_is_detected() {
        let drawn = "\x1b[?1049h\x1b[?1h\x1b[?25l\x1b[3;3H漢字";
        let screen = render_screen(drawn, true);
        assert_eq!(screen.rows, ["", "", "  漢字"]);
        assert!(screen.full_screen && screen.application_cursor);
        assert_eq!(screen.cursor, None);
    }
}
