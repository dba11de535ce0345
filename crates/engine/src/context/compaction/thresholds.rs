//! When the history is compacted: the threshold, and the distance to the previous compaction.

use parallax_protocol::event::{CompactionCause, Level};

use super::{CompactionState, Compactor};
use crate::context::{ContextManager, RequestFrame};

/// Smaller gains, in percent, do not count.
const GAIN_PERCENT: u64 = 5;
/// Number of tokens that the results of one batch may always have.
const MIN_BATCH_TOKENS: u64 = 10_000;
/// Maximum number of doublings of the distance to the next compaction.
const MAX_DOUBLINGS: u32 = 4;
/// Number of large gains in a row after which compactions may come sooner again.
const LARGE_GAINS_TO_RELAX: u32 = 4;
/// If a compaction leaves at most this percentage, the next one need not wait longer.
const LARGE_GAIN_PERCENT: u64 = 35;
/// Number of unused summaries in a row after which summaries are requested less often.
const MAX_UNUSED: u32 = 2;
/// Multiple of the fixed tokens that is used when they exceed the threshold.
const FIXED_TIMES: u64 = 3;

/// Whether the model's summaries are worth their requests.
#[derive(Default)]
pub(super) struct SummaryUsefulness {
    /// Summaries in a row that were not used because masking alone was as good.
    unused_in_a_row: u32,
    /// Compactions that skip the summary.
    skips: u32,
}

impl SummaryUsefulness {
    pub(super) fn is_enabled(&self) -> bool {
        self.skips == 0
    }

    /// Whether this compaction requests a summary.
    pub(super) fn is_due(&mut self) -> bool {
        let due = self.skips == 0;
        self.skips = self.skips.saturating_sub(1);
        due
    }

    /// Records whether a summary was used. Returns whether summaries are now requested less often.
    fn note(&mut self, used: bool) -> bool {
        if used {
            *self = Self::default();
            return false;
        }
        self.unused_in_a_row += 1;
        if self.unused_in_a_row < MAX_UNUSED {
            return false;
        }
        self.skips = 1 << (self.unused_in_a_row - MAX_UNUSED + 1).min(MAX_DOUBLINGS);
        self.unused_in_a_row == MAX_UNUSED
    }
}

impl CompactionState {
    /// Sets the next threshold from the result of a compaction: after a small gain the next one
    /// waits until more can be dropped, and twice as long if that was too soon again, but not
    /// longer than until a 60 % saving is possible. After large gains it comes sooner again.
    pub(super) fn learn(
        &mut self,
        cause: CompactionCause,
        (before, after): (u64, u64),
        threshold: u64,
        window: u64,
    ) {
        if cause == CompactionCause::Threshold {
            if after > target_tokens(before) {
                self.consecutive_large_gains = 0;
                self.backoff_doublings = (self.backoff_doublings + 1).min(MAX_DOUBLINGS);
            } else if after <= before * LARGE_GAIN_PERCENT / 100 {
                // The compaction saved more than waiting longer would have.
                (self.consecutive_large_gains, self.backoff_doublings) = (0, 0);
            } else {
                self.consecutive_large_gains += 1;
                if self.consecutive_large_gains >= LARGE_GAINS_TO_RELAX {
                    self.consecutive_large_gains = 0;
                    self.backoff_doublings = self.backoff_doublings.saturating_sub(1);
                }
            }
        }
        let more =
            after.saturating_add(after / 2 * (1 << self.backoff_doublings.saturating_sub(1)));
        // The inverse of `target_tokens`: a compaction at this size may reach the target again.
        let more = more.min(after.saturating_mul(5) / 2);
        let low = after < threshold * 3 / 5;
        self.next_threshold = if low { 0 } else { more.min(window - window / 10) };
    }
}

impl ContextManager {
    /// Returns the compaction threshold in tokens. If the system prompt and the tools alone exceed
    /// the configured value, a multiple of their size applies; otherwise every request would be
    /// compacted.
    pub(crate) fn threshold(&self, frame: &RequestFrame) -> u64 {
        let window = frame.limits.context;
        let threshold = self.compaction.options.threshold(window).min(frame.limits.prompt());
        let fixed = frame.fixed_tokens();
        if fixed < threshold {
            return threshold;
        }
        fixed.saturating_mul(FIXED_TIMES).min(window - window / 10).max(threshold)
    }

    /// About how many tokens the results of one batch may have: half of the threshold, so that the
    /// newest results need not be masked later.
    pub(crate) fn batch_token_limit(&self, frame: &RequestFrame) -> u64 {
        (self.threshold(frame) / 2).max(MIN_BATCH_TOKENS)
    }
}

impl Compactor<'_> {
    /// Warns once that the configured threshold cannot be met.
    pub(super) fn warn_low_threshold(&mut self, raised: u64, window: u64) {
        let threshold = self.context.compaction.options.threshold(window);
        if raised <= threshold || std::mem::replace(&mut self.context.compaction.warned_low, true) {
            return;
        }
        let fixed = self.frame.fixed_tokens();
        let text = format!(
            "The system prompt and the tools alone use about {fixed} tokens, more than the \
                compaction threshold of {threshold}. The threshold is raised to {raised}"
        );
        self.inbox.notice(Level::Warning, text);
    }

    /// Warns once that even what must stay exceeds the threshold.
    pub(super) fn warn_above_threshold(
        &mut self,
        cause: CompactionCause,
        after: u64,
        threshold: u64,
    ) {
        if cause != CompactionCause::Threshold
            || after < threshold
            || std::mem::replace(&mut self.context.compaction.warned_above, true)
        {
            return;
        }
        let text = format!(
            "The history cannot be kept below {threshold} tokens: the content that must stay, such \
                as the newest results, has about {after}. Compaction will run less often"
        );
        self.inbox.notice(Level::Warning, text);
    }

    /// Records whether a summary was used, and warns when summaries are requested less often.
    pub(super) fn record_summary_use(&mut self, used: bool) {
        if self.context.compaction.usefulness.note(used) {
            let text = "The latest summaries saved no more than masking alone, so they were not \
                used. Parallax will try again later";
            self.inbox.notice(Level::Warning, text.to_owned());
        }
    }
}

/// Returns the token count that a compaction should reach: a 60 % saving.
pub(super) fn target_tokens(before: u64) -> u64 {
    before * 2 / 5
}

pub(super) fn is_worthwhile(before: u64, after: u64) -> bool {
    after < before.saturating_sub(before * GAIN_PERCENT / 100)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::CompactionOptions;

    #[test]
    fn effective_compaction_shortens_the_next_wait() {
        let mut compaction = CompactionState::new(CompactionOptions::default());
        let (threshold, window) = (30_000, 1_000_000);
        let mut learn = |before, after| {
            compaction.learn(CompactionCause::Threshold, (before, after), threshold, window);
            compaction.next_threshold
        };
        let late: Vec<u64> = (0..4).map(|_| learn(36_000, 20_000)).collect();
        assert_eq!(late, [30_000, 40_000, 50_000, 50_000], "never later than where 60 % go");
        let sooner = (0..12).map(|_| learn(51_000, 20_000)).last();
        assert_eq!(sooner, Some(30_000));
        assert_eq!(learn(51_000, 15_000), 0, "the threshold counts where it can be kept");
    }

    #[test]
    fn very_effective_compaction_ends_the_wait() {
        let mut compaction = CompactionState::new(CompactionOptions::default());
        let mut learn = |before, after| {
            compaction.learn(CompactionCause::Threshold, (before, after), 20_000, 1_000_000);
            compaction.next_threshold
        };
        assert_eq!((0..4).map(|_| learn(36_000, 20_000)).last(), Some(50_000));
        assert_eq!(learn(60_000, 20_000), 30_000);
    }

    #[test]
    fn useless_summaries_are_requested_less_often() {
        let mut accounts = SummaryUsefulness::default();
        assert!(!accounts.note(false) && accounts.is_due());
        assert!(accounts.note(false), "reported once");
        assert_eq!([(); 4].map(|()| accounts.is_due()), [false, false, true, true]);
        assert!(!accounts.note(false));
        assert_eq!([(); 5].map(|()| accounts.is_due()), [false, false, false, false, true]);
        accounts.note(true);
        assert!(!accounts.note(false) && accounts.is_enabled());
    }
}
