//! Parses, mixes, and compares colors.

use crate::sgr::reduce;
use crate::{Color, ColorDepth};

use super::css;

/// The terminal's colors by the names used in themes.
const ANSI: &[(&str, u8)] = &[
    ("black", 0),
    ("red", 1),
    ("green", 2),
    ("yellow", 3),
    ("blue", 4),
    ("magenta", 5),
    ("cyan", 6),
    ("white", 7),
    ("gray", 8),
    ("grey", 8),
    ("blackbright", 8),
    ("redbright", 9),
    ("greenbright", 10),
    ("yellowbright", 11),
    ("bluebright", 12),
    ("magentabright", 13),
    ("cyanbright", 14),
    ("whitebright", 15),
];

/// Approximate RGB values of the terminal's colors, for mixing.
const ANSI_RGB: [(u8, u8, u8); 16] = [
    (0, 0, 0),
    (190, 40, 40),
    (30, 150, 60),
    (180, 140, 20),
    (50, 90, 200),
    (160, 60, 170),
    (20, 150, 160),
    (200, 200, 200),
    (110, 110, 110),
    (240, 90, 90),
    (80, 210, 110),
    (240, 210, 80),
    (100, 150, 250),
    (220, 120, 230),
    (90, 210, 220),
    (255, 255, 255),
];

/// Parses `#rgb`, `#rrggbb`, a terminal color, or a CSS name.
pub fn parse_color(text: &str) -> Option<Color> {
    if let Some(hex) = text.strip_prefix('#') {
        // `from_str_radix` would accept a sign.
        if !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let value = u32::from_str_radix(hex, 16).ok()?;
        return match hex.len() {
            3 => {
                let [_, red, green, blue] =
                    (((value & 0xf00) << 8 | (value & 0xf0) << 4 | value & 0xf) * 0x11)
                        .to_be_bytes();
                Some(Color::Rgb(red, green, blue))
            }
            6 => Some(rgb(value)),
            _ => None,
        };
    }
    let name = text.to_ascii_lowercase();
    if let Some((_, index)) = ANSI.iter().find(|(known, _)| *known == name) {
        return Some(Color::Ansi(*index));
    }
    let at = css::NAMES.binary_search_by(|(known, _)| (*known).cmp(&name)).ok()?;
    css::NAMES.get(at).map(|(_, value)| rgb(*value))
}

/// Returns the color `0xrrggbb`.
pub(super) const fn rgb(value: u32) -> Color {
    let [_, red, green, blue] = value.to_be_bytes();
    Color::Rgb(red, green, blue)
}

/// Returns red, green, and blue of a color; approximate for terminal colors.
pub(super) fn parts(color: Color) -> (u8, u8, u8) {
    match color {
        Color::Rgb(red, green, blue) => (red, green, blue),
        Color::Ansi(index) => ANSI_RGB[usize::from(index) % 16],
        Color::Indexed(index @ 0..16) => ANSI_RGB[usize::from(index)],
        Color::Indexed(index @ 16..232) => {
            let step = |value: u8| if value == 0 { 0 } else { 55 + 40 * value };
            let cube = index - 16;
            (step(cube / 36), step(cube / 6 % 6), step(cube % 6))
        }
        Color::Indexed(index) => {
            let gray = 8 + 10 * (index - 232);
            (gray, gray, gray)
        }
    }
}

/// Mixes two colors; `share` (0 to 1) is that of the second.
pub fn mix(first: Color, second: Color, share: f32) -> Color {
    let (first, second) = (parts(first), parts(second));
    let part = |first: u8, second: u8| {
        let value =
            f32::from(first) + (f32::from(second) - f32::from(first)) * share.clamp(0.0, 1.0);
        // Between 0 and 255 by construction.
        value.round() as u8
    };
    Color::Rgb(part(first.0, second.0), part(first.1, second.1), part(first.2, second.2))
}

/// The minimum contrast between text and background (WCAG AA).
pub(super) const CONTRAST: f32 = 4.5;

/// Returns the contrast of two colors, from 1 to 21.
pub(super) fn contrast(first: Color, second: Color) -> f32 {
    let luminance = |color: Color| {
        let (red, green, blue) = parts(color);
        let linear = |part: u8| {
            let part = f32::from(part) / 255.0;
            if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)
    };
    let (first, second) = (luminance(first), luminance(second));
    (first.max(second) + 0.05) / (first.min(second) + 0.05)
}

/// Makes the color lighter or darker until it is legible on all backgrounds. On a background of the
/// 256-color palette, the result is also one of its colors.
pub(super) fn ensure_contrast(color: Color, behind: &[Color]) -> Color {
    let is_dark = behind.first().is_none_or(|behind| !is_light(parts(*behind)));
    let end = if is_dark { Color::Rgb(255, 255, 255) } else { Color::Rgb(0, 0, 0) };
    let has_palette = matches!(behind.first(), Some(Color::Indexed(_)));
    let depth = if has_palette { ColorDepth::Ansi256 } else { ColorDepth::True };
    let shades = (0_u8..=20).map(|step| reduce(mix(color, end, f32::from(step) / 20.0), depth));
    let reads = |shade: &Color| behind.iter().all(|behind| contrast(*shade, *behind) >= CONTRAST);
    let mut shades = shades.skip_while(|shade| !reads(shade));
    shades.next().unwrap_or(end)
}

/// Whether a background needs dark text.
pub fn is_light((red, green, blue): (u8, u8, u8)) -> bool {
    let weighted = 2126 * u32::from(red) + 7152 * u32::from(green) + 722 * u32::from(blue);
    weighted > 10_000 * 127
}
