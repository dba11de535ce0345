//! A pseudo-terminal for a command, and the emulator that reads its screen.

use std::num::NonZeroU16;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};

use tokio::sync::mpsc;
use vt100::capture::{
    BasicFormattedCaptureRange, BasicFormattedCaptureState, RowContents, basic_formatted_to_plain,
};

use crate::capture::TailBuffer;
use crate::pseudo_terminal::{self, OutputReader, PtyController, TerminalChild};
use crate::screen::screen_of;
use crate::spawn_request::{SessionLeader, SpawnRequest};
use crate::terminal_size::TerminalSize;
use crate::waiter::Waiter;
use parallax_protocol::shell::Screen;

const CHUNK: usize = 16 * 1024;
/// Capacity in chunks of the channel between the reader thread and the owner of the command.
const CHUNKS: usize = 4;
/// Capacity in chunks of the channel between the owner and the writer thread.
const INPUTS: usize = 64;

/// A command that runs in a terminal.
pub(crate) struct CommandTerminal {
    pub(crate) pid: i32,
    pub(crate) waiter: Waiter,
    pub(crate) output: mpsc::Receiver<Vec<u8>>,
    pub(crate) handle: TerminalHandle,
}

/// The terminal of a running command.
pub(crate) struct TerminalHandle {
    controller: PtyController,
    input: Option<SyncSender<Vec<u8>>>,
}

/// Opens a terminal and starts the command in it, as the leader of its own session. Blocking; the
/// thread must belong to a runtime.
pub(crate) fn start(
    spawn: &SpawnRequest,
    leader: &SessionLeader,
    size: TerminalSize,
) -> std::io::Result<CommandTerminal> {
    let TerminalChild { pid, waiter, controller, reader } =
        pseudo_terminal::start(spawn, leader, size)?;
    let (chunks, output) = mpsc::channel(CHUNKS);
    // Ends with the command: when it is dead and every process has closed its terminal, which the
    // registry ensures.
    std::thread::Builder::new()
        .name("terminal-reader".into())
        .spawn(move || read_all(reader, &chunks))?;
    let handle = TerminalHandle { controller, input: None };
    Ok(CommandTerminal { pid, waiter, output, handle })
}

fn read_all(mut reader: OutputReader, chunks: &mpsc::Sender<Vec<u8>>) {
    let mut buffer = vec![0; CHUNK];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return,
            Ok(length) => {
                let chunk = buffer.get(..length).unwrap_or_default().to_vec();
                if chunks.blocking_send(chunk).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

impl TerminalHandle {
    pub(crate) fn resize(&mut self, size: TerminalSize) {
        // Fails only if the command is gone, when there is nothing to resize.
        drop(self.controller.resize(size));
    }

    /// Passes input to the writer thread. If the command does not read for a long time, input that
    /// does not fit is discarded.
    pub(crate) fn write(&mut self, bytes: Vec<u8>) {
        if self.input.is_none() {
            self.input = self.start_writer();
        }
        let Some(input) = &self.input else { return };
        match input.try_send(bytes) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => tracing::debug!("terminal input dropped"),
            Err(TrySendError::Disconnected(_)) => self.input = None,
        }
    }

    fn start_writer(&mut self) -> Option<SyncSender<Vec<u8>>> {
        let mut writer = self.controller.writer().ok()?;
        let (sender, receiver) = sync_channel::<Vec<u8>>(INPUTS);
        std::thread::Builder::new()
            .name("terminal-writer".into())
            .spawn(move || {
                for bytes in receiver {
                    if writer.write_all(&bytes).and_then(|()| writer.flush()).is_err() {
                        return;
                    }
                }
            })
            .ok()?;
        Some(sender)
    }
}

/// Converts what a program draws to the text that a user would have read. Rows are captured when
/// they leave the screen, the rest at the end, so memory does not grow with the output.
pub(crate) struct Emulator {
    parser: vt100::Parser<ScrolledRows>,
}

#[derive(Default)]
struct ScrolledRows {
    text: String,
    state: BasicFormattedCaptureState,
    /// Number of rows that scrolled away.
    count: u64,
}

impl vt100::Callbacks for ScrolledRows {
    fn on_scroll(&mut self, contents: RowContents<'_>, alternate_screen: bool) {
        if !alternate_screen {
            self.count += 1;
            // Writing to a `String` does not fail.
            let _ = contents.write_formatted_basic(&mut self.text, &mut self.state);
        }
    }
}

/// Maximum size; larger screens are drawn in this size, because memory is proportional to rows ×
/// columns.
const MAX_BYTES: NonZeroU16 = match NonZeroU16::new(1000) {
    Some(size) => size,
    None => NonZeroU16::MIN,
};

fn clamp_size(size: TerminalSize) -> (NonZeroU16, NonZeroU16) {
    (size.rows.min(MAX_BYTES), size.columns.min(MAX_BYTES))
}

impl Emulator {
    pub(crate) fn new(size: TerminalSize) -> Self {
        let (rows, columns) = clamp_size(size);
        Self {
            parser: vt100::Parser::new_with_callbacks(rows, columns, 0, ScrolledRows::default()),
        }
    }

    pub(crate) fn process(&mut self, bytes: &[u8]) {
        self.parser.process(bytes);
    }

    /// Resizes the terminal and returns its new size. The height changes only for full-screen
    /// programs: otherwise rows would be lost from the output, or blank lines added to it.
    pub(crate) fn resize(&mut self, size: TerminalSize) -> TerminalSize {
        let (mut rows, columns) = clamp_size(size);
        if !self.parser.screen().alternate_screen() {
            rows = self.parser.screen().size().0;
        }
        self.parser.set_size(rows, columns);
        TerminalSize { rows, columns }
    }

    /// Returns the current screen.
    pub(crate) fn screen(&self, color: bool) -> Screen {
        let shown = screen_of(self.parser.screen(), color);
        // Full-screen programs do not scroll.
        let scrolled = if shown.full_screen { 0 } else { self.parser.callbacks().count };
        Screen { scrolled, ..shown }
    }

    /// Appends the rows that have left the screen.
    pub(crate) fn take_rows(&mut self, text: &mut String, colored: Option<&mut TailBuffer>) {
        let rows = std::mem::take(&mut self.parser.callbacks_mut().text);
        text.extend(basic_formatted_to_plain(&rows));
        if let Some(colored) = colored {
            colored.push(&rows);
        }
    }

    /// Appends the remaining rows and the screen itself.
    pub(crate) fn finish(&mut self, text: &mut String, mut colored: Option<&mut TailBuffer>) {
        // The screen of a full-screen program is not output; the normal screen is. A program that
        // never leaves the alternate screen may have written anything there.
        let mut left = String::new();
        if self.parser.screen().alternate_screen() {
            let mut state = BasicFormattedCaptureState::default();
            let range = BasicFormattedCaptureRange::Full(&mut state);
            let _ = self.parser.screen().write_contents_formatted_basic(&mut left, range);
        }
        self.parser.process(b"\x1b[?1049l");
        self.take_rows(text, colored.as_deref_mut());
        let mut state = std::mem::take(&mut self.parser.callbacks_mut().state);
        let mut screen = String::new();
        let range = BasicFormattedCaptureRange::Full(&mut state);
        let _ = self.parser.screen().write_contents_formatted_basic(&mut screen, range);
        if !left.trim().is_empty() {
            screen.truncate(screen.trim_end().len());
            if !screen.is_empty() {
                screen.push('\n');
            }
            screen.push_str(&left);
        }
        let plain: String = basic_formatted_to_plain(&screen).collect();
        text.push_str(plain.trim_end());
        if let Some(colored) = colored {
            colored.push(screen.trim_end());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(size: TerminalSize, chunks: &[&str]) -> String {
        let mut emulator = Emulator::new(size);
        let mut text = String::new();
        for chunk in chunks {
            emulator.process(chunk.as_bytes());
            emulator.take_rows(&mut text, None);
        }
        emulator.finish(&mut text, None);
        text
    }

    #[test]
    fn rows_that_scrolled_off_the_screen_are_counted() {
        let size = TerminalSize::new(40, 10);
        let mut emulator = Emulator::new(size);
        for line in 0..30 {
            emulator.process(format!("line{line}\r\n").as_bytes());
        }
        assert_eq!(emulator.screen(false).scrolled, 21);
        emulator.process(b"\x1b[?1049h");
        assert_eq!(emulator.screen(false).scrolled, 0);
    }

    #[test]
    fn scrolled_rows_are_recovered_and_wrapped_lines_joined() {
        let size = TerminalSize::new(10, 3);
        let lines: String = (0..20).map(|n| format!("line {n}\r\n")).collect();
        let expected: Vec<String> = (0..20).map(|n| format!("line {n}")).collect();
        assert_eq!(read(size, &[&lines]), expected.join("\n"));
        let long = "0123456789".repeat(7);
        assert_eq!(read(size, &["\x1b[31m", &long, "\x1b[0m\r\nend"]), format!("{long}\nend"));
    }

    #[test]
    fn full_screen_drawing_is_excluded_from_output() {
        let size = TerminalSize::new(20, 4);
        let text = read(size, &["before\r\n\x1b[?1049hDRAWN\r\n\r\n\r\n\r\nX", "\x1b[?1049lafter"]);
        assert_eq!(text, "before\nafter");
        let text = read(size, &["one\r\n\x1b[?1049htwo\r\n", "three\r\n"]);
        assert_eq!(text, "one\ntwo\nthree", "one that never left its screen");
    }

    #[test]
    fn last_state_of_a_progress_bar_is_kept() {
        assert_eq!(read(TerminalSize::default(), &["10%\r20%\r100%\r\ndone"]), "100%\ndone");
    }
}
