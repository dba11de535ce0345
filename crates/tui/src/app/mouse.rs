//! Mouse support in full screen: the wheel, the cursor, labels of pasted text, the scroll bar, and
//! the two ways to leave the mouse to the terminal. The pager has the wheel and the scroll bar.

use parallax_screen::{MouseEvent, MouseKind};

use super::App;
use crate::components::transcript_pane::Press;
use crate::effect::Effect;
use crate::keymap::KeyCommand;

/// Rows scrolled per wheel step.
const WHEEL: isize = 3;

impl App {
    pub(super) fn mouse(&mut self, mouse: MouseEvent) {
        let is_paging = self.is_paging();
        let (column, row) = (usize::from(mouse.column), usize::from(mouse.row));
        match mouse.kind {
            MouseKind::WheelUp => self.scroll(-WHEEL),
            MouseKind::WheelDown => self.scroll(WHEEL),
            MouseKind::RightDown if is_paging => {}
            MouseKind::RightDown => self.effect(Effect::PasteClipboard),
            MouseKind::LeftDown if !is_paging && self.shell.has_focus() => self.shell.release(),
            MouseKind::LeftDown => {
                let bar = self.window.columns().saturating_sub(1);
                if let Press::Composer(column, row) =
                    self.pane.press((column, row), bar, &self.transcript)
                {
                    self.composer.click(column, row);
                }
            }
            MouseKind::LeftDrag => self.pane.drag(row, &self.transcript),
            MouseKind::LeftUp => self.pane.release(),
        }
    }

    /// F9: pauses painting until the next key and releases the mouse, so that text can be selected.
    pub(super) fn toggle_copy_mode(&mut self) {
        let is_captured = self.window.toggle_frozen();
        self.effect(Effect::Mouse(is_captured));
    }

    /// Ctrl+S: toggles mouse capture.
    pub(super) fn toggle_mouse(&mut self) {
        if !self.settings.alternate_buffer && !self.is_paging() {
            return self.toast("the terminal handles the mouse in this display mode");
        }
        let is_captured = self.window.toggle_mouse();
        self.effect(Effect::Mouse(is_captured));
        let key = self.keymap.key_of(KeyCommand::ToggleMouseMode);
        self.toast(match is_captured {
            true => "mouse: scrolls and sets the cursor".to_owned(),
            false => format!("mouse: selects text in the terminal; {key} switches back"),
        });
    }
}
