//! The table of settings for readers: the JSON schema of settings files, and the reference page.

use parallax_protocol::Object;
use serde_json::{Value, json};

use crate::setting_spec::{SettingSpec, SettingType};
use crate::setting_table::settings_table;

/// Returns the JSON schema of settings files. Unknown keys are allowed, as they are in the files.
pub fn settings_schema() -> Value {
    let mut properties = Object::new();
    for spec in settings_table() {
        insert(&mut properties, spec.name, schema_of(spec));
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Settings of Parallax",
        "type": "object",
        "properties": properties,
    })
}

fn schema_of(spec: &SettingSpec) -> Value {
    let mut schema = match spec.kind {
        SettingType::Flag => json!({"type": "boolean"}),
        SettingType::Number => json!({"type": "number"}),
        SettingType::Text => json!({"type": "string"}),
        SettingType::Choice(choices) => json!({"enum": choices}),
        SettingType::Age => json!({"type": "string", "pattern": "^[0-9]+[hdwm]$"}),
        SettingType::Texts => json!({"type": "array", "items": {"type": "string"}}),
        SettingType::TextOrTexts => {
            json!({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]})
        }
        SettingType::List => json!({"type": "array"}),
        SettingType::Object => json!({"type": "object"}),
        SettingType::FlagOr(words) => json!({"anyOf": [{"type": "boolean"}, {"enum": words}]}),
        SettingType::FlagTextOrObject => json!({"type": ["boolean", "string", "object"]}),
    };
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("description".to_owned(), Value::from(spec.doc));
        if let Ok(default) = serde_json::from_str::<Value>(spec.default) {
            schema.insert("default".to_owned(), default);
        }
    }
    schema
}

/// Inserts the schema of a dotted name, with schemas of objects for its groups.
fn insert(properties: &mut Object, name: &str, schema: Value) {
    let Some((group, rest)) = name.split_once('.') else {
        properties.insert(name.to_owned(), schema);
        return;
    };
    let group = properties.entry(group).or_insert_with(|| json!({"type": "object"}));
    let Some(group) = group.as_object_mut() else { return };
    let inner = group.entry("properties").or_insert_with(|| json!({}));
    if let Some(inner) = inner.as_object_mut() {
        insert(inner, rest, schema);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting_table::settings_by_subject;

    fn page() -> String {
        let mut text = String::from(
            "# Settings reference\n\nFor everyone who configures Parallax: all keys of \
             `settings.json`. [Settings](../settings.md) explains the files,\ntheir precedence, and \
             what the keys do. This page is generated from `crates/config/src/setting_table/`;\n\
             `parallax schema settings` prints the same as a JSON schema.\n",
        );
        for (subject, specs) in settings_by_subject() {
            text.push_str(&format!(
                "\n## {subject}\n\n| Key | Value | Default | Meaning |\n| --- | --- | --- | --- |\n"
            ));
            for spec in *specs {
                let default = match spec.default {
                    "" => String::new(),
                    default => format!("`{default}`"),
                };
                let row = format!(
                    "| `{}` | {} | {default} | {} |\n",
                    spec.name,
                    spec.kind.expected_format(),
                    spec.doc.replace('|', "\\|")
                );
                text.push_str(&row);
            }
        }
        text.push_str(
            "\nNext: [Settings](../settings.md) and [Model settings](../model-settings.md).\n",
        );
        text
    }

    #[test]
    fn reference_page_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/settings.md");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(path, page()).expect("written");
        }
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            written == page(),
            "docs/reference/settings.md is out of date: run with UPDATE_DOCS=1"
        );
    }

    #[test]
    fn schema_has_every_setting_with_its_default() {
        let schema = settings_schema();
        for spec in settings_table() {
            let pointer = spec.name.replace('.', "/properties/");
            let found = schema.pointer(&format!("/properties/{pointer}")).expect(spec.name);
            assert_eq!(found["description"], spec.doc, "{}", spec.name);
        }
        let vim = schema.pointer("/properties/general/properties/vimMode").expect("a setting");
        assert_eq!((&vim["type"], &vim["default"]), (&json!("boolean"), &json!(false)));
    }
}
