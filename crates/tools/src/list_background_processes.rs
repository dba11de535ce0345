//! `list_background_processes`: lists running and finished background processes.

use parallax_exec::background::{BackgroundProcess, BackgroundState};
use parallax_exec::{ProcessExit, Processes};
use parallax_protocol::tool::{
    Concurrency, Display, Effects, Invocation, PrepareContext, RunContext, Tool, ToolError,
    ToolErrorKind, ToolKind, ToolResult, ToolSpec,
};
use parallax_protocol::{BoxFuture, Object};
use serde_json::json;

use crate::arguments::Arguments;

/// Maximum number of characters of a command in the list.
const SHOWN_COMMAND: usize = 300;

/// The tool.
#[derive(Debug)]
pub struct ListBackgroundProcesses {
    spec: ToolSpec,
    processes: Processes,
}

impl ListBackgroundProcesses {
    /// Creates the tool, which lists only processes of this session.
    pub fn new(processes: Processes) -> Self {
        Self {
            spec: ToolSpec {
                name: "list_background_processes".into(),
                display_name: "ListBackgroundProcesses".into(),
                description: include_str!("list_background_processes/description.md")
                    .trim_end()
                    .into(),
                parameters: json!({"type": "object", "properties": {}}),
                kind: ToolKind::Read,
                concurrency: Concurrency::Shared,
                aliases: vec!["ListBackgroundProcessesTool".into()],
            },
            processes,
        }
    }
}

impl Tool for ListBackgroundProcesses {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn prepare(
        &self,
        args: Object,
        _scope: &PrepareContext,
    ) -> Result<Box<dyn Invocation>, ToolError> {
        Arguments::check(args, &self.spec)?;
        Ok(Box::new(ListBackgroundProcessesCall {
            effects: Effects::default(),
            processes: self.processes.clone(),
        }))
    }
}

struct ListBackgroundProcessesCall {
    effects: Effects,
    processes: Processes,
}

impl Invocation for ListBackgroundProcessesCall {
    fn title(&self) -> String {
        "List background processes".into()
    }

    fn effects(&self) -> &Effects {
        &self.effects
    }

    fn run(self: Box<Self>, _run: RunContext) -> BoxFuture<'static, ToolResult> {
        Box::pin(async move {
            let processes = self.processes;
            match tokio::task::spawn_blocking(move || processes.background()).await {
                Ok(list) => {
                    let text = text(&list);
                    ToolResult::text(text.clone()).with_display(Display::text(text))
                }
                Err(error) => ToolResult::failure(ToolError::new(
                    ToolErrorKind::ExecutionFailed,
                    format!("the background processes could not be listed: {error}"),
                )),
            }
        })
    }
}

fn text(list: &[BackgroundProcess]) -> String {
    if list.is_empty() {
        return "No background processes in this session.".into();
    }
    list.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn line(process: &BackgroundProcess) -> String {
    let (state, how) = match process.state {
        BackgroundState::Running => ("RUNNING", String::new()),
        BackgroundState::Exited(None) => ("EXITED", String::new()),
        BackgroundState::Exited(Some(ProcessExit::Exited { code })) => {
            ("EXITED", format!(" (Exit Code: {code})"))
        }
        BackgroundState::Exited(Some(ProcessExit::Signalled { signal })) => {
            ("EXITED", format!(" (Signal: {signal})"))
        }
    };
    let mut command: String = process.command.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((cut, _)) = command.char_indices().nth(SHOWN_COMMAND) {
        command.truncate(cut);
        command.push('…');
    }
    format!("- [PID {}] {state}: `{command}`{how}", process.pid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::run;

    #[test]
    fn each_process_state_has_its_line() {
        let process = |state| BackgroundProcess {
            pid: 7,
            command: "npm\n  start".into(),
            log: "/log".into(),
            state,
        };
        for (state, expected) in [
            (BackgroundState::Running, "- [PID 7] RUNNING: `npm start`"),
            (
                BackgroundState::Exited(Some(ProcessExit::Exited { code: 0 })),
                "- [PID 7] EXITED: `npm start` (Exit Code: 0)",
            ),
            (
                BackgroundState::Exited(Some(ProcessExit::Signalled { signal: 15 })),
                "- [PID 7] EXITED: `npm start` (Signal: 15)",
            ),
            (BackgroundState::Exited(None), "- [PID 7] EXITED: `npm start`"),
        ] {
            assert_eq!(text(&[process(state)]), expected);
        }
    }

    #[tokio::test]
    async fn empty_process_list_has_a_message() {
        let tool = ListBackgroundProcesses::new(Processes::new("/nowhere".into()));
        let outcome = run(&tool, json!({})).await;
        assert_eq!(outcome.for_model.output, "No background processes in this session.");
    }
}
