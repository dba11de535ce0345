//! The `/context` dialog: shows what fills the context window, and drops or pins tool results.

use parallax_protocol::context::ContextBreakdown;
use parallax_protocol::op::Op;

use crate::app::App;
use crate::app::effect::Effect;
use crate::components::context_view::ContextStep;

/// Requests the context breakdown from the engine.
pub(crate) fn request(app: &mut App) {
    app.context.request();
    if app.is_busy() {
        app.toast("the breakdown is shown before the next request");
    }
    app.queue_effect(Effect::Send(Op::DescribeContext));
}

/// Takes a breakdown that the engine reported.
pub(crate) fn show(app: &mut App, breakdown: &ContextBreakdown) {
    app.status_data.context = (breakdown.tokens, breakdown.window);
    let (width, open) = (app.window.width(), app.dialogs.overlay());
    match app.context.show(breakdown, open, width, &app.theme) {
        ContextStep::Nothing => {}
        ContextStep::Print(rows) => app.show_rows(rows),
        ContextStep::Show(overlay) => app.open(overlay),
    }
}

/// Prints the context breakdown.
pub(crate) fn print(app: &mut App) {
    app.dialogs.close();
    if let Some(rows) = app.context.print(app.window.width(), &app.theme) {
        app.show_rows(rows);
    }
}

/// Changes a tool result in the context, and shows the breakdown again.
pub(crate) fn change(app: &mut App, op: Option<Op>) {
    if let Some(op) = op {
        app.queue_effect(Effect::Send(op));
        app.queue_effect(Effect::Send(Op::DescribeContext));
    }
}
