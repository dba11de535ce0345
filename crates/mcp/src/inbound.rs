//! Handling requests and notifications of one server.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::Notify;

use crate::call::Listeners;
use crate::elicitation_queue::ElicitationState;
use crate::sampling::{Sampling, SamplingBudget};
use crate::stderr_tail::StderrTail;
use crate::user_requests::UserRequestHandler;

/// The context for handling requests and notifications of one server.
pub(crate) struct InboundContext {
    /// The name of the server.
    pub(crate) name: String,
    /// Returns the workspace directories that the server may learn of.
    pub(crate) roots: Arc<dyn Fn() -> Vec<PathBuf> + Send + Sync>,
    /// Asks the user, if possible.
    pub(crate) prompter: Option<Arc<dyn UserRequestHandler>>,
    /// Answers its sampling requests, if they are allowed.
    pub(crate) sampling: Option<Sampling>,
    /// The tokens and approvals of its sampling requests.
    pub(crate) allowance: SamplingBudget,
    /// The elicitation requests to the user.
    pub(crate) requests: Arc<ElicitationState>,
    /// The requests that receive its progress reports.
    pub(crate) listeners: Listeners,
    /// The log messages.
    pub(crate) stderr_tail: StderrTail,
    /// Notified when it reports changed lists.
    pub(crate) changed: Notify,
}
