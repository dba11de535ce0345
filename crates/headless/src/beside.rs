//! What people are told beside what programs read.

use crate::failure::Outcome;
use crate::options::RunOptions;
use crate::output::{Pending, Tone};

/// Lines kept; a run that fails all day must not grow without end.
const MAX_LINES: usize = 100;

/// Lines for standard error when the run ends well: where it fails, that holds the
/// error and nothing else.
pub(crate) struct Beside {
    lines: Vec<String>,
    quiet: bool,
    colour: bool,
}

impl Beside {
    pub(crate) fn new(options: &RunOptions) -> Self {
        Self { lines: Vec::new(), quiet: options.quiet, colour: options.stderr_colour }
    }

    pub(crate) fn say(&mut self, line: String) {
        if !self.quiet && self.lines.len() < MAX_LINES {
            self.lines.push(line);
        }
    }

    /// The run is over.
    pub(crate) fn tell(&mut self, outcome: &Outcome, pending: &mut Pending) {
        for line in std::mem::take(&mut self.lines) {
            if outcome.error.is_none() {
                pending.say(Tone::Note, self.colour, &line);
            }
        }
    }
}
