//! Options of compaction.

use super::masking::{KeepOutput, MaskingLimits};

/// When the history is compacted, and what stays.
#[derive(Clone)]
pub struct CompactionOptions {
    /// The share of the context window, 0 to 1, from which the history is compacted.
    pub share: f64,
    /// The token count from which the history is compacted, if that is less.
    pub tokens: u64,
    /// Tokens of the newest results that are not masked.
    pub protect: u64,
    /// Tokens of older results from which they are masked on their own.
    pub min_masked: u64,
    /// Whether the newest results are always kept.
    pub protect_newest: bool,
    /// Whether a second pass of the model looks for omissions in the summary.
    pub probe: bool,
    /// Maximum characters of one result, the rest of which goes to a file; `None`: as many as fit.
    pub max_result_characters: Option<usize>,
    /// Saves full results to files; without it they are only in the journal.
    pub keep_output: Option<KeepOutput>,
}

impl Default for CompactionOptions {
    fn default() -> Self {
        Self {
            share: 0.5,
            tokens: 100_000,
            protect: 50_000,
            min_masked: 30_000,
            protect_newest: true,
            probe: true,
            max_result_characters: Some(40_000),
            keep_output: None,
        }
    }
}

impl CompactionOptions {
    /// Returns the compaction threshold in tokens for a context window.
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

    /// Returns the token count from which old results may be masked on their own.
    pub(super) fn masking_threshold(&self) -> u64 {
        self.protect.saturating_add(self.min_masked)
    }

    /// Returns the masking limits for a threshold.
    pub(super) fn reach(&self, mark: u64) -> MaskingLimits {
        MaskingLimits {
            protect: self.protect.min(mark / 2),
            min_masked: self.min_masked.min(mark / 3),
            protect_newest: self.protect_newest,
            notes: false,
        }
    }
}
