//! Shows the progress of the search index on stderr: an updated line in a terminal; otherwise one
//! line if indexing takes longer than a moment.

use std::cell::Cell;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use parallax_sessions::search::IndexStep;

/// No progress is shown before this time has passed.
const DISPLAY_DELAY: Duration = Duration::from_secs(1);
/// Minimum time between updates of the line.
const INTERVAL: Duration = Duration::from_millis(100);

/// The state of the progress output.
pub(crate) struct IndexProgress {
    started: Instant,
    in_terminal: bool,
    last_update: Cell<Option<Instant>>,
}

impl IndexProgress {
    pub(crate) fn new() -> Self {
        let in_terminal = io::stderr().is_terminal();
        Self { started: Instant::now(), in_terminal, last_update: Cell::new(None) }
    }

    /// Shows the progress if an update is due. Always returns `true` to continue.
    pub(crate) fn update(&self, step: IndexStep) -> bool {
        let IndexStep { read, total } = step;
        let now = Instant::now();
        let due = match self.last_update.get() {
            _ if read >= total => false,
            None => self.in_terminal || now - self.started >= DISPLAY_DELAY,
            Some(last_update) => self.in_terminal && now - last_update >= INTERVAL,
        };
        if due {
            self.last_update.set(Some(now));
            // A failed write of the progress is harmless.
            let _ = match self.in_terminal {
                true => {
                    write!(io::stderr(), "\rIndexing sessions for the search: {read} of {total} ")
                }
                false => writeln!(
                    io::stderr(),
                    "Indexing sessions for the search: {read} of {total}. The next search indexes \
                     only new content."
                ),
            };
        }
        true
    }

    /// Removes the line from the terminal.
    pub(crate) fn end(&self) {
        if self.in_terminal && self.last_update.get().is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
