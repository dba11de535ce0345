//! The screen, the only writer to the terminal.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::canvas::Canvas;
use crate::capabilities::{Capabilities, TerminalKind};
use crate::decode::DecoderOptions;
use crate::image::{GraphicsCapabilities, GraphicsProtocol};
use crate::input::{Input, InputThread};
use crate::line::Line;
use crate::mode::Mode;
use crate::osc::{self, NotificationSequence, TaskbarProgress};
use crate::region::{Frame, Region};
use crate::shared::SharedScreen;
use crate::terminal_state::{ASK_BACKGROUND, TerminalState, wake_pipe};
use crate::tty::{Tty, add_restore_bytes, remove_restore_bytes};

/// How long to wait for answers of the terminal before it is restored.
const LAST_TIMEOUT: Duration = Duration::from_millis(150);
/// The assumed size of a cell in pixels if it is unknown.
const COMMON_CELL: (u16, u16) = (10, 20);
/// Queries kitty graphics support with a one-pixel image that is not shown.
const ASK_KITTY_GRAPHICS: &[u8] = b"\x1b_Gi=1,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\";

/// Options for opening the screen.
#[derive(Debug, Clone, Copy)]
pub struct ScreenOptions {
    /// The display mode.
    pub mode: Mode,
    /// Whether to report the mouse (only in [`Mode::Alternate`]).
    pub mouse: bool,
    /// Whether to query the terminal's capabilities. Otherwise only the environment is used.
    pub probe: bool,
    /// Whether to query image support too.
    pub query_pictures: bool,
}

impl Default for ScreenOptions {
    fn default() -> Self {
        Self { mode: Mode::Inline, mouse: false, probe: true, query_pictures: true }
    }
}

/// The terminal in raw mode. Dropping it restores the terminal.
pub struct Screen {
    shared: Arc<SharedScreen>,
    options: ScreenOptions,
    had_keyboard: bool,
    /// The progress shown in the terminal's tab or task bar.
    progress: TaskbarProgress,
    _reader: InputThread,
}

impl Screen {
    /// Opens the terminal of standard input and output, or else the controlling terminal. Inside a
    /// tokio runtime, [`Input`] reports changes of the window size.
    ///
    /// # Errors
    /// Returns an error if there is no terminal or it does not support raw mode.
    pub fn open(options: ScreenOptions) -> io::Result<(Self, Input)> {
        Self::start(Tty::open()?, options, |name| std::env::var(name).ok())
    }

    /// Opens a terminal given by its two ends, with its own environment.
    ///
    /// # Errors
    /// See [`Screen::open`].
    pub fn open_terminal(
        (input, output): (OwnedFd, OwnedFd),
        options: ScreenOptions,
        variable: impl Fn(&str) -> Option<String>,
    ) -> io::Result<(Self, Input)> {
        Self::start(Tty::from_descriptors(input, output)?, options, variable)
    }

    fn start(
        tty: Tty,
        mut options: ScreenOptions,
        variable: impl Fn(&str) -> Option<String>,
    ) -> io::Result<(Self, Input)> {
        let capabilities = Capabilities::detect(&variable);
        if capabilities.terminal == TerminalKind::Dumb {
            options.mode = Mode::Plain;
        }
        options.mouse &= options.mode == Mode::Alternate;
        options.probe &= capabilities.accepts_queries() && options.mode != Mode::Plain;
        let greek = ["LC_ALL", "LC_CTYPE", "LANG"]
            .iter()
            .find_map(|name| variable(name).filter(|value| !value.is_empty()))
            .is_some_and(|locale| locale.starts_with("el"));

        let remote = ["SSH_TTY", "SSH_CONNECTION"].iter().any(|name| variable(name).is_some());

        let (wakes, wake) = wake_pipe()?;
        let inline = options.mode == Mode::Inline;
        let (columns, rows) = tty.size();
        let region = Region::new(columns.into(), rows.into(), capabilities.paint_options());
        let canvas = Canvas::new(options.mode, region);
        let asks = (options.probe, inline);
        let terminal = TerminalState::new(tty, wake, capabilities, asks);
        let shared = Arc::new(SharedScreen::new(terminal, canvas));
        let early = shared.terminal.tty.enable_raw_mode()?;
        let reader = InputThread::start(&shared, wakes, DecoderOptions { greek, remote }, early);
        let reader = match reader {
            Ok(reader) => reader,
            // The thread could not be started.
            Err(error) => {
                let _ = shared.terminal.tty.restore_mode();
                return Err(error);
            }
        };
        // From here on, dropping restores the terminal.
        let mut screen = Self {
            shared: Arc::clone(&shared),
            options,
            had_keyboard: early > 0,
            progress: TaskbarProgress::None,
            _reader: reader,
        };
        let setup = screen.setup();
        shared.terminal.tty.write(&setup)?;
        Ok((screen, Input::new(shared)))
    }

    /// Returns the columns and rows of the window.
    pub fn size(&self) -> (u16, u16) {
        self.shared.terminal.size()
    }

    /// Whether keys were typed before the terminal was opened. They come first.
    pub fn had_keys(&self) -> bool {
        self.had_keyboard
    }

    /// Returns the capabilities known so far.
    pub fn capabilities(&self) -> Capabilities {
        self.shared.terminal.capabilities()
    }

    /// Returns how images are drawn, as selected by the user or the terminal, or `None` if
    /// images are not available.
    pub fn drawing(&self, requested: Option<GraphicsProtocol>) -> Option<GraphicsCapabilities> {
        if self.options.mode != Mode::Inline {
            return None;
        }
        let capabilities = self.shared.terminal.capabilities();
        let graphics = match requested {
            Some(requested) => {
                Some(requested).filter(|requested| capabilities.may_send(*requested))
            }
            None => capabilities.graphics(),
        }?;
        let cell = self.shared.terminal.tty.cell().or(capabilities.cell).unwrap_or(COMMON_CELL);
        let colors = usize::from(capabilities.sixel_colors.unwrap_or(256)).clamp(2, 256);
        Some(GraphicsCapabilities { graphics, cell, colors })
    }

    /// Returns the background color if the terminal has reported it.
    pub fn background(&self) -> Option<(u8, u8, u8)> {
        self.shared.terminal.background()
    }

    /// Returns the display mode.
    pub fn mode(&self) -> Mode {
        self.options.mode
    }

    /// Paints a frame with one write. Returns whether it was painted: while the window size
    /// changes, nothing is painted until the frame after [`InputEvent::Resize`](crate::InputEvent),
    /// and while the terminal is lent to another program, until the frame after [`Screen::enter`].
    /// Committed rows are never lost; they are painted with the next frame.
    ///
    /// # Errors
    /// Returns an error if the terminal is gone.
    pub fn frame(&mut self, frame: Frame<'_>) -> io::Result<bool> {
        self.shared.canvas().frame(&self.shared.terminal, &frame)
    }

    /// Like [`Screen::frame`], but on the whole window over the inline rows, which the next
    /// [`Screen::frame`] restores. With `mouse`, the mouse is reported in the meantime.
    ///
    /// # Errors
    /// Returns an error if the terminal is gone.
    pub fn view(&mut self, frame: Frame<'_>, mouse: bool) -> io::Result<bool> {
        self.shared.canvas().view(&self.shared.terminal, &frame, mouse)
    }

    // --- lending the terminal

    /// Releases the terminal for another program: removes the live rows, restores the modes, and
    /// stops reading input.
    ///
    /// # Errors
    /// Returns an error if the terminal is gone.
    pub fn release(&mut self) -> io::Result<()> {
        self.restore_terminal(&[])
    }

    /// Takes the terminal back after [`Screen::release`], queries it again, and starts in the
    /// cursor's row. The next frame paints all live rows.
    ///
    /// # Errors
    /// Returns an error if the terminal is gone.
    pub fn enter(&mut self) -> io::Result<()> {
        self.shared.terminal.tty.enable_raw_mode()?;
        self.shared.terminal.forget_queries();
        let size = self.shared.terminal.tty.size();
        self.shared.terminal.record_painted(size);
        self.shared.canvas().enter(size);
        let setup = self.setup();
        self.shared.terminal.tty.write(&setup)?;
        self.shared.terminal.resume();
        // Restore the progress shown before.
        let progress = std::mem::replace(&mut self.progress, TaskbarProgress::None);
        if progress != TaskbarProgress::None {
            self.set_progress(progress)?;
        }
        Ok(())
    }

    /// Releases the terminal while `run` uses it, such as an editor.
    ///
    /// # Errors
    /// Returns an error if the terminal is gone.
    pub fn with_terminal_released<T>(&mut self, run: impl FnOnce() -> T) -> io::Result<T> {
        self.release()?;
        let result = run();
        self.enter()?;
        Ok(result)
    }

    /// Suspends the whole process group, as Ctrl+Z does elsewhere, and returns when it continues.
    ///
    /// # Errors
    /// Returns an error if the terminal is gone.
    pub fn suspend(&mut self) -> io::Result<()> {
        self.release()?;
        self.shared.terminal.record_own_suspend();
        let stopped = rustix::process::kill_current_process_group(rustix::process::Signal::TSTP);
        // The signal may reach another thread first. If the group cannot be stopped, there
        // is nothing to wait for.
        std::thread::sleep(Duration::from_millis(50));
        self.enter()?;
        Ok(stopped?)
    }

    /// Takes the terminal again after [`InputEvent::Resumed`](crate::InputEvent): another program
    /// may have changed everything.
    ///
    /// # Errors
    /// Returns an error if the terminal is gone.
    pub fn resume(&mut self) -> io::Result<()> {
        if self.is_entered() { self.enter() } else { Ok(()) }
    }

    /// Restores the terminal. `last` replaces the live rows; the cursor is placed below it.
    ///
    /// # Errors
    /// Returns an error if the terminal is gone.
    pub fn close(mut self, last: &[Line]) -> io::Result<()> {
        self.restore_terminal(last)
    }

    fn is_entered(&self) -> bool {
        self.shared.canvas().is_entered()
    }

    fn restore_terminal(&mut self, last: &[Line]) -> io::Result<()> {
        if !self.is_entered() {
            return Ok(());
        }
        let uncovered = self.shared.canvas().close_view(&self.shared.terminal);
        // Pending answers show whether the rows are where they should be.
        let deadline = Instant::now() + LAST_TIMEOUT;
        while self.shared.awaits_answers() && Instant::now() < deadline {
            self.shared.terminal.wait_for_answers(deadline);
        }
        self.shared.terminal.pause();
        let mut bytes = self.shared.canvas().release(&self.shared.terminal, last);
        bytes.extend(self.modes_off());
        let written = self.shared.terminal.tty.write(&bytes);
        self.shared.terminal.tty.restore_mode()?;
        uncovered.and(written)
    }

    // --- modes

    /// Returns the setup sequences: the queries first, so that they are not visible, then the
    /// modes.
    fn setup(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if self.options.mode == Mode::Alternate {
            bytes.extend_from_slice(b"\x1b[?1049h\x1b[H");
        }
        if self.options.probe {
            bytes.extend_from_slice(b"\x1b[8m\x1b[?u");
            bytes.extend_from_slice(ASK_BACKGROUND);
            if self.options.query_pictures && self.options.mode == Mode::Inline {
                self.shared.terminal.record_graphics_query();
                if self.shared.terminal.capabilities().may_be_asked_for_graphics() {
                    bytes.extend_from_slice(ASK_KITTY_GRAPHICS);
                }
            }
            bytes.extend_from_slice(
                b"\x1b[>q\x1b[>4;?m\x1b[?2026$p\x1b[?2031$p\x1b[18t\x1b[c\r\x1b[2K\x1b[m",
            );
            // Requests reports of color changes and of focus.
            bytes.extend_from_slice(b"\x1b[?2031h\x1b[?1004h");
        }
        let capabilities = self.shared.terminal.capabilities();
        if capabilities.terminal != TerminalKind::Dumb {
            bytes.extend_from_slice(b"\x1b[?2004h");
            if self.options.mode != Mode::Plain {
                bytes.extend_from_slice(b"\x1b[?7l");
            }
        }
        if self.options.mouse {
            bytes.extend_from_slice(b"\x1b[?1002h\x1b[?1006h");
        }
        if self.options.mode == Mode::Alternate {
            add_restore_bytes(b"\x1b[?1049l");
        }
        bytes
    }

    fn modes_off(&mut self) -> Vec<u8> {
        let mut bytes = self.shared.terminal.keyboard_off();
        if self.shared.terminal.capabilities().terminal == TerminalKind::Dumb {
            return bytes;
        }
        if self.options.mouse {
            bytes.extend_from_slice(b"\x1b[?1006l\x1b[?1002l");
        }
        // The title and progress belong to a program that has ended or is suspended.
        if self.progress != TaskbarProgress::None {
            bytes.extend(osc::progress(TaskbarProgress::None));
        }
        if self.options.probe {
            bytes.extend_from_slice(b"\x1b[?1004l\x1b[?2031l");
        }
        bytes.extend_from_slice(b"\x1b[?2004l");
        if self.options.mode != Mode::Plain {
            bytes.extend_from_slice(b"\x1b[?7h\x1b[?25h\x1b[m");
        }
        bytes
    }

    /// Enables or disables mouse reporting (only in [`Mode::Alternate`] and in a view).
    ///
    /// # Errors
    /// Returns an error if the terminal is gone.
    pub fn set_mouse(&mut self, on: bool) -> io::Result<()> {
        if self.options.mode == Mode::Alternate {
            if std::mem::replace(&mut self.options.mouse, on) == on {
                return Ok(());
            }
        } else if !self.shared.canvas().is_covered() {
            return Ok(());
        }
        self.write_sequence(if on { b"\x1b[?1002h\x1b[?1006h" } else { b"\x1b[?1006l\x1b[?1002l" })
    }

    /// Invalidates the window: the next frame clears it and paints the newest finished rows and the
    /// live ones (Ctrl+L). The scrollback stays.
    pub fn redraw(&mut self) {
        self.shared.canvas().repaint();
        self.shared.terminal.query_window();
    }

    // --- output outside the rows

    /// Sets the window title.
    ///
    /// # Errors
    /// Returns an error if the terminal is gone.
    pub fn set_title(&mut self, title: &str) -> io::Result<()> {
        self.write_sequence(&osc::title(title))
    }

    /// Shows progress in the terminal's tab or task bar.
    ///
    /// # Errors
    /// Returns an error if the terminal is gone.
    pub fn set_progress(&mut self, progress: TaskbarProgress) -> io::Result<()> {
        let before = std::mem::replace(&mut self.progress, progress);
        let off = osc::progress(TaskbarProgress::None);
        match (before == TaskbarProgress::None, progress == TaskbarProgress::None) {
            (true, false) => add_restore_bytes(&off),
            (false, true) => remove_restore_bytes(&off),
            _ => {}
        }
        self.write_sequence(&osc::progress(progress))
    }

    /// Sends a desktop notification.
    ///
    /// # Errors
    /// Returns an error if the terminal is gone.
    pub fn notify(&mut self, way: NotificationSequence, title: &str, text: &str) -> io::Result<()> {
        self.write_sequence(&osc::notification(
            way,
            title,
            text,
            &self.shared.terminal.capabilities(),
        ))
    }

    /// Rings the bell.
    ///
    /// # Errors
    /// Returns an error if the terminal is gone.
    pub fn bell(&mut self) -> io::Result<()> {
        self.write_sequence(b"\x07")
    }

    /// Copies text to the terminal's clipboard (OSC 52). Returns `false` if it is too long.
    ///
    /// # Errors
    /// Returns an error if the terminal is gone.
    pub fn copy(&mut self, text: &str) -> io::Result<bool> {
        let Some(sequence) = osc::copy(text, &self.shared.terminal.capabilities()) else {
            return Ok(false);
        };
        self.write_sequence(&sequence)?;
        Ok(true)
    }

    /// Requests the clipboard text, which arrives as [`InputEvent::Clipboard`](crate::InputEvent)
    /// if the terminal allows it.
    ///
    /// # Errors
    /// Returns an error if the terminal is gone.
    pub fn query_clipboard(&mut self) -> io::Result<()> {
        self.write_sequence(&osc::query_clipboard(&self.shared.terminal.capabilities()))
    }

    /// Queries the background color again.
    ///
    /// # Errors
    /// Returns an error if the terminal is gone.
    pub fn query_background(&mut self) -> io::Result<()> {
        if self.options.probe { self.write_sequence(ASK_BACKGROUND) } else { Ok(()) }
    }

    fn write_sequence(&mut self, sequence: &[u8]) -> io::Result<()> {
        if !self.is_entered() || self.shared.terminal.capabilities().terminal == TerminalKind::Dumb
        {
            return Ok(());
        }
        self.shared.terminal.tty.write(sequence)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A failed write cannot be reported.
        let _ = self.restore_terminal(&[]);
    }
}
