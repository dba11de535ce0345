//! The session as held by the front end.

use parallax_commands::Expander;
use parallax_protocol::op::Op;
use parallax_sdk::{EventReader, OpSender, OpenSession};
use tokio::sync::mpsc;

/// A session that takes operations and emits events.
pub(crate) struct Session {
    pub(crate) process: SessionProcess,
    pub(crate) events: EventReader,
    pub(crate) ops: OpSender,
}

/// Where a session runs.
pub(crate) enum SessionProcess {
    /// In this process.
    Own(Box<LocalSession>),
    /// In another process; slash commands that only show something go to it.
    Other(mpsc::Sender<String>),
}

/// A session of this process.
pub(crate) struct LocalSession {
    pub(crate) open: OpenSession,
    pub(crate) expander: Expander,
}

impl Session {
    pub(crate) fn new(open: OpenSession, events: EventReader) -> Self {
        let (ops, expander) = (open.ops(), open.expander.clone());
        Self {
            process: SessionProcess::Own(Box::new(LocalSession { open, expander })),
            events,
            ops,
        }
    }

    pub(crate) fn attached(
        events: EventReader,
        ops: OpSender,
        commands: mpsc::Sender<String>,
    ) -> Self {
        Self { process: SessionProcess::Other(commands), events, ops }
    }

    /// Returns the session, if it runs in this process.
    pub(crate) fn own(&self) -> Option<&LocalSession> {
        match &self.process {
            SessionProcess::Own(own) => Some(own),
            SessionProcess::Other(_) => None,
        }
    }

    /// Returns the session, if it runs in this process.
    pub(crate) fn into_open(self) -> Option<OpenSession> {
        match self.process {
            SessionProcess::Own(own) => Some(own.open),
            SessionProcess::Other(_) => None,
        }
    }

    /// Sends an operation. Returns whether the session takes it.
    pub(crate) async fn send(&self, op: Op) -> bool {
        self.ops.send(op).await.is_ok()
    }
}
