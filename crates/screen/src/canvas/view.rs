//! Views in inline mode: the terminal's alternate screen temporarily covers the inline rows.
//! Finished rows wait until the view is closed.

use std::io;

use super::{Canvas, PaintMode};
use crate::mode::Mode;
use crate::region::Region;
use crate::terminal_state::{KITTY_OFF, KITTY_ON, Resize, TerminalState};
use crate::tty::{add_restore_bytes, remove_restore_bytes};

const BEGIN: &[u8] = b"\x1b[?1049h\x1b[H";
const END: &[u8] = b"\x1b[?1049l";
const MOUSE_ON: &[u8] = b"\x1b[?1002h\x1b[?1006h";
const MOUSE_OFF: &[u8] = b"\x1b[?1006l\x1b[?1002l";

/// The inline rows covered by the view.
#[derive(Debug)]
pub(super) struct CoveredRows {
    region: Region,
    /// The size they are painted for.
    size: (u16, u16),
    /// Whether kitty keyboard modes were set; each of the two screens has its own.
    kitty: bool,
    /// Whether the view wants reports of the mouse.
    mouse: bool,
}

impl CoveredRows {
    /// Returns the bytes that a crashing program sends in addition.
    fn emergency_bytes(&self) -> Vec<u8> {
        // The modes of the view are reset before, because they were set first.
        let keys = if self.kitty { KITTY_OFF } else { b"" };
        [b"\x1b[?1049l", keys].concat()
    }
}

impl Canvas {
    /// Whether a view covers the inline rows.
    pub fn is_covered(&self) -> bool {
        self.covered_rows.is_some()
    }

    /// Opens the view over the inline rows, if that is possible now.
    pub(super) fn cover(&mut self, terminal: &TerminalState, mouse: bool) -> io::Result<bool> {
        let Some(PaintMode { size, resize, .. }) = self.next_paint_mode(terminal)? else {
            return Ok(false);
        };
        let mut bytes = Vec::new();
        if let Resize::Ready(column) = resize {
            bytes = self.remove_painted_rows(terminal, size, column);
            terminal.record_painted(size);
        }
        let capabilities = terminal.capabilities();
        let view = Region::new(size.0.into(), size.1.into(), capabilities.paint_options());
        let region = std::mem::replace(&mut self.region, view);
        let covered = CoveredRows { region, size, kitty: capabilities.kitty_keyboard, mouse };
        bytes.extend_from_slice(BEGIN);
        if mouse {
            bytes.extend_from_slice(MOUSE_ON);
        }
        if covered.kitty {
            bytes.extend_from_slice(KITTY_ON);
        }
        if !covered.region.is_visible() {
            bytes.extend_from_slice(b"\x1b[?25h");
        }
        add_restore_bytes(&covered.emergency_bytes());
        self.pending_live = None;
        self.covered_rows = Some(covered);
        self.mode = Mode::Alternate;
        terminal.set_inline(false);
        terminal.tty.write(&bytes)?;
        Ok(true)
    }

    /// Turns reports of the mouse on or off when one view follows another.
    pub(super) fn cover_mouse(&mut self, terminal: &TerminalState, mouse: bool) -> io::Result<()> {
        match &mut self.covered_rows {
            Some(covered) if covered.mouse != mouse => {
                covered.mouse = mouse;
                terminal.tty.write(if mouse { MOUSE_ON } else { MOUSE_OFF })
            }
            _ => Ok(()),
        }
    }

    /// Closes the view. If the window has another size than before, it is measured first, as after
    /// any change.
    pub fn close_view(&mut self, terminal: &TerminalState) -> io::Result<()> {
        let Some(covered) = self.covered_rows.take() else { return Ok(()) };
        remove_restore_bytes(&covered.emergency_bytes());
        let mut bytes = Vec::new();
        if covered.kitty {
            bytes.extend_from_slice(KITTY_OFF);
        }
        if covered.mouse {
            bytes.extend_from_slice(MOUSE_OFF);
        }
        bytes.extend_from_slice(END);
        let shown: &[u8] = if covered.region.is_visible() { b"\x1b[?25h" } else { b"\x1b[?25l" };
        bytes.extend_from_slice(shown);
        self.region = covered.region;
        self.mode = Mode::Inline;
        terminal.set_inline(true);
        let written = terminal.tty.write(&bytes);
        terminal.set_painted_size(covered.size);
        written
    }
}
