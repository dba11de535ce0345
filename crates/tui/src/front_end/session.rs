//! The open session as held by the front end.

use parallax_commands::Expander;
use parallax_sdk::{EventReader, OpSender, OpenSession};

/// An open session.
pub(crate) struct Session {
    pub(crate) open: OpenSession,
    pub(crate) events: EventReader,
    pub(crate) ops: OpSender,
    pub(crate) expander: Expander,
}

impl Session {
    pub(crate) fn new(open: OpenSession, events: EventReader) -> Self {
        let (ops, expander) = (open.ops(), open.expander.clone());
        Self { open, events, ops, expander }
    }
}
