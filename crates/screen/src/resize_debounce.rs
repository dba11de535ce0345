//! Detects that the window is being resized continuously, for example by dragging its edge.
//! A frame painted in that time arrives in a window of a different size, and rows that the
//! terminal then wraps and pushes into its scrollback cannot be removed. Frames therefore
//! wait until the size is stable. A single change delays nothing.

use std::time::{Duration, Instant};

/// Two changes within this time start a series.
const SERIES: Duration = Duration::from_millis(600);
/// Time without a change after which the size is stable. tmux reports changes at most every quarter
/// of a second.
const SETTLE_TIME: Duration = Duration::from_millis(400);
/// After this time, live rows are painted even if the size keeps changing.
const TIMEOUT: Duration = Duration::from_secs(3);

/// What may be painted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PaintPermission {
    All,
    /// All, after the window size was queried.
    AfterAsking,
    /// Only rows that can be removed again.
    Live,
    Nothing,
}

/// Tracks changes of the window size.
#[derive(Debug, Default)]
pub(crate) struct ResizeDebounce {
    last: Option<Instant>,
    /// Since when frames wait.
    waiting_since: Option<Instant>,
}

impl ResizeDebounce {
    /// Records a change of the size.
    pub fn record_change(&mut self, now: Instant) {
        if self.last.is_some_and(|last| now.duration_since(last) < SERIES) {
            self.waiting_since.get_or_insert(now);
        }
        self.last = Some(now);
    }

    /// Whether frames wait until the size is stable.
    pub fn is_waiting(&self) -> bool {
        self.waiting_since.is_some()
    }

    /// Returns what may be painted now.
    pub fn permission(&mut self, now: Instant) -> PaintPermission {
        let (Some(since), Some(last)) = (self.waiting_since, self.last) else {
            return PaintPermission::All;
        };
        if now.duration_since(last) >= SETTLE_TIME {
            self.waiting_since = None;
            return PaintPermission::AfterAsking;
        }
        if now.duration_since(since) >= TIMEOUT {
            self.waiting_since = Some(now);
            return PaintPermission::Live;
        }
        PaintPermission::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_resize_is_immediate_and_many_are_debounced() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut unrest = ResizeDebounce::default();
        unrest.record_change(at(0));
        assert_eq!(unrest.permission(at(1)), PaintPermission::All);
        unrest.record_change(at(250));
        assert_eq!(unrest.permission(at(251)), PaintPermission::Nothing);
        assert_eq!(unrest.permission(at(650)), PaintPermission::AfterAsking);
        assert_eq!(unrest.permission(at(651)), PaintPermission::All);
        unrest.record_change(at(2_000));
        assert_eq!(unrest.permission(at(2_001)), PaintPermission::All, "a change of its own");
    }

    #[test]
    fn endless_resize_is_painted_periodically() {
        let start = Instant::now();
        let mut unrest = ResizeDebounce::default();
        let mut frames = 0;
        for step in 0..100 {
            let now = start + Duration::from_millis(step * 100);
            unrest.record_change(now);
            frames += usize::from(unrest.permission(now) == PaintPermission::Live);
        }
        assert_eq!(frames, 3);
    }
}
