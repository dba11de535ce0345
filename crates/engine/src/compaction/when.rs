//! When the history is made shorter: from which mark on, and how long after the
//! last time.

use parallax_protocol::event::{CompactionCause, ContextUsed, Level};

use super::Compacting;
use crate::session::Session;

/// A gain below this part of the whole is none, in percent.
const GAIN_PERCENT: u64 = 5;
/// Tokens that the results of one answer may have together in any case.
const ROUND: u64 = 10_000;
/// How often the way to the next compaction is doubled at most.
const MOST_DOUBLINGS: u32 = 4;
/// The multiple of the fixed part that counts where that is above the mark.
const FIXED_TIMES: u64 = 3;

impl Compacting {
    /// Notes what a compaction came to, for when the next one is to be: where
    /// little could go it waits until more can, and twice as long if that was too
    /// soon again.
    pub(super) fn learn(
        &mut self,
        cause: CompactionCause,
        (before, after): (u64, u64),
        mark: u64,
        window: u64,
    ) {
        if cause == CompactionCause::Threshold {
            if after > goal(before) {
                self.doubled = (self.doubled + 1).min(MOST_DOUBLINGS);
            } else if after < before / 4 {
                self.doubled = self.doubled.saturating_sub(1);
            }
        }
        let more = after.saturating_add(after / 2 * (1 << self.doubled.saturating_sub(1)));
        let low = after < mark * 3 / 5;
        self.next_at = if low { 0 } else { more.min(window - window / 10) };
    }
}

impl Session {
    /// The tokens from which the history is made shorter. Where the system prompt
    /// and the tools alone have more than what is set, it counts from a multiple
    /// of theirs: it would be made shorter all the time else.
    pub(crate) fn mark(&mut self, window: u64) -> u64 {
        let mark = self.compacting.room.mark(window);
        let fixed = self.fixed_tokens();
        if fixed < mark {
            return mark;
        }
        fixed.saturating_mul(FIXED_TIMES).min(window - window / 10).max(mark)
    }

    /// Tells once that the mark that is set cannot be kept.
    pub(super) fn tell_low_mark(&mut self, raised: u64, window: u64) {
        let mark = self.compacting.room.mark(window);
        if raised <= mark || std::mem::replace(&mut self.compacting.told_low, true) {
            return;
        }
        let fixed = self.fixed_tokens();
        let text = format!(
            "the system prompt and the tools alone have about {fixed} tokens, more than the \
             {mark} from which the history is to be made shorter: that is done from {raised} on"
        );
        self.inbox.notice(Level::Warning, text);
    }

    /// About how many tokens the results of one answer may have together: half of
    /// what the history may, so that the newest ones need not be shortened later.
    pub(crate) fn round_tokens(&mut self) -> u64 {
        let model = self.main_model();
        let ContextUsed { window, .. } = self.context(&model);
        (self.mark(window) / 2).max(ROUND)
    }
}

/// What a compaction is to leave of so many tokens: 60 % go.
pub(super) fn goal(before: u64) -> u64 {
    before * 2 / 5
}

pub(super) fn is_gain(before: u64, after: u64) -> bool {
    after < before.saturating_sub(before * GAIN_PERCENT / 100)
}
