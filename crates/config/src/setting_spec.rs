//! A row of the table of settings: name, type, default, description, and where it is shown.

use std::time::Duration;

use serde_json::{Number, Value};

/// The type of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingType {
    /// `true` or `false`.
    Flag,
    /// A number.
    Number,
    /// A string.
    Text,
    /// One of the listed strings.
    Choice(&'static [&'static str]),
    /// A duration with the unit `h`, `d`, `w`, or `m`.
    Age,
    /// A list of strings.
    Texts,
    /// A string or a list of strings.
    TextOrTexts,
    /// A list of arbitrary values.
    List,
    /// An object.
    Object,
    /// A boolean or one of the listed strings.
    FlagOr(&'static [&'static str]),
    /// A boolean, a string, or an object.
    FlagTextOrObject,
}

/// A setting.
#[derive(Debug, Clone, Copy)]
pub struct SettingSpec {
    /// The dotted name.
    pub name: &'static str,
    /// The type.
    pub kind: SettingType,
    /// The default as JSON; empty if there is none.
    pub default: &'static str,
    /// A short description.
    pub doc: &'static str,
    /// The label in the settings dialog; empty if the dialog does not show it.
    pub label: &'static str,
    /// Whether a change takes effect only in the next session.
    pub needs_restart: bool,
}

/// Begins a row of the table.
pub(crate) const fn key(
    name: &'static str,
    kind: SettingType,
    default: &'static str,
    doc: &'static str,
) -> SettingSpec {
    SettingSpec { name, kind, default, doc, label: "", needs_restart: true }
}

impl SettingSpec {
    /// Shows the setting in the settings dialog. A change applies at once.
    pub(crate) const fn with_label(mut self, label: &'static str) -> Self {
        self.label = label;
        self.needs_restart = false;
        self
    }

    /// Shows the setting in the settings dialog. A change applies in the next session.
    pub(crate) const fn with_label_after_restart(mut self, label: &'static str) -> Self {
        self.label = label;
        self
    }
}

use SettingType::{
    Age, Choice, Flag, FlagOr, FlagTextOrObject, List, Number as Num, Object as Obj, Text,
    TextOrTexts, Texts,
};

impl SettingType {
    pub(crate) fn expected_format(self) -> String {
        match self {
            Flag => "`true` or `false`".to_owned(),
            Num => "a number".to_owned(),
            Text => "a string".to_owned(),
            Choice(choices) => {
                format!(
                    "one of {}",
                    choices
                        .iter()
                        .map(|choice| format!("`{choice}`"))
                        .collect::<Vec<_>>()
                        .join(", ")
                )
            }
            Age => "a duration such as `30d` (units h, d, w, m)".to_owned(),
            Texts => "a list of strings".to_owned(),
            TextOrTexts => "a string or a list of strings".to_owned(),
            List => "a list".to_owned(),
            Obj => "an object".to_owned(),
            FlagOr(words) => {
                let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
                format!("`true`, `false`, or {}", words.join(", "))
            }
            FlagTextOrObject => "`true`, `false`, a string, or an object".to_owned(),
        }
    }

    /// Converts the value to this type; numbers and booleans may be written as strings. Returns
    /// `None` if the value does not fit.
    pub(crate) fn accept(self, value: &Value) -> Option<Value> {
        let texts = |value: &Value| {
            value.as_array().is_some_and(|items| items.iter().all(Value::is_string))
        };
        let fits = match self {
            Flag => match value.as_str() {
                Some("true") => return Some(Value::Bool(true)),
                Some("false") => return Some(Value::Bool(false)),
                _ => value.is_boolean(),
            },
            Num => match value.as_str() {
                Some(text) => return number(text.trim()).map(Value::Number),
                None => value.is_number(),
            },
            Text => value.is_string(),
            Choice(choices) => value.as_str().is_some_and(|text| choices.contains(&text)),
            Age => value.as_str().is_some_and(|text| parse_age(text).is_some()),
            Texts => texts(value),
            TextOrTexts => value.is_string() || texts(value),
            List => value.is_array(),
            Obj => value.is_object(),
            FlagOr(words) => match value.as_str() {
                Some("true") => return Some(Value::Bool(true)),
                Some("false") => return Some(Value::Bool(false)),
                Some(text) => words.contains(&text),
                None => value.is_boolean(),
            },
            FlagTextOrObject => value.is_boolean() || value.is_string() || value.is_object(),
        };
        fits.then(|| value.clone())
    }
}

fn number(text: &str) -> Option<Number> {
    text.parse::<i64>().map(Number::from).ok().or_else(|| Number::from_f64(text.parse().ok()?))
}

/// Parses a duration: `12h`, `30d`, `2w`, or `6m` (months of 30 days).
pub fn parse_age(text: &str) -> Option<Duration> {
    let text = text.trim();
    let unit = text.chars().last()?;
    let seconds = match unit {
        'h' => 3_600,
        'd' => 86_400,
        'w' => 7 * 86_400,
        'm' => 30 * 86_400,
        _ => return None,
    };
    let count = text.strip_suffix(unit)?;
    // Signs and zero are not allowed.
    let count = Some(count).filter(|count| count.bytes().all(|byte| byte.is_ascii_digit()))?;
    let count: u64 = count.parse().ok().filter(|count| *count > 0)?;
    count.checked_mul(seconds).map(Duration::from_secs)
}
