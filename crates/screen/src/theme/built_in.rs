//! The built-in themes. The names are those of well-known themes; the colors were chosen for
//! Parallax to match them.

use crate::{Attributes, Color, Style};

use super::Theme;
use super::color::{ensure_contrast, mix, rgb};
use super::palette::{Palette, WORD};

pub(super) const NO_COLOR: &str = "NoColor";

/// A theme of 24-bit colors, in the order of [`COLORS`].
struct ThemeEntry {
    name: &'static str,
    light: bool,
    colors: [u32; 13],
}

/// Background, text, gray, border, comment, blue, purple, cyan, green, yellow, red, background of
/// added lines, background of removed lines.
#[rustfmt::skip]
const COLORS: &[ThemeEntry] = &[
    ThemeEntry { name: "Atom One", light: false, colors: [
        0x282b33, 0xaeb4c0, 0x818997, 0x444a56, 0x6b7382, 0x66aeea, 0xc47fd9, 0x5ab4bf, 0x9abf7d, 0xdfbd7e, 0xdd707a, 0x2c4034, 0x4a2e34] },
    ThemeEntry { name: "Ayu", light: false, colors: [
        0x0c1017, 0xbdb9b0, 0x6f7782, 0x2a313c, 0x626b78, 0x5cbcf5, 0xcfa2fb, 0x96dfc8, 0xaed653, 0xfdb45b, 0xee747b, 0x16301f, 0x3a1c22] },
    ThemeEntry { name: "Dracula", light: false, colors: [
        0x292b38, 0xf5f5ee, 0x8f95b2, 0x4a4d62, 0x6675a8, 0x8ccff2, 0xbb96f5, 0x86e6f7, 0x57f284, 0xeef493, 0xfa6063, 0x1f4431, 0x552b3a] },
    ThemeEntry { name: "GitHub", light: false, colors: [
        0x10151c, 0xe2e9f0, 0x8c95a0, 0x363d47, 0x868f9a, 0x62adfa, 0xcfa6fb, 0x80c9f8, 0x46b657, 0xd5a02b, 0xf4605a, 0x123020, 0x40191c] },
    ThemeEntry { name: "GitHub Dark Colorblind", light: false, colors: [
        0x10151c, 0xe2e9f0, 0x8c95a0, 0x363d47, 0x868f9a, 0x70b4ff, 0xcfa6fb, 0x9bd6fb, 0x5ba8ff, 0xe0bc52, 0xf0932f, 0x10305c, 0x4d2d0c] },
    ThemeEntry { name: "Holiday", light: false, colors: [
        0x0d2418, 0xf3eee0, 0x9db5a3, 0x2f5540, 0x8ba493, 0x82c7d8, 0xe6a3b4, 0xa7dcc5, 0x63c267, 0xf2ca4c, 0xeb4f4f, 0x1b4a2a, 0x55201f] },
    ThemeEntry { name: "Shades Of Purple", light: false, colors: [
        0x2c2b54, 0xe9e7fa, 0xa8a3d2, 0x524f8c, 0xb06cf0, 0x99ddfb, 0xfa9ad8, 0x84f4ec, 0xa7f06d, 0xf8d32c, 0xf0546a, 0x2b4a4e, 0x5a2a4e] },
    ThemeEntry { name: "Solarized Dark", light: false, colors: [
        0x052a34, 0x8b9a9b, 0x64787f, 0x1d4651, 0x5d7178, 0x2f8fd0, 0x7278c6, 0x2fa39a, 0x8a9b0c, 0xb88d0d, 0xd93a36, 0x133f26, 0x43242a] },
    ThemeEntry { name: "Tokyo Night", light: false, colors: [
        0x1b1c29, 0xbdc6ee, 0x7c84a8, 0x353a56, 0x5a648f, 0x7da5f2, 0xb89df3, 0x80d0fb, 0xa1d070, 0xdfb16b, 0xf37a92, 0x1f3a38, 0x43273a] },
    ThemeEntry { name: "Ayu Light", light: true, colors: [
        0xfbfbf9, 0x585e68, 0x848b93, 0xd6d9dc, 0x93999f, 0x2f86c9, 0x8e68c0, 0x3a9f85, 0x6d9106, 0xc07a10, 0xd9504f, 0xe0f2d4, 0xfbe0dd] },
    ThemeEntry { name: "GitHub Light", light: true, colors: [
        0xffffff, 0x20262d, 0x5c646e, 0xcfd6dd, 0x69727c, 0x0b62cf, 0x7c4cd8, 0x1b6b94, 0x1b7a38, 0x8f6106, 0xc9232f, 0xd9f6df, 0xffe2e0] },
    ThemeEntry { name: "GitHub Light Colorblind", light: true, colors: [
        0xffffff, 0x20262d, 0x5c646e, 0xcfd6dd, 0x69727c, 0x0b62cf, 0x7c4cd8, 0x1b6b94, 0x0a56b8, 0x8f6106, 0xae4c04, 0xd8eaff, 0xffe6cc] },
    ThemeEntry { name: "Google Code", light: true, colors: [
        0xfefefe, 0x1e1e1e, 0x666a6e, 0xd4d7da, 0x85212b, 0x1a2a99, 0x6a1a73, 0x116670, 0x0c7a1c, 0x8f5b00, 0xb3261e, 0xdff3e0, 0xfae0de] },
    ThemeEntry { name: "Solarized Light", light: true, colors: [
        0xfcf5e2, 0x5a6e75, 0x82918f, 0xdcd6c2, 0x8d9b9a, 0x2379bd, 0x6469bb, 0x238a82, 0x6f7f00, 0xa17803, 0xcf2f2b, 0xe6edc8, 0xf8dcd0] },
    ThemeEntry { name: "Xcode", light: true, colors: [
        0xfefefe, 0x18181a, 0x6c727a, 0xd2d5d9, 0x5f6b78, 0x1643c4, 0x9a1f8f, 0x2b6676, 0x1d7038, 0x85590a, 0xbf1f18, 0xddf2e0, 0xfbe0df] },
];

/// Returns the theme names in display order.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let of = |light: bool| {
        COLORS.iter().filter(move |entry| entry.light == light).map(|entry| entry.name)
    };
    ["Default", "ANSI"]
        .into_iter()
        .chain(of(false))
        .chain(["Default Light", "ANSI Light"])
        .chain(of(true))
        .chain([NO_COLOR])
}

pub(super) fn find_theme(name: &str) -> Option<Theme> {
    let is = |other: &str| name.eq_ignore_ascii_case(other);
    match () {
        () if is("Default") => Some(default()),
        () if is("Default Light") => Some(default_light()),
        () if is("ANSI") => Some(ansi("ANSI", false, 8)),
        () if is("ANSI Light") => Some(ansi("ANSI Light", true, 0)),
        () if is(NO_COLOR) || is("No Color") => Some(no_color()),
        () => COLORS.iter().find(|entry| is(entry.name)).map(build_theme),
    }
}

fn build_theme(entry: &ThemeEntry) -> Theme {
    let [
        background,
        text,
        gray,
        border,
        comment,
        blue,
        purple,
        cyan,
        green,
        yellow,
        red,
        added,
        removed,
    ] = entry.colors.map(|value| Some(rgb(value)));
    let behind: Vec<Color> = [background, added, removed].into_iter().flatten().collect();
    let reads = |color: Option<Color>| color.map(|color| ensure_contrast(color, &behind));
    let [gray, comment, blue, purple, cyan, green, yellow, red] =
        [gray, comment, blue, purple, cyan, green, yellow, red].map(reads);
    // Text must be legible on the changed words of a diff too.
    let word = |row: Option<Color>, accent: Option<Color>| Some(mix(row?, accent?, WORD));
    let words = [word(added, green), word(removed, red)].into_iter().flatten();
    let behind: Vec<Color> = behind.iter().copied().chain(words).collect();
    let text = text.map(|text| ensure_contrast(text, &behind));
    let gradient = [blue, purple, red].into_iter().flatten().collect();
    let palette = Palette {
        background,
        text,
        gray,
        border,
        comment,
        blue,
        purple,
        cyan,
        green,
        yellow,
        red,
        added,
        removed,
        gradient,
        ..Palette::default()
    };
    palette.theme(entry.name, entry.light)
}

/// Returns a theme of the terminal's colors: the normal ones, or (8) the bright ones.
fn ansi(name: &str, light: bool, bright: u8) -> Theme {
    let color = |index: u8| Some(Color::Ansi(index + bright));
    let palette = Palette {
        gray: Some(Color::Ansi(8)),
        blue: color(4),
        purple: color(5),
        cyan: color(6),
        green: color(2),
        // Yellow is not legible on a light background.
        yellow: if light { color(5) } else { color(3) },
        red: color(1),
        gradient: [color(4), color(5)].into_iter().flatten().collect(),
        ..Palette::default()
    };
    palette.theme(name, light)
}

pub(super) fn default() -> Theme {
    let gray = Style::PLAIN.dim();
    Theme { secondary: gray, border: gray, comment: gray.italic(), ..ansi("Default", false, 0) }
}

pub(super) fn default_light() -> Theme {
    Theme { name: "Default Light".to_owned(), ..Theme { light: true, ..default() } }
}

/// Returns the theme that uses bold, faint, underline, and strikethrough instead of colors.
pub(super) fn no_color() -> Theme {
    let plain = Style::PLAIN;
    let theme = Palette::default().theme(NO_COLOR, false);
    Theme {
        link: plain.underline(),
        user: plain.bold(),
        warning: plain.bold(),
        error: plain.bold(),
        added_word: plain.bold().underline(),
        removed: plain.dim(),
        removed_word: plain.underline(),
        selected: plain.with(Attributes::REVERSE),
        ..theme
    }
}
