//! Function declarations for providers other than the Gemini API.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use parallax_protocol::model::ToolSet;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// Maximum length of a function name.
const MAX_NAME: usize = 64;

/// A function, with a name that every provider accepts and a plain JSON schema.
#[derive(Debug, Clone, PartialEq)]
pub struct Declaration {
    /// The name: letters, digits, `_`, and `-`.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The JSON schema of its arguments: always an object.
    pub schema: Value,
}

/// The functions of a request.
#[derive(Debug, Default)]
pub struct Declarations {
    /// The functions, in order.
    pub list: Vec<Declaration>,
    /// Names that differ on the wire, by their wire name.
    wire_names: BTreeMap<String, String>,
}

impl Declarations {
    fn read(declared: &RawValue) -> Self {
        let mut declarations = Self::default();
        let values: Vec<Value> = serde_json::from_str(declared.get()).unwrap_or_default();
        for value in &values {
            let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
            let name = text("name");
            if name.is_empty() {
                continue;
            }
            let wire = wire_name(name);
            if wire != name {
                declarations.wire_names.insert(wire.clone(), name.to_owned());
            }
            let schema = match (value.get("parametersJsonSchema"), value.get("parameters")) {
                (Some(schema), _) => schema.clone(),
                (None, Some(schema)) => lowercase_types(schema.clone()),
                (None, None) => Value::Null,
            };
            declarations.list.push(Declaration {
                name: wire,
                description: text("description").to_owned(),
                schema: object_schema(schema),
            });
        }
        declarations
    }

    /// Returns the name of a tool whose call came from the wire.
    pub fn name_of(&self, wire: &str) -> String {
        self.wire_names.get(wire).cloned().unwrap_or_else(|| wire.to_owned())
    }
}

/// Converts the declarations of a session once.
#[derive(Debug, Default)]
pub struct DeclarationCache {
    last: Mutex<Option<(Arc<RawValue>, Arc<Declarations>)>>,
}

impl DeclarationCache {
    /// Returns the functions of a tool set.
    pub fn get(&self, tools: &ToolSet) -> Arc<Declarations> {
        let ToolSet::Functions(declared) = tools else { return Arc::default() };
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((known, declarations)) if Arc::ptr_eq(known, declared) => declarations.clone(),
            _ => {
                let declarations = Arc::new(Declarations::read(declared));
                *last = Some((declared.clone(), declarations.clone()));
                declarations
            }
        }
    }
}

/// Returns a name that every provider accepts: letters, digits, `_`, and `-`, at most 64 of them.
/// Names that differ stay different.
pub fn wire_name(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if name.len() <= MAX_NAME && name.bytes().all(is_plain) {
        return name.to_owned();
    }
    let mut wire: String = name
        .chars()
        .map(|letter| if u8::try_from(letter).is_ok_and(is_plain) { letter } else { '_' })
        .take(MAX_NAME - 9)
        .collect();
    wire.push_str(&format!("_{:08x}", fnv(name.as_bytes())));
    wire
}

/// Returns the 32-bit FNV-1a hash: short, and the same on every machine and in every version.
fn fnv(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Converts types to lower case; the Gemini API writes them in upper case.
fn lowercase_types(mut schema: Value) -> Value {
    match &mut schema {
        Value::Object(fields) => {
            for (key, value) in fields.iter_mut() {
                match (key.as_str(), &mut *value) {
                    ("type", Value::String(word)) => word.make_ascii_lowercase(),
                    // Values of these keys are data, not schemas.
                    ("enum" | "default" | "example" | "required" | "const", _) => {}
                    _ => *value = lowercase_types(value.take()),
                }
            }
        }
        Value::Array(values) => {
            values.iter_mut().for_each(|value| *value = lowercase_types(value.take()));
        }
        _ => {}
    }
    schema
}

/// Makes the top level an object, as every provider requires.
fn object_schema(schema: Value) -> Value {
    let Value::Object(mut fields) = schema else {
        return json!({"type": "object", "properties": {}});
    };
    fields.shift_remove("$schema");
    fields.insert("type".to_owned(), json!("object"));
    if !fields.get("properties").is_some_and(Value::is_object) {
        fields.insert("properties".to_owned(), json!({}));
    }
    Value::Object(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_names_are_mapped_and_restored() {
        let long = "x".repeat(100);
        let other = format!("{}y", "x".repeat(99));
        assert_ne!(wire_name(&long), wire_name(&other));
        assert_eq!(wire_name("read_file"), "read_file");
        for name in ["mcp.a:b", "ü", &long] {
            let wire = wire_name(name);
            assert!(wire.len() <= MAX_NAME, "{wire}");
            let declared = format!(r#"[{{"name":"{name}"}}]"#);
            let declared = RawValue::from_string(declared).expect("json");
            let declarations = Declarations::read(&declared);
            assert_eq!(declarations.list[0].name, wire);
            assert_eq!(declarations.name_of(&wire), name);
        }
    }

    #[test]
    fn schemas_become_plain_json_schema() {
        let declared = r#"[{"name":"a","description":"d","parameters":{"type":"OBJECT",
            "properties":{"type":{"type":"STRING","enum":["A"]}},"required":["type"]}},
            {"name":"b","parametersJsonSchema":{"$schema":"x","type":"object"}},{"name":"c"}]"#;
        let declared = RawValue::from_string(declared.to_owned()).expect("json");
        let schemas: Vec<Value> =
            Declarations::read(&declared).list.into_iter().map(|it| it.schema).collect();
        assert_eq!(
            schemas,
            [
                json!({"type": "object", "properties": {"type": {"type": "string", "enum": ["A"]}},
                    "required": ["type"]}),
                json!({"type": "object", "properties": {}}),
                json!({"type": "object", "properties": {}}),
            ]
        );
    }
}
