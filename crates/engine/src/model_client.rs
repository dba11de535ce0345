//! The model of a session, and the state that its requests depend on.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parallax_protocol::Object;
use parallax_protocol::model::Model;
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::store::UnfinishedAnswer;

use crate::registry::ToolDeclarations;

/// Sends the requests of a session.
pub(crate) struct ModelClient {
    pub(crate) model: Arc<dyn Model>,
    /// Generation settings from the user, with wire names.
    pub(crate) generation: Object,
    /// Attempts of one request before its first chunk; `None`: the model's default.
    pub(crate) max_attempts: Option<u32>,
    /// The first wait after a broken stream; it doubles.
    pub(crate) retry_base: Duration,
    /// Maximum number of requests in this process; `None`: no limit.
    pub(crate) max_turns: Option<u32>,
    /// The answer of an earlier process that the next request continues.
    pub(crate) unfinished: Option<UnfinishedAnswer>,
    /// Tools that are excluded because the service rejects their schemas.
    pub(crate) rejected_tools: HashSet<String>,
    /// The tool declarations for the mode of the last request.
    pub(crate) declared: Option<(ApprovalMode, ToolDeclarations)>,
    /// Number of requests.
    pub(crate) requests: u32,
    /// Number of requests before the running turn.
    pub(crate) requests_at_prompt: u32,
}
