//! What a server offers: tools, prompts, resources, and its instructions.

use parallax_protocol::Object;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Everything that a server told about itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Catalog {
    /// Its tools, in its own order.
    pub tools: Vec<ToolEntry>,
    /// Its prompts.
    pub prompts: Vec<PromptEntry>,
    /// Its resources.
    pub resources: Vec<ResourceEntry>,
    /// Patterns of addresses of further resources.
    pub templates: Vec<ResourceEntry>,
    /// What the model should know of it.
    pub instructions: Option<String>,
    /// Its own name and version.
    pub implementation: Option<String>,
    /// What was left out of its lists because it is too much, in words.
    pub cut: Option<String>,
}

impl Catalog {
    /// Whether it offers nothing.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
            && self.prompts.is_empty()
            && self.resources.is_empty()
            && self.templates.is_empty()
    }
}

/// A tool of a server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolEntry {
    /// Its name there.
    pub name: String,
    /// A name for people.
    pub title: Option<String>,
    /// What it does.
    pub description: String,
    /// JSON Schema of its arguments, as sent.
    pub schema: Value,
    /// JSON Schema of its structured results.
    pub output_schema: Option<Value>,
    /// Hints on what it does, as sent.
    pub annotations: Object,
}

impl ToolEntry {
    /// Reads one entry of a list; `None` when it is no tool.
    pub(crate) fn read(value: &Value) -> Option<Self> {
        let fields = value.as_object()?;
        let name = text(fields, "name").filter(|name| !name.is_empty())?;
        let schema = match fields.get("inputSchema") {
            Some(schema @ Value::Object(_)) => schema.clone(),
            _ => serde_json::json!({"type": "object", "properties": {}}),
        };
        let annotations = fields.get("annotations").and_then(Value::as_object).cloned();
        Some(Self {
            name,
            title: text(fields, "title")
                .or_else(|| text(annotations.as_ref()?, "title"))
                .filter(|title| !title.is_empty()),
            description: text(fields, "description").unwrap_or_default(),
            schema,
            output_schema: fields.get("outputSchema").filter(|schema| schema.is_object()).cloned(),
            annotations: annotations.unwrap_or_default(),
        })
    }

    /// Whether the server says yes to a hint.
    pub(crate) fn hint(&self, name: &str) -> bool {
        self.annotations.get(name).and_then(Value::as_bool) == Some(true)
    }
}

/// A prompt of a server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PromptEntry {
    /// Its name there.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// What can be filled in.
    pub arguments: Vec<PromptArgument>,
}

/// A text that a prompt takes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PromptArgument {
    /// Its name.
    pub name: String,
    /// What it is.
    pub description: String,
    /// Whether it must be given.
    pub required: bool,
}

impl PromptEntry {
    pub(crate) fn read(value: &Value) -> Option<Self> {
        let fields = value.as_object()?;
        let argument = |value: &Value| {
            let fields = value.as_object()?;
            Some(PromptArgument {
                name: text(fields, "name").filter(|name| !name.is_empty())?,
                description: text(fields, "description").unwrap_or_default(),
                required: fields.get("required").and_then(Value::as_bool) == Some(true),
            })
        };
        let arguments = fields.get("arguments").and_then(Value::as_array);
        Some(Self {
            name: text(fields, "name").filter(|name| !name.is_empty())?,
            description: text(fields, "description")
                .or_else(|| text(fields, "title"))
                .unwrap_or_default(),
            arguments: arguments.into_iter().flatten().filter_map(argument).collect(),
        })
    }
}

/// A resource of a server, or a pattern of resources.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceEntry {
    /// Its address, or the pattern.
    pub uri: String,
    /// Its name.
    pub name: String,
    /// What it is.
    pub description: Option<String>,
    /// Its kind.
    pub mime_type: Option<String>,
}

impl ResourceEntry {
    pub(crate) fn read(value: &Value) -> Option<Self> {
        let fields = value.as_object()?;
        let uri = text(fields, "uri").or_else(|| text(fields, "uriTemplate"))?;
        Some(Self {
            name: text(fields, "title").or_else(|| text(fields, "name")).unwrap_or_default(),
            uri: Some(uri).filter(|uri| !uri.is_empty())?,
            description: text(fields, "description"),
            mime_type: text(fields, "mimeType"),
        })
    }
}

fn text(fields: &Object, key: &str) -> Option<String> {
    fields.get(key)?.as_str().map(str::to_owned)
}
