//! `read_background_output`: returns the end of a background process's log.

use std::io;
use std::time::Duration;

use parallax_exec::Processes;
use parallax_exec::background::{LogTail, read_log};
use parallax_protocol::tool::{
    Concurrency, Display, Effects, Invocation, PrepareContext, RunContext, Tool, ToolError,
    ToolErrorKind, ToolKind, ToolResult, ToolSpec,
};
use parallax_protocol::{BoxFuture, Object};
use serde_json::json;

use crate::arguments::Arguments;
use parallax_protocol::untrusted;

const DEFAULT_LINES: u64 = 100;
const MAX_DELAY_LENGTH: u64 = 10 * 60 * 1000;

/// The tool.
#[derive(Debug)]
pub struct ReadBackgroundOutput {
    spec: ToolSpec,
    processes: Processes,
}

impl ReadBackgroundOutput {
    /// Creates the tool, which can access only processes of this session.
    pub fn new(processes: Processes) -> Self {
        Self {
            spec: ToolSpec {
                name: "read_background_output".into(),
                display_name: "ReadBackgroundOutput".into(),
                description: include_str!("read_background_output/description.md")
                    .trim_end()
                    .into(),
                parameters: json!({
                    "type": "object",
                    "properties": {
                        "pid": {"type": "integer"},
                        "lines": {
                            "type": "integer",
                            "minimum": 1,
                            "description": "Default 100."
                        },
                        "delay_ms": {
                            "type": "integer",
                            "minimum": 0,
                            "description": "Time to wait first."
                        }
                    },
                    "required": ["pid"]
                }),
                kind: ToolKind::Read,
                concurrency: Concurrency::Shared,
                aliases: vec!["ReadBackgroundOutputTool".into()],
            },
            processes,
        }
    }
}

impl Tool for ReadBackgroundOutput {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn prepare(
        &self,
        args: Object,
        _scope: &PrepareContext,
    ) -> Result<Box<dyn Invocation>, ToolError> {
        let provided = args.get("pid").map(ToString::to_string).unwrap_or_default();
        let arguments = Arguments::check(args, &self.spec)?;
        let pid = match arguments.integer("pid").map(i32::try_from) {
            Some(Ok(pid)) => pid,
            // No process has such an ID.
            _ => return Err(unknown_process_error(&provided)),
        };
        let lines = arguments.integer("lines").unwrap_or(DEFAULT_LINES);
        let delay = arguments.integer("delay_ms").unwrap_or(0).min(MAX_DELAY_LENGTH);
        Ok(Box::new(ReadBackgroundOutputCall {
            effects: Effects::default(),
            processes: self.processes.clone(),
            pid,
            lines: usize::try_from(lines).unwrap_or(usize::MAX),
            delay: Duration::from_millis(delay),
        }))
    }
}

struct ReadBackgroundOutputCall {
    effects: Effects,
    processes: Processes,
    pid: i32,
    lines: usize,
    delay: Duration,
}

impl Invocation for ReadBackgroundOutputCall {
    fn title(&self) -> String {
        format!("Read the output of background process {}", self.pid)
    }

    fn effects(&self) -> &Effects {
        &self.effects
    }

    fn run(self: Box<Self>, run: RunContext) -> BoxFuture<'static, ToolResult> {
        Box::pin(async move {
            if !self.delay.is_zero() {
                tokio::select! {
                    () = run.cancel.cancelled() => {}
                    () = tokio::time::sleep(self.delay) => {}
                }
            }
            let (pid, lines, processes) = (self.pid, self.lines, self.processes);
            let read = tokio::task::spawn_blocking(move || {
                let process = processes.background_process(pid)?;
                Some(read_log(&process.log, lines))
            });
            match read.await {
                Ok(Some(Ok(end))) => outcome(&end),
                Ok(Some(Err(error))) if error.kind() == io::ErrorKind::NotFound => {
                    let text =
                        format!("Background process {pid} has written no output to its log.");
                    ToolResult::text(text.clone()).with_display(Display::text(text))
                }
                Ok(Some(Err(error))) => error_result(format!(
                    "the log of background process {pid} could not be read: {error}"
                )),
                Ok(None) => ToolResult::failure(unknown_process_error(&pid.to_string())),
                Err(error) => error_result(format!(
                    "the log of background process {pid} could not be read: {error}"
                )),
            }
        })
    }
}

fn unknown_process_error(pid: &str) -> ToolError {
    ToolError::new(
        ToolErrorKind::ExecutionFailed,
        format!(
            "background process {pid} was not started since the session was opened; processes from \
             before have ended: see `list_background_processes`"
        ),
    )
}

fn error_result(message: String) -> ToolResult {
    ToolResult::failure(ToolError::new(ToolErrorKind::ExecutionFailed, message))
}

fn outcome(end: &LogTail) -> ToolResult {
    if end.lines.is_empty() {
        let text = "The log is empty.";
        return ToolResult::text(text).with_display(Display::text(text));
    }
    let shown = end.lines.len();
    let head = match (end.is_truncated, shown < end.total) {
        (true, _) => format!(
            "Showing last {shown} of {} lines (only the last 64 KiB of the log are read):",
            end.total
        ),
        (false, true) => format!("Showing last {shown} of {} lines:", end.total),
        (false, false) => "Full Log Output:".to_owned(),
    };
    let text = format!("{head}\n{}", end.lines.join("\n"));
    ToolResult::text(untrusted::wrap(&text)).with_display(Display::text(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{object, run, scope};

    #[tokio::test]
    async fn process_of_another_session_is_rejected() {
        let tool = ReadBackgroundOutput::new(Processes::new("/nowhere".into()));
        let error = run(&tool, json!({"pid": 1})).await.error.expect("an error");
        assert_eq!(error.kind, ToolErrorKind::ExecutionFailed);
        assert!(error.message.contains("process 1 was"), "{}", error.message);
        for pid in [99_999_999_999_i64, -5] {
            let args = object(json!({"pid": pid}));
            let Err(error) = tool.prepare(args, &scope("read_background_output")) else {
                panic!("not refused");
            };
            assert!(error.message.contains(&format!("process {pid} was")), "{}", error.message);
        }
    }

    #[test]
    fn header_states_how_much_is_shown() {
        let lines = |number: usize| (1..=number).map(|line| line.to_string()).collect();
        for (end, expected) in [
            (LogTail { lines: lines(2), total: 2, is_truncated: false }, "Full Log Output:\n1\n2"),
            (
                LogTail { lines: lines(1), total: 9, is_truncated: false },
                "Showing last 1 of 9 lines:\n1",
            ),
        ] {
            let text = outcome(&end).for_model.output;
            assert_eq!(text, format!("<untrusted_context>\n{expected}\n</untrusted_context>"));
        }
    }
}
