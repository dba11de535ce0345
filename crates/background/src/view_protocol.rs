//! The lines between a session and a front end that is attached to it.
//!
//! A front end sends `{"type": "view", "version": …}` as its first line. After the response, both
//! sides send the lines of this module, each in its own order and without responses.

use parallax_protocol::event::{Event, Level};
use parallax_protocol::op::Op;
use parallax_protocol::session_view::SessionView;
use serde::{Deserialize, Serialize};

/// The version of these lines. Another version is rejected, because operations and events of
/// another version of the program may mean something else.
pub const VIEW_VERSION: u32 = 1;

/// A line from a front end.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ViewerLine {
    /// An operation. The session expands the text of prompts and steering messages: commands and
    /// `@` references.
    Op(Op),
    /// A slash command about the session, as typed. The response is an [`FeedLine::Output`].
    Command(String),
}

/// A line to a front end.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FeedLine {
    /// The state of the session; the first line, and the first after the front end fell behind.
    /// Everything before is obsolete.
    State(Box<SessionView>),
    /// An event.
    Event(Event),
    /// The output of a command.
    Output(String),
    /// A message for this front end only.
    Notice(Level, String),
}
