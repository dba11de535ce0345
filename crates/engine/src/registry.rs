//! The tools of a session: lookup by name and alias, similar names, declarations.

mod restrictions;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parallax_protocol::BoxFuture;
use parallax_protocol::policy::{ApprovalMode, PolicyEngine};
use parallax_protocol::tool::{Concurrency, Tool, ToolKind, ToolSource, ToolSpec};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use self::restrictions::Restrictions;
use crate::tool_call::ToolCall;

/// The argument that lets any call wait for all previous calls. The scheduler handles it; tools
/// do not see it.
pub(crate) const WAIT_FOR_PREVIOUS: &str = "wait_for_previous";

/// Tools that declare this argument. Tools for files, commands, processes, and the web accept it
/// undeclared: models call them more reliably when their schema holds nothing else. Tools of
/// MCP servers declare it themselves.
const WAITABLE_TOOLS: [&str; 4] =
    ["update_topic", "invoke_agent", "list_mcp_resources", "read_mcp_resource"];
/// Name prefix of tools that a discovery command of the user declares.
const DISCOVERED_PREFIX: &str = "discovered_tool_";

/// The tool declarations of a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct ToolDeclarations {
    /// The declarations as a JSON array; `None` without tools.
    pub(crate) json: Option<Arc<RawValue>>,
    /// The names of the declared tools, in order.
    pub(crate) names: Arc<[String]>,
}

/// The declaration of one tool.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolDeclaration<'a> {
    name: &'a str,
    description: &'a str,
    parameters_json_schema: Cow<'a, Value>,
}

impl<'a> ToolDeclaration<'a> {
    fn new(spec: &'a ToolSpec, description: &'a str) -> Self {
        let waits = WAITABLE_TOOLS.contains(&spec.name.as_str())
            || spec.name.starts_with(DISCOVERED_PREFIX);
        let parameters = match waits {
            true => Cow::Owned(add_wait_parameter(spec.parameters.clone())),
            false => Cow::Borrowed(&spec.parameters),
        };
        Self { name: &spec.name, description, parameters_json_schema: parameters }
    }
}

/// Adds the argument that lets a call wait for all previous calls.
fn add_wait_parameter(mut parameters: Value) -> Value {
    if let Some(fields) = parameters.as_object_mut() {
        fields.entry("type").or_insert_with(|| "object".into());
        let properties = fields.entry("properties").or_insert_with(|| json!({}));
        if let Some(properties) = properties.as_object_mut() {
            properties.entry(WAIT_FOR_PREVIOUS).or_insert_with(|| {
                // The system prompt describes it.
                json!({"type": "boolean"})
            });
        }
    }
    parameters
}

/// The tools of a session.
pub(crate) struct Registry {
    tools: Vec<Arc<dyn Tool>>,
    by_name: HashMap<String, usize>,
    /// The kind of each tool, by all its names.
    kinds: Arc<HashMap<String, ToolKind>>,
    /// How many of `tools` are static.
    fixed: usize,
    other_tools: Option<Arc<dyn ToolSource>>,
    /// The version of `other_tools` that `tools` contains.
    version: Option<u64>,
    /// Whether the first request has already waited.
    has_waited: bool,
    /// Which of them a response may use.
    restrictions: Restrictions,
}

impl Registry {
    pub(crate) fn new(tools: Vec<Arc<dyn Tool>>, other_tools: Option<Arc<dyn ToolSource>>) -> Self {
        let fixed = tools.len();
        let mut registry = Self {
            tools,
            by_name: HashMap::new(),
            kinds: Arc::default(),
            fixed,
            other_tools,
            version: None,
            has_waited: false,
            restrictions: Restrictions::default(),
        };
        registry.rebuild_index();
        registry.refresh();
        registry
    }

    /// Updates dynamic tools.
    pub(crate) fn refresh(&mut self) {
        let Some(more) = &self.other_tools else { return };
        let version = more.version();
        if self.version == Some(version) {
            return;
        }
        self.version = Some(version);
        self.tools.truncate(self.fixed);
        let names: HashSet<String> =
            self.tools.iter().map(|tool| tool.spec().name.clone()).collect();
        self.tools
            .extend(more.tools().into_iter().filter(|tool| !names.contains(&tool.spec().name)));
        self.rebuild_index();
        self.restrictions.redeclare_tools();
    }

    /// Returns the source of dynamic tools.
    pub(crate) fn source(&self) -> Option<Arc<dyn ToolSource>> {
        self.other_tools.clone()
    }

    /// Returns a future to await before the first request, or `None` if it was already taken.
    pub(crate) fn take_readiness(&mut self) -> Option<BoxFuture<'static, ()>> {
        match std::mem::replace(&mut self.has_waited, true) {
            true => None,
            false => self.other_tools.as_ref().map(|more| more.wait_until_ready()),
        }
    }

    /// Returns a warning about tools that are missing.
    pub(crate) fn take_warning(&self) -> Option<String> {
        self.other_tools.as_ref().and_then(|more| more.take_warning())
    }

    /// Returns what the model should know about dynamic tools.
    pub(crate) fn context(&self) -> Option<String> {
        self.other_tools.as_ref().and_then(|more| more.context())
    }

    /// Returns what to wait for before a name is reported as unknown.
    pub(crate) fn wait_for_tool(&self, name: &str) -> Option<BoxFuture<'static, ()>> {
        self.other_tools.as_ref().map(|more| more.wait_for_tool(name))
    }

    fn rebuild_index(&mut self) {
        let mut by_name = HashMap::new();
        for (index, tool) in self.tools.iter().enumerate() {
            for alias in &tool.spec().aliases {
                by_name.entry(alias.clone()).or_insert(index);
            }
        }
        // A tool's own name takes precedence over another tool's alias.
        for (index, tool) in self.tools.iter().enumerate() {
            by_name.insert(tool.spec().name.clone(), index);
        }
        let kinds = by_name.iter();
        let kinds =
            kinds.filter_map(|(name, at)| Some((name.clone(), self.tools.get(*at)?.spec().kind)));
        self.kinds = Arc::new(kinds.collect());
        self.by_name = by_name;
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.by_name.get(name).and_then(|index| self.tools.get(*index))
    }

    /// Returns the name by which users know a tool, quoted.
    pub(crate) fn user_facing_name(&self, name: &str) -> String {
        self.get(name).map_or_else(|| format!("`{name}`"), |tool| user_facing_name(tool.as_ref()))
    }

    /// Returns the name under which a tool is declared.
    pub(crate) fn declared_name(&self, name: &str) -> String {
        self.get(name).map_or_else(|| name.to_owned(), |tool| tool.spec().name.clone())
    }

    /// Returns the kind of each tool, by all its names.
    pub(crate) fn tool_kinds(&self) -> Arc<HashMap<String, ToolKind>> {
        Arc::clone(&self.kinds)
    }

    /// Whether calls of the tool run alone.
    fn is_exclusive(&self, name: &str) -> bool {
        self.get(name).is_some_and(|tool| tool.spec().concurrency == Concurrency::Exclusive)
    }

    /// Whether the call runs alone: its tool is exclusive, or it asks to wait for previous calls.
    pub(crate) fn runs_alone(&self, call: &ToolCall) -> bool {
        let waits = call.args.as_ref().ok().and_then(|args| args.get(WAIT_FOR_PREVIOUS));
        waits.and_then(Value::as_bool) == Some(true) || self.is_exclusive(&call.name)
    }

    /// Returns the declarations of the tools that policy does not hide and for which `is_included`
    /// holds. They are always in registration order: the provider's cache depends on equal bytes.
    fn declarations(
        &self,
        policy_engine: &dyn PolicyEngine,
        mode: ApprovalMode,
        interactive: bool,
        is_included: impl Fn(&ToolSpec) -> bool,
    ) -> ToolDeclarations {
        let tools: Vec<&Arc<dyn Tool>> = self
            .visible_tools(policy_engine, mode, interactive)
            .filter(|tool| is_included(tool.spec()))
            .collect();
        let descriptions: Vec<_> = tools.iter().map(|tool| tool.description(mode)).collect();
        let described = tools.iter().zip(&descriptions);
        let json: Vec<ToolDeclaration> = described
            .map(|(tool, description)| ToolDeclaration::new(tool.spec(), description.trim()))
            .collect();
        ToolDeclarations {
            json: match json.is_empty() {
                true => None,
                false => serde_json::value::to_raw_value(&json).ok().map(Arc::from),
            },
            names: tools.iter().map(|tool| tool.spec().name.clone()).collect(),
        }
    }

    fn visible_tools(
        &self,
        policy_engine: &dyn PolicyEngine,
        mode: ApprovalMode,
        interactive: bool,
    ) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.tools.iter().filter(move |tool| {
            tool.is_declared(mode)
                && !policy_engine.is_tool_denied(
                    &tool.spec().name,
                    &tool.spec().aliases,
                    mode,
                    interactive,
                )
        })
    }

    /// Returns the error for an unknown tool, with similar names of declared tools.
    pub(crate) fn unknown_tool_message(
        &self,
        name: &str,
        policy_engine: &dyn PolicyEngine,
        mode: ApprovalMode,
        interactive: bool,
    ) -> String {
        let mut near: Vec<(usize, &str)> = self
            .visible_tools(policy_engine, mode, interactive)
            .map(|tool| (edit_distance(name, &tool.spec().name), tool.spec().name.as_str()))
            .collect();
        near.sort_unstable();
        let names: Vec<String> =
            near.iter().take(3).map(|(_, candidate)| format!("\"{candidate}\"")).collect();
        if names.is_empty() {
            return format!("Tool \"{name}\" not found.");
        }
        format!("Tool \"{name}\" not found. Did you mean one of: {}?", names.join(", "))
    }
}

/// Returns the edit distance of two names. Names come from the model, so only their beginnings are
/// compared.
fn edit_distance(left: &str, right: &str) -> usize {
    const MAX_LENGTH: usize = 64;
    let start = |name: &str| name.chars().take(MAX_LENGTH).collect::<String>();
    strsim::levenshtein(&start(left), &start(right))
}

/// Returns the name by which users know a tool, quoted: the display name, or the tool and the server
/// for a tool of an MCP server.
pub(crate) fn user_facing_name(tool: &dyn Tool) -> String {
    match tool.mcp_origin() {
        Some(origin) => format!("`{}` of `{}`", origin.tool, origin.server),
        None => format!("`{}`", tool.spec().display_name),
    }
}

#[cfg(test)]
mod tests {
    use parallax_protocol::tool::{Concurrency, ToolKind, ToolSpec};
    use serde_json::{Value, json};

    use super::ToolDeclaration;

    fn spec(name: &str, parameters: Value) -> ToolSpec {
        ToolSpec {
            name: name.into(),
            display_name: String::new(),
            description: String::new(),
            parameters,
            kind: ToolKind::Think,
            concurrency: Concurrency::Shared,
            aliases: Vec::new(),
        }
    }

    #[test]
    fn wait_parameter_is_declared_where_the_schema_allows() {
        let waits = |name: &str, parameters: Value| {
            let spec = spec(name, parameters);
            let declaration = serde_json::to_value(ToolDeclaration::new(&spec, "")).unwrap();
            declaration["parametersJsonSchema"]["properties"]["wait_for_previous"]["type"]
                == "boolean"
        };
        assert!(waits("update_topic", json!({"type": "object", "properties": {}})));
        assert!(waits("discovered_tool_x", json!({})));
        assert!(!waits("read_file", json!({"type": "object", "properties": {}})));
    }
}
