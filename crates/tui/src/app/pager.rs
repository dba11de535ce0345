//! The pager for the whole transcript.

use parallax_screen::Key;

use super::App;
use super::frame::{Frame, FullWindowView};
use crate::app::effect::Effect;
use crate::app::mouse;
use crate::components::transcript_pane::PagerKey;

pub(crate) fn open(app: &mut App) {
    if app.settings.screen_reader {
        return app.toast("the terminal already shows the whole transcript");
    }
    app.pane.open_pager(&mut app.transcript);
    if !app.settings.alternate_buffer {
        app.window.mark_mouse_captured();
    }
}

pub(crate) fn close(app: &mut App) {
    app.pane.close_pager(&mut app.transcript);
}

pub(crate) fn handle_key(app: &mut App, key: Key) {
    match app.pane.pager_key(key, &mut app.transcript, &app.keymap, &app.theme) {
        PagerKey::Done => {}
        PagerKey::Redraw => app.queue_effect(Effect::Redraw),
        PagerKey::Suspend => app.suspend(),
        PagerKey::ToggleCopyMode => mouse::toggle_copy_mode(app),
        PagerKey::ToggleMouse => mouse::toggle_mouse(app),
    }
}

/// Builds the frame of the pager.
pub(crate) fn frame(app: &mut App, width: usize, rows: usize) -> Frame {
    let word = match app.hints.text() {
        _ if app.window.is_frozen() => Some("frozen: any key resumes"),
        _ if app.dialogs.has_approvals() => Some("waiting for approval: q"),
        hint => hint,
    };
    let (looks, now) = ((&*app.keymap, &app.theme), app.clock.now_ms());
    let (live, cursor) = app.pane.pager_rows(&mut app.transcript, (width, rows), word, looks, now);
    Frame { finished: Vec::new(), live, cursor, cover: Some(FullWindowView::Pager) }
}
