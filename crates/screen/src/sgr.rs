//! SGR sequences: the shortest change from one style to the next, in the colors of the terminal.

use crate::style::{Attributes, Color, Style};

/// The color depth of the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ColorDepth {
    /// No colors: `NO_COLOR`, or a terminal without colors. Attributes are still shown.
    None,
    /// 16 colors.
    Ansi16,
    /// 256 colors.
    Ansi256,
    /// 24-bit colors.
    True,
}

/// The attributes with their codes for setting and resetting.
const ATTRIBUTES: [(Attributes, u8, u8); 6] = [
    (Attributes::BOLD, 1, 22),
    (Attributes::DIM, 2, 22),
    (Attributes::ITALIC, 3, 23),
    (Attributes::UNDERLINE, 4, 24),
    (Attributes::REVERSE, 7, 27),
    (Attributes::STRIKE, 9, 29),
];

/// Writes the sequence that changes the style.
pub(crate) fn change(output: &mut Vec<u8>, from: Style, to: Style, depth: ColorDepth) {
    if from == to {
        return;
    }
    if to == Style::PLAIN {
        output.extend_from_slice(b"\x1b[m");
        return;
    }
    let mut codes = SgrWriter { output, has_started: false };
    // Bold and faint are reset together.
    let weight = Attributes::BOLD.0 | Attributes::DIM.0;
    let weight_lost = from.attributes.0 & !to.attributes.0 & weight != 0;
    let mut have = from.attributes.0;
    if weight_lost {
        codes.push_number(22);
        have &= !weight;
    }
    for (attribute, set, reset) in ATTRIBUTES {
        let (had, wants) = (have & attribute.0 != 0, to.attributes.contains(attribute));
        if wants && !had {
            codes.push_number(set);
        } else if had && !wants {
            codes.push_number(reset);
        }
    }
    if depth > ColorDepth::None {
        if from.fg != to.fg {
            codes.push_color(to.fg, depth, 30);
        }
        if from.bg != to.bg {
            codes.push_color(to.bg, depth, 40);
        }
    }
    codes.end();
}

struct SgrWriter<'a> {
    output: &'a mut Vec<u8>,
    has_started: bool,
}

impl SgrWriter<'_> {
    fn push_number(&mut self, code: u8) {
        self.output.extend_from_slice(if self.has_started { b";" } else { b"\x1b[" });
        self.has_started = true;
        number(self.output, usize::from(code));
    }

    fn push_color(&mut self, color: Option<Color>, depth: ColorDepth, base: u8) {
        match color.map(|color| reduce(color, depth)) {
            None => self.push_number(base + 9),
            Some(Color::Ansi(index)) if index < 8 => self.push_number(base + index),
            Some(Color::Ansi(index)) => self.push_number(base + 60 + (index & 7)),
            Some(Color::Indexed(index)) => {
                self.push_number(base + 8);
                self.push_number(5);
                self.push_number(index);
            }
            Some(Color::Rgb(red, green, blue)) => {
                self.push_number(base + 8);
                self.push_number(2);
                self.push_number(red);
                self.push_number(green);
                self.push_number(blue);
            }
        }
    }

    fn end(self) {
        if self.has_started {
            self.output.push(b'm');
        }
    }
}

/// Writes a number in decimal digits.
pub(crate) fn number(out: &mut Vec<u8>, value: usize) {
    if value >= 10 {
        number(out, value / 10);
    }
    // The remainder is a single digit.
    out.push(b'0' + u8::try_from(value % 10).unwrap_or(0));
}

/// Returns the nearest color that the terminal supports.
pub(crate) fn reduce(color: Color, depth: ColorDepth) -> Color {
    match (color, depth) {
        (Color::Rgb(red, green, blue), ColorDepth::Ansi256) => {
            Color::Indexed(nearest_256((red, green, blue)))
        }
        (Color::Rgb(red, green, blue), ColorDepth::Ansi16) => {
            Color::Ansi(nearest_16((red, green, blue)))
        }
        (Color::Indexed(index), ColorDepth::Ansi16) if index < 16 => Color::Ansi(index),
        (Color::Indexed(index), ColorDepth::Ansi16) => Color::Ansi(nearest_16(rgb_of(index))),
        (color, _) => color,
    }
}

type Rgb = (u8, u8, u8);

const CUBE: [u8; 6] = [0, 95, 135, 175, 215, 255];

const SIXTEEN: [Rgb; 16] = [
    (0, 0, 0),
    (205, 0, 0),
    (0, 205, 0),
    (205, 205, 0),
    (0, 0, 238),
    (205, 0, 205),
    (0, 205, 205),
    (229, 229, 229),
    (127, 127, 127),
    (255, 0, 0),
    (0, 255, 0),
    (255, 255, 0),
    (92, 92, 255),
    (255, 0, 255),
    (0, 255, 255),
    (255, 255, 255),
];

/// Returns the usual RGB value of a color in the 256-color palette.
fn rgb_of(index: u8) -> Rgb {
    match index {
        0..16 => SIXTEEN.get(usize::from(index)).copied().unwrap_or_default(),
        16..232 => {
            let at = index - 16;
            let level = |step: u8| CUBE.get(usize::from(step)).copied().unwrap_or(0);
            (level(at / 36), level(at / 6 % 6), level(at % 6))
        }
        232.. => {
            let level = 8 + (index - 232) * 10;
            (level, level, level)
        }
    }
}

fn difference(a: Rgb, b: Rgb) -> u32 {
    let square = |a: u8, b: u8| u32::from(a.abs_diff(b)).pow(2);
    // The eye is most sensitive to green and least to blue.
    3 * square(a.0, b.0) + 4 * square(a.1, b.1) + 2 * square(a.2, b.2)
}

fn nearest_256(color: Rgb) -> u8 {
    (16..=255).min_by_key(|index| difference(color, rgb_of(*index))).unwrap_or(16)
}

/// Colors whose strongest and weakest parts differ by less are grays.
const GRAY: u8 = 48;

/// Returns one of 16 colors. A color keeps its hue: by distance alone, the soft colors of most
/// themes would all become gray, and errors would look like text.
fn nearest_16(color: Rgb) -> u8 {
    let (red, green, blue) = color;
    let (most, least) = (red.max(green).max(blue), red.min(green).min(blue));
    if most - least < GRAY {
        let distance = |index: &u8| difference(color, rgb_of(*index));
        return [0, 7, 8, 15].into_iter().min_by_key(distance).unwrap_or(7);
    }
    let range = i32::from(most - least);
    let part = |more: u8, less: u8| 60 * (i32::from(more) - i32::from(less)) / range;
    let degrees = match most {
        _ if most == red => part(green, blue),
        _ if most == green => 120 + part(blue, red),
        _ => 240 + part(red, green),
    };
    let hue = match degrees.rem_euclid(360) {
        20..75 => 3,
        75..165 => 2,
        165..195 => 6,
        195..260 => 4,
        260..330 => 5,
        _ => 1,
    };
    let is_bright = u16::from(most) + u16::from(least) >= 255;
    if is_bright { hue + 8 } else { hue }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(from: Style, to: Style, depth: ColorDepth) -> String {
        let mut out = Vec::new();
        change(&mut out, from, to, depth);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn only_changed_attributes_are_sent() {
        let bold = Style::PLAIN.bold();
        let red = bold.patch(Style::fg(Color::Ansi(1)));
        assert_eq!(bytes(Style::PLAIN, bold, ColorDepth::True), "\x1b[1m");
        assert_eq!(bytes(bold, red, ColorDepth::True), "\x1b[31m");
        assert_eq!(bytes(red, Style::fg(Color::Ansi(9)), ColorDepth::True), "\x1b[22;91m");
        assert_eq!(bytes(red, Style::PLAIN, ColorDepth::True), "\x1b[m");
        assert_eq!(bytes(bold.dim(), bold, ColorDepth::True), "\x1b[22;1m");
    }

    #[test]
    fn colors_are_reduced_to_the_available_depth() {
        let orange = Style::fg(Color::Rgb(255, 135, 0));
        assert_eq!(bytes(Style::PLAIN, orange, ColorDepth::True), "\x1b[38;2;255;135;0m");
        assert_eq!(bytes(Style::PLAIN, orange, ColorDepth::Ansi256), "\x1b[38;5;208m");
        assert_eq!(
            bytes(Style::PLAIN, Style::fg(Color::Rgb(250, 5, 5)), ColorDepth::Ansi16),
            "\x1b[91m"
        );
        for (soft, code) in [((221, 112, 122), 91), ((223, 189, 126), 93), ((27, 122, 56), 32)] {
            let style = Style::fg(Color::Rgb(soft.0, soft.1, soft.2));
            let expected = format!("\x1b[{code}m");
            assert_eq!(bytes(Style::PLAIN, style, ColorDepth::Ansi16), expected, "{soft:?}");
        }
        let gray = Style::fg(Color::Rgb(143, 149, 178));
        assert_eq!(bytes(Style::PLAIN, gray, ColorDepth::Ansi16), "\x1b[90m");
        assert_eq!(bytes(Style::PLAIN, orange, ColorDepth::None), "");
        assert_eq!(bytes(Style::PLAIN, orange.bold(), ColorDepth::None), "\x1b[1m");
    }
}
