//! `/model why`: shows which model is used and why.

use parallax_protocol::routing::{FallbackCause, RouteSource};
use parallax_screen::Line;

use crate::app::App;

pub(crate) fn run(app: &mut App) {
    let Some(route) = app.turn.route().cloned() else {
        let model = app.status_data.model.clone();
        return app.info(match app.session.has_prompt() {
            true => format!("`{model}` is selected."),
            false => format!("`{model}` is selected; the next prompt is routed to a model."),
        });
    };
    let row = |label: &str, value: String| {
        Line::styled(format!("{label:<10}"), app.theme.secondary).with_span(value, app.theme.text)
    };
    let by = match route.source {
        RouteSource::Fallback => "fallback for an unavailable model",
        RouteSource::Override => "you",
        RouteSource::ApprovalMode => "the approval mode",
        RouteSource::Rules => "properties of the prompt (no model call)",
        RouteSource::Classifier | RouteSource::NumericalClassifier => "a small classifier model",
        RouteSource::Default => "the default",
    };
    let mut rows = Vec::new();
    if route.requested != app.status_data.model {
        let text =
            format!("`{}`, from the next prompt; the model used so far:", app.status_data.model);
        rows.push(row("next", text));
    }
    rows.extend([
        row("model", route.model.clone()),
        row("requested", route.requested.clone()),
        row("chosen by", by.to_owned()),
        row("because", route.reason.clone()),
    ]);
    if route.latency_ms > 0 {
        rows.push(row("took", format!("{} ms", route.latency_ms)));
    }
    if let Some(error) = &route.error {
        rows.push(row("problem", error.clone()));
    }
    for fallback in app.turn.fallbacks() {
        let reason = match fallback.cause {
            FallbackCause::Capacity => "was unavailable",
            FallbackCause::Quota => "had no quota left",
            FallbackCause::NotFound => "was not found",
        };
        let agreed = if fallback.is_approved { "approved by you" } else { "by the settings" };
        let text =
            format!("`{}` {reason}; fallback to `{}` ({agreed})", fallback.from, fallback.to);
        rows.push(row("earlier", text));
    }
    app.show_wrapped_rows(rows);
}
