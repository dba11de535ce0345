//! What the app shows of a session that was opened, in this process or in another one.

use std::sync::Arc;

use parallax_commands::Commands;
use parallax_protocol::routing::Route;
use parallax_protocol::store::Record;
use parallax_sdk::agents::SessionAgents;
use parallax_sdk::skills::SessionSkills;
use parallax_sdk::{OpenSession, RunningSessionRecords};
use parallax_sessions::session_stats::SessionStats;

/// A session that was opened.
pub(crate) struct OpenedSession {
    pub(crate) id: String,
    /// The usage before it was opened.
    pub(crate) stats: SessionStats,
    /// The routing decision for the last answer.
    pub(crate) route: Option<Route>,
    pub(crate) is_scripted: bool,
    /// The conversation so far.
    pub(crate) records: Arc<[Record]>,
    /// Whether its last turn was cut off and can be continued.
    pub(crate) is_cut_off: bool,
    pub(crate) inputs: Option<SessionInputs>,
    pub(crate) is_attached: bool,
}

/// The session's inputs besides prompts, which only its own process knows.
pub(crate) struct SessionInputs {
    /// The context files that the model has received.
    pub(crate) context_files: Vec<std::path::PathBuf>,
    pub(crate) mcp_servers: usize,
    pub(crate) agents: Option<Arc<SessionAgents>>,
    pub(crate) skills: Arc<SessionSkills>,
    pub(crate) commands: Commands,
}

impl From<&OpenSession> for OpenedSession {
    fn from(open: &OpenSession) -> Self {
        Self {
            id: open.id.as_str().to_owned(),
            stats: open.initial_stats(),
            route: open.route_before(),
            is_scripted: open.scripted,
            records: open.initial_records(),
            is_cut_off: open.is_cut_off(),
            inputs: Some(SessionInputs {
                context_files: open.context_files.clone(),
                mcp_servers: open.mcp().map_or(0, |servers| servers.status().len()),
                agents: open.agents(),
                skills: open.skills(),
                commands: open.commands.clone(),
            }),
            is_attached: false,
        }
    }
}

impl OpenedSession {
    /// Describes a session of another process.
    pub(crate) fn attached(id: &str, is_scripted: bool, running: RunningSessionRecords) -> Self {
        Self {
            id: id.to_owned(),
            stats: running.stats,
            route: None,
            is_scripted,
            records: running.records,
            is_cut_off: false,
            inputs: None,
            is_attached: true,
        }
    }
}
