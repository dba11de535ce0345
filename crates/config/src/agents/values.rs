//! Values of the fields of agent definitions.

use std::time::Duration;

use parallax_protocol::Object;
use parallax_protocol::built_in_tools::built_in_tool;
use parallax_protocol::code_text::code_text;
use serde_json::Value;

use crate::commands::one_line;

/// Maximum number of characters of a description.
pub(super) const DESCRIPTION: usize = 2_000;

/// Maximum number of characters of a name.
pub(super) const NAME: usize = 64;

/// Maximum time limit of an agent in minutes.
const MAX_MINUTES: u64 = 24 * 60;

/// Returns the name of a definition.
pub(super) fn checked_name(fields: &Object) -> Result<&str, String> {
    let name = text(fields, "name")?.ok_or("`name` is missing")?;
    let is_name =
        |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || "-_".contains(char);
    if name.len() > NAME || !name.chars().all(is_name) {
        return Err(format!(
            "its name `{}` must consist of at most {NAME} lowercase letters, digits, `-`, and `_`",
            one_line(&code_text(name), NAME)
        ));
    }
    // Rules name tools and agents alike.
    if built_in_tool(name).is_some() || name.starts_with("mcp_") {
        return Err(format!("its name `{name}` is that of a tool"));
    }
    Ok(name)
}

/// Returns a non-empty string, if the field is there.
pub(super) fn text<'a>(fields: &'a Object, key: &str) -> Result<Option<&'a str>, String> {
    match fields.get(key) {
        None => Ok(None),
        Some(Value::String(text)) if !text.trim().is_empty() => Ok(Some(text.trim())),
        Some(_) => Err(format!("`{key}` must be a non-empty string")),
    }
}

/// Returns a positive number, if the field is there.
pub(super) fn positive_number(fields: &Object, key: &str) -> Result<Option<u64>, String> {
    let Some(value) = fields.get(key) else { return Ok(None) };
    let number = value.as_u64().filter(|number| *number > 0);
    number.map(Some).ok_or_else(|| format!("`{key}` must be a positive integer"))
}

/// Returns the time limit of this key, which has a default.
pub(super) fn positive_minutes(
    fields: &Object,
    key: &str,
    default: u64,
) -> Result<Duration, String> {
    Ok(minutes_of(positive_number(fields, key)?.unwrap_or(default)))
}

/// Returns a time limit, at most a day.
pub(super) fn minutes_of(minutes: u64) -> Duration {
    Duration::from_secs(minutes.min(MAX_MINUTES) * 60)
}
