//! How much room the history has.

use super::shorten::{KeepOutput, Reach};

/// When the history is made shorter, and what stays.
#[derive(Clone)]
pub struct Room {
    /// The share of the model's window, 0 to 1, from which it is made shorter.
    pub share: f64,
    /// The tokens from which it is made shorter, if that is less.
    pub tokens: u64,
    /// Tokens of the newest results that stay as they are.
    pub protect: u64,
    /// Tokens of older results from which they are shortened on their own.
    pub at_least: u64,
    /// Whether the newest results stay in any case.
    pub protect_newest: bool,
    /// Whether a second pass of the model looks for what an account misses.
    pub probe: bool,
    /// Characters of one result, of which the rest goes to a file; `None`: as
    /// many as fit.
    pub longest_result: Option<usize>,
    /// Keeps whole results in files; without it they are only in the journal.
    pub keep_output: Option<KeepOutput>,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            share: 0.5,
            tokens: 100_000,
            protect: 50_000,
            at_least: 30_000,
            protect_newest: true,
            probe: true,
            longest_result: Some(40_000),
            keep_output: None,
        }
    }
}

impl Room {
    /// The tokens from which the history of a model with that window is made
    /// shorter.
    pub(crate) fn mark(&self, window: u64) -> u64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a share of a count of tokens; `as` saturates"
        )]
        let share = (window as f64 * self.share.clamp(0.05, 1.0)) as u64;
        share.min(self.tokens).max(1)
    }

    /// The tokens from which there may be old results enough to be shortened on
    /// their own.
    pub(super) fn shortens_from(&self) -> u64 {
        self.protect.saturating_add(self.at_least)
    }

    /// How results are shortened where the mark is so low.
    pub(super) fn reach(&self, mark: u64) -> Reach {
        Reach {
            protect: self.protect.min(mark / 2),
            at_least: self.at_least.min(mark / 3),
            protect_newest: self.protect_newest,
            notes: false,
        }
    }
}
