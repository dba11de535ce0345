//! Shows the progress of the search index on stderr: an updated line in a terminal; otherwise one
//! line if indexing takes longer than a moment.

use std::cell::Cell;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use parallax_sessions::search::IndexStep;

/// No progress is shown before this time has passed.
const MOMENT: Duration = Duration::from_secs(1);
/// Minimum time between updates of the line.
const BETWEEN: Duration = Duration::from_millis(100);

/// The state of the progress output.
pub(crate) struct IndexProgress {
    begun: Instant,
    in_terminal: bool,
    told: Cell<Option<Instant>>,
}

impl IndexProgress {
    pub(crate) fn new() -> Self {
        let in_terminal = io::stderr().is_terminal();
        Self { begun: Instant::now(), in_terminal, told: Cell::new(None) }
    }

    /// Shows the progress if an update is due. Always returns `true` to continue.
    pub(crate) fn update(&self, step: IndexStep) -> bool {
        let IndexStep { read, of } = step;
        let now = Instant::now();
        let due = match self.told.get() {
            _ if read >= of => false,
            None => self.in_terminal || now - self.begun >= MOMENT,
            Some(told) => self.in_terminal && now - told >= BETWEEN,
        };
        if due {
            self.told.set(Some(now));
            // A failed write of the progress is harmless.
            let _ = match self.in_terminal {
                true => write!(io::stderr(), "\rIndexing sessions for the search: {read} of {of} "),
                false => writeln!(
                    io::stderr(),
                    "Indexing sessions for the search: {read} of {of}. The next search indexes \
                     only new content."
                ),
            };
        }
        true
    }

    /// Removes the line from the terminal.
    pub(crate) fn end(&self) {
        if self.in_terminal && self.told.get().is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
