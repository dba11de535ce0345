//! The tool results and displays of commands.

use std::path::PathBuf;
use std::time::Duration;

pub(super) use parallax_exec::StopReason;
use parallax_exec::capture::TailBuffer;
use parallax_exec::{DetachedCommand, FinishedCommand, Output, ProcessExit, StartError};
use parallax_protocol::tool::{Display, ToolError, ToolErrorKind, ToolResult};
use serde_json::json;

use parallax_protocol::untrusted;

/// Maximum number of output bytes shown to the user for a finished call.
const MAX_SHOWN: usize = 100_000;

/// Reports a command that failed to start.
pub(super) fn not_started(error: &StartError) -> ToolResult {
    ToolResult::failure(ToolError::new(ToolErrorKind::ShellExecuteError, error.to_string()))
}

/// Reports a command that may not run or whose sandbox could not be prepared.
pub(super) fn preparation_error(reason: &str) -> ToolResult {
    ToolResult::failure(ToolError::new(ToolErrorKind::ShellExecuteError, reason))
}

/// Reports a command that ended or was stopped.
pub(super) fn finished_result(done: &FinishedCommand) -> ToolResult {
    let mut text = String::new();
    let output = output_text(&done.output);
    if done.stop == Some(StopReason::Cancelled) {
        return cancelled(done, &output);
    }
    match done.stop {
        Some(stop) => {
            text.push_str(&stop_sentence(stop));
            match output.is_empty() {
                true => text.push_str(" There was no output before that."),
                false => text.push_str(&format!(" The output before that:\n{output}")),
            }
        }
        None => {
            let output_text = if output.is_empty() { "(empty)" } else { &output };
            text.push_str(&format!("Output: {output_text}"));
            match done.exit {
                ProcessExit::Exited { code: 0 } => {}
                ProcessExit::Exited { code } => text.push_str(&format!("\nExit Code: {code}")),
                ProcessExit::Signalled { signal } => text.push_str(&format!("\nSignal: {signal}")),
            }
            if !done.remaining_processes.is_empty() {
                let pids: Vec<String> =
                    done.remaining_processes.iter().map(i32::to_string).collect();
                text.push_str(&format!("\nBackground PIDs: {}", pids.join(", ")));
            }
            text.push_str(&format!("\nProcess Group PGID: {}", done.pid));
        }
    }
    let mut outcome = ToolResult::text(untrusted::wrap(&text)).with_display(display(done));
    outcome.for_model.output_file = full_output_file(&done.output);
    if let (None, ProcessExit::Exited { code }) = (done.stop, done.exit)
        && code != 0
    {
        outcome.data = Some(json!({"exitCode": code, "isError": true}));
    }
    outcome
}

/// Reports a command that the user stopped, with its output so far.
fn cancelled(done: &FinishedCommand, output: &str) -> ToolResult {
    let sentence = stop_sentence(StopReason::Cancelled);
    let message = format!("[Operation Cancelled] {sentence}");
    let error = ToolError::new(ToolErrorKind::ExecutionFailed, message);
    let mut outcome = ToolResult::failure(error).with_display(display(done));
    if !output.is_empty() {
        let text = format!("{sentence} The output before that:\n{output}");
        outcome.for_model.output = untrusted::wrap(&text);
        outcome.for_model.output_file = full_output_file(&done.output);
    }
    outcome
}

/// Reports a command in a terminal of the editor that was stopped.
pub(super) fn stopped_in_editor(reason: StopReason, output: &str) -> ToolResult {
    let sentence = stop_sentence(reason);
    let text = match output.is_empty() {
        true => format!("{sentence} There was no output before that."),
        false => format!("{sentence} The output before that:\n{output}"),
    };
    let display =
        Display::text(if output.is_empty() { sentence.clone() } else { output.to_owned() });
    if reason != StopReason::Cancelled {
        return ToolResult::text(untrusted::wrap(&text)).with_display(display);
    }
    let message = format!("[Operation Cancelled] {sentence}");
    let error = ToolError::new(ToolErrorKind::ExecutionFailed, message);
    let mut outcome = ToolResult::failure(error).with_display(display);
    if !output.is_empty() {
        outcome.for_model.output = untrusted::wrap(&text);
    }
    outcome
}

/// Returns the file with the complete output, if the output is truncated.
fn full_output_file(output: &Output) -> Option<PathBuf> {
    let file = output.file.as_ref().filter(|file| file.complete && file.problem.is_none())?;
    output.captured.tail.as_ref().map(|_| file.path.clone())
}

/// Reports a command that continues in the background, as requested or because the user moved it
/// there.
pub(super) fn detached_result(
    detached: &DetachedCommand,
    command: &str,
    can_request: bool,
) -> ToolResult {
    let pid = detached.pid;
    let mut text = if can_request {
        format!("The command runs in the background with PID {pid}.")
    } else {
        format!("The user moved this command to the background (PID: {pid}); it is still running.")
    };
    text.push_str(" Read its output with `read_background_output`.");
    let output = output_text(&detached.output);
    if !output.is_empty() {
        text.push_str(&format!("\nInitial output:\n{output}"));
    }
    let mut outcome = ToolResult::text(untrusted::wrap(&text))
        .with_display(Display::text(format!("Command moved to background (PID: {pid})")));
    outcome.data = Some(json!({"pid": pid, "command": command, "initialOutput": output}));
    outcome
}

fn stop_sentence(stop: StopReason) -> String {
    match stop {
        StopReason::Cancelled => {
            "The command was cancelled by the user before it completed.".into()
        }
        StopReason::Inactive(limit) => format!(
            "The command was cancelled automatically: it exceeded {} without output.",
            duration(limit)
        ),
        StopReason::Runtime(limit) => format!(
            "The command was cancelled automatically: it ran for longer than {}.",
            duration(limit)
        ),
    }
}

fn duration(limit: Duration) -> String {
    let seconds = limit.as_secs_f64();
    if seconds < 60.0 {
        // Whole seconds are printed without a fraction.
        format!("{} seconds", (seconds * 10.0).round() / 10.0)
    } else {
        format!("{:.1} minutes", seconds / 60.0)
    }
}

/// Returns the output for the model. A long output consists of a reference to the complete output,
/// the beginning, a note about the omitted part, and the end.
pub(super) fn output_text(output: &Output) -> String {
    if output.binary {
        return format!("[binary output, {} bytes, not shown]", output.bytes);
    }
    let captured = &output.captured;
    let Some(tail) = &captured.tail else { return captured.head.clone() };
    let location = match &output.file {
        Some(file) if file.problem.is_some() => "The full output could not be saved.".to_owned(),
        Some(file) if file.complete => {
            format!("The full output is in `{}`.", file.path.display())
        }
        Some(file) => format!(
            "The beginning of the full output, as far as the limit for such files allows, is in `{}`.",
            file.path.display()
        ),
        None => "The full output was not saved.".to_owned(),
    };
    let (first, last) = (captured.head.chars().count(), tail.chars().count());
    let omitted = captured.omitted_characters;
    format!(
        "[Too long: the first {first} and the last {last} characters are shown. {location}]\n\
         {}\n\n... [{omitted} characters omitted] ...\n\n{tail}",
        captured.head
    )
}

/// Returns the output with its colors; without output, how the command ended.
fn display(done: &FinishedCommand) -> Display {
    let text = display_output(&done.output);
    if !text.is_empty() {
        return Display::text(text);
    }
    Display::text(match (done.stop, done.exit) {
        (Some(stop), _) => stop_sentence(stop),
        (None, ProcessExit::Exited { code: 0 }) => String::new(),
        (None, ProcessExit::Exited { code }) => format!("Command exited with code {code}"),
        (None, ProcessExit::Signalled { signal }) => {
            format!("Command terminated by signal {signal}")
        }
    })
}

/// Returns the truncated output for the user, with its colors.
pub(super) fn display_output(output: &Output) -> String {
    if output.binary {
        return format!("[Binary output, {} bytes, not shown]", output.bytes);
    }
    let colored = output.colored.as_deref().map(str::trim_end).filter(|text| !text.is_empty());
    if let Some(text) = colored {
        return text.to_owned();
    }
    let mut shown = TailBuffer::new(MAX_SHOWN);
    shown.push(&output.captured.head);
    if let Some(tail) = &output.captured.tail {
        shown.push("\n…\n");
        shown.push(tail);
    }
    shown.take()
}
