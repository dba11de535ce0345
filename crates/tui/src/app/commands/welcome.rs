//! The header of a session: the product, the directory, and project-specific tips.

use parallax_screen::{Line, Span, wrap};
use parallax_sdk::SessionConfig;

use crate::app::App;
use crate::tokens::{BULLET, SEPARATOR};

/// Indentation of the header text.
const INDENT: usize = 2;

/// Prints the session header.
pub(crate) fn print_session_header(app: &mut App, launch: &SessionConfig) {
    let model = crate::sanitize::one_row(&launch.model_name()).into_owned();
    print_header(app, launch, &model, crate::welcome::tips(launch));
}

/// Prints the header without tips, for a session that replaces another one.
pub(crate) fn short_header(app: &mut App) {
    let Some(launch) = app.launch.clone() else { return };
    let model = crate::sanitize::one_row(&app.status_data.model).into_owned();
    let rows = header_rows(app, &launch, &model);
    app.show_rows(rows);
}

/// Prints the header of a session that runs in another process.
pub(crate) fn print_attached_header(app: &mut App, launch: &SessionConfig, id: &str) {
    let tip = "Ctrl+D or /quit detaches; the session keeps running".to_owned();
    print_header(app, launch, &format!("attached to {id}"), vec![tip]);
}

fn print_header(app: &mut App, launch: &SessionConfig, session: &str, tips: Vec<String>) {
    let mut rows = header_rows(app, launch, session);
    let theme = &app.theme;
    if !app.settings.hide_tips && !rows.is_empty() {
        rows.push(Line::EMPTY);
        let keys = if app.settings.shortcuts_hint { "? for shortcuts · " } else { "" };
        let help = format!("  /help for commands · {keys}@ adds files · ! runs in your shell");
        rows.push(Line::styled(help, theme.secondary));
        let width = app.window.width().max(20);
        for tip in tips {
            let tip =
                Line::styled(format!("  {BULLET}"), theme.accent).with_span(tip, theme.secondary);
            rows.extend(wrap(&tip, width, &[Span::raw(" ".repeat(INDENT + 2))]));
        }
    }
    app.show_rows(rows);
}

/// Returns the product, its version, and what runs where.
fn header_rows(app: &App, launch: &SessionConfig, session: &str) -> Vec<Line> {
    if app.settings.hide_banner || app.settings.screen_reader {
        return Vec::new();
    }
    let theme = &app.theme;
    let line = |marker: &'static str, text: Line| {
        let mut row = Line::styled(marker, theme.accent);
        row.spans.extend(text.spans);
        row
    };
    let version = &launch.options().version;
    let directory = launch.options().directory.display().to_string();
    vec![
        line(
            "  ▞▚  ",
            Line::styled("Parallax", theme.text.bold())
                .with_span(format!(" {version}{SEPARATOR}{session}"), theme.secondary),
        ),
        line("  ▚▞  ", Line::styled(directory, theme.secondary)),
    ]
}

/// Shows what is new after an update: a title and a few lines.
pub(crate) fn show_news(app: &mut App, news: Option<(String, Vec<String>)>) {
    let Some((title, lines)) = news else { return };
    let mut text = title;
    for line in lines {
        text.push_str(&format!("\n{BULLET}"));
        text.push_str(&line);
    }
    app.info(text);
}
