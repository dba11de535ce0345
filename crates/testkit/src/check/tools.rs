//! Validates tool declarations.

use std::collections::BTreeSet;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// Returns the violations in the `tools` of a request.
pub(super) fn check(raw: &RawValue) -> Vec<String> {
    let mut found = Vec::new();
    let Ok(tools) = serde_json::from_str::<Vec<Map<String, Value>>>(raw.get()) else {
        return vec!["`tools` is not an array of objects".to_owned()];
    };
    let mut names = BTreeSet::new();
    let mut kinds = BTreeSet::new();
    for tool in &tools {
        kinds.extend(tool.keys().map(String::as_str));
        let Some(functions) = tool.get("functionDeclarations") else { continue };
        let Some(functions) = functions.as_array().filter(|list| !list.is_empty()) else {
            found.push("empty functionDeclarations".to_owned());
            continue;
        };
        for function in functions {
            let name = function.get("name").and_then(Value::as_str).unwrap_or("");
            let fits = (1..=64).contains(&name.len())
                && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.:".contains(&b));
            if !fits {
                found.push(format!("tool name `{name}` is not 1 to 64 of [A-Za-z0-9_.:-]"));
            }
            if !names.insert(name) {
                found.push(format!("tool `{name}` is declared twice"));
            }
            check_function(name, function, &mut found);
        }
    }
    if kinds.contains("functionDeclarations") && kinds.len() > 1 {
        found.push("function declarations beside a tool of the service".to_owned());
    }
    found
}

fn check_function(name: &str, function: &Value, found: &mut Vec<String>) {
    let schema = match (function.get("parameters"), function.get("parametersJsonSchema")) {
        (Some(schema), None) | (None, Some(schema)) => schema,
        _ => {
            found.push(format!("tool `{name}`: not exactly one of the two parameter fields"));
            return;
        }
    };
    let kind = schema.get("type").and_then(Value::as_str).unwrap_or("");
    if !kind.eq_ignore_ascii_case("object") {
        found.push(format!("tool `{name}`: the schema's type is not object"));
    }
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        found.push(format!("tool `{name}`: the schema has no properties"));
        return;
    };
    // Schemas of MCP tools are declared unchanged.
    let is_ours = !name.starts_with("mcp_");
    if is_ours && schema.get("$schema").is_some() {
        found.push(format!("tool `{name}`: the schema has `$schema`"));
    }
    for required in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
        if required.as_str().is_none_or(|required| !properties.contains_key(required)) {
            found.push(format!("tool `{name}`: required {required} is not a property"));
        }
    }
    if let Some((property, _)) =
        properties.iter().find(|(_, value)| !value.is_object() && (is_ours || !value.is_boolean()))
    {
        found.push(format!("tool `{name}`: property `{property}` is not a schema"));
    }
}
