//! Mouse support in full screen: the wheel, the cursor, labels of pasted text, the scroll bar, and
//! the two ways to leave the mouse to the terminal. The pager has the wheel and the scroll bar.

use parallax_screen::{MouseEvent, MouseKind};

use super::App;
use crate::app::effect::Effect;
use crate::components::transcript_pane::MousePress;
use crate::keymap::KeyCommand;

/// Rows scrolled per wheel step.
const WHEEL: isize = 3;

pub(crate) fn handle_event(app: &mut App, mouse: MouseEvent) {
    let is_paging = app.is_paging();
    let (column, row) = (usize::from(mouse.column), usize::from(mouse.row));
    match mouse.kind {
        MouseKind::WheelUp => app.scroll(-WHEEL),
        MouseKind::WheelDown => app.scroll(WHEEL),
        MouseKind::RightDown if is_paging => {}
        MouseKind::RightDown => app.queue_effect(Effect::PasteClipboard),
        MouseKind::LeftDown if !is_paging && app.shell.has_focus() => app.shell.release(),
        MouseKind::LeftDown => {
            let bar = app.window.columns().saturating_sub(1);
            if let MousePress::Composer(column, row) =
                app.pane.press((column, row), bar, &app.transcript)
            {
                app.composer.click(column, row);
            }
        }
        MouseKind::LeftDrag => app.pane.drag(row, &app.transcript),
        MouseKind::LeftUp => app.pane.release(),
    }
}

/// F9: pauses painting until the next key and releases the mouse, so that text can be selected.
pub(crate) fn toggle_copy_mode(app: &mut App) {
    let is_captured = app.window.toggle_frozen();
    app.queue_effect(Effect::Mouse(is_captured));
}

/// Ctrl+S: toggles mouse capture.
pub(crate) fn toggle_mouse(app: &mut App) {
    if !app.settings.alternate_buffer && !app.is_paging() {
        return app.toast("the terminal handles the mouse in this display mode");
    }
    let is_captured = app.window.toggle_mouse();
    app.queue_effect(Effect::Mouse(is_captured));
    let key = app.keymap.hint_key(KeyCommand::ToggleMouseMode);
    app.toast(match is_captured {
        true => "mouse: scrolls and sets the cursor".to_owned(),
        false => format!("mouse: selects text in the terminal; {key} switches back"),
    });
}
