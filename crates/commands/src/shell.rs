//! Shell commands in templates. They follow the same policy and run in the same sandbox as the
//! model's commands.

use parallax_exec::capture::CaptureLimits;
use parallax_exec::shell::strip_wrapper;
use parallax_exec::{Command, CommandOutcome, FinishedCommand, Limits, Mode, ProcessExit};
use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::{ApprovalMode, Decision, Origin, PolicyDecision, Query, Taint};
use parallax_protocol::tool::{Effects, ToolKind};
use parallax_protocol::{CancellationToken, Object};
use parallax_tools::run_shell_command::{GeminiIgnore, command_effects, prepare_sandbox};
use serde_json::Value;

use crate::ExpansionContext;

/// A shell command with its decision.
#[derive(Debug, Clone)]
pub(crate) struct CheckedCommand {
    /// The command line.
    pub(crate) text: String,
    pub(crate) policy_decision: PolicyDecision,
    /// Whether the user still has to approve it.
    pub(crate) needs_approval: bool,
}

/// Has the policy engine evaluate a command as a call of `run_shell_command`. Blocking.
///
/// # Errors
/// Returns why the command may not run.
pub(crate) fn evaluate(
    shared: &ExpansionContext,
    text: &str,
    mode: ApprovalMode,
) -> Result<CheckedCommand, String> {
    let text = strip_wrapper(text).to_owned();
    let roots = shared.workspace.roots();
    let counts = shared.workspace.ignore_options().respect_gemini_ignore;
    let left_alone = counts.then(|| GeminiIgnore::load(&roots)).flatten();
    let root = shared.workspace.root();
    let effects: Effects = command_effects(&text, root, &roots, left_alone.as_ref());
    let mut args = Object::new();
    args.insert("command".to_owned(), Value::String(text.clone()));
    let aliases = ["ShellTool".to_owned()];
    let policy_decision = shared.policy_engine.evaluate(&Query {
        tool: "run_shell_command",
        aliases: &aliases,
        kind: ToolKind::Execute,
        args: &args,
        effects: &effects,
        mode,
        interactive: shared.interactive,
        workspace: &roots,
        trusted: shared.trusted,
        created_paths: &[],
        taint: &Taint::default(),
        origin: Origin::default(),
    });
    if policy_decision.kind == Decision::Deny {
        return Err(policy_decision.reason);
    }
    let agreed = shared.approved_commands.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let needs_approval = policy_decision.kind == Decision::Ask && !agreed.contains(&text);
    drop(agreed);
    Ok(CheckedCommand { text, policy_decision, needs_approval })
}

/// Runs a command and returns the replacement of its block.
///
/// # Errors
/// Returns an error if the command cannot be started; the prompt is not sent then.
pub(crate) async fn run(
    shared: &ExpansionContext,
    evaluated: &CheckedCommand,
    mode: ApprovalMode,
    cancel: &CancellationToken,
) -> Result<String, String> {
    let mut permissions = evaluated.policy_decision.grants.clone();
    // The user saw and approved the command, as with the model's commands.
    if evaluated.policy_decision.kind == Decision::Ask {
        permissions.repository_programs |= shared.trusted;
        permissions.agents = true;
    }
    let command = command(shared, &evaluated.text, mode, permissions).await?;
    let running = shared.processes.start(command).await.map_err(|error| error.to_string())?;
    match running.follow(cancel, None, &mut |_| {}).await {
        CommandOutcome::Finished(finished) => Ok(format_output(&evaluated.text, &finished)),
        // Cannot be moved to the background here; if it is, do not wait for its end.
        CommandOutcome::Detached(detached) => Ok(detached.output.captured.head),
    }
}

async fn command(
    shared: &ExpansionContext,
    text: &str,
    mode: ApprovalMode,
    permissions: Permissions,
) -> Result<Command, String> {
    let directory = shared.workspace.root().to_owned();
    let roots = shared.workspace.roots();
    let shell = shared.shell.clone();
    let variables = shell.environment().variables;
    let limits = Limits {
        capture: CaptureLimits::from_threshold(shell.truncate_threshold),
        inactivity: shell.inactivity_timeout,
        ..Limits::default()
    };
    let (line, working_directory) = (text.to_owned(), directory.clone());
    let sandbox_task = tokio::task::spawn_blocking(move || match &shell.sandbox {
        None => Ok((None, variables)),
        Some(options) => {
            let roots = roots.as_slice();
            let prepared = prepare_sandbox(
                options,
                &line,
                &working_directory,
                roots,
                mode,
                &permissions,
                variables,
            )?;
            Ok((Some(prepared.0), prepared.1))
        }
    });
    let prepared: Result<_, String> = sandbox_task.await.map_err(|error| error.to_string())?;
    let (sandbox, environment) = prepared?;
    Ok(Command {
        text: text.to_owned(),
        before: None,
        directory,
        environment,
        mode: Mode::Pipe,
        copy: None,
        redact: None,
        limits,
        color: false,
        sandbox,
    })
}

/// Returns the output, followed by how the command ended unless it succeeded.
fn format_output(command: &str, finished: &FinishedCommand) -> String {
    let output = &finished.output;
    let mut text = match output.binary {
        true => format!("[binary output, {} bytes, not shown]", output.bytes),
        false => output.captured.head.clone(),
    };
    if let Some(tail) = &output.captured.tail {
        let omitted = output.captured.omitted_characters;
        text.push_str(&format!("\n[{omitted} characters omitted]\n{tail}"));
    }
    let end = match (finished.stop, finished.exit) {
        (Some(_), _) => "aborted".to_owned(),
        (None, ProcessExit::Exited { code: 0 }) => return text,
        (None, ProcessExit::Exited { code }) => format!("exited with code {code}"),
        (None, ProcessExit::Signalled { signal }) => format!("terminated by signal {signal}"),
    };
    text.push_str(&format!("\n[Shell command '{command}' {end}]"));
    text
}
