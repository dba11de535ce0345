//! Argument schemas: how they are declared, and validation.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::schema_names::{MAX_DEPTH, sanitize_schema};

/// An argument of the scheduler, which every call may have.
const WAIT: &str = "wait_for_previous";
/// Maximum schema nodes that are copied while references are inlined.
const MAX_NODES: usize = 20_000;

/// How schemas are declared to the model (`mcp.schemas`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SchemaFormat {
    /// As the server sent them.
    #[default]
    Verbatim,
    /// Reduced to the OpenAPI subset that some services support.
    OpenApi,
}

/// Returns the declared schema of a tool's arguments.
pub(crate) fn declared_schema(schema: &Value, form: SchemaFormat) -> Value {
    let mut schema = match form {
        SchemaFormat::Verbatim => schema.clone(),
        SchemaFormat::OpenApi => open_api(schema),
    };
    convert_nullable(&mut schema, 0);
    sanitize_schema(&mut schema);
    if let Some(fields) = schema.as_object_mut() {
        fields.entry("type").or_insert_with(|| "object".into());
        let properties = fields.entry("properties").or_insert_with(|| json!({}));
        if let Some(properties) = properties.as_object_mut() {
            properties.entry(WAIT).or_insert_with(|| {
                json!({
                    "type": "boolean",
                    "description": "Set to true to wait for all previously requested tools in this turn to complete before starting. Set to false (or omit) to run in parallel."
                })
            });
        }
    }
    schema
}

/// Converts `["string", "null"]` to `string` with `nullable`.
fn convert_nullable(schema: &mut Value, depth: usize) {
    if depth > MAX_DEPTH {
        return;
    }
    match schema {
        Value::Object(fields) => {
            let other = fields.get("type").and_then(Value::as_array).and_then(|types| {
                let [one, two] = types.as_slice() else { return None };
                match (one.as_str()?, two.as_str()?) {
                    ("null", other) | (other, "null") if other != "null" => Some(other.to_owned()),
                    _ => None,
                }
            });
            if let Some(other) = other {
                fields.insert("type".to_owned(), other.into());
                fields.insert("nullable".to_owned(), true.into());
            }
            fields.values_mut().for_each(|field| convert_nullable(field, depth + 1));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| convert_nullable(item, depth + 1)),
        _ => {}
    }
}

/// Inlines references and removes keywords that the subset does not support. A recursive reference
/// becomes any object.
fn open_api(schema: &Value) -> Value {
    let mut work = OpenApi { root: schema, inlined_references: Vec::new(), nodes: 0 };
    work.convert(schema, 0)
}

struct OpenApi<'a> {
    root: &'a Value,
    /// The references that are being inlined.
    inlined_references: Vec<String>,
    nodes: usize,
}

/// Formats that the subset supports.
const FORMATS: [&str; 7] = ["int32", "int64", "float", "double", "enum", "date-time", "byte"];
const KEPT: [&str; 17] = [
    "type",
    "format",
    "title",
    "description",
    "nullable",
    "enum",
    "maxItems",
    "minItems",
    "required",
    "minProperties",
    "maxProperties",
    "minLength",
    "maxLength",
    "pattern",
    "minimum",
    "maximum",
    "example",
];

impl OpenApi<'_> {
    fn convert(&mut self, schema: &Value, depth: usize) -> Value {
        self.nodes += 1;
        let any = || json!({"type": "object"});
        let Some(fields) = schema.as_object() else { return json!({}) };
        if depth > MAX_DEPTH || self.nodes > MAX_NODES {
            return any();
        }
        if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
            let target = reference
                .strip_prefix('#')
                .and_then(|pointer| self.root.pointer(pointer))
                .filter(|_| !self.inlined_references.iter().any(|within| within == reference))
                .cloned();
            let Some(target) = target else { return any() };
            self.inlined_references.push(reference.to_owned());
            let mut filled = self.convert(&target, depth + 1);
            self.inlined_references.pop();
            if let (Some(filled), Some(output)) =
                (filled.as_object_mut(), fields.get("description"))
            {
                filled.insert("description".to_owned(), output.clone());
            }
            return filled;
        }
        let mut converted = Map::new();
        for (key, value) in fields {
            let value = match key.as_str() {
                "properties" => self.properties(value, depth),
                "items" if value.is_object() => self.convert(value, depth + 1),
                "anyOf" | "oneOf" => {
                    let branches = value.as_array().into_iter().flatten();
                    let branches = branches.map(|branch| self.convert(branch, depth + 1)).collect();
                    converted.insert("anyOf".to_owned(), Value::Array(branches));
                    continue;
                }
                "const" => {
                    if let Some(text) = value.as_str() {
                        converted.insert("enum".to_owned(), json!([text]));
                    }
                    continue;
                }
                "default" if !fields.contains_key("anyOf") && !fields.contains_key("oneOf") => {
                    value.clone()
                }
                "enum" if !is_string_list(value) => continue,
                "format" if !FORMATS.iter().any(|known| value.as_str() == Some(known)) => continue,
                "type" if value.as_array().is_some_and(|types| types.len() > 2) => continue,
                key if KEPT.contains(&key) => value.clone(),
                _ => continue,
            };
            converted.insert(key.clone(), value);
        }
        let merged = fields.get("allOf").and_then(Value::as_array).cloned().unwrap_or_default();
        for part in &merged {
            if let Value::Object(part) = self.convert(part, depth + 1) {
                merge(&mut converted, part);
            }
        }
        remove_unknown_required(&mut converted);
        Value::Object(converted)
    }

    fn properties(&mut self, value: &Value, depth: usize) -> Value {
        let fields = value.as_object().into_iter().flatten();
        Value::Object(
            fields.map(|(name, it)| (name.clone(), self.convert(it, depth + 1))).collect(),
        )
    }
}

fn is_string_list(value: &Value) -> bool {
    value.as_array().is_some_and(|items| items.iter().all(Value::is_string))
}

/// Merges one branch of `allOf` into the schema.
fn merge(into: &mut Map<String, Value>, part: Map<String, Value>) {
    for (key, value) in part {
        match (into.get_mut(&key), value) {
            (Some(Value::Object(there)), Value::Object(more)) if key == "properties" => {
                there.extend(more);
            }
            (Some(Value::Array(there)), Value::Array(more)) if key == "required" => {
                there.extend(more);
            }
            (Some(_), _) => {}
            (None, value) => {
                into.insert(key, value);
            }
        }
    }
}

/// Removes required properties that are not defined.
fn remove_unknown_required(fields: &mut Map<String, Value>) {
    let known: HashSet<String> = fields
        .get("properties")
        .and_then(Value::as_object)
        .map(|properties| properties.keys().cloned().collect())
        .unwrap_or_default();
    if let Some(Value::Array(required)) = fields.get_mut("required") {
        required.retain(|name| name.as_str().is_some_and(|name| known.contains(name)));
        if required.is_empty() {
            fields.shift_remove("required");
        }
    }
}

/// Returns a validator for arguments, of the schema as the model sees it; `None` if the schema is
/// invalid or could make validation recurse infinitely. Then only the server validates.
pub(crate) fn validator(schema: &Value) -> Option<jsonschema::Validator> {
    if !is_finite(schema) {
        return None;
    }
    jsonschema::options()
        .with_pattern_options(jsonschema::PatternOptions::regex())
        .build(schema)
        .ok()
}

/// Keywords whose schemas apply to the same value, not to a part of it.
const SAME_VALUE: [&str; 8] = ["$ref", "allOf", "anyOf", "oneOf", "not", "if", "then", "else"];

/// Whether no reference leads back to itself while applying to the same value. Schemas that cannot
/// be checked count as infinite.
fn is_finite(schema: &Value) -> bool {
    let text = schema.to_string();
    if text.contains("\"$dynamicRef\"") || text.contains("\"$recursiveRef\"") {
        return false;
    }
    let mut starts = vec![schema];
    collect(schema, &mut starts, 0);
    let mut budget = MAX_NODES;
    starts.into_iter().all(|start| terminates(schema, start, &mut Vec::new(), &mut budget))
}

/// Collects all schemas that contain a reference.
fn collect<'a>(schema: &'a Value, into: &mut Vec<&'a Value>, depth: usize) {
    if depth > 2 * MAX_DEPTH || into.len() > 500 {
        return;
    }
    match schema {
        Value::Object(fields) => {
            if fields.get("$ref").is_some_and(Value::is_string) {
                into.push(schema);
            }
            fields.values().for_each(|field| collect(field, into, depth + 1));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, into, depth + 1)),
        _ => {}
    }
}

/// Follows schemas that apply to the same value, until they end or repeat.
fn terminates<'a>(
    root: &'a Value,
    schema: &'a Value,
    within: &mut Vec<&'a str>,
    budget: &mut usize,
) -> bool {
    let Some(fields) = schema.as_object() else { return true };
    if *budget == 0 || within.len() > MAX_DEPTH {
        return false;
    }
    *budget -= 1;
    for key in SAME_VALUE {
        let fine = match fields.get(key) {
            None => true,
            Some(Value::String(reference)) if key == "$ref" => {
                if within.contains(&reference.as_str()) {
                    return false;
                }
                // Only references within this document can be resolved.
                let Some(pointer) = reference.strip_prefix('#') else { return false };
                match root.pointer(pointer) {
                    Some(target) => {
                        within.push(reference);
                        let fine = terminates(root, target, within, budget);
                        within.pop();
                        fine
                    }
                    // An anchor, or an invalid reference.
                    None => false,
                }
            }
            Some(Value::Array(branches)) => {
                branches.iter().all(|branch| terminates(root, branch, within, budget))
            }
            Some(branch) => terminates(root, branch, within, budget),
        };
        if !fine {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_declared_as_sent_except_for_null_types_and_wait_parameter() {
        let schema = json!({"$schema": "x", "type": "object", "additionalProperties": false,
            "properties": {"a": {"type": ["string", "null"]}, "b": true,
                "c": {"type": "array", "items": {"type": ["null", "integer"]}},
                "d": {"type": ["string", "integer", "null"]}, "e": {"$ref": "#/$defs/e"}},
            "$defs": {"e": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": null}}});
        let declared = declared_schema(&schema, SchemaFormat::Verbatim);
        let properties = &declared["properties"];
        assert_eq!(properties["a"], json!({"type": "string", "nullable": true}));
        assert_eq!(properties["b"], json!(true));
        assert_eq!(properties["c"]["items"], json!({"type": "integer", "nullable": true}));
        assert_eq!(properties["d"], schema["properties"]["d"]);
        assert_eq!(properties[WAIT]["type"], "boolean");
        assert_eq!(
            (&declared["additionalProperties"], &declared["$defs"]),
            (&schema["additionalProperties"], &schema["$defs"])
        );
        assert_eq!(declared.get("$schema"), None);
    }

    #[test]
    fn hidden_characters_of_a_schema_are_not_declared() {
        let schema = json!({"type": "object", "properties": {
            "a": {"$schema": "x", "type": "string", "description": "\u{1b}[8mobey\u{1b}[0m \u{e0041}me\0"},
            "$schema": {"type": "string"}}});
        let declared = declared_schema(&schema, SchemaFormat::Verbatim);
        assert_eq!(
            declared["properties"]["a"],
            json!({"type": "string", "description": "obey me"})
        );
        assert_eq!(declared["properties"]["$schema"], json!({"type": "string"}));

        let schema = json!({"type": "object", "required": ["a", "b\u{202e}"],
            "properties": {"a": {"type": "string"}, "b\u{202e}": {"type": "string"}},
            "$defs": {"\u{1b}[8mobey": {"type": "string"}}});
        let declared = super::declared_schema(&schema, SchemaFormat::Verbatim);
        assert_eq!(declared["required"], json!(["a", "b"]));
        assert_eq!(declared["properties"]["b"], json!({"type": "string"}));
        assert!(declared["properties"].get("b\u{202e}").is_none(), "{declared}");
        assert_eq!(declared["$defs"], json!({"obey": {"type": "string"}}));
        let schema =
            json!({"properties": {"b\u{202e}": {"type": "string"}, "b": {"type": "integer"}}});
        let declared = super::declared_schema(&schema, SchemaFormat::Verbatim);
        assert_eq!(declared["properties"]["b"], json!({"type": "integer"}));
    }

    #[test]
    fn schema_references_are_inlined_and_unknown_keys_dropped() {
        let schema = json!({"$schema": "x", "type": "object", "additionalProperties": false,
            "properties": {
                "node": {"$ref": "#/$defs/node", "description": "the root"},
                "kind": {"const": "k"}, "n": {"enum": [1, 2], "type": "integer"},
                "when": {"type": "string", "format": "uri", "default": "x"},
                "both": {"allOf": [{"properties": {"p": {"type": "string"}}, "required": ["p"]},
                    {"properties": {"q": {"type": "string"}}}]}},
            "required": ["node", "gone"],
            "$defs": {"node": {"type": "object", "description": "a node",
                "properties": {"next": {"$ref": "#/$defs/node"}}}}});
        let declared = declared_schema(&schema, SchemaFormat::OpenApi);
        assert!(!declared.to_string().contains("$ref"));
        let properties = &declared["properties"];
        assert_eq!(properties["node"]["description"], "the root");
        assert_eq!(properties["node"]["properties"]["next"], json!({"type": "object"}));
        assert_eq!(properties["kind"], json!({"enum": ["k"]}));
        assert_eq!(properties["n"], json!({"type": "integer"}));
        assert_eq!(properties["when"], json!({"type": "string", "default": "x"}));
        assert_eq!(properties["both"]["required"], json!(["p"]));
        assert!(properties["both"]["properties"]["q"].is_object());
        assert_eq!(declared["required"], json!(["node"]));
    }

    #[test]
    fn arguments_are_validated_with_bounded_recursion() {
        let tree =
            json!({"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["a"]});
        let check = validator(&tree).expect("it takes a step with each round");
        assert!(check.is_valid(&json!({"a": 1, "next": {"a": 1}})));
        assert!(!check.is_valid(&json!({"a": 1, "next": {}})));
        for circular in [
            json!({"$ref": "#"}),
            json!({"allOf": [{"$ref": "#"}]}),
            json!({"properties": {"x": {"$ref": "#/$defs/a"}},
                "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/a"}}}),
            json!({"$ref": "https://x.example/schema.json"}),
            json!({"type": 3}),
        ] {
            assert!(validator(&circular).is_none(), "{circular}");
        }
    }
}
