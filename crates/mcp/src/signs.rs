//! Signs of life of a server that begins: a first request waits for those that
//! get on, and not for those that hang.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use parallax_config::mcp::Endpoint;
use parallax_exec::{Activity, ProgramId};
use tokio::time::Instant;
use url::Url;

/// One that gives no sign for so long hangs.
pub(crate) const SILENCE: Duration = Duration::from_millis(150);
/// One that is far away needs so many times as long as its address to answer, for
/// the handshakes and its own work; but this machine may only be busy.
const TRIPS: u32 = 4;
const FAR: Duration = Duration::from_millis(450);
/// The same for programs where the system does not tell what they do.
const BLIND: Duration = Duration::from_secs(2);

/// When a server last gave a sign.
#[derive(Debug)]
pub(crate) struct Signs(Mutex<Seen>);

#[derive(Debug)]
struct Seen {
    last: Instant,
    program: Option<ProgramId>,
    activity: Option<Activity>,
    /// Bytes that it complained.
    written: u64,
    silence: Duration,
}

impl Signs {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Seen {
            last: Instant::now(),
            program: None,
            activity: None,
            written: 0,
            silence: SILENCE,
        }))
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It did something.
    pub(crate) fn heard(&self) {
        self.seen().last = Instant::now();
    }

    /// Its address took a connection, after that time.
    pub(crate) fn answered(&self, took: Duration) {
        let mut seen = self.seen();
        seen.last = Instant::now();
        seen.silence = took.saturating_mul(TRIPS).clamp(SILENCE, FAR);
    }

    /// Its program runs now.
    pub(crate) fn started(&self, program: ProgramId) {
        let mut seen = self.seen();
        seen.program = Some(program);
        seen.activity = None;
        seen.last = Instant::now();
    }

    /// Its program, once that runs.
    pub(crate) fn program(&self) -> Option<ProgramId> {
        self.seen().program.clone()
    }

    /// What its program does; `None`: the system does not tell.
    pub(crate) fn saw(&self, activity: Option<Activity>) {
        let mut seen = self.seen();
        let Some(now) = activity else {
            seen.silence = BLIND;
            return;
        };
        if now.busy || seen.activity.unwrap_or_default().ticks != now.ticks {
            seen.last = Instant::now();
        }
        seen.activity = Some(now);
    }

    /// How much it has complained so far.
    pub(crate) fn wrote(&self, total: u64) {
        let mut seen = self.seen();
        if seen.written != total {
            seen.written = total;
            seen.last = Instant::now();
        }
    }

    /// Nobody looked for so long although it was time to: this program had no
    /// processor then, and what it did not hear is nobody's silence.
    pub(crate) fn missed(&self, time: Duration) {
        let mut seen = self.seen();
        seen.last = (seen.last + time).min(Instant::now());
    }

    /// Whether it hangs, as far as one can tell.
    pub(crate) fn hangs(&self) -> bool {
        let seen = self.seen();
        seen.last.elapsed() > seen.silence
    }
}

/// How long the address of a server took to take a connection; `None`: nobody
/// does there, or it has no address.
pub(crate) async fn answers(endpoint: &Endpoint) -> Option<Duration> {
    let (Endpoint::Http { url, .. }
    | Endpoint::Sse { url, .. }
    | Endpoint::HttpThenSse { url, .. }) = endpoint
    else {
        return None;
    };
    let url = url.parse::<Url>().ok()?;
    let (host, port) = (url.host_str()?, url.port_or_known_default()?);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let begun = Instant::now();
    tokio::net::TcpStream::connect((host, port)).await.ok()?;
    Some(begun.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_neither_speaks_nor_computes_hangs() {
        let signs = Signs::new();
        let step = SILENCE + Duration::from_millis(1);
        let act = |busy, ticks| Some(Activity { busy, ticks });
        signs.saw(act(false, 3));
        tokio::time::advance(step).await;
        signs.saw(act(false, 3));
        assert!(signs.hangs());
        for sign in [act(true, 3), act(false, 4)] {
            tokio::time::advance(step).await;
            signs.saw(sign);
            assert!(!signs.hangs(), "{sign:?}");
        }
        tokio::time::advance(step).await;
        assert!(signs.hangs());
        signs.heard();
        assert!(!signs.hangs());
        tokio::time::advance(step * 3).await;
        signs.missed(step * 2);
        assert!(signs.hangs(), "it was silent for the rest");
        signs.missed(step);
        assert!(!signs.hangs(), "nobody looked");
        signs.answered(SILENCE);
        tokio::time::advance(step * 2).await;
        assert!(!signs.hangs(), "it is far away");
        tokio::time::advance(step).await;
        assert!(signs.hangs());
        signs.heard();
        signs.saw(None);
        tokio::time::advance(step).await;
        assert!(!signs.hangs(), "nobody knows");
        tokio::time::advance(BLIND).await;
        assert!(signs.hangs());
    }
}
