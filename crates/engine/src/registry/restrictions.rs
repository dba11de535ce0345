//! Which tools a response may use: those of the prompt, of coordinator mode, and of hooks, without
//! those that the service rejects.

use std::collections::HashSet;

use parallax_protocol::agent::COMPLETE_TASK;
use parallax_protocol::policy::{ApprovalMode, PolicyEngine};
use parallax_protocol::tool::{ToolError, ToolErrorKind, ToolKind, ToolSpec};

use super::{Registry, ToolDeclarations};

/// The restrictions that apply to a registry's tools, and the declarations that follow from them.
#[derive(Default)]
pub(super) struct Restrictions {
    /// The tools that the running prompt enables, by name or pattern; `None`: all.
    enabled: Option<Vec<String>>,
    /// Whether the running prompt is in coordinator mode.
    is_coordinator: bool,
    /// The tools that hooks selected for the newest response; `None`: all.
    chosen: Option<Vec<String>>,
    /// Tools that are excluded because the service rejects their schemas.
    rejected: HashSet<String>,
    /// The declarations for the mode of the last request, and which tools were offered then.
    declared: Option<DeclaredTools>,
}

struct DeclaredTools {
    mode: ApprovalMode,
    is_declared: Vec<bool>,
    tools: ToolDeclarations,
}

impl Restrictions {
    /// Makes the next request declare the tools again.
    pub(super) fn redeclare_tools(&mut self) {
        self.declared = None;
    }
}

impl Registry {
    /// Enables only these tools for a prompt; `None`: all. A pattern may end in `*`.
    pub(crate) fn enable_only(&mut self, tools: Option<Vec<String>>) {
        if tools.is_some() || self.restrictions.enabled.is_some() {
            self.restrictions.redeclare_tools();
        }
        self.restrictions.enabled = tools;
    }

    /// Enters or leaves coordinator mode, in which the model only delegates to subagents.
    pub(crate) fn set_coordinator(&mut self, on: bool) {
        if self.restrictions.is_coordinator != on {
            self.restrictions.is_coordinator = on;
            self.restrictions.redeclare_tools();
        }
    }

    /// Sets the tools that hooks selected for the next response; `None`: all.
    pub(crate) fn choose(&mut self, tools: Option<Vec<String>>) {
        self.restrictions.chosen = tools;
    }

    /// Excludes a tool whose schema the service rejects. Returns whether it was not excluded yet.
    pub(crate) fn reject(&mut self, tool: String) -> bool {
        self.restrictions.redeclare_tools();
        self.restrictions.rejected.insert(tool)
    }

    /// Returns the excluded tools.
    pub(crate) fn excluded_tools(&self) -> &HashSet<String> {
        &self.restrictions.rejected
    }

    /// Replaces the excluded tools.
    pub(crate) fn set_rejected(&mut self, tools: HashSet<String>) {
        self.restrictions.redeclare_tools();
        self.restrictions.rejected = tools;
    }

    /// Returns the names of the last declarations, in order.
    pub(crate) fn declared_names(&self) -> &[String] {
        self.restrictions.declared.as_ref().map_or(&[], |declared| &declared.tools.names)
    }

    /// Returns the declared tools of MCP servers: name, server.
    pub(crate) fn declared_mcp_tools(&self) -> Vec<(String, String)> {
        let origin = self
            .declared_names()
            .iter()
            .filter_map(|name| Some((name.clone(), self.get(name)?.mcp_origin()?.server.clone())));
        origin.collect()
    }

    /// Returns the declarations of the tools that may be used, cached until the mode or the offered
    /// tools change.
    pub(crate) fn declare(
        &mut self,
        policy_engine: &dyn PolicyEngine,
        mode: ApprovalMode,
        interactive: bool,
    ) -> ToolDeclarations {
        let is_declared: Vec<bool> = self.tools.iter().map(|tool| tool.is_declared(mode)).collect();
        if let Some(declared) = &self.restrictions.declared
            && declared.mode == mode
            && declared.is_declared == is_declared
        {
            return declared.tools.clone();
        }
        let tools = self.declarations(policy_engine, mode, interactive, |spec| {
            (!self.restrictions.is_coordinator || is_for_coordinators(spec))
                && self.is_enabled(&spec.name)
                && !self.restrictions.rejected.contains(&spec.name)
        });
        self.restrictions.declared =
            Some(DeclaredTools { mode, is_declared, tools: tools.clone() });
        tools
    }

    /// Returns why the tool must not be called in this response.
    pub(crate) fn exclusion(&self, name: &str) -> Option<String> {
        if name == COMPLETE_TASK {
            return None;
        }
        let unchosen = |chosen: &Vec<String>| !chosen.contains(&self.declared_name(name));
        if self.restrictions.chosen.as_ref().is_some_and(unchosen) {
            return Some(format!("A hook excluded `{name}` from the tools of this response"));
        }
        (!self.is_enabled(name))
            .then(|| format!("The command of this prompt does not enable `{name}`"))
    }

    /// Whether the prompt enables the tool, by any of its names.
    fn is_enabled(&self, name: &str) -> bool {
        let Some(enabled) = &self.restrictions.enabled else { return true };
        let matches = |name: &str| {
            enabled.iter().any(|pattern| match pattern.strip_suffix('*') {
                Some(beginning) => name.starts_with(beginning),
                None => pattern == name,
            })
        };
        match self.get(name) {
            Some(tool) => {
                let spec = tool.spec();
                matches(&spec.name) || spec.aliases.iter().any(|alias| matches(alias))
            }
            None => matches(name),
        }
    }

    /// Returns the error for a tool that a coordinator may not use.
    pub(crate) fn coordinator_denial(&self, spec: &ToolSpec) -> Option<ToolError> {
        (self.restrictions.is_coordinator && !is_for_coordinators(spec)).then(|| {
            let name = &spec.name;
            let message = format!(
                "`{name}` is not available in coordinator mode. Delegate the work to a subagent \
                    with `invoke_agent`"
            );
            ToolError::new(ToolErrorKind::PolicyViolation, message)
        })
    }
}

/// Whether a coordinator may use the tool: it may read, keep task lists, and ask the user.
fn is_for_coordinators(spec: &ToolSpec) -> bool {
    let keeps_lists = spec.name == "write_todos" || spec.name.starts_with("tracker_");
    keeps_lists
        || matches!(
            spec.kind,
            ToolKind::Agent
                | ToolKind::Read
                | ToolKind::Search
                | ToolKind::Fetch
                | ToolKind::Think
                | ToolKind::Communicate
        )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parallax_protocol::policy::Decision;
    use parallax_protocol::tool::{Concurrency, Tool};

    use super::*;
    use crate::test_parts::{TestPolicyEngine, TestTool};

    fn registry() -> Registry {
        let tools = [
            ("read_file", ToolKind::Read),
            ("replace", ToolKind::Edit),
            ("mcp_a_find", ToolKind::Search),
            ("mcp_a_save", ToolKind::Other),
        ];
        let tool = |(name, kind)| Arc::new(TestTool::new(name, kind, Concurrency::Shared)) as _;
        let tools: Vec<Arc<dyn Tool>> = tools.map(tool).to_vec();
        Registry::new(tools, None)
    }

    fn declared(registry: &mut Registry) -> Vec<String> {
        let policy_engine = TestPolicyEngine(Decision::Allow);
        registry.declare(&policy_engine, ApprovalMode::Default, true).names.to_vec()
    }

    #[test]
    fn tools_of_a_prompt_are_enabled_by_name_alias_and_pattern() {
        let mut registry = registry();
        let all = declared(&mut registry);
        registry.enable_only(Some(vec!["replace_alias".to_owned(), "mcp_a_*".to_owned()]));
        assert_eq!(declared(&mut registry), ["replace", "mcp_a_find", "mcp_a_save"]);
        assert!(registry.exclusion("replace").is_none());
        let reason = registry.exclusion("read_file").expect("an exclusion");
        assert_eq!(reason, "The command of this prompt does not enable `read_file`");
        registry.enable_only(None);
        assert_eq!(declared(&mut registry), all);
    }

    #[test]
    fn coordinator_may_read_and_search_but_not_change_anything() {
        let mut registry = registry();
        registry.set_coordinator(true);
        assert_eq!(declared(&mut registry), ["read_file", "mcp_a_find"]);
        let spec = registry.get("replace").expect("a tool").spec().clone();
        assert!(registry.coordinator_denial(&spec).is_some());
        registry.set_coordinator(false);
        assert!(registry.coordinator_denial(&spec).is_none());
    }

    #[test]
    fn rejected_tools_are_not_declared_and_can_be_restored() {
        let mut registry = registry();
        assert!(registry.reject("replace".to_owned()) && !registry.reject("replace".to_owned()));
        assert!(!declared(&mut registry).contains(&"replace".to_owned()));
        registry.set_rejected(HashSet::new());
        assert!(declared(&mut registry).contains(&"replace".to_owned()));
    }

    #[test]
    fn hook_tool_choice_excludes_other_tools_for_one_response() {
        let mut registry = registry();
        registry.choose(Some(vec!["read_file".to_owned()]));
        assert!(registry.exclusion("read_file_alias").is_none());
        assert!(registry.exclusion("replace").is_some());
        assert!(registry.exclusion(COMPLETE_TASK).is_none());
        registry.choose(None);
        assert!(registry.exclusion("replace").is_none());
    }
}
