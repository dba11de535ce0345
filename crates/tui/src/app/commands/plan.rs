//! Plan mode commands: `/plan`, and editing a plan that waits for approval.

use std::path::PathBuf;

use parallax_protocol::op::{ApprovalResponse, Op, RequestDecision};
use parallax_protocol::policy::ApprovalMode;
use parallax_screen::Line;
use parallax_sdk::OpenSession;

use crate::app::App;
use crate::app::effect::Effect;
use crate::markdown::{RenderOptions, render};

/// `/plan`: switches to plan mode and shows the current plan; with text, sends it as a prompt.
pub(crate) fn run(app: &mut App, text: &str) {
    if !has_plan_mode(app) {
        return app.error("Plan mode is disabled (`general.plan.enabled`).");
    }
    if app.status_data.mode != ApprovalMode::Plan {
        app.set_mode(ApprovalMode::Plan);
    }
    if !text.is_empty() {
        return app.submit(text.to_owned());
    }
    app.run_with_session(OpenSession::plan, |app, plan| {
        let Some(plan) = plan else {
            return app.info("Plan mode is on. Describe what you want to plan.");
        };
        let mut rows = vec![Line::styled(plan.path.display().to_string(), app.theme.secondary)];
        rows.push(Line::EMPTY);
        rows.extend(render(&plan.text, &RenderOptions::new(&app.theme, app.window.width())));
        app.show_rows(rows);
    });
}

/// `/plan copy`: copies the plan.
pub(crate) fn copy(app: &mut App, rest: &str) {
    // `/plan copy the files of …` is a prompt.
    if !rest.is_empty() {
        return run(app, &format!("copy {rest}"));
    }
    app.run_with_session(OpenSession::plan, |app, plan| match plan {
        Some(plan) => app.queue_effect(Effect::Copy(plan.text)),
        None => app.info("No plan to copy yet."),
    });
}

pub(crate) fn has_plan_mode(app: &App) -> bool {
    app.launch.as_ref().is_none_or(parallax_sdk::SessionConfig::has_plan_mode)
}

/// Opens the plan that waits for approval in the user's editor. The engine asks again and shows
/// the edited plan.
pub(crate) fn edit(app: &mut App, path: PathBuf, text: String) {
    let Some(question) = app.dialogs.approval() else { return };
    let mut decide =
        RequestDecision::new(question.request.id.clone(), ApprovalResponse::ModifyWithEditor);
    decide.arguments = Some(app.transcript.arguments(&question.request.call).unwrap_or_default());
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let then = move |app: &mut App, edited: Result<String, String>| match edited {
        Ok(text) => app.run_with_session(
            move |session| session.write_plan(&path, &text),
            move |app, written| match written {
                Ok(()) => {
                    app.dialogs.remove_approval(&decide.ask);
                    app.queue_effect(Effect::Send(Op::Decide(Box::new(decide))));
                }
                Err(reason) => app.error(reason),
            },
        ),
        Err(reason) => app.toast(reason),
    };
    app.queue_effect(Effect::Edit { text, name, then: Box::new(then) });
}
