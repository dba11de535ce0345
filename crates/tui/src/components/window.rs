//! The terminal window: its size, focus, title, colors, and who handles the mouse.

use parallax_screen::ColorDepth;

use crate::theme_choice::TerminalColors;

/// The state of the terminal window.
#[derive(Debug)]
pub(crate) struct Window {
    size: (u16, u16),
    has_focus: bool,
    title: String,
    colors: TerminalColors,
    /// Whether mouse capture is off, so that the terminal can select text.
    mouse_off: bool,
    /// Whether painting is paused so that a selection in the terminal stays.
    is_frozen: bool,
    /// Whether the terminal was asked for the clipboard.
    clipboard_asked: bool,
    /// The rows written so far above the live ones.
    written_rows: usize,
    /// The rows that an approval request took, until other rows take them.
    reserved_rows: usize,
}

impl Window {
    /// Creates a focused window of this size.
    pub(crate) fn new(size: (u16, u16)) -> Self {
        Self {
            size,
            has_focus: true,
            title: String::new(),
            colors: TerminalColors { background: None, depth: ColorDepth::True },
            mouse_off: false,
            is_frozen: false,
            clipboard_asked: false,
            written_rows: 0,
            reserved_rows: 0,
        }
    }

    /// Columns and rows.
    pub(crate) fn size(&self) -> (u16, u16) {
        self.size
    }

    /// Records a new size.
    pub(crate) fn resize(&mut self, size: (u16, u16)) {
        (self.size, self.reserved_rows) = (size, 0);
    }

    /// Returns how many empty rows go above the composer so that it stays where an approval request
    /// that filled the window ended. New rows of the conversation take their place. `asks`: whether
    /// a request is shown; `rows`: the live rows; `finished`: the new rows above them.
    pub(crate) fn gap_above_composer(&mut self, asks: bool, rows: usize, finished: usize) -> usize {
        self.written_rows = self.written_rows.saturating_add(finished);
        let is_full = self.written_rows.saturating_add(rows) >= self.rows();
        self.reserved_rows = match asks {
            true if is_full => rows,
            true => 0,
            false => self.reserved_rows.saturating_sub(finished),
        };
        let gap = self.reserved_rows.saturating_sub(rows);
        if gap == 0 && !asks {
            self.reserved_rows = 0;
        }
        gap
    }

    /// Columns of the window.
    pub(crate) fn columns(&self) -> usize {
        usize::from(self.size.0)
    }

    /// Rows of the window.
    pub(crate) fn rows(&self) -> usize {
        usize::from(self.size.1)
    }

    /// Columns for content, at least one. The last column stays empty: some terminals wrap when it
    /// is painted.
    pub(crate) fn width(&self) -> usize {
        self.columns().saturating_sub(1).max(1)
    }

    /// Whether the window has focus.
    pub(crate) fn has_focus(&self) -> bool {
        self.has_focus
    }

    /// Records whether the window has focus.
    pub(crate) fn set_focus(&mut self, focus: bool) {
        self.has_focus = focus;
    }

    /// Takes a new title. Returns whether it differs.
    pub(crate) fn set_title(&mut self, title: &str) -> bool {
        let is_new = self.title != title;
        if is_new {
            title.clone_into(&mut self.title);
        }
        is_new
    }

    /// Whether the title was set.
    pub(crate) fn has_title(&self) -> bool {
        !self.title.is_empty()
    }

    /// Returns the colors of the terminal.
    pub(crate) fn colors(&self) -> TerminalColors {
        self.colors
    }

    /// Records the color depth.
    pub(crate) fn set_depth(&mut self, depth: ColorDepth) {
        self.colors.depth = depth;
    }

    /// Records the background color that the terminal reported.
    pub(crate) fn set_background(&mut self, color: (u8, u8, u8)) {
        self.colors.background = Some(color);
    }

    /// Whether painting is paused.
    pub(crate) fn is_frozen(&self) -> bool {
        self.is_frozen
    }

    /// Pauses or resumes painting. Returns whether the mouse is captured then.
    pub(crate) fn toggle_frozen(&mut self) -> bool {
        self.is_frozen = !self.is_frozen;
        !self.is_frozen && !self.mouse_off
    }

    /// Turns mouse capture on or off. Returns whether it is on then.
    pub(crate) fn toggle_mouse(&mut self) -> bool {
        self.mouse_off = !self.mouse_off;
        !self.mouse_off
    }

    /// Records that the mouse is captured.
    pub(crate) fn mark_mouse_captured(&mut self) {
        self.mouse_off = false;
    }

    /// Records that the terminal is asked for the clipboard.
    pub(crate) fn query_clipboard(&mut self) {
        self.clipboard_asked = true;
    }

    /// Whether the clipboard was asked for. Contents that were not asked for are ignored.
    pub(crate) fn take_clipboard_request(&mut self) -> bool {
        std::mem::take(&mut self.clipboard_asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mouse_stays_free_after_a_frozen_screen() {
        let mut window = Window::new((0, 0));
        assert_eq!(window.width(), 1);
        assert!(!window.toggle_mouse());
        assert!(!window.toggle_frozen() && window.is_frozen());
        assert!(!window.toggle_frozen());
        assert!(window.toggle_mouse());
        assert!(!window.toggle_frozen() && window.toggle_frozen());
    }

    #[test]
    fn composer_stays_where_an_approval_request_ended() {
        let mut window = Window::new((80, 24));
        assert_eq!(window.gap_above_composer(true, 20, 3), 0);
        assert_eq!(window.gap_above_composer(false, 6, 0), 0, "there was room below it");
        assert_eq!(window.gap_above_composer(true, 20, 1), 0);
        assert_eq!(window.gap_above_composer(false, 6, 0), 14);
        // New rows of the conversation take the place.
        assert_eq!(window.gap_above_composer(false, 7, 5), 8);
        assert_eq!(window.gap_above_composer(false, 6, 9), 0);
        assert_eq!(window.gap_above_composer(false, 5, 0), 0);
        window.gap_above_composer(true, 20, 0);
        window.resize((80, 20));
        assert_eq!(window.gap_above_composer(false, 6, 0), 0);
    }
}
