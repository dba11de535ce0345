//! Custom commands.

use parallax_commands::{ExpandedCommand, PreparedCommand};
use parallax_protocol::event::{ApprovalRequest, Failure};
use parallax_protocol::op::{ApprovalResponse, Op};

use crate::app::App;
use crate::app::commands::completions;
use crate::app::effect::Effect;
use crate::components::command_catalog::LoadedCommands;

/// Reloads the custom commands on a thread.
pub(crate) fn load(app: &mut App) {
    load_for(app, None);
}

/// Reloads the custom commands, then runs the command that was typed.
pub(crate) fn load_for(app: &mut App, typed: Option<String>) {
    let Some(commands) = app.catalog.commands().cloned() else { return };
    app.queue_effect(Effect::Run(Box::new(move || {
        let loaded = LoadedCommands::read(&commands);
        Box::new(move |app| {
            if let Some(warnings) = app.catalog.accept_commands(loaded) {
                app.warn(warnings);
            }
            completions::set_commands(app);
            if let Some(typed) = typed {
                app.submit_typed(typed);
            }
        })
    })));
}

/// Runs a custom command. Its shell commands are checked by the policy engine and need approval
/// where it says so.
pub(crate) fn run(app: &mut App, line: &str) {
    let Some(commands) = app.catalog.commands().cloned() else { return app.report_not_ready() };
    let (line, mode) = (line.to_owned(), app.status_data.mode);
    app.queue_effect(Effect::Run(Box::new(move || {
        let typed = line.strip_prefix('/').unwrap_or(&line);
        let (name, arguments) = typed.split_once(char::is_whitespace).unwrap_or((typed, ""));
        if let Some(help) = commands.prompt_help(name, arguments) {
            return Box::new(move |app| app.info(help));
        }
        let prepared = commands.prepare(&line, mode);
        Box::new(move |app| match prepared {
            Ok(prepared) => approve(app, prepared),
            Err(failure) => app.error(failure.message),
        })
    })));
}

/// Asks about the next shell command that needs approval, in the dialog of the model's commands, or
/// runs them all.
fn approve(app: &mut App, prepared: PreparedCommand) {
    let Some(request) = prepared.next_request() else { return expand(app, prepared) };
    app.catalog.await_approval(request.id.clone(), prepared);
    app.push_approval(Box::new(request));
}

/// Handles the answer to an approval request.
pub(crate) fn handle_answer(
    app: &mut App,
    mut prepared: PreparedCommand,
    request: &ApprovalRequest,
    response: ApprovalResponse,
) {
    match prepared.answer(request, response) {
        true => approve(app, prepared),
        false => app.info("Not run."),
    }
}

/// Runs the shell commands of a custom command. Cancels one that is still being expanded.
fn expand(app: &mut App, prepared: PreparedCommand) {
    let cancel = app.catalog.begin_expansion();
    if prepared.runs_commands() {
        app.toast(format!("/{} is running its commands (esc to stop)", prepared.name()));
    }
    app.queue_effect(Effect::Expand(Box::new(prepared), cancel));
}

/// Sends the expanded prompt.
pub(crate) fn handle_expanded(app: &mut App, expanded: Result<ExpandedCommand, Failure>) {
    app.catalog.expansion_ended();
    match expanded {
        Ok(ExpandedCommand { prompt, notices }) => {
            for notice in notices {
                app.info(notice);
            }
            if let Some(typed) = &prompt.typed_command {
                app.note_expanded(typed, &prompt.text);
            }
            app.queue_effect(Effect::Send(Op::Prompt(prompt)));
        }
        Err(failure) => app.error(failure.message),
    }
}
