//! Mouse support in full screen: the wheel, the cursor, labels of pasted text, the scroll bar, and
//! the two ways to leave the mouse to the terminal.

use parallax_screen::{Line, MouseEvent, MouseKind, Span};

use super::App;
use crate::effect::Effect;
use crate::keymap::KeyCommand;
use crate::transcript::Anchor;

/// Rows scrolled per wheel step.
pub(super) const WHEEL: isize = 3;

/// Positions of the elements in the last frame, in rows from its top.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Places {
    /// The first row and the number of rows of the composer's text, or `None` while it is hidden.
    pub(super) composer: Option<(usize, usize)>,
    /// Rows of the transcript, which has the scroll bar in its last column.
    pub(super) transcript: usize,
    /// Whether the scroll bar is being dragged.
    held: bool,
}

impl App {
    pub(super) fn mouse(&mut self, mouse: MouseEvent) {
        if self.is_paging() {
            return self.pager_mouse(mouse);
        }
        let (column, row) = (usize::from(mouse.column), usize::from(mouse.row));
        match mouse.kind {
            MouseKind::WheelUp => self.scroll(-WHEEL),
            MouseKind::WheelDown => self.scroll(WHEEL),
            MouseKind::RightDown => self.effect(Effect::PasteClipboard),
            MouseKind::LeftDown if self.shell.has_focus() => self.shell.release(),
            MouseKind::LeftDown => self.press(column, row),
            MouseKind::LeftDrag => self.drag_bar(row),
            MouseKind::LeftUp => self.release_bar(),
        }
    }

    pub(super) fn drag_bar(&mut self, row: usize) {
        if self.places.held {
            self.drag_to(row);
        }
    }

    pub(super) fn release_bar(&mut self) {
        self.places.held = false;
    }

    pub(super) fn press(&mut self, column: usize, row: usize) {
        let bar = usize::from(self.size.0).saturating_sub(1);
        if column == bar && row < self.places.transcript {
            self.places.held = true;
            return self.drag_to(row);
        }
        if let Some((first, rows)) = self.places.composer
            && (first..first + rows).contains(&row)
        {
            self.composer.click(column, row - first);
        }
    }

    /// Scrolls to the row that the bar was dragged to.
    fn drag_to(&mut self, row: usize) {
        let rows = self.places.transcript.max(1);
        let item = self.transcript.len() * row.min(rows - 1) / rows;
        self.anchor = match row + 1 >= rows {
            true => Anchor::Bottom,
            false => Anchor::Top { item, row: 0 },
        };
    }

    /// Draws the scroll bar into the last column of `rows`. `position` is where they begin, in
    /// thousandths of the whole.
    pub(super) fn scroll_bar(&self, rows: &mut [Line], position: u16, at_end: bool, width: usize) {
        let height = rows.len();
        let thumb = (height / 6).max(1);
        let top = match at_end {
            true => height - thumb.min(height),
            false => usize::from(position) * height.saturating_sub(thumb) / 1000,
        };
        for (index, row) in rows.iter_mut().enumerate() {
            let held = (top..top + thumb).contains(&index);
            let (sign, style) = match held {
                true => ("┃", self.theme.secondary),
                false => ("│", self.theme.border),
            };
            let missing = width.saturating_sub(row.width());
            let fill = row.fill.take().unwrap_or_default();
            row.push(Span::styled(" ".repeat(missing), fill));
            row.push(Span::styled(sign, style));
        }
    }

    /// F9: pauses painting until the next key and releases the mouse, so that text can be selected.
    pub(super) fn toggle_copy_mode(&mut self) {
        self.frozen ^= true;
        self.effect(Effect::Mouse(!self.frozen && !self.mouse_off));
    }

    /// Ctrl+S: toggles mouse capture.
    pub(super) fn toggle_mouse(&mut self) {
        if !self.settings.alternate_buffer && !self.is_paging() {
            return self.toast("the terminal handles the mouse in this display mode");
        }
        self.mouse_off ^= true;
        self.effect(Effect::Mouse(!self.mouse_off));
        let key = self.keymap.key_of(KeyCommand::ToggleMouseMode);
        self.toast(match self.mouse_off {
            true => format!("mouse: selects text in the terminal; {key} switches back"),
            false => "mouse: scrolls and sets the cursor".to_owned(),
        });
    }
}
