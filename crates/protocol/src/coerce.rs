//! Conversion of numbers and booleans that a model wrote as strings.

use serde_json::{Number, Value};

/// Maximum depth to which a schema is followed.
const MAX_DEPTH: usize = 16;

/// Converts strings such as `"1"` and `"true"` to numbers and booleans, but only where the schema
/// accepts no other type, so that the meaning is unambiguous.
pub fn coerce(value: &mut Value, schema: &Value) {
    coerce_nested(value, schema, 0);
}

fn coerce_nested(value: &mut Value, schema: &Value, depth: usize) {
    if depth > MAX_DEPTH {
        return;
    }
    match value {
        Value::String(text) => {
            let converted = match schema.get("type").and_then(Value::as_str) {
                Some("integer") => integer(text),
                Some("number") => number(text),
                Some("boolean") => match text.trim() {
                    text if text.eq_ignore_ascii_case("true") => Some(Value::Bool(true)),
                    text if text.eq_ignore_ascii_case("false") => Some(Value::Bool(false)),
                    _ => None,
                },
                _ => None,
            };
            if let Some(converted) = converted {
                *value = converted;
            }
        }
        Value::Object(fields) => {
            let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
                return;
            };
            for (name, value) in fields.iter_mut() {
                if let Some(schema) = properties.get(name) {
                    coerce_nested(value, schema, depth + 1);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                items.iter_mut().for_each(|item| coerce_nested(item, schema, depth + 1));
            }
        }
        _ => {}
    }
}

/// Parses a JSON number.
fn number(text: &str) -> Option<Value> {
    serde_json::from_str::<Number>(text.trim()).ok().map(Value::Number)
}

/// Parses an integer, even if it is written as `1e3`, `5.0`, or `-0`.
fn integer(text: &str) -> Option<Value> {
    let Value::Number(number) = number(text)? else { return None };
    if !number.is_f64() {
        return Some(Value::Number(number));
    }
    let float = number.as_f64()?;
    // Beyond 2^53, a float cannot represent every integer.
    let is_whole = float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0;
    is_whole.then(|| Value::from(float as i64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn text_is_coerced_only_when_the_schema_requires_it() {
        let schema = json!({"type": "object", "properties": {
            "line": {"type": "integer"}, "share": {"type": "number"}, "all": {"type": "boolean"},
            "name": {"type": "string"}, "any": {}, "both": {"type": ["integer", "string"]},
            "list": {"type": "array", "items": {"type": "integer"}},
            "deep": {"type": "object", "properties": {"on": {"type": "boolean"}}},
        }});
        let mut value = json!({
            "line": "12", "share": " 1.5 ", "all": "True", "name": "1", "any": "true", "both": "3",
            "list": ["1", 2], "deep": {"on": "false"}, "other": "5",
        });
        coerce(&mut value, &schema);
        assert_eq!(
            value,
            json!({
                "line": 12, "share": 1.5, "all": true, "name": "1", "any": "true", "both": "3",
                "list": [1, 2], "deep": {"on": false}, "other": "5",
            })
        );
        for (text, kind) in [
            ("1x", "integer"),
            ("", "number"),
            ("yes", "boolean"),
            ("0x1", "integer"),
            ("1.5", "integer"),
        ] {
            let mut value = json!({"v": text});
            coerce(&mut value, &json!({"properties": {"v": {"type": kind}}}));
            assert_eq!(value, json!({"v": text}));
        }
        for (text, meant) in [("1e3", "1000"), ("-0", "0"), ("5.0", "5"), ("-7", "-7")] {
            let mut value = json!({"v": text});
            coerce(&mut value, &json!({"properties": {"v": {"type": "integer"}}}));
            assert_eq!(value["v"].to_string(), meant);
        }
    }
}
