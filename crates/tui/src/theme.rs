//! Colours by what they mean. Everything that is drawn takes its looks from
//! here, so that a colour means the same everywhere.

mod built_in;
mod color;
mod css;
mod custom;
mod palette;

use parallax_screen::{Color, ColorDepth, Style};

pub use color::{is_light, mix, parse_color};
pub use custom::ThemeError;

/// The looks in force. The default uses the terminal's own 16 colours only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Theme {
    /// Its name, as in `/theme` and the setting `ui.theme`.
    pub name: String,
    /// Whether it is meant for a light background.
    pub light: bool,
    /// Ordinary text.
    pub text: Style,
    /// Text of less weight: hints, labels, counts.
    pub secondary: Style,
    /// Links, headings.
    pub link: Style,
    /// What stands out: the cursor's row in a list, the prompt's sign.
    pub accent: Style,
    /// The model's answers.
    pub response: Style,
    /// Prompts of the user.
    pub user: Style,
    /// Inline code.
    pub code: Style,
    /// Rules and boxes.
    pub border: Style,
    /// The box that has the keys.
    pub focused: Style,
    /// Signs before rows.
    pub symbol: Style,
    /// Comments in code, thoughts.
    pub comment: Style,
    /// It went well.
    pub success: Style,
    /// Take care.
    pub warning: Style,
    /// It failed.
    pub error: Style,
    /// An added row of a diff, the changed words in it.
    pub added: Style,
    /// Changed words of an added row.
    pub added_word: Style,
    /// A removed row of a diff.
    pub removed: Style,
    /// Changed words of a removed row.
    pub removed_word: Style,
    /// The row chosen in a list.
    pub selected: Style,
    /// The background of prompts; `None` for none.
    pub band: Option<Color>,
    /// The composer's band; `None`: no band.
    pub input_band: Option<Color>,
    /// The band of what has the keys; `None`: no band.
    pub focus_band: Option<Color>,
    /// The background that the colours were chosen for; `None`: the terminal's.
    pub background: Option<Color>,
    /// The logo's colours, left to right; empty: no colours of its own.
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
    /// The names of the built-in themes: dark ones, light ones, no colour.
    pub fn names() -> impl Iterator<Item = &'static str> {
        built_in::names()
    }

    /// A built-in theme. Upper and lower case are the same.
    ///
    /// # Errors
    /// When there is none of that name; says which there are.
    pub fn named(name: &str) -> Result<Self, ThemeError> {
        built_in::named(name).ok_or_else(|| ThemeError::Unknown {
            name: name.to_owned(),
            known: Self::names().collect::<Vec<_>>().join("`, `"),
        })
    }

    /// A theme of a user or an extension: a JSON object of type `custom`. The name may be
    /// replaced (`name (extension)`) by setting it.
    ///
    /// # Errors
    /// What is wrong, and at which key.
    pub fn custom(json: &serde_json::Value) -> Result<Self, ThemeError> {
        custom::read(json)
    }

    /// The same from the text of a file.
    ///
    /// # Errors
    /// What is wrong, and at which key.
    pub fn from_json(text: &str) -> Result<Self, ThemeError> {
        let json =
            serde_json::from_str(text).map_err(|error| ThemeError::NotJson(error.to_string()))?;
        Self::custom(&json)
    }

    /// The one without colours, for `NO_COLOR`.
    pub fn no_color() -> Self {
        built_in::no_color()
    }

    /// The default for a background (red, green, blue).
    pub fn default_for(background: (u8, u8, u8)) -> Self {
        if is_light(background) { built_in::default_light() } else { built_in::default() }
    }

    /// Whether it can be read on a background.
    pub fn suits(&self, background: (u8, u8, u8)) -> bool {
        self.name == built_in::NO_COLOR || self.light == is_light(background)
    }

    /// With bands and tinted rows of diffs that fit the terminal's background, where the
    /// theme has no background of its own and the terminal has the colours for it.
    #[must_use]
    pub fn on_terminal(mut self, background: (u8, u8, u8), depth: ColorDepth) -> Self {
        if self.background.is_some() || self.name == built_in::NO_COLOR {
            return self;
        }
        match depth {
            ColorDepth::None | ColorDepth::Ansi16 => return self,
            ColorDepth::Ansi256 => palette::shade(&mut self, is_light(background)),
            ColorDepth::True => {
                let gray = Color::Rgb(128, 128, 128);
                palette::set_bands(&mut self, background, gray, Color::Rgb(70, 160, 110));
                palette::tint_diffs(&mut self, background);
            }
        }
        // The band tells prompts from answers; their text needs no color of its own.
        self.user = self.text;
        self
    }

    /// The sign before an added or removed row: in its color where only the row's
    /// background is.
    pub(crate) fn diff_sign(&self, row: Style) -> Style {
        match row {
            _ if row.bg.is_none() => row,
            _ if row == self.added => row.patch(Style { bg: None, ..self.success }),
            _ if row == self.removed => row.patch(Style { bg: None, ..self.error }),
            _ => row,
        }
    }
}

#[cfg(test)]
mod tests;
