//! How the end of a command is noticed.

use crate::ProcessExit;

/// Waits for the end of a started shell.
pub(crate) enum Waiter {
    Child(tokio::process::Child),
    #[cfg(not(target_os = "linux"))]
    Thread(tokio::sync::oneshot::Receiver<ProcessExit>),
}

impl Waiter {
    /// Waits for the end. Cancel-safe.
    pub(crate) async fn wait(&mut self) -> ProcessExit {
        let lost = ProcessExit::Exited { code: -1 };
        match self {
            Self::Child(child) => child.wait().await.map_or(lost, ProcessExit::from),
            #[cfg(not(target_os = "linux"))]
            Self::Thread(ended) => ended.await.unwrap_or(lost),
        }
    }
}
