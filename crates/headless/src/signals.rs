//! The signals that end a run.

/// Receives SIGHUP, SIGINT, SIGQUIT, and SIGTERM as signal numbers.
pub struct Signals {
    #[cfg(unix)]
    sources: Vec<(u8, tokio::signal::unix::Signal)>,
    #[cfg(test)]
    scripted: Option<tokio::sync::mpsc::UnboundedReceiver<u8>>,
}

#[cfg(unix)]
impl Signals {
    /// Starts listening. A SIGHUP that the parent process ignores (`nohup`) stays ignored. A SIGINT
    /// does not: shells ignore it for background jobs of scripts, but a run must be stoppable.
    pub fn listen() -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        let ignored = ignored_signals();
        let sources = [1u8, 2, 3, 15]
            .into_iter()
            .filter(|number| *number == 2 || ignored & (1 << (number - 1)) == 0)
            .filter_map(|number| {
                let source = signal(SignalKind::from_raw(i32::from(number))).ok()?;
                Some((number, source))
            })
            .collect();
        Self {
            sources,
            #[cfg(test)]
            scripted: None,
        }
    }

    /// Waits for the next signal. Safe to cancel.
    pub async fn next(&mut self) -> u8 {
        #[cfg(test)]
        if let Some(scripted) = &mut self.scripted {
            return match scripted.recv().await {
                Some(number) => number,
                None => std::future::pending().await,
            };
        }
        std::future::poll_fn(|context| {
            for (number, source) in &mut self.sources {
                if let std::task::Poll::Ready(Some(())) = source.poll_recv(context) {
                    return std::task::Poll::Ready(*number);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }
}

#[cfg(not(unix))]
impl Signals {
    /// Starts listening.
    pub fn listen() -> Self {
        Self {
            #[cfg(test)]
            scripted: None,
        }
    }

    /// Waits for the next signal. Safe to cancel.
    pub async fn next(&mut self) -> u8 {
        match tokio::signal::ctrl_c().await {
            Ok(()) => 2,
            Err(_) => std::future::pending().await,
        }
    }
}

#[cfg(test)]
impl Signals {
    /// Creates a source of signals that a test sends.
    pub(crate) fn from_channel(receiver: tokio::sync::mpsc::UnboundedReceiver<u8>) -> Self {
        Self {
            #[cfg(unix)]
            sources: Vec::new(),
            scripted: Some(receiver),
        }
    }
}

/// Returns the mask of signals that were ignored when the process started. Only Linux reports it
/// without changing signal handlers.
#[cfg(unix)]
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
