//! `kill_background_process`: stops a background process. In the sandbox, a command cannot signal
//! the processes of another one.

use parallax_exec::Processes;
use parallax_protocol::tool::{
    Concurrency, Display, Effects, Invocation, PrepareContext, RunContext, Tool, ToolError,
    ToolErrorKind, ToolKind, ToolResult, ToolSpec,
};
use parallax_protocol::{BoxFuture, Object};
use serde_json::json;

use crate::arguments::Arguments;

/// The tool.
#[derive(Debug)]
pub struct KillBackgroundProcess {
    spec: ToolSpec,
    processes: Processes,
}

impl KillBackgroundProcess {
    /// Creates the tool, which can access only processes of this session.
    pub fn new(processes: Processes) -> Self {
        Self {
            spec: ToolSpec {
                name: "kill_background_process".into(),
                display_name: "KillBackgroundProcess".into(),
                description: include_str!("kill_background_process/description.md")
                    .trim_end()
                    .into(),
                parameters: json!({
                    "type": "object",
                    "properties": {
                        "pid": {"type": "integer"}
                    },
                    "required": ["pid"]
                }),
                kind: ToolKind::Other,
                concurrency: Concurrency::Shared,
                aliases: Vec::new(),
            },
            processes,
        }
    }
}

impl Tool for KillBackgroundProcess {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn prepare(
        &self,
        args: Object,
        _scope: &PrepareContext,
    ) -> Result<Box<dyn Invocation>, ToolError> {
        let arguments = Arguments::check(args, &self.spec)?;
        let pid = arguments.integer("pid").and_then(|pid| i32::try_from(pid).ok()).unwrap_or(0);
        Ok(Box::new(KillBackgroundProcessCall {
            effects: Effects::default(),
            processes: self.processes.clone(),
            pid,
        }))
    }
}

struct KillBackgroundProcessCall {
    effects: Effects,
    processes: Processes,
    pid: i32,
}

impl Invocation for KillBackgroundProcessCall {
    fn title(&self) -> String {
        format!("Stop background process {}", self.pid)
    }

    fn effects(&self) -> &Effects {
        &self.effects
    }

    fn run(self: Box<Self>, _run: RunContext) -> BoxFuture<'static, ToolResult> {
        Box::pin(async move {
            let Self { processes, pid, .. } = *self;
            let ended =
                tokio::task::spawn_blocking(move || processes.terminate_background(pid)).await;
            if ended.unwrap_or(false) {
                let text = format!("Process {pid} was stopped.");
                return ToolResult::text(text.clone()).with_display(Display::text(text));
            }
            ToolResult::failure(ToolError::new(
                ToolErrorKind::ExecutionFailed,
                format!(
                    "no background process {pid} in this session: see `list_background_processes`"
                ),
            ))
        })
    }
}
