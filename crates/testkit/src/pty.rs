//! A program in a pseudo-terminal. An emulator processes its output and answers its queries like a
//! real terminal. Tests send keys and wait for conditions on the screen.

mod answers;
mod drawing;
mod emulator;
mod key;
mod sequences;

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use portable_pty::{ChildKiller, CommandBuilder, MasterPty, PtySize};

pub use answers::Answers;
pub use drawing::{Palette, svg};
pub use emulator::Emulator;
pub use key::Key;

/// The options for starting a program.
#[derive(Debug, Clone)]
pub struct Setup<'a> {
    /// The program.
    pub program: &'a Path,
    /// The arguments.
    pub arguments: Vec<OsString>,
    /// The complete environment.
    pub environment: Vec<(OsString, OsString)>,
    /// The working directory.
    pub directory: &'a Path,
    /// Columns and rows.
    pub size: (u16, u16),
    /// How the terminal answers queries.
    pub answers: Answers,
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramExit {
    /// The exit code; meaningless after a signal.
    pub code: u32,
    /// The signal's name.
    pub signal: Option<String>,
}

/// A program running in a terminal. Dropping it hangs up the terminal and kills the program.
pub struct Terminal {
    shared: Arc<SharedTerminal>,
    master: Box<dyn MasterPty + Send>,
    child_killer: Box<dyn ChildKiller + Send + Sync>,
    pid: Option<u32>,
    limit: Duration,
}

/// How long to wait for the last output after the program has ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

struct SharedTerminal {
    state: Mutex<State>,
    changed: Condvar,
    writer: Mutex<Box<dyn Write + Send>>,
}

struct State {
    emulator: Emulator,
    /// Whether the program and all other holders of its terminal are gone.
    is_closed: bool,
    exit: Option<ProgramExit>,
}

impl Terminal {
    /// Starts a program. `limit` is the time limit of each wait.
    ///
    /// # Errors
    /// Returns an error if there is no terminal or the program does not exist.
    pub fn start(setup: &Setup<'_>, limit: Duration) -> io::Result<Self> {
        let (columns, rows) = setup.size;
        let pair =
            portable_pty::native_pty_system().openpty(pty_size(columns, rows)).map_err(plain)?;
        let mut command = CommandBuilder::new(setup.program);
        command.args(&setup.arguments);
        command.cwd(setup.directory);
        command.env_clear();
        for (name, value) in &setup.environment {
            command.env(name, value);
        }
        let reader = pair.master.try_clone_reader().map_err(plain)?;
        let writer = pair.master.take_writer().map_err(plain)?;
        let mut child = pair.slave.spawn_command(command).map_err(plain)?;
        drop(pair.slave);
        let emulator = Emulator::new(columns.into(), rows.into(), setup.answers.clone())?;
        let shared = Arc::new(SharedTerminal {
            state: Mutex::new(State { emulator, is_closed: false, exit: None }),
            changed: Condvar::new(),
            writer: Mutex::new(writer),
        });
        let (child_killer, pid) = (child.clone_killer(), child.process_id());
        let read = Arc::clone(&shared);
        std::thread::spawn(move || read.read(reader));
        let waits = Arc::clone(&shared);
        std::thread::spawn(move || {
            let ended = child.wait().map(|status| ProgramExit {
                code: status.exit_code(),
                signal: status.signal().map(str::to_owned),
            });
            waits.state().exit =
                Some(ended.unwrap_or(ProgramExit { code: u32::MAX, signal: None }));
            waits.changed.notify_all();
        });
        Ok(Self { shared, master: pair.master, child_killer, pid, limit })
    }

    /// Returns the process ID of the program.
    pub fn pid(&self) -> Option<u32> {
        self.pid
    }

    // --- input

    /// Sends raw bytes.
    ///
    /// # Errors
    /// Returns an error if the program has ended.
    pub fn send(&self, bytes: &[u8]) -> io::Result<()> {
        self.shared.write(bytes)
    }

    /// Types text, key by key, without pauses.
    ///
    /// # Errors
    /// Returns an error if the program has ended.
    pub fn text(&self, text: &str) -> io::Result<()> {
        self.send(text.as_bytes())
    }

    /// Presses a key, encoded as the program has requested.
    ///
    /// # Errors
    /// Returns an error if the program has ended.
    pub fn key(&self, key: Key) -> io::Result<()> {
        let bytes = key.bytes(self.with_emulator(Emulator::disambiguates));
        self.send(&bytes)
    }

    /// Pastes text, as a bracketed paste if the program has enabled it.
    ///
    /// # Errors
    /// Returns an error if the program has ended.
    pub fn paste(&self, text: &str) -> io::Result<()> {
        if self.with_emulator(|emulator| emulator.has_mode(2004)) {
            self.send(format!("\x1b[200~{text}\x1b[201~").as_bytes())
        } else {
            self.text(text)
        }
    }

    /// Writes to the window without the program's knowledge, like another program on the same
    /// terminal.
    ///
    /// # Errors
    /// Returns an error if the emulator rejects it.
    pub fn overwrite_screen(&self, text: &str) -> io::Result<()> {
        self.shared.state().emulator.feed(text.as_bytes());
        Ok(())
    }

    /// Resizes the window: rewraps its contents, then notifies the program.
    ///
    /// # Errors
    /// Returns an error if the program has ended.
    pub fn resize(&self, columns: u16, rows: u16) -> io::Result<()> {
        // The lock keeps output of the program from being processed in between.
        let mut state = self.shared.state();
        state.emulator.resize(columns.into(), rows.into());
        self.master.resize(pty_size(columns, rows)).map_err(plain)
    }

    // --- output

    /// Calls a function with the current state of the emulator.
    pub fn with_emulator<T>(&self, look: impl FnOnce(&Emulator) -> T) -> T {
        look(&self.shared.state().emulator)
    }

    /// Waits until the screen meets a condition; ignores incomplete frames.
    ///
    /// # Errors
    /// Returns the last screen if the time limit is reached or the program ends first.
    pub fn wait(&self, what: &str, mut holds: impl FnMut(&Emulator) -> bool) -> Result<(), String> {
        let deadline = Instant::now() + self.limit;
        let mut state = self.shared.state();
        loop {
            if (state.is_closed || !state.emulator.has_mode(2026)) && holds(&state.emulator) {
                return Ok(());
            }
            let remaining = deadline.saturating_duration_since(Instant::now());
            let over = if state.is_closed {
                "before the program ended"
            } else if remaining.is_zero() {
                "in time"
            } else {
                let waited = self.shared.changed.wait_timeout(state, remaining);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            };
            return Err(format!("no {what} {over}:\n{}", state.emulator.dump()));
        }
    }

    /// Waits until a text is in the window.
    ///
    /// # Errors
    /// See [`Terminal::wait`].
    pub fn wait_for(&self, text: &str) -> Result<(), String> {
        self.wait(&format!("`{text}`"), |emulator| emulator.window().contains(text))
    }

    /// Waits until a text is no longer in the window.
    ///
    /// # Errors
    /// See [`Terminal::wait`].
    pub fn wait_until_gone(&self, text: &str) -> Result<(), String> {
        self.wait(&format!("end of `{text}`"), |emulator| !emulator.window().contains(text))
    }

    /// Waits until there is no output for the given time, at most eight times as long.
    pub fn settle(&self, quiet: Duration) {
        let deadline = Instant::now() + quiet * 8;
        let mut state = self.shared.state();
        loop {
            let before = state.emulator.output().len();
            let waited = self.shared.changed.wait_timeout(state, quiet);
            let (now, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            let same = now.emulator.output().len() == before && !now.emulator.has_mode(2026);
            state = now;
            if (same && timeout.timed_out()) || state.is_closed || Instant::now() > deadline {
                return;
            }
        }
    }

    /// Returns a position in the output, for [`Terminal::output_since`].
    pub fn mark(&self) -> usize {
        self.with_emulator(|emulator| emulator.output().len())
    }

    /// Returns the output since the position.
    pub fn output_since(&self, mark: usize) -> Vec<u8> {
        self.with_emulator(|emulator| emulator.output().get(mark..).unwrap_or_default().to_vec())
    }

    /// Returns the settings of the line discipline (echo, signals, and so on) for comparison.
    pub fn line_discipline(&self) -> String {
        format!("{:?}", self.master.get_termios())
    }

    /// Waits until the program ends.
    ///
    /// # Errors
    /// Returns the last screen if the program is still running.
    pub fn wait_end(&self) -> Result<ProgramExit, String> {
        let deadline = Instant::now() + self.limit;
        let mut reading_until = None;
        let mut state = self.shared.state();
        loop {
            if let Some(ended) = &state.exit {
                // Its last output may still arrive, and its child processes may still run.
                let last = *reading_until.get_or_insert_with(|| Instant::now() + LAST_WORDS);
                if state.is_closed || Instant::now() >= last {
                    return Ok(ended.clone());
                }
            }
            let until = reading_until.unwrap_or(deadline);
            let remaining = until.saturating_duration_since(Instant::now());
            if remaining.is_zero() && state.exit.is_none() {
                return Err(format!("the program goes on:\n{}", state.emulator.dump()));
            }
            let waited = self.shared.changed.wait_timeout(state, remaining);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if self.shared.state().exit.is_none() {
            // It may already have ended.
            let _ = self.child_killer.kill();
        }
    }
}

impl SharedTerminal {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        writer.write_all(bytes)?;
        writer.flush()
    }

    fn read(&self, mut reader: Box<dyn Read + Send>) {
        let mut buffer = [0; 64 * 1024];
        // On some systems, reading a terminal whose other end is closed fails instead of ending.
        while let Ok(read @ 1..) = reader.read(&mut buffer) {
            let answers = self.state().emulator.feed(buffer.get(..read).unwrap_or_default());
            self.changed.notify_all();
            if !answers.is_empty() {
                // The program may have ended; its last output must still be read.
                let _ = self.write(&answers);
            }
        }
        self.state().is_closed = true;
        self.changed.notify_all();
    }
}

fn pty_size(cols: u16, rows: u16) -> PtySize {
    PtySize { rows, cols, pixel_width: 0, pixel_height: 0 }
}

fn plain(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(error.to_string())
}
