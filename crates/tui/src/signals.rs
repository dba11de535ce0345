//! Signals that end the program: the session is saved, children are ended, the
//! terminal is given back.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Those that are listened to. The interrupt key comes as a key, since the
/// terminal is in raw mode; the signal still comes from `kill`.
pub(crate) struct Signals {
    listened: Vec<(u8, Signal)>,
}

impl Signals {
    pub(crate) fn listen() -> Self {
        let kinds = [
            SignalKind::hangup(),
            SignalKind::interrupt(),
            SignalKind::quit(),
            SignalKind::terminate(),
            // These signals are not meant for this program; they would end it in raw mode.
            SignalKind::user_defined1(),
            SignalKind::user_defined2(),
            SignalKind::alarm(),
            // The time that `ulimit -t` gives is up: a little is left for the end.
            SignalKind::from_raw(rustix::process::Signal::XCPU.as_raw()),
        ];
        let listen = |kind: SignalKind| {
            let number = u8::try_from(kind.as_raw_value()).ok()?;
            signal(kind).ok().map(|signal| (number, signal))
        };
        Self { listened: kinds.into_iter().filter_map(listen).collect() }
    }

    /// The number of the next one.
    pub(crate) async fn next(&mut self) -> u8 {
        let waiting = self.listened.iter_mut().map(|(number, signal)| {
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
