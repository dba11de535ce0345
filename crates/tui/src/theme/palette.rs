//! A theme from a handful of colours.

use parallax_screen::{Color, Style};

use super::Theme;
use super::color::{mix, parts};

/// The share of grey in the band of the composer.
const INPUT: f32 = 0.24;
/// The share of gray in the background of prompts.
const MESSAGE: f32 = 0.16;
/// The share of colour in the band of what has the keys.
const FOCUS: f32 = 0.2;
/// How much stronger the changed words of a diff are than their row.
const WORD: f32 = 0.28;

/// The colours of a theme. `None` is the terminal's own.
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
    /// Behind added rows.
    pub(super) added: Option<Color>,
    /// Behind removed rows.
    pub(super) removed: Option<Color>,
    pub(super) gradient: Vec<Color>,
    /// Bands that are not to be mixed.
    pub(super) message: Option<Color>,
    pub(super) input: Option<Color>,
    pub(super) focus: Option<Color>,
}

impl Palette {
    pub(super) fn theme(self, name: &str, light: bool) -> Theme {
        let style = |fg: Option<Color>| Style { fg, ..Style::PLAIN };
        let faint = |fg: Option<Color>| if fg.is_some() { style(fg) } else { Style::PLAIN.dim() };
        let text = style(self.text);
        let row = |behind: Option<Color>, sign: Option<Color>| match behind {
            Some(behind) => text.on(behind),
            None => style(sign),
        };
        let word = |behind: Option<Color>, sign: Option<Color>| match (behind, sign) {
            (Some(behind), Some(sign)) => text.on(mix(behind, sign, WORD)).bold(),
            _ => style(sign).bold().underline(),
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
            selected: style(self.purple).bold(),
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
            // Without a background, prompts need a color of their own.
            theme.user = style(self.cyan);
        }
        theme.band = self.message.or(theme.band);
        theme.input_band = self.input.or(theme.input_band);
        theme.focus_band = self.focus.or(theme.focus_band);
        theme
    }
}

/// Mixes the bands from a background.
pub(super) fn set_bands(theme: &mut Theme, background: (u8, u8, u8), gray: Color, focus: Color) {
    let background = Color::Rgb(background.0, background.1, background.2);
    theme.band = Some(mix(background, gray, MESSAGE));
    theme.input_band = Some(mix(background, gray, INPUT));
    theme.focus_band = Some(mix(background, focus, FOCUS));
}
