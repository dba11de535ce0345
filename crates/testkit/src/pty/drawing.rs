//! Draws a terminal window as an SVG image.

use std::fmt::Write as _;

use avt::{Color, Pen};

use super::Emulator;

const CELL_WIDTH: f64 = 8.4;
const LINE_HEIGHT: f64 = 18.0;
const FONT_SIZE: f64 = 14.0;
/// The distance from the top of a row to the baseline.
const FOOT: f64 = 13.5;
const MARGIN: f64 = 14.0;
const BAR: f64 = 30.0;
const FONTS: &str = "'DejaVu Sans Mono', ui-monospace, Menlo, Consolas, monospace";

/// The colors of a terminal: the 16 palette colors and the default ones.
#[derive(Debug, Clone, Copy)]
pub struct Palette {
    /// The default text color.
    pub foreground: u32,
    /// The default background color.
    pub background: u32,
    /// The color of the title bar.
    pub bar: u32,
    /// Black to white, then the bright colors.
    pub colors: [u32; 16],
}

impl Palette {
    /// Light text on a dark background.
    pub const DARK: Self = Self {
        foreground: 0xd5_d9_e0,
        background: 0x16_18_1d,
        bar: 0x23_26_2e,
        colors: [
            0x2b_2f_38, 0xff_7b_72, 0x7e_e7_87, 0xe3_b3_41, 0x79_c0_ff, 0xd2_a8_ff, 0x56_d4_dd,
            0xd5_d9_e0, 0x6e_76_81, 0xff_a1_98, 0xa5_f3_ac, 0xf2_cc_60, 0xa5_d6_ff, 0xe2_c5_ff,
            0x9e_ee_f4, 0xff_ff_ff,
        ],
    };

    /// Dark text on a light background.
    pub const LIGHT: Self = Self {
        foreground: 0x1f_23_28,
        background: 0xff_ff_ff,
        bar: 0xe8_eb_ef,
        colors: [
            0x1f_23_28, 0xc4_1e_2b, 0x11_63_29, 0x7d_4e_00, 0x09_50_b0, 0x7a_3c_c4, 0x0b_6b_77,
            0x6e_77_81, 0x57_60_6a, 0xa4_0e_26, 0x1a_7f_37, 0x95_60_00, 0x21_8b_ff, 0xa4_75_f9,
            0x31_92_aa, 0x8c_95_9f,
        ],
    };

    fn rgb(&self, color: Color) -> u32 {
        match color {
            Color::RGB(rgb) => u32::from_be_bytes([0, rgb.r, rgb.g, rgb.b]),
            Color::Indexed(index) => match self.colors.get(usize::from(index)) {
                Some(color) => *color,
                None if index >= 232 => (8 + 10 * u32::from(index - 232)) * 0x01_01_01,
                None => {
                    let cube = u32::from(index) - 16;
                    let level = |step: u32| if step == 0 { 0 } else { 55 + 40 * step };
                    level(cube / 36) << 16 | level(cube / 6 % 6) << 8 | level(cube % 6)
                }
            },
        }
    }

    /// Returns the text and background colors of a cell.
    fn cell_colors(&self, pen: &Pen) -> (u32, Option<u32>) {
        let mut fore = pen.foreground().map_or(self.foreground, |color| self.rgb(color));
        let mut back = pen.background().map(|color| self.rgb(color));
        if pen.is_inverse() {
            (fore, back) = (back.unwrap_or(self.background), Some(fore));
        }
        if pen.is_faint() {
            fore = mix_colors(fore, back.unwrap_or(self.background));
        }
        (fore, back)
    }
}

/// Mixes the text color with the background, as for faint text.
fn mix_colors(fore: u32, back: u32) -> u32 {
    (0..3).map(|byte| byte * 8).fold(0, |color, shift| {
        let (fore, back) = (fore >> shift & 0xff, back >> shift & 0xff);
        color | (((fore * 3 + back * 2) / 5) << shift)
    })
}

/// Adjacent cells with the same style.
struct StyledRun {
    column: usize,
    width: usize,
    text: String,
    style: Pen,
}

/// Returns the window with a title bar as an SVG.
pub fn svg(emulator: &Emulator, title: &str, palette: &Palette) -> String {
    let (columns, rows) = emulator.size();
    // Empty rows at the bottom are omitted.
    let used =
        (0..rows).rev().find(|row| !runs(emulator, *row).is_empty()).map_or(1, |row| row + 1);
    let wide = column_x(columns) + 2.0 * MARGIN;
    let high = BAR + down(used) + 2.0 * MARGIN;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{wide}\" height=\"{high}\" \
         viewBox=\"0 0 {wide} {high}\">\n\
         <rect width=\"{wide}\" height=\"{high}\" rx=\"8\" fill=\"#{:06x}\"/>\n\
         <path d=\"M0 {BAR}V8A8 8 0 0 1 8 0H{}A8 8 0 0 1 {wide} 8V{BAR}Z\" fill=\"#{:06x}\"/>\n",
        palette.background,
        wide - 8.0,
        palette.bar,
    );
    for (index, color) in [(0, "#ff5f57"), (1, "#febc2e"), (2, "#28c840")] {
        let at = MARGIN + 4.0 + 18.0 * f64::from(index);
        let _ =
            writeln!(out, "<circle cx=\"{at}\" cy=\"{}\" r=\"5.5\" fill=\"{color}\"/>", BAR / 2.0);
    }
    let _ = writeln!(
        out,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\" fill=\"#{:06x}\" \
         font-family=\"'DejaVu Sans', sans-serif\" font-size=\"12\">{}</text>\n\
         <g font-family=\"{FONTS}\" font-size=\"{FONT_SIZE}\" xml:space=\"preserve\">",
        wide / 2.0,
        BAR / 2.0 + 4.0,
        mix_colors(palette.foreground, palette.bar),
        escape_xml(title),
    );
    for row in 0..used {
        for run in runs(emulator, row) {
            draw(&mut out, &run, row, palette);
        }
    }
    if emulator.has_mode(25) {
        let (column, row) = emulator.cursor();
        let _ = writeln!(
            out,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{CELL_WIDTH}\" height=\"{LINE_HEIGHT}\" \
             fill=\"#{:06x}\" opacity=\"0.7\"/>",
            MARGIN + column_x(column),
            BAR + MARGIN + down(row),
            palette.foreground,
        );
    }
    out.push_str("</g>\n</svg>\n");
    out
}

fn draw(out: &mut String, run: &StyledRun, row: usize, palette: &Palette) {
    let (fore, back) = palette.cell_colors(&run.style);
    let (left, top) = (MARGIN + column_x(run.column), BAR + MARGIN + down(row));
    let width = column_x(run.width);
    if let Some(back) = back {
        let _ = writeln!(
            out,
            "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"#{back:06x}\"/>",
            width + 0.3,
            LINE_HEIGHT + 0.3,
        );
    }
    if run.text.trim().is_empty() {
        return;
    }
    let mut style = String::new();
    if run.style.is_bold() {
        style.push_str(" font-weight=\"bold\"");
    }
    if run.style.is_italic() {
        style.push_str(" font-style=\"italic\"");
    }
    match (run.style.is_underline(), run.style.is_strikethrough()) {
        (true, _) => style.push_str(" text-decoration=\"underline\""),
        (_, true) => style.push_str(" text-decoration=\"line-through\""),
        _ => {}
    }
    let _ = writeln!(
        out,
        "<text x=\"{left:.1}\" y=\"{:.1}\" fill=\"#{fore:06x}\"{style} textLength=\"{width:.1}\" \
         lengthAdjust=\"spacingAndGlyphs\">{}</text>",
        top + FOOT,
        escape_xml(&run.text),
    );
}

/// Returns the runs of a row, without spaces that have no color.
fn runs(emulator: &Emulator, row: usize) -> Vec<StyledRun> {
    let mut runs: Vec<StyledRun> = Vec::new();
    let mut column = 0;
    for cell in emulator.cells(row) {
        let width = usize::from(cell.width());
        if width == 0 {
            continue;
        }
        let plain_blank = cell.char() == ' '
            && cell.pen().background().is_none()
            && !cell.pen().is_inverse()
            && !cell.pen().is_underline();
        match runs.last_mut() {
            _ if plain_blank => {}
            // Wide characters are drawn separately, so that the fonts' widths do not matter.
            Some(last)
                if last.column + last.width == column
                    && last.style == *cell.pen()
                    && width == 1
                    && is_letter(cell.char())
                    && last.text.chars().all(is_letter) =>
            {
                last.text.push(cell.char());
                last.width += 1;
            }
            _ => runs.push(StyledRun {
                column,
                width,
                text: cell.char().to_string(),
                style: *cell.pen(),
            }),
        }
        column += width;
    }
    runs
}

/// Whether every terminal font has the character at its proper width.
fn is_letter(character: char) -> bool {
    character.is_ascii()
        || ('\u{a0}'..='\u{17f}').contains(&character)
        || ('\u{2500}'..='\u{257f}').contains(&character)
}

#[expect(clippy::cast_precision_loss, reason = "a window has few columns")]
fn column_x(columns: usize) -> f64 {
    columns as f64 * CELL_WIDTH
}

#[expect(clippy::cast_precision_loss, reason = "a window has few rows")]
fn down(rows: usize) -> f64 {
    rows as f64 * LINE_HEIGHT
}

fn escape_xml(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
