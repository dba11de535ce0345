//! Commands in a terminal of the editor. Only without a sandbox, which cannot confine them there.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use parallax_exec::shell::{Shell, arguments_for};
use parallax_protocol::CancellationToken;
use parallax_protocol::editor_terminal::{EditorTerminal, TerminalCommand, TerminalExit};
use parallax_protocol::ids::CallId;
use parallax_protocol::tool::{Display, RunContext, ToolError, ToolErrorKind, ToolResult};
use parallax_protocol::untrusted;
use serde_json::json;

use super::report;
use crate::shell_options::ShellOptions;

/// Number of bytes of output to request for each character that the model may read.
const BYTES: u64 = 4;
/// Maximum bytes of output if the model may read any number of characters.
const MAX_OUTPUT: u64 = 1_000_000;

/// A call that runs in a terminal of the editor.
pub(super) struct EditorTerminalCall {
    pub(super) terminal: Arc<dyn EditorTerminal>,
    pub(super) call: CallId,
}

impl EditorTerminalCall {
    /// Runs a command and reports its result. `variables`: the environment of commands, of which
    /// the editor adds to its own what differs from that of this process.
    pub(super) async fn run(
        self,
        command: &str,
        directory: PathBuf,
        variables: Vec<(OsString, OsString)>,
        options: &ShellOptions,
        run: &RunContext,
    ) -> ToolResult {
        let Some(shell) = Shell::find(std::env::var_os("PATH").as_deref()) else {
            return report::preparation_error("no shell was found: install `bash` or `sh`");
        };
        let arguments = arguments_for(&shell, command).into_iter().map(text).collect();
        let changed_variables = variables
            .into_iter()
            .filter(|(name, value)| std::env::var_os(name).as_ref() != Some(value))
            .map(|(name, value)| (text(name), text(value)))
            .collect();
        let limit = match options.truncate_threshold {
            0 => MAX_OUTPUT,
            characters => (characters as u64).saturating_mul(BYTES).min(MAX_OUTPUT),
        };
        let cancel = CancellationToken::new();
        let running = self.terminal.run(TerminalCommand {
            call: self.call,
            program: text(shell.program.into_os_string()),
            arguments,
            directory,
            variables: changed_variables,
            output_limit: limit,
            cancel: cancel.clone(),
        });
        tokio::pin!(running);
        let runtime = async {
            match options.max_runtime {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        let (ended, stopped) = tokio::select! {
            ended = &mut running => (ended, None),
            () = run.cancel.cancelled() => {
                cancel.cancel();
                (running.await, Some(report::StopReason::Cancelled))
            }
            () = runtime => {
                cancel.cancel();
                let limit = options.max_runtime.unwrap_or_default();
                (running.await, Some(report::StopReason::Runtime(limit)))
            }
        };
        match ended {
            Ok(exit) => finished_result(exit, stopped, options),
            Err(message) => {
                let message = format!("the editor could not run the command: {message}");
                ToolResult::failure(ToolError::new(ToolErrorKind::ShellExecuteError, message))
            }
        }
    }
}

/// Reports a command that ended or was stopped.
fn finished_result(
    exit: TerminalExit,
    stopped: Option<report::StopReason>,
    options: &ShellOptions,
) -> ToolResult {
    let output = match &options.redact {
        Some(redact) => redact.redact(&exit.output).into_owned(),
        None => exit.output,
    };
    let mut output = output.trim_end().to_owned();
    if exit.truncated {
        output.insert_str(0, "[Too long: only the end is shown]\n");
    }
    if let Some(reason) = stopped {
        return report::stopped_in_editor(reason, &output);
    }
    let output_text = if output.is_empty() { "(empty)" } else { &output };
    let mut text = format!("Output: {output_text}");
    match (&exit.signal, exit.code) {
        (Some(signal), _) => text.push_str(&format!("\nSignal: {signal}")),
        (None, Some(0) | None) => {}
        (None, Some(code)) => text.push_str(&format!("\nExit Code: {code}")),
    }
    let mut outcome = ToolResult::text(untrusted::wrap(&text)).with_display(Display::text(output));
    if let Some(code) = exit.code.filter(|code| *code != 0) {
        outcome.data = Some(json!({"exitCode": code, "isError": true}));
    }
    outcome
}

fn text(value: OsString) -> String {
    value.to_string_lossy().into_owned()
}
