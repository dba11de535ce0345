//! Screen reader output: dialogs and lists as lines, each announced once.

use parallax_screen::Line;

use super::App;
use super::frame::Frame;

/// Maximum number of rows of a dialog.
const MAX_ROWS: usize = 200;
/// Maximum number of completions announced.
const COMPLETIONS: usize = 8;

/// Returns the new rows and the prompt. All rows of a dialog are announced when it opens, later
/// only those that changed.
pub(crate) fn frame(app: &mut App, mut finished: Vec<Line>, width: usize) -> Frame {
    announce(app, &mut finished);
    let view = app.dialogs.screen_reader_view(width, MAX_ROWS, &app.theme, app.clock.now_ms());
    if let Some(view) = view {
        let question = app.dialogs.question_id();
        finished.extend(app.screen_reader.dialog(&view, question, width));
        let live = if view.cursor.is_some() { view.rows } else { Vec::new() };
        return Frame { finished, live, cursor: view.cursor, cover: None };
    }
    app.screen_reader.record_no_dialog();
    let completions = app.completion.screen_reader_lines(COMPLETIONS);
    finished.extend(app.screen_reader.completions(completions, width));
    // During work, an empty composer would be read out after each output.
    let is_empty = app.composer.is_empty() && !app.composer.is_searching();
    if is_empty && (app.is_busy() || app.shell.is_running()) {
        return Frame { finished, ..Frame::default() };
    }
    let view = app.composer.render(width, 50, &app.theme);
    Frame { finished, live: view.rows, cursor: Some(view.cursor), cover: None }
}

/// Announces mode changes, hints, and compactions, one line each.
fn announce(app: &mut App, finished: &mut Vec<Line>) {
    if app.session.is_ready() {
        finished.extend(app.screen_reader.announce_session(&app.status_data));
    }
    finished.extend(app.screen_reader.sandbox(&app.status_data));
    let now_ms = app.clock.now_ms();
    finished.extend(app.screen_reader.retry(app.turn.retries_at(), now_ms));
    let mode = crate::status_line::mode(app.status_data.mode, &app.theme).0;
    finished.extend(app.screen_reader.mode(mode));
    finished.extend(app.screen_reader.hint(app.hints.text()));
    finished.extend(app.screen_reader.compaction(app.turn.is_compaction()));
    finished.extend(app.screen_reader.announce_waiting(app.prompt_queue.screen_reader_lines()));
    let context = app.shell_context();
    finished.extend(app.shell.announce(&context));
    finished.extend(app.transcript.take_announcements(&app.theme));
    if app.screen_reader.shortcuts(app.hints.shows_shortcuts()) {
        finished.extend(app.shortcuts(59));
    }
}
