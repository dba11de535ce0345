//! A program in a terminal: its bytes go to an emulator, its questions are
//! answered as a real terminal answers them, keys are typed and conditions on
//! what is shown are waited for.

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

/// How a program is started.
#[derive(Debug, Clone)]
pub struct Setup<'a> {
    /// The program, its words, and the whole environment.
    pub program: &'a Path,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// All of its environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Where it runs.
    pub directory: &'a Path,
    /// Columns and rows.
    pub size: (u16, u16),
    /// What the terminal tells of itself.
    pub answers: Answers,
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Its exit code; meaningless after a signal.
    pub code: u32,
    /// The signal's name.
    pub signal: Option<String>,
}

/// A program that runs in a terminal. Dropping it hangs up and kills it.
pub struct Terminal {
    shared: Arc<Shared>,
    master: Box<dyn MasterPty + Send>,
    killer: Box<dyn ChildKiller + Send + Sync>,
    pid: Option<u32>,
    limit: Duration,
}

/// How long the last bytes of a program that ended are waited for.
const LAST_WORDS: Duration = Duration::from_secs(1);

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    writer: Mutex<Box<dyn Write + Send>>,
}

struct State {
    emulator: Emulator,
    /// The program and all that hold its terminal are gone.
    closed: bool,
    ended: Option<Ended>,
}

impl Terminal {
    /// Starts a program. `limit` is how long any wait may take.
    ///
    /// # Errors
    /// No terminal, or no such program.
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
        let shared = Arc::new(Shared {
            state: Mutex::new(State { emulator, closed: false, ended: None }),
            changed: Condvar::new(),
            writer: Mutex::new(writer),
        });
        let (killer, pid) = (child.clone_killer(), child.process_id());
        let read = Arc::clone(&shared);
        std::thread::spawn(move || read.read(reader));
        let waits = Arc::clone(&shared);
        std::thread::spawn(move || {
            let ended = child.wait().map(|status| Ended {
                code: status.exit_code(),
                signal: status.signal().map(str::to_owned),
            });
            waits.state().ended = Some(ended.unwrap_or(Ended { code: u32::MAX, signal: None }));
            waits.changed.notify_all();
        });
        Ok(Self { shared, master: pair.master, killer, pid, limit })
    }

    /// The program's process id.
    pub fn pid(&self) -> Option<u32> {
        self.pid
    }

    // --- in

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// The program is gone.
    pub fn send(&self, bytes: &[u8]) -> io::Result<()> {
        self.shared.write(bytes)
    }

    /// Types a text, key by key, without a pause.
    ///
    /// # Errors
    /// The program is gone.
    pub fn text(&self, text: &str) -> io::Result<()> {
        self.send(text.as_bytes())
    }

    /// Presses a key, in the encoding that the program has asked for.
    ///
    /// # Errors
    /// The program is gone.
    pub fn key(&self, key: Key) -> io::Result<()> {
        let bytes = key.bytes(self.look(Emulator::disambiguates));
        self.send(&bytes)
    }

    /// Pastes, with the brackets if the program has asked for them.
    ///
    /// # Errors
    /// The program is gone.
    pub fn paste(&self, text: &str) -> io::Result<()> {
        if self.look(|shown| shown.has_mode(2004)) {
            self.send(format!("\x1b[200~{text}\x1b[201~").as_bytes())
        } else {
            self.text(text)
        }
    }

    /// Writes into the window without the program's knowledge, as another program does that
    /// has the same terminal.
    ///
    /// # Errors
    /// The emulator refuses it.
    pub fn scribble(&self, text: &str) -> io::Result<()> {
        self.shared.state().emulator.feed(text.as_bytes());
        Ok(())
    }

    /// Changes the window's size: what is shown is wrapped anew, then the program is told.
    ///
    /// # Errors
    /// The program is gone.
    pub fn resize(&self, columns: u16, rows: u16) -> io::Result<()> {
        // Under the lock: no byte of the program is between the two.
        let mut state = self.shared.state();
        state.emulator.resize(columns.into(), rows.into());
        self.master.resize(pty_size(columns, rows)).map_err(plain)
    }

    // --- out

    /// Looks at what is shown now.
    pub fn look<T>(&self, look: impl FnOnce(&Emulator) -> T) -> T {
        look(&self.shared.state().emulator)
    }

    /// Waits until what is shown fulfils a condition; frames that are under way are
    /// not looked at.
    ///
    /// # Errors
    /// It does not within the limit, or the program ends first: what was shown last.
    pub fn wait(&self, what: &str, mut holds: impl FnMut(&Emulator) -> bool) -> Result<(), String> {
        let deadline = Instant::now() + self.limit;
        let mut state = self.shared.state();
        loop {
            if (state.closed || !state.emulator.has_mode(2026)) && holds(&state.emulator) {
                return Ok(());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let over = if state.closed {
                "before the program ended"
            } else if left.is_zero() {
                "in time"
            } else {
                let waited = self.shared.changed.wait_timeout(state, left);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            };
            return Err(format!("no {what} {over}:\n{}", state.emulator.dump()));
        }
    }

    /// Waits until a text is in the window.
    ///
    /// # Errors
    /// As [`Terminal::wait`].
    pub fn wait_for(&self, text: &str) -> Result<(), String> {
        self.wait(&format!("`{text}`"), |shown| shown.window().contains(text))
    }

    /// Waits until a text is no longer in the window.
    ///
    /// # Errors
    /// As [`Terminal::wait`].
    pub fn wait_gone(&self, text: &str) -> Result<(), String> {
        self.wait(&format!("end of `{text}`"), |shown| !shown.window().contains(text))
    }

    /// Waits until nothing has come for so long, or for eight times that where
    /// something moves without end.
    pub fn settle(&self, quiet: Duration) {
        let deadline = Instant::now() + quiet * 8;
        let mut state = self.shared.state();
        loop {
            let before = state.emulator.output().len();
            let waited = self.shared.changed.wait_timeout(state, quiet);
            let (now, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            let same = now.emulator.output().len() == before && !now.emulator.has_mode(2026);
            state = now;
            if (same && timeout.timed_out()) || state.closed || Instant::now() > deadline {
                return;
            }
        }
    }

    /// A place in the output, for [`Terminal::output_since`].
    pub fn mark(&self) -> usize {
        self.look(|shown| shown.output().len())
    }

    /// What the program wrote since the mark.
    pub fn output_since(&self, mark: usize) -> Vec<u8> {
        self.look(|shown| shown.output().get(mark..).unwrap_or_default().to_vec())
    }

    /// How the line discipline is set (echo, signals, …), to be compared.
    pub fn line_discipline(&self) -> String {
        format!("{:?}", self.master.get_termios())
    }

    /// Waits for the program's end.
    ///
    /// # Errors
    /// It goes on: what was shown last.
    pub fn wait_end(&self) -> Result<Ended, String> {
        let deadline = Instant::now() + self.limit;
        let mut reading_until = None;
        let mut state = self.shared.state();
        loop {
            if let Some(ended) = &state.ended {
                // What it wrote last may still be on its way; what it started may go on.
                let last = *reading_until.get_or_insert_with(|| Instant::now() + LAST_WORDS);
                if state.closed || Instant::now() >= last {
                    return Ok(ended.clone());
                }
            }
            let until = reading_until.unwrap_or(deadline);
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() && state.ended.is_none() {
                return Err(format!("the program goes on:\n{}", state.emulator.dump()));
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if self.shared.state().ended.is_none() {
            // It may be gone by now.
            let _ = self.killer.kill();
        }
    }
}

impl Shared {
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
        // A terminal whose other end is closed fails in place of ending.
        while let Ok(read @ 1..) = reader.read(&mut buffer) {
            let answers = self.state().emulator.feed(buffer.get(..read).unwrap_or_default());
            self.changed.notify_all();
            if !answers.is_empty() {
                // Who asked may be gone; what it wrote last is still to be read.
                let _ = self.write(&answers);
            }
        }
        self.state().closed = true;
        self.changed.notify_all();
    }
}

fn pty_size(cols: u16, rows: u16) -> PtySize {
    PtySize { rows, cols, pixel_width: 0, pixel_height: 0 }
}

fn plain(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(error.to_string())
}
