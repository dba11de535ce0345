//! Parses custom themes with groups (`text.primary`) or the flat keys of older files
//! (`AccentBlue`).

use crate::Color;
use serde_json::{Map, Value};

use super::Theme;
use super::color::{is_light, parse_color, parts};
use super::palette::Palette;

/// Why a theme is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ThemeError {
    /// Unknown theme name.
    #[error("Unknown theme `{name}`. Themes: `{known}`")]
    #[expect(missing_docs, reason = "the message says it")]
    Unknown { name: String, known: String },
    /// Invalid JSON.
    #[error("invalid JSON: {0}")]
    NotJson(String),
    /// A value has the wrong type.
    #[error("`{key}` must be {expected}")]
    #[expect(missing_docs, reason = "the message says it")]
    Form { key: String, expected: &'static str },
    /// Invalid color.
    #[error(
        "invalid color `{value}` of `{key}`: use `#rrggbb`, a CSS name, or a terminal color such \
         as `redBright`"
    )]
    #[expect(missing_docs, reason = "the message says it")]
    Color { key: String, value: String },
}

struct ThemeSource<'j>(&'j Map<String, Value>);

impl ThemeSource<'_> {
    /// Returns a color by the path of its group, or by its flat key.
    fn color(&self, path: &str, flat: &str) -> Result<Option<Color>, ThemeError> {
        let mut value = None;
        let mut object = Some(self.0);
        for name in path.split('.') {
            value = object.and_then(|object| object.get(name)).filter(|value| !value.is_null());
            object = value.and_then(Value::as_object);
            if value.is_some_and(|value| !value.is_object() && !value.is_string()) {
                return Err(form(path, "a color"));
            }
        }
        let (key, value) = match value {
            Some(value) => (path, Some(value)),
            None => (flat, self.0.get(flat)),
        };
        match value {
            None | Some(Value::Null) => Ok(None),
            // In Gemini CLI, an empty string means the default color.
            Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
            Some(Value::String(text)) => read_color(key, text).map(Some),
            Some(_) => Err(form(key, "a color")),
        }
    }

    fn gradient(&self) -> Result<Vec<Color>, ThemeError> {
        let grouped = self.0.get("ui").and_then(|ui| ui.get("gradient"));
        let (key, value) = match grouped {
            Some(value) => ("ui.gradient", Some(value)),
            None => ("GradientColors", self.0.get("GradientColors")),
        };
        let expected = "a list of colors";
        match value {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Array(colors)) => colors
                .iter()
                .map(|color| read_color(key, color.as_str().ok_or_else(|| form(key, expected))?))
                .collect(),
            Some(_) => Err(form(key, expected)),
        }
    }
}

fn form(key: &str, expected: &'static str) -> ThemeError {
    ThemeError::Form { key: key.to_owned(), expected }
}

fn read_color(key: &str, text: &str) -> Result<Color, ThemeError> {
    parse_color(text.trim())
        .ok_or_else(|| ThemeError::Color { key: key.to_owned(), value: text.to_owned() })
}

pub(super) fn read(json: &Value) -> Result<Theme, ThemeError> {
    let object = json.as_object().ok_or_else(|| form("(the whole)", "an object"))?;
    let name = object.get("name").and_then(Value::as_str).unwrap_or("").trim();
    if name.is_empty() || name.chars().count() > 50 || name.contains(char::is_control) {
        return Err(form("name", "a string of 1 to 50 characters"));
    }
    if object.get("type").is_some_and(|kind| kind != "custom") {
        return Err(form("type", "`custom`"));
    }
    let source = ThemeSource(object);
    let background = source.color("background.primary", "Background")?;
    let light = background.is_some_and(|background| is_light(parts(background)));
    let palette = Palette {
        background,
        text: source.color("text.primary", "Foreground")?,
        response: source.color("text.response", "")?,
        gray: source.color("text.secondary", "Gray")?,
        border: source.color("border.default", "DarkGray")?,
        comment: source.color("ui.comment", "Comment")?,
        symbol: source.color("ui.symbol", "")?,
        blue: source.color("text.link", "AccentBlue")?.or(source.color("", "LightBlue")?),
        purple: source.color("text.accent", "AccentPurple")?,
        cyan: source.color("", "AccentCyan")?.or(source.color("", "LightBlue")?),
        green: source.color("status.success", "AccentGreen")?,
        yellow: source.color("status.warning", "AccentYellow")?,
        red: source.color("status.error", "AccentRed")?,
        focused: source.color("border.focused", "FocusColor")?,
        added: source.color("background.diff.added", "DiffAdded")?,
        removed: source.color("background.diff.removed", "DiffRemoved")?,
        gradient: source.gradient()?,
        message: source.color("background.message", "MessageBackground")?,
        input: source.color("background.input", "InputBackground")?,
        focus: source.color("background.focus", "FocusBackground")?,
    };
    let palette = fill_unset(palette);
    Ok(palette.theme(name, light))
}

/// Fills unset colors with the terminal's.
fn fill_unset(palette: Palette) -> Palette {
    let or = |color: Option<Color>, index: u8| color.or(Some(Color::Ansi(index)));
    Palette {
        gray: or(palette.gray, 8),
        cyan: palette.cyan.or(palette.blue).or(Some(Color::Ansi(6))),
        blue: or(palette.blue, 4),
        purple: or(palette.purple, 5),
        green: or(palette.green, 2),
        yellow: or(palette.yellow, 3),
        red: or(palette.red, 1),
        ..palette
    }
}
