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
const LONGEST_WAIT: Duration = Duration::from_secs(10 * 60);
/// The slowest pace: one request in this time.
const LARGEST_GAP: Duration = Duration::from_secs(10);

/// A file with the time at which the next request may be sent, and the time between two requests.
#[derive(Debug, Clone)]
pub struct SharedPace {
    file: Arc<Path>,
    initial_gap: Duration,
}

/// The contents of the file, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct PaceState {
    /// When the next request may be sent, since 1970.
    next: u64,
    /// The time between two requests; zero: they need not wait for each other.
    interval: u64,
}

impl PaceState {
    /// Takes the next moment for a request.
    fn reserve(&mut self, now: u64) -> u64 {
        let moment = self.next.max(now).min(now.saturating_add(micros(LONGEST_WAIT)));
        if self.interval > 0 {
            self.next = moment.saturating_add(self.interval);
        }
        moment
    }

    /// A request was rejected because of the rate limit. Those that were sent with it say the same.
    fn limit(&mut self, now: u64, delay: u64, first_gap: u64) {
        if now >= self.next || self.interval == 0 {
            self.interval = self.interval.saturating_mul(2).max(first_gap).min(micros(LARGEST_GAP));
        }
        self.next = self.next.max(now.saturating_add(delay.min(micros(LONGEST_WAIT))));
    }

    /// A request was accepted.
    fn accept(&mut self, first_gap: u64) {
        self.interval = self.interval - self.interval / 8;
        if self.interval <= first_gap / 4 {
            self.interval = 0;
        }
    }
}

impl SharedPace {
    /// The pace of the batch that this process belongs to, if it belongs to one. `first_wait` is
    /// the first wait of a process alone.
    pub(crate) fn from_env(
        env: &dyn Fn(&str) -> Option<String>,
        first_wait: Duration,
    ) -> Option<Self> {
        let file = PathBuf::from(env(VARIABLE).filter(|value| !value.is_empty())?);
        Some(Self { file: file.into(), initial_gap: first_wait / 50 })
    }

    /// Waits until a request may be sent.
    pub(crate) async fn wait(&self) {
        let Some(moment) = self.update(PaceState::reserve).await else { return };
        let wait = Duration::from_micros(moment.saturating_sub(now()));
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }

    /// Notes that a request was rejected because of the rate limit.
    pub(crate) async fn record_rate_limit(&self, delay: Duration) {
        let (delay, first_gap) = (micros(delay), micros(self.initial_gap));
        self.update(move |state, now| state.limit(now, delay, first_gap)).await;
    }

    /// Notes that a request was accepted.
    pub(crate) async fn record_accepted(&self) {
        let first_gap = micros(self.initial_gap);
        self.update(move |state, _| state.accept(first_gap)).await;
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
    file.take(64).read_to_string(&mut text)?;
    let mut numbers = text.split_whitespace().map(|number| number.parse().unwrap_or(0));
    Ok(PaceState { next: numbers.next().unwrap_or(0), interval: numbers.next().unwrap_or(0) })
}

fn write(file: &mut File, state: PaceState) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{} {}", state.next, state.interval)
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
        assert_eq!((state.reserve(100), state.reserve(100)), (100, 100));
        state.limit(100, 1000, 40);
        assert_eq!((state.next, state.interval), (1100, 40));
        // Another answer to a request that was sent before.
        state.limit(200, 1000, 40);
        assert_eq!((state.next, state.interval), (1200, 40));
        assert_eq!(
            (state.reserve(300), state.reserve(300), state.reserve(300)),
            (1200, 1240, 1280)
        );
        state.limit(1400, 0, 40);
        assert_eq!(state.interval, 80);
        for _ in 0..30 {
            state.accept(40);
        }
        assert_eq!(state.interval, 0);
        assert_eq!(state.reserve(5000), 5000);
    }

    #[tokio::test]
    async fn processes_share_the_pace_file() {
        let path = std::env::temp_dir().join(format!("parallax-pace-{}", std::process::id()));
        let env = |_: &str| Some(path.display().to_string());
        let one = SharedPace::from_env(&env, Duration::from_secs(1)).expect("a pace");
        let other = one.clone();
        one.record_rate_limit(Duration::from_millis(60)).await;
        let started = std::time::Instant::now();
        other.wait().await;
        let waited = started.elapsed();
        // It may be gone already.
        let _ = std::fs::remove_file(&path);
        assert!(waited >= Duration::from_millis(50), "{waited:?}");
    }
}
