//! The pager for the whole transcript.

use parallax_screen::Key;

use super::App;
use super::view::Frame;
use crate::components::transcript_pane::PagerKey;
use crate::effect::Effect;

impl App {
    pub(super) fn open_pager(&mut self) {
        if self.settings.screen_reader {
            return self.toast("the terminal already shows the whole transcript");
        }
        self.pane.open_pager(&mut self.transcript);
        if !self.settings.alternate_buffer {
            self.window.mouse_is_captured();
        }
    }

    /// Whether the pager is open.
    pub(crate) fn is_paging(&self) -> bool {
        self.pane.is_paging()
    }

    pub(crate) fn close_pager(&mut self) {
        self.pane.close_pager(&mut self.transcript);
    }

    pub(super) fn pager_key(&mut self, key: Key) {
        match self.pane.pager_key(key, &mut self.transcript, &self.keymap, &self.theme) {
            PagerKey::Done => {}
            PagerKey::Redraw => self.effect(Effect::Redraw),
            PagerKey::Suspend => self.suspend(),
            PagerKey::ToggleCopyMode => self.toggle_copy_mode(),
            PagerKey::ToggleMouse => self.toggle_mouse(),
        }
    }

    /// Builds the frame of the pager.
    pub(super) fn pager_frame(&mut self, width: usize, rows: usize) -> Frame {
        let word = match self.hints.text() {
            _ if self.window.is_frozen() => Some("frozen: any key resumes"),
            _ if self.dialogs.has_approvals() => Some("waiting for approval: q"),
            hint => hint,
        };
        let (looks, now) = ((&*self.keymap, &self.theme), self.clock.now_ms());
        let (live, cursor) =
            self.pane.pager_rows(&mut self.transcript, (width, rows), word, looks, now);
        Frame { finished: Vec::new(), live, cursor, over: true }
    }
}
