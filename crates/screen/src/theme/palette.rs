//! Builds a theme from a small palette.

use crate::{Attributes, Color, Style};

use super::Theme;
use super::color::{ensure_contrast, is_light, mix, parts};

/// The share of gray in the background of the composer.
const INPUT: f32 = 0.24;
/// The share of gray in the background of prompts.
const MESSAGE: f32 = 0.16;
/// The share of color in the background of the focused element.
const FOCUS: f32 = 0.2;
/// How much stronger the color of changed words is than that of their line.
pub(super) const WORD: f32 = 0.28;
/// The share of color behind diff lines on a dark background.
const DARK_ROW: f32 = 0.22;
/// The share of color behind diff lines on a light background.
const LIGHT_ROW: f32 = 0.16;
/// The base colors of added and removed lines.
const ADDED: Color = Color::Rgb(46, 160, 67);
const REMOVED: Color = Color::Rgb(222, 62, 56);

/// The usual colors of text on dark and on light backgrounds.
const LIGHT_TEXT: Color = Color::Rgb(222, 222, 222);
const DARK_TEXT: Color = Color::Rgb(38, 38, 38);
/// The color of faint text, before it is made legible.
pub(super) const FAINT: Color = Color::Rgb(128, 128, 128);

/// The colors of a theme. `None` is the terminal's default.
#[derive(Debug, Clone, Default)]
pub(super) struct Palette {
    pub(super) background: Option<Color>,
    pub(super) text: Option<Color>,
    pub(super) response: Option<Color>,
    pub(super) gray: Option<Color>,
    pub(super) border: Option<Color>,
    pub(super) comment: Option<Color>,
    pub(super) symbol: Option<Color>,
    pub(super) blue: Option<Color>,
    pub(super) purple: Option<Color>,
    pub(super) cyan: Option<Color>,
    pub(super) green: Option<Color>,
    pub(super) yellow: Option<Color>,
    pub(super) red: Option<Color>,
    pub(super) focused: Option<Color>,
    /// The background of added lines.
    pub(super) added: Option<Color>,
    /// The background of removed lines.
    pub(super) removed: Option<Color>,
    pub(super) gradient: Vec<Color>,
    /// Explicit background colors that are not mixed.
    pub(super) message: Option<Color>,
    pub(super) input: Option<Color>,
    pub(super) focus: Option<Color>,
}

impl Palette {
    pub(super) fn theme(self, name: &str, light: bool) -> Theme {
        let style = |fg: Option<Color>| Style { fg, ..Style::PLAIN };
        let faint = |fg: Option<Color>| if fg.is_some() { style(fg) } else { Style::PLAIN.dim() };
        let text = style(self.text);
        let row = |behind: Option<Color>, color: Option<Color>| match behind {
            Some(behind) => text.on(behind),
            None => style(color),
        };
        let word = |behind: Option<Color>, color: Option<Color>| match (behind, color) {
            (Some(behind), Some(color)) => text.on(mix(behind, color, WORD)).bold(),
            _ => style(color).bold().underline(),
        };
        let mut theme = Theme {
            name: name.to_owned(),
            light,
            text,
            secondary: faint(self.gray),
            link: style(self.blue),
            accent: style(self.purple),
            response: style(self.response.or(self.text)),
            user: text,
            code: style(self.cyan),
            border: faint(self.border.or(self.gray)),
            focused: style(self.focused.or(self.blue)),
            symbol: style(self.symbol.or(self.purple)),
            comment: faint(self.comment.or(self.gray)).italic(),
            success: style(self.green),
            warning: style(self.yellow),
            error: style(self.red),
            added: row(self.added, self.green),
            added_word: word(self.added, self.green),
            removed: row(self.removed, self.red),
            removed_word: word(self.removed, self.red),
            selected: Style { fg: self.background.and(self.purple), ..Style::PLAIN }
                .with(Attributes::REVERSE),
            band: None,
            input_band: None,
            focus_band: None,
            background: self.background,
            gradient: self.gradient,
            keyword: style(self.purple),
            string: style(self.green),
            number: style(self.yellow),
            function: style(self.blue),
            type_name: style(self.cyan),
        };
        if let Some(background) = self.background {
            let gray = self.gray.unwrap_or(Color::Rgb(128, 128, 128));
            let focus = self.focused.or(self.green).unwrap_or(gray);
            set_bands(&mut theme, parts(background), gray, focus);
        } else {
            // Without a background, prompts need their own color.
            theme.user = style(self.cyan);
        }
        theme.band = self.message.or(theme.band);
        theme.input_band = self.input.or(theme.input_band);
        theme.focus_band = self.focus.or(theme.focus_band);
        theme
    }
}

/// Mixes the background colors of prompts and input that the theme does not set.
pub(super) fn set_bands(theme: &mut Theme, background: (u8, u8, u8), gray: Color, focus: Color) {
    let background = Color::Rgb(background.0, background.1, background.2);
    theme.band.get_or_insert(mix(background, gray, MESSAGE));
    theme.input_band.get_or_insert(mix(background, gray, INPUT));
    theme.focus_band.get_or_insert(mix(background, focus, FOCUS));
}

/// Tints diff lines if the theme only colors their text.
pub(super) fn tint_diffs(theme: &mut Theme, background: (u8, u8, u8)) {
    let share = if is_light(background) { LIGHT_ROW } else { DARK_ROW };
    let background = Color::Rgb(background.0, background.1, background.2);
    let text = theme.text;
    let tint = |row: &mut Style, word: &mut Style, color: Color| {
        if row.bg.is_none() {
            let behind = mix(background, color, share);
            (*row, *word) = tinted(text, behind, mix(behind, color, WORD));
        }
    };
    tint(&mut theme.added, &mut theme.added_word, ADDED);
    tint(&mut theme.removed, &mut theme.removed_word, REMOVED);
}

/// Does the same with shades of the 256-color palette.
pub(super) fn apply_256_color_shades(theme: &mut Theme, is_light: bool) {
    let [band, added, added_word, removed, removed_word] =
        if is_light { [254, 194, 157, 224, 217] } else { [236, 22, 28, 52, 88] }
            .map(Color::Indexed);
    theme.band.get_or_insert(band);
    theme.input_band.get_or_insert(band);
    theme.focus_band.get_or_insert(band);
    let text = theme.text;
    if theme.added.bg.is_none() {
        (theme.added, theme.added_word) = tinted(text, added, added_word);
    }
    if theme.removed.bg.is_none() {
        (theme.removed, theme.removed_word) = tinted(text, removed, removed_word);
    }
}

/// Returns the styles of a line of a diff and of its changed words. The terminal's own text color
/// is not known, so text on tints has a color of its own.
fn tinted(text: Style, row: Color, word: Color) -> (Style, Style) {
    let usual = if is_light(parts(row)) { DARK_TEXT } else { LIGHT_TEXT };
    let fg = Some(ensure_contrast(text.fg.unwrap_or(usual), &[row, word]));
    let text = Style { fg, ..text };
    (text.on(row), text.on(word).bold())
}

/// Replaces the tints of diff lines by those of the 256-color palette. The nearest ones of a mixed
/// tint are grays, the same for added and removed lines.
pub(super) fn tint_by_index(theme: &mut Theme) {
    let (light, text) = (theme.light, theme.text);
    // A theme's text is chosen for its own tints.
    let tint = |style: Style| {
        let [row, word] = indexed_tints(style.fg, light).map(Color::Indexed);
        tinted(text, row, word)
    };
    (theme.added, theme.added_word) = tint(theme.success);
    (theme.removed, theme.removed_word) = tint(theme.error);
}

/// Returns the palette's tints of a line and of its changed words for the color of its sign.
fn indexed_tints(color: Option<Color>, light: bool) -> [u8; 2] {
    let (red, green, blue) = parts(color.unwrap_or(Color::Ansi(7)));
    let (most, least) = (red.max(green).max(blue), red.min(green).min(blue));
    let is_orange = i32::from(green) - i32::from(blue) > i32::from(most - least) / 3;
    match (light, most) {
        (false, _) if most == blue => [17, 18],
        (false, _) if most == green => [22, 28],
        (false, _) if is_orange => [58, 94],
        (false, _) => [52, 88],
        (true, _) if most == blue => [189, 153],
        (true, _) if most == green => [194, 157],
        (true, _) if is_orange => [230, 223],
        (true, _) => [224, 217],
    }
}

/// Colors the text of diff lines instead of their background, as the default theme does: sixteen
/// colors have no tints. Prompts get their own color instead of a band.
pub(super) fn remove_tints(theme: &mut Theme) {
    let without_background = |style: Style| Style { bg: None, ..style };
    let (added, removed) = (without_background(theme.success), without_background(theme.error));
    (theme.added, theme.added_word) = (added, added.bold().underline());
    (theme.removed, theme.removed_word) = (removed, removed.bold().underline());
    (theme.band, theme.input_band, theme.focus_band) = (None, None, None);
    theme.user = theme.code;
}
