//! Validates the arguments of a tool call against the schema that the tool declares.
//!
//! Supports the parts of JSON Schema that built-in tools use: `type`, `required`, `properties`,
//! `items`, `enum`, `minimum`, `minItems`, `minLength`. Properties that the schema does not declare
//! are accepted, so that a tool can take undeclared ones.

use parallax_protocol::Object;
use parallax_protocol::coerce::coerce;
use parallax_protocol::tool::{ToolError, ToolSpec};
use serde_json::Value;

use crate::failure::invalid_params;

/// Validated arguments.
#[derive(Debug, Clone)]
pub struct Arguments {
    object: Object,
}

impl Arguments {
    /// Validates the arguments of a call. `null` counts as absent.
    ///
    /// # Errors
    /// Returns `invalid_tool_params` in the wording of a JSON Schema validator: `params/file_path
    /// must be string`.
    pub fn check(object: Object, spec: &ToolSpec) -> Result<Self, ToolError> {
        let mut whole = Value::Object(object);
        coerce(&mut whole, &spec.parameters);
        let mut object = whole.as_object_mut().map(std::mem::take).unwrap_or_default();
        object.retain(|_, value| !value.is_null());
        check_object(&object, &spec.parameters, "params").map_err(invalid_params)?;
        Ok(Self { object })
    }

    /// Returns a required string; empty if it is optional and absent.
    pub fn text(&self, name: &str) -> &str {
        self.optional_text(name).unwrap_or_default()
    }

    /// Returns an optional string.
    pub fn optional_text(&self, name: &str) -> Option<&str> {
        self.object.get(name).and_then(Value::as_str)
    }

    /// Returns an optional boolean.
    pub fn flag(&self, name: &str) -> Option<bool> {
        self.object.get(name).and_then(Value::as_bool)
    }

    /// Returns an optional non-negative integer.
    pub fn integer(&self, name: &str) -> Option<u64> {
        self.object.get(name).and_then(to_integer).and_then(|number| u64::try_from(number).ok())
    }

    /// Returns a list of strings; empty if absent.
    pub fn strings(&self, name: &str) -> Vec<&str> {
        let list = self.object.get(name).and_then(Value::as_array);
        list.map(|list| list.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
    }

    /// Returns a nested object, which was validated with the whole.
    pub fn object(&self, name: &str) -> Option<Self> {
        let object = self.object.get(name).and_then(Value::as_object)?;
        Some(Self { object: object.clone() })
    }

    /// Returns a raw value.
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.object.get(name)
    }
}

/// Validates the arguments of a call that are passed on unchanged: `null` is a value.
///
/// # Errors
/// See [`Arguments::check`].
pub(crate) fn validate_unchanged(object: &Object, spec: &ToolSpec) -> Result<(), ToolError> {
    check_object(object, &spec.parameters, "params").map_err(invalid_params)
}

/// Returns an integer, even if it is written as `5.0`.
fn to_integer(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| {
        let number = value.as_f64()?;
        // Beyond 2^53, a float cannot represent every integer.
        (number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0).then_some(number as i64)
    })
}

fn check_object(object: &Object, schema: &Value, path: &str) -> Result<(), String> {
    let required = schema.get("required").and_then(Value::as_array);
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        if !object.contains_key(name) {
            return Err(format!("{path} must have required property '{name}'"));
        }
    }
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return Ok(());
    };
    for (name, schema) in properties {
        if let Some(value) = object.get(name) {
            check_value(value, schema, &format!("{path}/{name}"))?;
        }
    }
    Ok(())
}

fn check_value(value: &Value, schema: &Value, path: &str) -> Result<(), String> {
    if value.is_null() && schema.get("nullable") == Some(&Value::Bool(true)) {
        return Ok(());
    }
    if let Some(expected_type) = schema.get("type").and_then(Value::as_str) {
        let fits = match expected_type {
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "integer" => to_integer(value).is_some(),
            "number" => value.is_number(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            _ => true,
        };
        if !fits {
            return Err(format!("{path} must be {expected_type}"));
        }
    }
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array)
        && !allowed.contains(value)
    {
        let names: Vec<String> = allowed.iter().map(Value::to_string).collect();
        return Err(format!(
            "{path} must be equal to one of the allowed values: {}",
            names.join(", ")
        ));
    }
    let limit = |name: &str| schema.get(name).and_then(Value::as_f64);
    if let (Some(minimum), Some(number)) = (limit("minimum"), value.as_f64())
        && number < minimum
    {
        return Err(format!("{path} must be >= {minimum}"));
    }
    if let (Some(minimum), Some(text)) = (limit("minLength"), value.as_str())
        && (text.chars().count() as f64) < minimum
    {
        return Err(format!("{path} must NOT have fewer than {minimum} characters"));
    }
    match value {
        Value::Array(items) => {
            if let Some(minimum) = limit("minItems")
                && (items.len() as f64) < minimum
            {
                return Err(format!("{path} must NOT have fewer than {minimum} items"));
            }
            let Some(schema) = schema.get("items") else { return Ok(()) };
            for (index, item) in items.iter().enumerate() {
                check_value(item, schema, &format!("{path}/{index}"))?;
            }
            Ok(())
        }
        Value::Object(object) => check_object(object, schema, path),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_protocol::tool::{Concurrency, ToolKind};
    use serde_json::json;

    fn spec() -> ToolSpec {
        ToolSpec {
            name: "x".into(),
            display_name: "X".into(),
            description: String::new(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "file_path": {"type": "string"},
                    "line": {"type": "integer", "minimum": 1},
                    "name": {"type": "string", "enum": ["a", "b"]},
                    "names": {"type": "array", "items": {"type": "string"}, "minItems": 1},
                    "options": {"type": "object", "properties": {"deep": {"type": "boolean"}}},
                },
                "required": ["file_path"],
            }),
            kind: ToolKind::Read,
            concurrency: Concurrency::Shared,
            aliases: Vec::new(),
        }
    }

    fn check(value: Value) -> Result<Arguments, String> {
        let Value::Object(object) = value else { panic!("an object") };
        Arguments::check(object, &spec()).map_err(|error| error.message)
    }

    #[test]
    fn argument_errors_match_schema_validator_messages() {
        for (value, message) in [
            (json!({}), "params must have required property 'file_path'"),
            (json!({"file_path": null}), "params must have required property 'file_path'"),
            (json!({"file_path": 5}), "params/file_path must be string"),
            (json!({"file_path": "a", "line": "one"}), "params/line must be integer"),
            (json!({"file_path": "a", "line": 1.5}), "params/line must be integer"),
            (json!({"file_path": "a", "line": 0}), "params/line must be >= 1"),
            (
                json!({"file_path": "a", "name": "c"}),
                "params/name must be equal to one of the allowed values: \"a\", \"b\"",
            ),
            (json!({"file_path": "a", "names": [1]}), "params/names/0 must be string"),
            (
                json!({"file_path": "a", "names": []}),
                "params/names must NOT have fewer than 1 items",
            ),
            (
                json!({"file_path": "a", "options": {"deep": 1}}),
                "params/options/deep must be boolean",
            ),
        ] {
            assert_eq!(check(value.clone()).err().as_deref(), Some(message), "{value}");
        }
    }

    #[test]
    fn argument_values_keep_their_types() {
        let arguments = check(json!({
            "file_path": "a", "line": 3.0, "names": ["x"], "name": null,
            "options": {"deep": true}, "hidden": 7
        }))
        .expect("arguments");
        assert_eq!(arguments.text("file_path"), "a");
        assert_eq!(arguments.integer("line"), Some(3));
        assert_eq!(arguments.strings("names"), ["x"]);
        assert_eq!(arguments.optional_text("name"), None);
        assert_eq!(arguments.object("options").and_then(|o| o.flag("deep")), Some(true));
        assert_eq!(arguments.integer("hidden"), Some(7));
    }
}
