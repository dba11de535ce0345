//! The pace of requests that several processes share: after a rate limit, all of them slow down
//! together, and then speed up again.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The variable that names the file.
const VARIABLE: &str = "PARALLAX_BATCH_PACE";
/// No request waits longer than this for others.
const MAX_WAIT: Duration = Duration::from_secs(10 * 60);
/// The slowest pace: one request in this time.
const MAX_INTERVAL: Duration = Duration::from_secs(2);
/// An accepted request shortens the time between two requests by this part of it.
const RECOVERY: u64 = 32;
/// The first pause after a rate limit for which the service states no time, in initial intervals:
/// one second. It doubles while no request is accepted.
const FIRST_PAUSE: u64 = 10;

/// A file with the time at which the next request may be sent, and the time between two requests.
#[derive(Debug, Clone)]
pub struct SharedPace {
    file: Arc<Path>,
    initial_gap: Duration,
}

/// The contents of the file; times are in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct PaceState {
    /// When the next request may be sent, since 1970.
    next: u64,
    /// The time between two requests; zero: they need not wait for each other.
    interval: u64,
    /// Number of rate limits so far, without those of requests that were already under way.
    limits: u64,
    /// Number of them since a request was accepted.
    rejected: u64,
}

/// A moment at which a request may be sent, unless another one is rejected before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reservation {
    moment: u64,
    limits: u64,
}

/// The rate limits that were known when a request was sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct KnownLimits(u64);

/// How long requests should wait after a rate limit, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LimitDelay {
    /// The service states it.
    Stated(u64),
    /// The service does not state it; at most this long.
    Guessed(u64),
}

impl PaceState {
    /// Takes the next moment for a request.
    fn reserve(&mut self, now: u64) -> Reservation {
        let moment = self.next.max(now).min(now.saturating_add(micros(MAX_WAIT)));
        if self.interval > 0 {
            self.next = moment.saturating_add(self.interval);
        }
        Reservation { moment, limits: self.limits }
    }

    /// Records that a request was rejected because of the rate limit. Rejections of requests sent
    /// before that was known do not change the pace again.
    fn limit(&mut self, now: u64, delay: LimitDelay, first_gap: u64, known: KnownLimits) {
        let is_new = known.0 == self.limits;
        if is_new {
            self.rejected += 1;
        }
        let pause = match delay {
            LimitDelay::Stated(delay) => delay,
            // A service that accepts every second request would otherwise hold all back most of
            // the time.
            LimitDelay::Guessed(delay) => {
                let doublings = self.rejected.saturating_sub(1).min(16);
                delay.min(first_gap.saturating_mul(FIRST_PAUSE << doublings))
            }
        };
        let resume = now.saturating_add(pause.min(micros(MAX_WAIT)));
        if is_new {
            self.limits += 1;
            self.interval =
                self.interval.saturating_mul(2).max(first_gap).min(micros(MAX_INTERVAL));
            // Earlier reservations are void.
            self.next = resume;
        }
        self.next = self.next.max(resume);
    }

    /// Records that a request was accepted. A request sent before a limit says nothing about the
    /// pace since.
    fn accept(&mut self, first_gap: u64, known: KnownLimits) {
        if known.0 != self.limits {
            return;
        }
        self.rejected = 0;
        self.interval -= self.interval / RECOVERY;
        if self.interval <= first_gap / 4 {
            self.interval = 0;
        }
    }
}

impl SharedPace {
    /// Returns the pace of the batch that this process belongs to, if it belongs to one.
    /// `first_wait` is the first wait of a process alone.
    pub(crate) fn from_env(
        env: &dyn Fn(&str) -> Option<String>,
        first_wait: Duration,
    ) -> Option<Self> {
        let file = PathBuf::from(env(VARIABLE).filter(|value| !value.is_empty())?);
        Some(Self { file: file.into(), initial_gap: first_wait / 50 })
    }

    /// Waits until a request may be sent.
    pub(crate) async fn wait(&self) -> KnownLimits {
        let mut reservation = self.update(PaceState::reserve).await;
        while let Some(Reservation { moment, limits }) = reservation {
            let wait = Duration::from_micros(moment.saturating_sub(now()));
            if wait.is_zero() {
                return KnownLimits(limits);
            }
            tokio::time::sleep(wait).await;
            // A request that was rejected meanwhile delays all waiting ones.
            reservation = self
                .update(move |state, now| match state.limits == limits {
                    true => Reservation { moment: 0, limits },
                    false => state.reserve(now),
                })
                .await;
        }
        KnownLimits::default()
    }

    /// Notes that a request was rejected because of the rate limit.
    /// `is_stated`: the service stated the delay.
    pub(crate) async fn record_rate_limit(
        &self,
        delay: Duration,
        is_stated: bool,
        known: KnownLimits,
    ) {
        let first_gap = micros(self.initial_gap);
        let delay = match is_stated {
            true => LimitDelay::Stated(micros(delay)),
            false => LimitDelay::Guessed(micros(delay)),
        };
        self.update(move |state, now| state.limit(now, delay, first_gap, known)).await;
    }

    /// Notes that a request was accepted.
    pub(crate) async fn record_accepted(&self, known: KnownLimits) {
        let first_gap = micros(self.initial_gap);
        self.update(move |state, _| state.accept(first_gap, known)).await;
    }

    /// Changes the file. Without it, every process has its own pace, as usual.
    async fn update<T: Send + 'static>(
        &self,
        change: impl FnOnce(&mut PaceState, u64) -> T + Send + 'static,
    ) -> Option<T> {
        let file = Arc::clone(&self.file);
        let changed = tokio::task::spawn_blocking(move || {
            let mut opened = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&file)?;
            opened.lock()?;
            let before = read(&mut opened)?;
            let mut state = before;
            let result = change(&mut state, now());
            if state != before {
                write(&mut opened, state)?;
            }
            io::Result::Ok(result)
        });
        match changed.await {
            Ok(Ok(result)) => Some(result),
            Ok(Err(error)) => {
                tracing::warn!(%error, file = %self.file.display(), "no shared pace");
                None
            }
            Err(_) => None,
        }
    }
}

fn read(file: &mut File) -> io::Result<PaceState> {
    let mut text = String::new();
    file.take(96).read_to_string(&mut text)?;
    let mut numbers = text.split_whitespace().map(|number| number.parse().unwrap_or(0));
    let mut number = || numbers.next().unwrap_or(0);
    Ok(PaceState { next: number(), interval: number(), limits: number(), rejected: number() })
}

fn write(file: &mut File, state: PaceState) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{} {} {} {}", state.next, state.interval, state.limits, state.rejected)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn now() -> u64 {
    micros(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_pace_slows_at_a_limit_and_recovers() {
        let mut state = PaceState::default();
        let moment = |state: &mut PaceState, now| state.reserve(now).moment;
        assert_eq!((moment(&mut state, 100), moment(&mut state, 100)), (100, 100));
        state.limit(100, LimitDelay::Stated(1000), 40, KnownLimits(0));
        assert_eq!((state.next, state.interval), (1100, 40));
        // Another answer to a request that was sent before.
        state.limit(200, LimitDelay::Stated(1000), 40, KnownLimits(0));
        assert_eq!((state.next, state.interval), (1200, 40));
        let moments = [300, 300, 300].map(|now| moment(&mut state, now));
        assert_eq!(moments, [1200, 1240, 1280]);
        // The send times of the two waiting requests are void.
        state.limit(1205, LimitDelay::Stated(500), 40, KnownLimits(1));
        assert_eq!((state.next, state.interval, state.limits), (1705, 80, 2));
        state.accept(40, KnownLimits(1));
        assert_eq!(state.interval, 80);
        for _ in 0..200 {
            state.accept(4, KnownLimits(2));
        }
        assert!(state.interval < 40, "{}", state.interval);
        state.accept(400, KnownLimits(2));
        assert_eq!(state.interval, 0);
        assert_eq!(moment(&mut state, 5000), 5000);
    }

    #[test]
    fn pause_without_a_stated_time_is_short_after_an_accepted_request_and_then_doubles() {
        let mut state = PaceState::default();
        let pause = |state: &mut PaceState| {
            let known = KnownLimits(state.limits);
            state.limit(0, LimitDelay::Guessed(50), 1, known);
            state.next
        };
        assert_eq!([(); 4].map(|()| pause(&mut state)), [10, 20, 40, 50]);
        state.accept(1, KnownLimits(state.limits));
        assert_eq!(pause(&mut state), 10);
        let known = KnownLimits(state.limits);
        state.limit(0, LimitDelay::Stated(500), 1, known);
        assert_eq!(state.next, 500);
    }

    fn pace(name: &str) -> (PathBuf, SharedPace) {
        let name = format!("parallax-pace-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let env = |_: &str| Some(path.display().to_string());
        let pace = SharedPace::from_env(&env, Duration::from_secs(1)).expect("a pace");
        (path, pace)
    }

    #[tokio::test]
    async fn processes_share_the_pace_file() {
        let (path, one) = pace("shared");
        let other = one.clone();
        one.record_rate_limit(Duration::from_millis(60), true, KnownLimits(0)).await;
        let started = std::time::Instant::now();
        other.wait().await;
        let waited = started.elapsed();
        // It may be gone already.
        let _ = std::fs::remove_file(&path);
        assert!(waited >= Duration::from_millis(50), "{waited:?}");
    }

    #[tokio::test]
    async fn limit_delays_requests_that_are_already_waiting() {
        let (path, pace) = pace("held");
        pace.record_rate_limit(Duration::from_millis(40), true, KnownLimits(0)).await;
        let started = std::time::Instant::now();
        let waiting = [pace.clone(), pace.clone(), pace.clone()];
        let waiting =
            waiting.map(|pace| tokio::spawn(async move { (pace.wait().await, started.elapsed()) }));
        let known = pace.wait().await;
        pace.record_rate_limit(Duration::from_millis(600), true, known).await;
        let limited = started.elapsed();
        let mut late = 0;
        for waiting in waiting {
            let (known, sent) = waiting.await.expect("sent");
            // One may have had its turn before.
            late +=
                u32::from(known == KnownLimits(2) && sent >= limited + Duration::from_millis(500));
        }
        // It may be gone already.
        let _ = std::fs::remove_file(&path);
        assert!(late >= 1, "{late}");
    }
}
