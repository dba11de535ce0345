//! A session that runs in another process and is shown here.

use parallax_protocol::event::Level;
use parallax_protocol::ids::SessionId;
use parallax_protocol::session_view::SessionView;
use parallax_sdk::{EventReader, OpSender};
use tokio::sync::mpsc;

/// A running session in another process. It takes operations and emits events like a session of
/// this process, but it does not end with the front end.
pub struct AttachedSession {
    /// The id of the session.
    pub id: SessionId,
    /// Where operations go.
    pub ops: OpSender,
    /// The destination of slash commands that only show something. Each is answered by an
    /// [`AttachedUpdate::Output`] or an [`AttachedUpdate::Notice`].
    pub commands: mpsc::Sender<String>,
    /// What the session reports besides events. It closes when the session ends.
    pub updates: mpsc::Receiver<AttachedUpdate>,
}

/// What an attached session reports besides events.
pub enum AttachedUpdate {
    /// The state of the session, and its events from now on. It is the first update, and follows
    /// again if the front end was too slow to read all events.
    State(SessionView, EventReader),
    /// The output of a command, several lines.
    Output(String),
    /// A message for this front end.
    Notice(Level, String),
    /// The session ended; describes in one line how.
    Ended(String),
}
