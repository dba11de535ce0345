//! The parts of a model request: build it, stream it, commit the response, and decide whether to
//! retry.

mod attempt;
mod commit_response;
mod rejected_content;
mod request;
mod response_builder;
mod response_validation;
mod retry_action;
mod stream;
mod unfinished_answer;
mod unjournaled_parts;

use crate::budget::Ledger;
use crate::conversation::Conversation;
use crate::environment::SessionEnvironment;
use crate::event_bus::EventBus;
use crate::hooks::HookRunner;
use crate::inbox::Inbox;
use crate::loop_detection::LoopDetector;
use crate::model_client::ModelClient;
use crate::tool_call::ToolCall;

pub(crate) use self::attempt::Attempt;
pub(crate) use self::rejected_content::{
    RejectedContent, exclude_named_tool, is_rejected_token, is_rejection,
};
pub(crate) use self::request::{AttemptKind, RequestBuilder};
pub(crate) use self::response_validation::{ATTEMPTS, InvalidResponse};
pub(crate) use self::retry_action::{RetryAction, blocked_failure, classify, context_full};
pub(crate) use self::stream::{StreamEnd, StreamSource, single_chunk};

/// The model's response.
pub(crate) enum ModelReply {
    /// Tool calls to run.
    ToolCalls(Vec<ToolCall>),
    /// The final response.
    Final,
    /// The model repeated the same text; the stream was stopped.
    RepetitionDetected,
}

/// Receives a response: streams it to the front ends, and commits it.
pub(crate) struct ResponseReceiver<'a> {
    pub(crate) client: &'a ModelClient,
    pub(crate) conversation: &'a mut Conversation,
    pub(crate) hooks: &'a HookRunner,
    pub(crate) inbox: &'a mut Inbox,
    pub(crate) loops: &'a mut LoopDetector,
    pub(crate) environment: &'a SessionEnvironment,
    pub(crate) bus: &'a EventBus,
    pub(crate) ledger: Ledger,
}
