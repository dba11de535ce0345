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
/// Compactions in a row that must bring much until they come sooner again.
const WINS: u32 = 4;
/// What a compaction leaves, in percent, that brought so much that the next one
/// need not wait any longer.
const MUCH_LEFT: u64 = 35;
/// Accounts in a row that may be of no use until the next is asked for later.
const UNUSED: u32 = 2;
/// The multiple of the fixed part that counts where that is above the mark.
const FIXED_TIMES: u64 = 3;

/// Whether accounts of the model are worth their requests.
#[derive(Default)]
pub(super) struct Accounts {
    /// How many in a row were not used, since short results alone were no longer.
    unused: u32,
    /// Compactions that go without one.
    without: u32,
}

impl Accounts {
    pub(super) fn are_asked_for(&self) -> bool {
        self.without == 0
    }

    /// Whether this compaction asks for one.
    pub(super) fn is_due(&mut self) -> bool {
        let due = self.without == 0;
        self.without = self.without.saturating_sub(1);
        due
    }

    /// Notes what became of one. Gives whether they begin to be asked for less.
    fn note(&mut self, used: bool) -> bool {
        if used {
            *self = Self::default();
            return false;
        }
        self.unused += 1;
        if self.unused < UNUSED {
            return false;
        }
        self.without = 1 << (self.unused - UNUSED + 1).min(MOST_DOUBLINGS);
        self.unused == UNUSED
    }
}

impl Compacting {
    /// Notes what a compaction came to, for when the next one is to be: where
    /// little could go it waits until more can, and twice as long if that was too
    /// soon again, but not longer than until getting here again would take 60 %
    /// away. Where they bring much they come sooner again.
    pub(super) fn learn(
        &mut self,
        cause: CompactionCause,
        (before, after): (u64, u64),
        mark: u64,
        window: u64,
    ) {
        if cause == CompactionCause::Threshold {
            if after > goal(before) {
                self.won = 0;
                self.doubled = (self.doubled + 1).min(MOST_DOUBLINGS);
            } else if after <= before * MUCH_LEFT / 100 {
                // More than waiting alone brings.
                (self.won, self.doubled) = (0, 0);
            } else {
                self.won += 1;
                if self.won >= WINS {
                    self.won = 0;
                    self.doubled = self.doubled.saturating_sub(1);
                }
            }
        }
        let more = after.saturating_add(after / 2 * (1 << self.doubled.saturating_sub(1)));
        // The goal turned round.
        let more = more.min(after.saturating_mul(5) / 2);
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

    /// Tells once that even what must stay is above the mark.
    pub(super) fn tell_above(&mut self, cause: CompactionCause, after: u64, mark: u64) {
        if cause != CompactionCause::Threshold
            || after < mark
            || std::mem::replace(&mut self.compacting.told_above, true)
        {
            return;
        }
        let text = format!(
            "the history cannot be kept below {mark} tokens: what must stay, such as the newest \
             results, has about {after}. It is made shorter less often"
        );
        self.inbox.notice(Level::Warning, text);
    }

    /// Notes what became of an account, and tells when they are asked for less.
    pub(super) fn note_account(&mut self, used: bool) {
        if self.compacting.accounts.note(used) {
            let text = "accounts of the older part made the history no shorter than short \
                        results do, and were not used: the next is asked for later";
            self.inbox.notice(Level::Warning, text.to_owned());
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compaction::Room;

    #[test]
    fn compactions_that_bring_much_again_come_sooner_again() {
        let mut compacting = Compacting::new(Room::default());
        let (mark, window) = (30_000, 1_000_000);
        let mut learn = |before, after| {
            compacting.learn(CompactionCause::Threshold, (before, after), mark, window);
            compacting.next_at
        };
        let late: Vec<u64> = (0..4).map(|_| learn(36_000, 20_000)).collect();
        assert_eq!(late, [30_000, 40_000, 50_000, 50_000], "never later than where 60 % go");
        let sooner = (0..12).map(|_| learn(51_000, 20_000)).last();
        assert_eq!(sooner, Some(30_000));
        assert_eq!(learn(51_000, 15_000), 0, "the mark counts where it can be kept");
    }

    #[test]
    fn one_that_brings_very_much_ends_the_wait() {
        let mut compacting = Compacting::new(Room::default());
        let mut learn = |before, after| {
            compacting.learn(CompactionCause::Threshold, (before, after), 20_000, 1_000_000);
            compacting.next_at
        };
        assert_eq!((0..4).map(|_| learn(36_000, 20_000)).last(), Some(50_000));
        assert_eq!(learn(60_000, 20_000), 30_000);
    }

    #[test]
    fn accounts_of_no_use_are_asked_for_less() {
        let mut accounts = Accounts::default();
        assert!(!accounts.note(false) && accounts.is_due());
        assert!(accounts.note(false), "it is told once");
        assert_eq!([(); 4].map(|()| accounts.is_due()), [false, false, true, true]);
        assert!(!accounts.note(false));
        assert_eq!([(); 5].map(|()| accounts.is_due()), [false, false, false, false, true]);
        accounts.note(true);
        assert!(!accounts.note(false) && accounts.are_asked_for());
    }
}
