//! Values of the fields of a server's object.

use parallax_protocol::Object;
use serde_json::Value;

/// Returns a non-empty string.
pub(super) fn text(fields: &Object, key: &str) -> Option<String> {
    fields.get(key)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Returns a boolean, which may be a string after variable expansion.
pub(super) fn flag(fields: &Object, key: &str) -> bool {
    match fields.get(key) {
        Some(Value::Bool(flag)) => *flag,
        Some(Value::String(text)) => text == "true",
        _ => false,
    }
}

/// Reads a number, which may be a string after variable expansion.
pub(super) fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.trim().parse().ok())
}

/// Returns the simple values of a list as strings.
pub(super) fn strings(value: &Value) -> Vec<String> {
    let plain = |item: &Value| match item {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    };
    value.as_array().into_iter().flatten().filter_map(plain).collect()
}

/// Returns the fields of an object with string values.
pub(super) fn pairs(value: Option<&Value>, key: &str) -> Result<Vec<(String, String)>, String> {
    let fields = match value {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Object(fields)) => fields,
        Some(_) => return Err(format!("`{key}` must be an object with string values")),
    };
    let pair = |(name, value): (&String, &Value)| {
        let value = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Bool(flag) => flag.to_string(),
            _ => return Err(format!("`{key}.{name}` must be a string")),
        };
        let is_fit = !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0');
        match is_fit {
            true => Ok((name.clone(), value)),
            false => Err(format!("`{key}.{name}` has an invalid name or value")),
        }
    };
    fields.iter().map(pair).collect()
}
