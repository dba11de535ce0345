//! Reads JSON objects with comments from hand-written files.

use std::path::Path;

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstObjectProp};
use parallax_protocol::Object;
use serde_json::Value;

use crate::error::ConfigError;
use crate::read::{ReadError, read_text};

/// Maximum file size in bytes; no realistic settings file is larger.
const LIMIT: u64 = 2 * 1024 * 1024;

/// Returns the object in the file; `None` if the file does not exist (or is `/dev/null`).
pub fn read_object(path: &Path) -> Result<Option<Object>, ConfigError> {
    read_document(path)?.map(|text| parse_object(path, &text)).transpose()
}

/// Returns the text of the file; `None` if the file does not exist (or is `/dev/null`).
pub(crate) fn read_document(path: &Path) -> Result<Option<String>, ConfigError> {
    match read_text(path, LIMIT) {
        Ok(text) => Ok(text),
        Err(ReadError::NotAFile) if path == Path::new("/dev/null") => Ok(None),
        Err(ReadError::NotAFile) => Err(ConfigError::NotAFile { path: path.to_owned() }),
        Err(ReadError::TooLarge) => {
            Err(ConfigError::TooLarge { path: path.to_owned(), limit: LIMIT })
        }
        Err(ReadError::Io(source)) => {
            Err(ConfigError::Unreadable { path: path.to_owned(), source })
        }
    }
}

/// Returns the position of a trailing comma as line and column, counted from 1. Editors write it,
/// but other programs reject such a file.
pub(crate) fn trailing_comma(text: &str) -> Option<(usize, usize)> {
    let strict = ParseOptions { allow_trailing_commas: false, ..syntax() };
    let error = jsonc_parser::parse_to_serde_value::<Value>(text, &strict).err()?;
    let is_read = jsonc_parser::parse_to_serde_value::<Value>(text, &syntax()).is_ok();
    is_read.then(|| (error.line_display(), error.column_display()))
}

/// Returns the options for JSON with comments and trailing commas.
pub(crate) fn syntax() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_loose_object_property_names: false,
        allow_trailing_commas: true,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

/// Parses the object in the text.
pub(crate) fn parse_object(path: &Path, text: &str) -> Result<Object, ConfigError> {
    let options = syntax();
    match jsonc_parser::parse_to_serde_value::<Value>(text, &options) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(ConfigError::NotAnObject { path: path.to_owned() }),
        Err(error) => {
            let message = error.kind().to_string();
            let (line, column) = match message.contains("end of input") {
                true => end_position(text),
                false => (error.line_display(), error.column_display()),
            };
            Err(ConfigError::Syntax { path: path.to_owned(), line, column, message })
        }
    }
}

/// Converts a value for the syntax-preserving editor.
pub(crate) fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(flag) => CstInputValue::Bool(*flag),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(fields) => CstInputValue::Object(
            fields.iter().map(|(name, field)| (name.clone(), input(field))).collect(),
        ),
    }
}

/// Returns the last property with a name: of several, it is the one that applies.
pub(crate) fn last_property(object: &CstObject, name: &str) -> Option<CstObjectProp> {
    let is_it = |property: &CstObjectProp| {
        property.name().and_then(|found| found.decoded_value().ok()).as_deref() == Some(name)
    };
    object.properties().into_iter().rfind(is_it)
}

/// Returns the line and column of the end of a string, counted from 1, for errors about missing
/// input.
fn end_position(text: &str) -> (usize, usize) {
    let line = text.split('\n').count();
    let last = text.rsplit('\n').next().unwrap_or("");
    (line, last.chars().count() + 1)
}
