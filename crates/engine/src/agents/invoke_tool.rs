//! The `invoke_agent` tool: delegates a task to a subagent.

use std::sync::Arc;

use parallax_protocol::agent::AgentDefinition;
use parallax_protocol::ids::ItemId;
use parallax_protocol::tool::{
    Concurrency, Effects, Invocation, PrepareContext, RunContext, Tool, ToolError, ToolErrorKind,
    ToolKind, ToolResult, ToolSpec,
};
use parallax_protocol::{BoxFuture, Object};
use serde_json::{Value, json};

use super::manager::SubagentManager;
use super::run::SubagentRun;

/// The tool's name.
pub(crate) const INVOKE_AGENT: &str = "invoke_agent";

pub(crate) struct InvokeAgent {
    spec: ToolSpec,
    subagents: Arc<SubagentManager>,
}

impl InvokeAgent {
    pub(crate) fn new(subagents: Arc<SubagentManager>) -> Self {
        let spec = ToolSpec {
            name: INVOKE_AGENT.into(),
            display_name: "InvokeAgent".into(),
            description: include_str!("invoke_agent.md").trim().into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "agent_name": {"type": "string"},
                    "prompt": {"type": "string"},
                    "resume": {
                        "type": "string",
                        "description": "The id of an interrupted run to continue."
                    }
                },
                "required": ["agent_name", "prompt"]
            }),
            kind: ToolKind::Agent,
            concurrency: Concurrency::Shared,
            aliases: Vec::new(),
        };
        Self { spec, subagents }
    }
}

fn invalid_params(message: String) -> ToolError {
    ToolError::new(ToolErrorKind::InvalidToolParams, message)
}

impl Tool for InvokeAgent {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn prepare(
        &self,
        args: Object,
        scope: &PrepareContext,
    ) -> Result<Box<dyn Invocation>, ToolError> {
        let text = |name: &str| {
            let text = args.get(name).and_then(Value::as_str).map(str::trim);
            text.filter(|text| !text.is_empty()).ok_or_else(|| {
                invalid_params(format!("params must have a non-empty string '{name}'"))
            })
        };
        let (name, prompt) = (text("agent_name")?, text("prompt")?);
        let resume = text("resume").ok().map(str::to_owned);
        let agents = self.subagents.agents.list();
        let Some(agent) = agents.iter().find(|agent| agent.name == name).cloned() else {
            let names: Vec<&str> = agents.iter().map(|agent| agent.name.as_str()).collect();
            let there = match names.is_empty() {
                true => "No agents are available.".to_owned(),
                false => format!("Available agents: {}.", names.join(", ")),
            };
            return Err(invalid_params(format!("Unknown agent `{name}`. {there}")));
        };
        let agent = match self.subagents.is_subagent && agent.may_delegate {
            true => Arc::new(AgentDefinition { may_delegate: false, ..(*agent).clone() }),
            false => agent,
        };
        Ok(Box::new(InvokeAgentCall {
            subagents: Arc::clone(&self.subagents),
            agent,
            prompt: prompt.to_owned(),
            resume,
            item: ItemId::new(format!("tool-{}", scope.call)),
            effects: Effects::default(),
        }))
    }
}

struct InvokeAgentCall {
    subagents: Arc<SubagentManager>,
    agent: Arc<AgentDefinition>,
    prompt: String,
    /// The id of the interrupted run to resume.
    resume: Option<String>,
    item: ItemId,
    effects: Effects,
}

impl Invocation for InvokeAgentCall {
    fn title(&self) -> String {
        let task: String =
            self.prompt.lines().next().unwrap_or_default().chars().take(200).collect();
        match &self.agent.remote {
            Some(address) => format!("{} at {address}: {task}", self.agent.name),
            None => format!("{}: {task}", self.agent.name),
        }
    }

    fn effects(&self) -> &Effects {
        &self.effects
    }

    fn run(self: Box<Self>, run: RunContext) -> BoxFuture<'static, ToolResult> {
        let Self { subagents, agent, prompt, resume, item, .. } = *self;
        let trace = run.progress.trace_headers();
        let run = SubagentRun::new(subagents, agent, item, resume, run.cancel);
        Box::pin(run.with_trace(trace).run(prompt))
    }
}
