//! Which tools a response may use: those of the prompt, of coordinator mode, and of hooks, without
//! those that the service rejects.

use std::collections::HashSet;

use parallax_protocol::agent::COMPLETE_TASK;
use parallax_protocol::policy::{ApprovalMode, Judge};
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
    /// The declarations for the mode of the last request.
    declared: Option<(ApprovalMode, ToolDeclarations)>,
}

impl Restrictions {
    /// Makes the next request declare the tools again.
    pub(super) fn forget_declarations(&mut self) {
        self.declared = None;
    }
}

impl Registry {
    /// Enables only these tools for a prompt; `None`: all. A pattern may end in `*`.
    pub(crate) fn enable_only(&mut self, tools: Option<Vec<String>>) {
        if tools.is_some() || self.restrictions.enabled.is_some() {
            self.restrictions.forget_declarations();
        }
        self.restrictions.enabled = tools;
    }

    /// Enters or leaves coordinator mode, in which the model only delegates to subagents.
    pub(crate) fn set_coordinator(&mut self, on: bool) {
        if self.restrictions.is_coordinator != on {
            self.restrictions.is_coordinator = on;
            self.restrictions.forget_declarations();
        }
    }

    /// Sets the tools that hooks selected for the next response; `None`: all.
    pub(crate) fn choose(&mut self, tools: Option<Vec<String>>) {
        self.restrictions.chosen = tools;
    }

    /// Excludes a tool whose schema the service rejects. Returns whether it was not excluded yet.
    pub(crate) fn reject(&mut self, tool: String) -> bool {
        self.restrictions.forget_declarations();
        self.restrictions.rejected.insert(tool)
    }

    /// Returns the excluded tools.
    pub(crate) fn rejected(&self) -> &HashSet<String> {
        &self.restrictions.rejected
    }

    /// Replaces the excluded tools.
    pub(crate) fn set_rejected(&mut self, tools: HashSet<String>) {
        self.restrictions.forget_declarations();
        self.restrictions.rejected = tools;
    }

    /// Returns the names of the last declarations, in order.
    pub(crate) fn declared_names(&self) -> &[String] {
        self.restrictions.declared.as_ref().map_or(&[], |(_, declared)| &declared.names)
    }

    /// Returns the declared tools of MCP servers: name, server.
    pub(crate) fn declared_mcp_tools(&self) -> Vec<(String, String)> {
        let served = self
            .declared_names()
            .iter()
            .filter_map(|name| Some((name.clone(), self.get(name)?.served()?.server.clone())));
        served.collect()
    }

    /// Returns the declarations of the tools that may be used, cached per mode.
    pub(crate) fn declare(
        &mut self,
        judge: &dyn Judge,
        mode: ApprovalMode,
        interactive: bool,
    ) -> ToolDeclarations {
        if let Some((known, declared)) = &self.restrictions.declared
            && *known == mode
        {
            return declared.clone();
        }
        let declared = self.declarations(judge, mode, interactive, |spec| {
            (!self.restrictions.is_coordinator || is_for_coordinators(spec))
                && self.is_enabled(&spec.name)
                && !self.restrictions.rejected.contains(&spec.name)
        });
        self.restrictions.declared = Some((mode, declared.clone()));
        declared
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
