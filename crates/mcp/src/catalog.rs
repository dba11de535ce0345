//! What a server offers: tools, prompts, resources, and instructions.

use parallax_protocol::Object;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Everything that a server offers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Catalog {
    /// The tools, in the order of the server.
    pub tools: Vec<ToolEntry>,
    /// The prompts.
    pub prompts: Vec<PromptEntry>,
    /// The resources.
    pub resources: Vec<ResourceEntry>,
    /// The resource templates.
    pub templates: Vec<ResourceEntry>,
    /// The instructions for the model.
    pub instructions: Option<String>,
    /// The name and version that the server reports.
    pub implementation: Option<String>,
    /// A message about list entries that were omitted because there are too many.
    #[serde(rename = "cut")]
    pub omission_notice: Option<String>,
}

impl Catalog {
    /// Whether the server offers nothing.
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
    /// The name on the server.
    pub name: String,
    /// The display name.
    pub title: Option<String>,
    /// The description.
    pub description: String,
    /// JSON Schema of the arguments, as sent.
    pub schema: Value,
    /// JSON Schema of structured results.
    pub output_schema: Option<Value>,
    /// The annotations, as sent.
    pub annotations: Object,
}

impl ToolEntry {
    /// Parses a list entry; `None` if it is not a tool.
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

    /// Whether an annotation is true.
    pub(crate) fn hint(&self, name: &str) -> bool {
        self.annotations.get(name).and_then(Value::as_bool) == Some(true)
    }
}

/// A prompt of a server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PromptEntry {
    /// The name on the server.
    pub name: String,
    /// The description.
    pub description: String,
    /// The arguments.
    pub arguments: Vec<PromptArgument>,
}

/// An argument of a prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PromptArgument {
    /// The name.
    pub name: String,
    /// The description.
    pub description: String,
    /// Whether it is required.
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

/// A resource or resource template of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceEntry {
    /// The URI or URI template.
    pub uri: String,
    /// The name.
    pub name: String,
    /// The description.
    pub description: Option<String>,
    /// The MIME type.
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
