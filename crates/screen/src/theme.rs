//! Styles by role. Everything that is drawn takes its style from here, so that a color has the same
//! meaning everywhere.

mod built_in;
mod color;
mod css;
mod custom;
mod palette;

use crate::{Attributes, Color, ColorDepth, Style};

pub use color::{is_light, mix, parse_color};
pub use custom::ThemeError;

/// A theme. The default uses only the terminal's 16 colors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Theme {
    /// The name, as in `/theme` and the setting `ui.theme`.
    pub name: String,
    /// Whether the theme is for light backgrounds.
    pub light: bool,
    /// Ordinary text.
    pub text: Style,
    /// Secondary text: hints, labels, counts.
    pub secondary: Style,
    /// Links and headings.
    pub link: Style,
    /// Highlighted elements: the selected row of a list, the prompt marker.
    pub accent: Style,
    /// The model's answers.
    pub response: Style,
    /// Prompts of the user.
    pub user: Style,
    /// Inline code.
    pub code: Style,
    /// Rules and borders.
    pub border: Style,
    /// The border of the focused element.
    pub focused: Style,
    /// Markers before rows.
    pub symbol: Style,
    /// Comments in code, and thoughts.
    pub comment: Style,
    /// Success.
    pub success: Style,
    /// Warnings.
    pub warning: Style,
    /// Errors.
    pub error: Style,
    /// Added lines of a diff.
    pub added: Style,
    /// Changed words in an added line.
    pub added_word: Style,
    /// Removed lines of a diff.
    pub removed: Style,
    /// Changed words in a removed line.
    pub removed_word: Style,
    /// The selected row of a list.
    pub selected: Style,
    /// The background of prompts, if any.
    pub band: Option<Color>,
    /// The background of the composer, if any.
    pub input_band: Option<Color>,
    /// The background of the focused element, if any.
    pub focus_band: Option<Color>,
    /// The background that the colors were chosen for, or `None` for the terminal's.
    pub background: Option<Color>,
    /// The logo's colors from left to right; empty for no gradient.
    pub gradient: Vec<Color>,
    /// Keywords in code.
    pub keyword: Style,
    /// Strings in code.
    pub string: Style,
    /// Numbers and constants in code.
    pub number: Style,
    /// Functions in code.
    pub function: Style,
    /// Types in code.
    pub type_name: Style,
}

impl Default for Theme {
    fn default() -> Self {
        built_in::default()
    }
}

impl Theme {
    /// Returns the names of the built-in themes: dark, light, and without color.
    pub fn names() -> impl Iterator<Item = &'static str> {
        built_in::names()
    }

    /// Returns a built-in theme. Case is ignored.
    ///
    /// # Errors
    /// Returns an error that lists the available themes if the name is unknown.
    pub fn by_name(name: &str) -> Result<Self, ThemeError> {
        built_in::find_theme(name).ok_or_else(|| ThemeError::Unknown {
            name: name.to_owned(),
            known: Self::names().collect::<Vec<_>>().join("`, `"),
        })
    }

    /// Parses a theme of a user or an extension: a JSON object of type `custom`. The caller may
    /// replace the name (`name (extension)`).
    ///
    /// # Errors
    /// Returns an error that names the invalid key.
    pub fn custom(json: &serde_json::Value) -> Result<Self, ThemeError> {
        custom::read(json)
    }

    /// Parses a theme from the text of a file.
    ///
    /// # Errors
    /// Returns an error that names the invalid key, or if the text is not JSON.
    pub fn from_json(text: &str) -> Result<Self, ThemeError> {
        let json =
            serde_json::from_str(text).map_err(|error| ThemeError::NotJson(error.to_string()))?;
        Self::custom(&json)
    }

    /// Returns the theme without colors, for `NO_COLOR`.
    pub fn no_color() -> Self {
        built_in::no_color()
    }

    /// Returns the default theme for a background (red, green, blue).
    pub fn default_for(background: (u8, u8, u8)) -> Self {
        if is_light(background) { built_in::default_light() } else { built_in::default() }
    }

    /// Whether the theme is readable on a background.
    pub fn is_readable_on(&self, background: (u8, u8, u8)) -> bool {
        self.name == built_in::NO_COLOR || self.light == is_light(background)
    }

    /// Adapts prompt backgrounds and diff tints to the terminal's background, unless the theme has
    /// its own background or the terminal has too few colors.
    #[must_use]
    pub fn adapt_to_terminal(mut self, background: (u8, u8, u8), depth: ColorDepth) -> Self {
        if self.background.is_some() || self.name == built_in::NO_COLOR {
            return self;
        }
        match depth {
            ColorDepth::None | ColorDepth::Ansi16 => return self,
            ColorDepth::Ansi256 => palette::apply_256_color_shades(&mut self, is_light(background)),
            ColorDepth::True => {
                let gray = Color::Rgb(128, 128, 128);
                palette::set_bands(&mut self, background, gray, Color::Rgb(70, 160, 110));
                palette::tint_diffs(&mut self, background);
            }
        }
        // The band distinguishes prompts from answers; their text needs no color.
        self.user = self.text;
        self
    }

    /// Replaces the backgrounds that a terminal with few colors cannot tell apart. Other colors of
    /// the theme keep their meaning when they are reduced.
    #[must_use]
    pub fn reduce_to(mut self, depth: ColorDepth) -> Self {
        let is_rgb = |style: Style| matches!(style.bg, Some(Color::Rgb(..)));
        if !is_rgb(self.added) && !is_rgb(self.removed) {
            return self;
        }
        match depth {
            ColorDepth::None | ColorDepth::True => {}
            ColorDepth::Ansi256 => palette::tint_by_index(&mut self),
            ColorDepth::Ansi16 => palette::remove_tints(&mut self),
        }
        self
    }

    /// Whether code has syntax colors.
    pub fn colors_code(&self) -> bool {
        self.keyword.fg.is_some()
    }

    /// Returns the style of the sign before an added or removed line: colored if only the line's
    /// background is.
    pub fn diff_sign(&self, row: Style) -> Style {
        match row {
            _ if row.bg.is_none() => row,
            _ if row == self.added => self.on_tint(Style { bg: None, ..self.success }, row),
            _ if row == self.removed => self.on_tint(Style { bg: None, ..self.error }, row),
            _ => row,
        }
    }

    /// Returns a style of text on a tinted line of a diff. Its color is corrected until it is
    /// legible there: the terminal's own colors were chosen for its background and not for tints.
    pub fn on_tint(&self, style: Style, row: Style) -> Style {
        let Some(tint) = row.bg else { return row.patch(style) };
        let is_faint = style.attributes.contains(Attributes::DIM);
        let color = match style.fg {
            None if is_faint => Some(palette::FAINT),
            None => row.fg,
            color => color,
        };
        let fg = color.map(|color| color::ensure_contrast(color, &[tint]));
        Style { fg, bg: Some(tint), attributes: style.attributes.without(Attributes::DIM) }
    }
}

#[cfg(test)]
mod tests;
