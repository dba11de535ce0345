//! Whether a JSON schema fulfills the rules of strict mode, in which a service rejects all others:
//! objects list all their properties as required and allow no others.

use serde_json::Value;

/// Keywords that strict mode does not support.
const UNSUPPORTED: [&str; 9] = [
    "allOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "dependentRequired",
    "dependentSchemas",
    "patternProperties",
];
/// Deeper schemas are not strict.
const MAX_DEPTH: usize = 10;

/// Whether the schema of a tool or an answer can be sent as strict.
pub(crate) fn is_strict(schema: &Value) -> bool {
    schema["type"] == "object" && is_strict_at(schema, 0)
}

fn is_strict_at(schema: &Value, depth: usize) -> bool {
    let Value::Object(fields) = schema else { return false };
    if depth > MAX_DEPTH || UNSUPPORTED.iter().any(|key| fields.contains_key(*key)) {
        return false;
    }
    let properties = fields.get("properties").and_then(Value::as_object);
    let is_object = properties.is_some()
        || match fields.get("type") {
            Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
            kind => kind.is_some_and(|kind| kind == "object"),
        };
    if is_object {
        let required = fields.get("required").and_then(Value::as_array);
        let is_required =
            |name: &String| required.is_some_and(|names| names.iter().any(|it| it == name));
        let is_closed = fields.get("additionalProperties") == Some(&Value::Bool(false));
        if !is_closed || !properties.into_iter().flatten().all(|(name, _)| is_required(name)) {
            return false;
        }
    }
    let definitions = ["$defs", "definitions"].into_iter().filter_map(|key| fields.get(key));
    let named = properties.into_iter().chain(definitions.filter_map(Value::as_object)).flatten();
    let choices = fields.get("anyOf").and_then(Value::as_array).into_iter().flatten();
    let items = fields.get("items");
    named
        .map(|(_, schema)| schema)
        .chain(choices)
        .chain(items)
        .all(|it| is_strict_at(it, depth + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn schema_is_strict_if_its_objects_are_closed_and_complete() {
        let object = |properties: Value, required: Value| {
            json!({"type": "object", "properties": properties, "required": required,
                "additionalProperties": false})
        };
        let text = json!({"type": "string"});
        let closed = object(json!({"a": text}), json!(["a"]));
        assert!(is_strict(&closed));
        assert!(is_strict(&object(json!({"b": {"type": "array", "items": closed}}), json!(["b"]))));
        assert!(is_strict(&object(json!({}), json!([]))));
        let open = json!({"type": "object", "properties": {"a": text}, "required": ["a"]});
        for schema in [
            open.clone(),
            object(json!({"a": text}), json!([])),
            object(json!({"b": {"type": "array", "items": open}}), json!(["b"])),
            object(json!({"b": {"anyOf": [{"type": "null"}, open]}}), json!(["b"])),
            object(json!({"b": {"oneOf": [text]}}), json!(["b"])),
            json!({"type": "object"}),
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            text,
        ] {
            assert!(!is_strict(&schema), "{schema}");
        }
    }
}
