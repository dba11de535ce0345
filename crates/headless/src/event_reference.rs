//! Keeps `docs/reference/events.md` in agreement with the schema of stream-json.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::Value;

use crate::stream_schema::stream_schema;

const INTRO: &str = "# Events reference

For programs that read stream-json or drive a session: all lines with their fields. [Output formats](../output-formats.md)
and [Conversations](../conversations.md) explain them. This page is generated from the types in
`crates/headless/src/stream_lines.rs` and `input_line.rs`; `parallax schema events` prints the same as a JSON Schema.

Each output line also has `type` and `timestamp` (ISO 8601 with milliseconds). Fields marked with * are always present.

## Output lines
";

const NEXT: &str = "
Next: [Drive Parallax from a program](../guides/stream-json.md) and [Exit codes](exit-codes.md).
";

/// Writes the pages of the schema, and collects the definitions that they refer to.
struct Page {
    schema: Value,
    text: String,
    referenced: BTreeSet<String>,
}

impl Page {
    fn definition(&self, name: &str) -> Value {
        self.schema["$defs"][name].clone()
    }

    /// Returns the type of a field in words, with links to definitions.
    fn kind(&mut self, schema: &Value) -> String {
        if let Some(name) = schema["$ref"].as_str().and_then(|it| it.strip_prefix("#/$defs/")) {
            self.referenced.insert(name.to_owned());
            return format!("[{name}](#{})", name.to_lowercase());
        }
        if let Some(options) = schema["anyOf"].as_array().or(schema["oneOf"].as_array()) {
            let kinds: Vec<String> =
                options.iter().filter(|it| it["type"] != "null").map(|it| self.kind(it)).collect();
            return kinds.join(" or ");
        }
        if let Some(value) = schema["const"].as_str() {
            return format!("`\"{value}\"`");
        }
        if let Some(values) = schema["enum"].as_array() {
            let values: Vec<String> = values.iter().map(|it| format!("`{it}`")).collect();
            return values.join(", ");
        }
        let kind = match &schema["type"] {
            Value::String(kind) => kind.clone(),
            Value::Array(kinds) => {
                let kinds = kinds.iter().filter_map(Value::as_str).filter(|it| *it != "null");
                kinds.collect::<Vec<_>>().join(" or ")
            }
            _ => return "any".to_owned(),
        };
        match kind.as_str() {
            "array" if schema["prefixItems"].is_array() => {
                let kinds = schema["prefixItems"].as_array().into_iter().flatten();
                let kinds: Vec<String> = kinds.map(|it| self.kind(it)).collect();
                format!("({})", kinds.join(", "))
            }
            "array" => format!("array of {}", self.kind(&schema["items"])),
            "object" if schema["additionalProperties"].is_object() => {
                format!("object of {}", self.kind(&schema["additionalProperties"]))
            }
            _ => kind,
        }
    }

    fn write_fields(&mut self, schema: &Value, omitted: &[&str]) {
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let Some(properties) = schema["properties"].as_object() else { return };
        let properties: Vec<(&String, &Value)> =
            properties.iter().filter(|(name, _)| !omitted.contains(&name.as_str())).collect();
        if properties.is_empty() {
            return;
        }
        self.text.push_str("\n| Field | Type | Meaning |\n| --- | --- | --- |\n");
        for (name, field) in properties {
            let mark = if required.contains(&name.as_str()) { "*" } else { "" };
            let kind = self.kind(field);
            let _ = writeln!(self.text, "| `{name}`{mark} | {kind} | {} |", doc(field));
        }
    }

    /// Writes a definition below its heading.
    fn write_body(&mut self, schema: &Value, omitted: &[&str]) {
        let text = doc(schema);
        if !text.is_empty() {
            let _ = write!(self.text, "\n{text}\n");
        }
        self.write_fields(schema, omitted);
        let Some(options) = schema["oneOf"].as_array() else {
            if let Some(values) = schema["enum"].as_array() {
                let values: Vec<String> = values.iter().map(|it| format!("`{it}`")).collect();
                let _ = write!(self.text, "\nOne of {}.\n", values.join(", "));
            }
            return;
        };
        self.text.push_str("\nOne of:\n\n");
        for option in options {
            let mut line = match option["const"].as_str() {
                Some(word) => format!("- `{word}`"),
                None => match option["properties"]["type"]["const"].as_str() {
                    Some(word) => format!("- `\"type\": \"{word}\"`"),
                    None => format!("- {}", self.kind(option)),
                },
            };
            let words = doc(option);
            if !words.is_empty() {
                let _ = write!(line, ": {words}");
            }
            let mut parts = self.parts(option);
            if let Some(name) = option["$ref"].as_str().and_then(|it| it.strip_prefix("#/$defs/")) {
                self.referenced.insert(name.to_owned());
                parts.push(format!("the fields of [{name}](#{})", name.to_lowercase()));
            }
            if !parts.is_empty() {
                let _ = write!(line, " With {}.", parts.join(", "));
            }
            let _ = writeln!(self.text, "{line}");
        }
    }

    /// Returns the fields of a variant in one line.
    fn parts(&mut self, schema: &Value) -> Vec<String> {
        let properties = schema["properties"].as_object().cloned().unwrap_or_default();
        let fields = properties.iter().filter(|(name, _)| *name != "type");
        fields.map(|(name, field)| format!("`{name}` ({})", self.kind(field))).collect()
    }
}

/// Returns the documentation of a schema in one line, without links of Rust.
fn doc(schema: &Value) -> String {
    let text = schema["description"].as_str().unwrap_or_default().replace('\n', " ");
    text.replace("[`", "`")
        .replace("`]", "`")
        .replace('|', "\\|")
        .replace("`None`", "absent")
        .replace("Preview::", "")
}

fn page() -> String {
    let schema = stream_schema();
    let lines: Vec<String> = schema["oneOf"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|it| it["$ref"].as_str()?.strip_prefix("#/$defs/").map(str::to_owned))
        .collect();
    let mut page = Page { schema, text: INTRO.to_owned(), referenced: BTreeSet::new() };
    for name in &lines {
        let line = page.definition(name);
        let word = line["properties"]["type"]["const"].as_str().unwrap_or_default();
        let _ = write!(page.text, "\n### {word}\n");
        page.write_body(&line, &["type", "timestamp"]);
    }
    page.text.push_str("\n## Input lines\n");
    let input = page.definition("InputLine");
    for option in input["oneOf"].as_array().into_iter().flatten() {
        let word = option["properties"]["type"]["const"].as_str().unwrap_or_default();
        let _ = write!(page.text, "\n### Input: {word}\n\n{}\n", doc(option));
        page.write_fields(option, &["type"]);
        if let Some(name) = option["$ref"].as_str().and_then(|it| it.strip_prefix("#/$defs/")) {
            let fields = page.definition(name);
            page.write_fields(&fields, &[]);
        }
    }
    page.text.push_str("\n## Types\n");
    let mut written = BTreeSet::new();
    while let Some(name) = page.referenced.difference(&written).next().cloned() {
        let _ = write!(page.text, "\n### {name}\n");
        let definition = page.definition(&name);
        page.write_body(&definition, &[]);
        written.insert(name);
    }
    page.text.push_str(NEXT);
    page.text
}

#[test]
fn reference_page_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/events.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, page()).expect("written");
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(written == page(), "docs/reference/events.md is out of date: run with UPDATE_DOCS=1");
}
