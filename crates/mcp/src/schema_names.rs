//! Names and values of a schema without hidden characters, and the way back to those that the
//! server knows.

use std::borrow::Cow;
use std::collections::HashSet;

use parallax_protocol::untrusted::sanitize;
use serde_json::{Map, Value};

/// Maximum depth to which a schema is processed.
pub(crate) const MAX_DEPTH: usize = 64;
/// Maximum number of schemas that are followed for one value.
const MAX_SCHEMAS: usize = 200;
/// Keywords with schemas of the same value.
const BRANCHES: [&str; 3] = ["allOf", "anyOf", "oneOf"];
const CONDITIONS: [&str; 3] = ["if", "then", "else"];

/// Removes hidden characters, including from names, and the `$schema` keyword, which services
/// reject. If names become equal, the one that had no hidden characters is kept.
pub(crate) fn sanitize_schema(schema: &mut Value) {
    sanitize_nested(schema, 0, true);
}

/// Removes hidden characters from a value and its names.
pub(crate) fn sanitize_value(value: &mut Value) {
    sanitize_nested(value, 0, false);
}

fn sanitize_nested(value: &mut Value, depth: usize, is_schema: bool) {
    if is_schema && depth > MAX_DEPTH {
        return;
    }
    match value {
        Value::String(text) => {
            if let Cow::Owned(clean) = sanitize(text) {
                *text = clean;
            }
        }
        Value::Object(fields) => {
            if is_schema && fields.get("$schema").is_some_and(Value::is_string) {
                fields.shift_remove("$schema");
            }
            let is_plain = |name: &str| matches!(sanitize(name), Cow::Borrowed(_));
            if !fields.keys().all(|name| is_plain(name)) {
                let all = std::mem::take(fields);
                let used: HashSet<String> =
                    all.keys().filter(|name| is_plain(name)).cloned().collect();
                for (name, value) in all {
                    match sanitize(&name) {
                        Cow::Borrowed(_) => drop(fields.insert(name, value)),
                        Cow::Owned(clean) if used.contains(&clean) => {}
                        Cow::Owned(clean) => drop(fields.entry(clean).or_insert(value)),
                    }
                }
            }
            fields.values_mut().for_each(|field| sanitize_nested(field, depth + 1, is_schema));
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|item| sanitize_nested(item, depth + 1, is_schema));
        }
        _ => {}
    }
}

/// Restores the original names and values of arguments whose declared forms lost hidden characters,
/// at any depth.
pub(crate) fn restore_names(schema: &Value, arguments: &mut Map<String, Value>) {
    let mut value = Value::Object(std::mem::take(arguments));
    restore(schema, &[schema], &mut value, 0);
    if let Value::Object(restored) = value {
        *arguments = restored;
    }
}

fn restore(root: &Value, schemas: &[&Value], value: &mut Value, depth: usize) {
    if depth > MAX_DEPTH || schemas.is_empty() {
        return;
    }
    let mut applicable = Vec::new();
    for schema in schemas {
        collect(root, schema, &mut applicable);
    }
    match value {
        Value::String(text) => restore_text(&applicable, text),
        Value::Object(fields) => {
            let properties: Vec<&Map<String, Value>> =
                applicable.iter().filter_map(|it| it.get("properties")?.as_object()).collect();
            rename(&properties, fields);
            for (name, field) in fields {
                let mut inner: Vec<&Value> =
                    properties.iter().filter_map(|properties| properties.get(name)).collect();
                if inner.is_empty() {
                    inner.extend(applicable.iter().filter_map(|it| it.get("additionalProperties")));
                }
                restore(root, &inner, field, depth + 1);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                let inner: Vec<&Value> =
                    applicable.iter().filter_map(|schema| item_schema(schema, index)).collect();
                restore(root, &inner, item, depth + 1);
            }
        }
        _ => {}
    }
}

/// Returns the schema of an item of a list.
fn item_schema(schema: &Map<String, Value>, index: usize) -> Option<&Value> {
    let listed = schema.get("prefixItems").or_else(|| schema.get("items"));
    let listed = listed.and_then(Value::as_array).and_then(|listed| listed.get(index));
    listed.or_else(|| schema.get("items"))
}

/// Collects the schemas that apply to the same value, each once.
fn collect<'a>(root: &'a Value, schema: &'a Value, into: &mut Vec<&'a Map<String, Value>>) {
    let Some(fields) = schema.as_object() else { return };
    if into.len() >= MAX_SCHEMAS || into.iter().any(|known| std::ptr::eq(*known, fields)) {
        return;
    }
    into.push(fields);
    let reference = fields.get("$ref").and_then(Value::as_str);
    let target = reference.and_then(|it| it.strip_prefix('#')).and_then(|it| root.pointer(it));
    let branches = BRANCHES.iter().filter_map(|key| fields.get(*key)?.as_array()).flatten();
    let conditions = CONDITIONS.iter().filter_map(|key| fields.get(*key));
    for schema in target.into_iter().chain(branches).chain(conditions) {
        collect(root, schema, into);
    }
}

/// Renames fields to the original names in the schemas, unless a schema has the name as declared.
fn rename(properties: &[&Map<String, Value>], fields: &mut Map<String, Value>) {
    let is_known = |name: &str| properties.iter().any(|them| them.contains_key(name));
    for name in properties.iter().flat_map(|them| them.keys()) {
        if let Cow::Owned(declared) = sanitize(name)
            && !is_known(&declared)
            && !fields.contains_key(name)
            && let Some(value) = fields.shift_remove(&declared)
        {
            fields.insert(name.clone(), value);
        }
    }
}

/// Replaces a string with the original of the value that was declared as this string.
fn restore_text(schemas: &[&Map<String, Value>], text: &mut String) {
    let listed = || {
        let enums = schemas.iter().filter_map(|it| it.get("enum")?.as_array()).flatten();
        enums.chain(schemas.iter().filter_map(|it| it.get("const"))).filter_map(Value::as_str)
    };
    if listed().any(|it| it == text) {
        return;
    }
    let declared = |it: &&str| matches!(sanitize(it), Cow::Owned(clean) if clean == *text);
    if let Some(known) = listed().find(declared).map(str::to_owned) {
        *text = known;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn server_gets_original_names_and_values_at_any_depth() {
        let text = json!({"type": "string"});
        for (schema, provided, expected) in [
            (
                json!({"properties": {"a": text, "b\u{202e}": text}}),
                json!({"a": 1, "b": 2}),
                json!({"a": 1, "b\u{202e}": 2}),
            ),
            (
                json!({"properties": {"o": {"properties": {"x\u{202e}": text}}}}),
                json!({"o": {"x": "1"}}),
                json!({"o": {"x\u{202e}": "1"}}),
            ),
            (
                json!({"properties": {"l": {"items": {"properties": {"y\0": text}}}}}),
                json!({"l": [{"y": "1"}, {"y": "2"}]}),
                json!({"l": [{"y\0": "1"}, {"y\0": "2"}]}),
            ),
            (
                json!({"properties": {"l": {"prefixItems": [{}, {"enum": ["v\u{202e}"]}]}}}),
                json!({"l": ["v", "v"]}),
                json!({"l": ["v", "v\u{202e}"]}),
            ),
            (
                json!({"properties": {"p": {"$ref": "#/$defs/d\u{202e}"}},
                    "$defs": {"d\u{202e}": {"properties": {"k\0": text}}}}),
                json!({"p": {"k": "1"}}),
                json!({"p": {"k\0": "1"}}),
            ),
            (
                json!({"anyOf": [{"properties": {"k\0": text}}, {"properties": {"m": text}}]}),
                json!({"k": "1"}),
                json!({"k\0": "1"}),
            ),
            // Another branch knows the plain name.
            (
                json!({"oneOf": [{"properties": {"k\0": text}}, {"properties": {"k": text}}]}),
                json!({"k": "1"}),
                json!({"k": "1"}),
            ),
            (
                json!({"allOf": [{"properties": {"k\0": {"enum": ["v\u{202e}", "w"]}}}]}),
                json!({"k": "v"}),
                json!({"k\0": "v\u{202e}"}),
            ),
            (
                json!({"additionalProperties": {"const": "c\u{202e}"}}),
                json!({"free": "c"}),
                json!({"free": "c\u{202e}"}),
            ),
            (
                json!({"properties": {"next\0": {"$ref": "#"}}}),
                json!({"next": {"next": {"other": 1}}}),
                json!({"next\0": {"next\0": {"other": 1}}}),
            ),
            (json!({"$ref": "#"}), json!({"a": 1}), json!({"a": 1})),
        ] {
            let mut arguments = provided.as_object().cloned().unwrap_or_default();
            restore_names(&schema, &mut arguments);
            assert_eq!(Value::Object(arguments), expected, "{schema}");
        }
    }
}
