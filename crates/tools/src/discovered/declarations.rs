//! Parses the output of a discovery command.

use std::collections::HashSet;

use serde_json::{Value, json};

/// Maximum number of tools.
const MAX_COUNT: usize = 200;
/// Maximum number of characters of a name; with the prefix it stays within the limit of the
/// services.
const NAME: usize = 48;
/// Maximum number of characters of a description.
const DESCRIPTION: usize = 4_000;

/// A declared tool.
#[derive(Debug, PartialEq)]
pub(super) struct Declaration {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) parameters: Value,
}

/// Parses a JSON array of declarations, or of groups of them. Skips those without a valid name.
pub(super) fn declarations(bytes: &[u8]) -> Result<Vec<Declaration>, String> {
    let output: Value = serde_json::from_slice(bytes)
        .map_err(|error| format!("its output is not JSON: {error}"))?;
    let Value::Array(items) = output else {
        return Err("its output is not a JSON array".to_owned());
    };
    let mut found = Vec::new();
    let mut names = HashSet::new();
    for item in &items {
        let group = ["function_declarations", "functionDeclarations"]
            .into_iter()
            .find_map(|key| item.get(key)?.as_array());
        let single = std::slice::from_ref(item);
        for one in group.map_or(single, Vec::as_slice) {
            if let Some(declaration) = declaration(one)
                && found.len() < MAX_COUNT
                && names.insert(declaration.name.clone())
            {
                found.push(declaration);
            }
        }
    }
    Ok(found)
}

/// Serializes declarations in the format that [`declarations`] parses.
pub(super) fn serialize(found: &[Declaration]) -> Result<Vec<u8>, String> {
    let to_json = |it: &Declaration| {
        json!({
            "name": it.name, "description": it.description, "parametersJsonSchema": it.parameters
        })
    };
    let all: Vec<Value> = found.iter().map(to_json).collect();
    serde_json::to_vec(&all).map_err(|error| error.to_string())
}

fn declaration(item: &Value) -> Option<Declaration> {
    let name = item.get("name")?.as_str()?;
    let is_of_names = |char: char| char.is_ascii_alphanumeric() || "_-.".contains(char);
    if name.is_empty() || name.len() > NAME || !name.chars().all(is_of_names) {
        return None;
    }
    let description = item.get("description").and_then(Value::as_str).unwrap_or_default();
    let schema = ["parametersJsonSchema", "parameters_json_schema", "parameters"]
        .into_iter()
        .find_map(|key| item.get(key).filter(|schema| schema.is_object()).cloned());
    Some(Declaration {
        name: name.to_owned(),
        description: description.chars().take(DESCRIPTION).collect(),
        parameters: schema.unwrap_or_else(|| json!({"type": "object", "properties": {}})),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_declaration_forms_are_parsed_and_unnamed_ones_skipped() {
        let output = json!([
            {"function_declarations": [{"name": "a"}, {"description": "nameless"}]},
            {"functionDeclarations": [{"name": "b", "parametersJsonSchema": {"type": "object"}}]},
            {"name": "c", "parameters": {"x": 1}},
            {"name": "a"}, {"name": "no spaces"}, 7
        ]);
        let found = declarations(output.to_string().as_bytes()).expect("declarations");
        let names: Vec<&str> = found.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        let reparsed = declarations(&serialize(&found).expect("kept")).expect("declarations");
        assert_eq!(reparsed, found);
        assert_eq!(found[1].parameters, json!({"type": "object"}));
        assert_eq!(found[2].parameters, json!({"x": 1}));
        assert!(declarations(b"{}").is_err() && declarations(b"x").is_err());
    }
}
