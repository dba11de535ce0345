//! Limits on requests per host and on returned text.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const REQUESTS: usize = 10;
const WINDOW: Duration = Duration::from_secs(60);
const HOSTS: usize = 1_000;

/// Allows ten requests per minute to each host.
#[derive(Debug, Default)]
pub(super) struct RateLimit {
    hosts: Mutex<HashMap<String, VecDeque<Instant>>>,
}

impl RateLimit {
    /// Counts a request at `now`; returns `false` if the host has reached its limit.
    pub(super) fn try_acquire(&self, host: &str, now: Instant) -> bool {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if !hosts.contains_key(host) && hosts.len() >= HOSTS {
            // Forget the least recently used host.
            let oldest = hosts
                .iter()
                .min_by_key(|(_, times)| times.back().copied())
                .map(|(host, _)| host.clone());
            if let Some(oldest) = oldest {
                hosts.remove(&oldest);
            }
        }
        let times = hosts.entry(host.to_owned()).or_default();
        while times.front().is_some_and(|time| now.duration_since(*time) >= WINDOW) {
            times.pop_front();
        }
        if times.len() >= REQUESTS {
            return false;
        }
        times.push_back(now);
        true
    }
}

/// Divides `total` among strings of the given lengths: short ones are kept whole, the others get
/// equal shares.
pub(super) fn fair_shares(lengths: &[usize], total: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|index| lengths.get(*index).copied());
    let mut shares = vec![0; lengths.len()];
    let mut remaining = total;
    for (done, index) in order.iter().enumerate() {
        let length = lengths.get(*index).copied().unwrap_or(0);
        let granted = length.min(remaining / (lengths.len() - done));
        if let Some(share) = shares.get_mut(*index) {
            *share = granted;
        }
        remaining -= granted;
    }
    shares
}

/// Returns the first `limit` characters of `text`, with a note if it was truncated.
pub(super) fn truncate(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!(
            "{}\n\n[Content truncated: the first {limit} characters are shown]",
            text.get(..end).unwrap_or(text)
        ),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn eleventh_request_of_a_minute_waits() {
        let (limit, start) = (RateLimit::default(), Instant::now());
        for _ in 0..10 {
            assert!(limit.try_acquire("a.example", start));
        }
        assert!(!limit.try_acquire("a.example", start + Duration::from_secs(59)));
        assert!(limit.try_acquire("b.example", start));
        assert!(limit.try_acquire("a.example", start + Duration::from_secs(60)));
        for host in 0..3_000 {
            limit.try_acquire(&host.to_string(), start + Duration::from_secs(61));
        }
        assert_eq!(limit.hosts.lock().expect("lock").len(), HOSTS);
    }

    #[test]
    fn small_shares_are_not_reduced() {
        assert_eq!(fair_shares(&[400_000, 10_000, 300_000], 250_000), [120_000, 10_000, 120_000]);
        assert_eq!(fair_shares(&[], 10), Vec::<usize>::new());
    }

    proptest! {
        #[test]
        fn fair_shares_never_exceed_the_limit(lengths in proptest::collection::vec(0_usize..1_000, 0..20), total in 0_usize..5_000) {
            let shares = fair_shares(&lengths, total);
            prop_assert!(shares.iter().sum::<usize>() <= total);
            prop_assert!(shares.iter().zip(&lengths).all(|(share, length)| share <= length));
        }
    }
}
