//! Signals that terminate the program: the session is saved, child processes are terminated, and
//! the terminal is restored.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals listened to. In raw mode, Ctrl+C arrives as a key; the signal can still come from
/// `kill`.
pub(crate) struct Signals {
    streams: Vec<(u8, Signal)>,
}

impl Signals {
    pub(crate) fn listen() -> Self {
        let kinds = [
            SignalKind::hangup(),
            SignalKind::interrupt(),
            SignalKind::quit(),
            SignalKind::terminate(),
            // Not used by this program, but their default action would end it with the terminal in
            // raw mode.
            SignalKind::user_defined1(),
            SignalKind::user_defined2(),
            SignalKind::alarm(),
            // The `ulimit -t` soft limit is reached; some time is left for shutting down.
            SignalKind::from_raw(rustix::process::Signal::XCPU.as_raw()),
        ];
        let listen = |kind: SignalKind| {
            let number = u8::try_from(kind.as_raw_value()).ok()?;
            signal(kind).ok().map(|signal| (number, signal))
        };
        Self { streams: kinds.into_iter().filter_map(listen).collect() }
    }

    /// Returns the number of the next signal.
    pub(crate) async fn next(&mut self) -> u8 {
        let waiting = self.streams.iter_mut().map(|(number, signal)| {
            let number = *number;
            Box::pin(async move {
                match signal.recv().await {
                    Some(()) => number,
                    None => std::future::pending().await,
                }
            })
        });
        let waiting: Vec<_> = waiting.collect();
        if waiting.is_empty() {
            return std::future::pending().await;
        }
        futures_util::future::select_all(waiting).await.0
    }
}
