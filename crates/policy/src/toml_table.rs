//! A TOML table with source positions, read key by key.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value with its source position.
pub(crate) type Value<'t> = Spanned<DeValue<'t>>;

/// The text of a file, for computing line numbers.
pub(crate) struct LineNumbers<'t>(&'t str);

impl<'t> LineNumbers<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self(text)
    }

    /// Returns the line of a span, from 1.
    pub(crate) fn line_of(&self, span: &Range<usize>) -> usize {
        let before = self.0.get(..span.start).unwrap_or(self.0);
        before.bytes().filter(|byte| *byte == b'\n').count() + 1
    }
}

/// Parses a file.
///
/// # Errors
/// Returns the line and the reason if the text is not valid TOML.
pub(crate) fn parse(text: &str) -> Result<DeTable<'_>, (Option<usize>, String)> {
    // The limit bounds the nesting depth and thereby the stack usage.
    const MAX_BYTES: usize = 1 << 20;
    if text.len() > MAX_BYTES {
        return Err((None, format!("it is larger than {MAX_BYTES} bytes")));
    }
    DeTable::parse(text).map(Spanned::into_inner).map_err(|error| {
        let line = error.span().map(|span| LineNumbers::new(text).line_of(&span));
        (line, error.message().trim().to_owned())
    })
}

/// A type mismatch; holds the expected type.
#[derive(Debug)]
pub(crate) struct TypeMismatch(pub(crate) &'static str);

pub(crate) fn text(value: &Value<'_>) -> Result<String, TypeMismatch> {
    value.get_ref().as_str().map(str::to_owned).ok_or(TypeMismatch("a string"))
}

pub(crate) fn flag(value: &Value<'_>) -> Result<bool, TypeMismatch> {
    value.get_ref().as_bool().ok_or(TypeMismatch("`true` or `false`"))
}

/// Reads a string or an array of strings.
pub(crate) fn strings(value: &Value<'_>) -> Result<Vec<String>, TypeMismatch> {
    const EXPECTED: TypeMismatch = TypeMismatch("a string or an array of strings");
    match value.get_ref() {
        DeValue::String(text) => Ok(vec![text.to_string()]),
        DeValue::Array(items) => {
            items.iter().map(|item| text(item).map_err(|_| EXPECTED)).collect()
        }
        _ => Err(EXPECTED),
    }
}

pub(crate) fn integer(value: &Value<'_>) -> Option<i64> {
    let number = value.get_ref().as_integer()?;
    i64::from_str_radix(number.as_str(), number.radix()).ok()
}

/// Converts the value to JSON.
pub(crate) fn json(value: &DeValue<'_>) -> serde_json::Value {
    match value {
        DeValue::String(text) => text.as_ref().into(),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or(serde_json::Value::Null, Into::into),
        DeValue::Float(number) => {
            number.as_str().parse::<f64>().map_or(serde_json::Value::Null, Into::into)
        }
        DeValue::Boolean(flag) => (*flag).into(),
        DeValue::Datetime(time) => time.to_string().into(),
        DeValue::Array(items) => items.iter().map(|item| json(item.get_ref())).collect(),
        DeValue::Table(table) => serde_json::Value::Object(
            table
                .iter()
                .map(|(key, value)| (key.get_ref().to_string(), json(value.get_ref())))
                .collect(),
        ),
    }
}
