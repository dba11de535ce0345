//! Fallback to another model when one is unavailable. Never silent: the user is asked or
//! notified.

use parallax_protocol::CancellationToken;
use parallax_protocol::event::{ApprovalRequest, EndReason, EventBody, Failure, Level, Question};
use parallax_protocol::model::ModelError;
use parallax_protocol::op::ApprovalResponse;
use parallax_protocol::policy::{ApprovalMode, Decision, PolicyDecision};
use parallax_protocol::routing::{
    Fallback, FallbackCause, FallbackModel, FallbackPolicy, Route, RouteSource,
};
use parallax_protocol::tool::ToolKind;

use super::ModelRouter;
use crate::approvals::UserRequests;
use crate::conversation::Conversation;
use crate::inbox::Inbox;

/// The result of a fallback.
pub(crate) enum FallbackResult {
    /// Another model was selected: send again.
    Switched,
    /// The user wants to retry the same model.
    Retry,
    /// There is no fallback model, or it is not wanted.
    NoModel,
}

/// Returns the reason for a fallback, if the error allows one.
pub(crate) fn fallback_cause(error: &ModelError) -> Option<FallbackCause> {
    match error {
        ModelError::Quota { .. } => Some(FallbackCause::Quota),
        ModelError::ModelNotFound { .. } => Some(FallbackCause::NotFound),
        // If the service itself does not respond, no other model would either.
        ModelError::Unavailable { status: Some(_), .. } => Some(FallbackCause::Capacity),
        _ => None,
    }
}

impl ModelRouter {
    /// Before a request, switches away from a model that is known to be unavailable.
    pub(crate) async fn avoid_unavailable_model(
        &mut self,
        conversation: &mut Conversation,
        users: &mut UserRequests<'_>,
        cancel: &CancellationToken,
    ) -> Result<(), EndReason> {
        // Each model is left at most once.
        for _ in 0..4 {
            let model = self.main_model(users.inbox.model());
            let Some((cause, message)) = self.availability.outage(&model) else {
                return Ok(());
            };
            match self.replace((&model, cause, &message), conversation, users, cancel).await? {
                FallbackResult::Switched => {}
                // It may respond again; if not, that is reported.
                FallbackResult::Retry | FallbackResult::NoModel => return Ok(()),
            }
        }
        Ok(())
    }

    /// Handles an unavailable model: selects a fallback if there is one and it is permitted;
    /// otherwise adds to the failure what would have permitted it.
    pub(crate) async fn fall_back(
        &mut self,
        cause: FallbackCause,
        failure: &mut Failure,
        conversation: &mut Conversation,
        users: &mut UserRequests<'_>,
        cancel: &CancellationToken,
    ) -> Result<FallbackResult, EndReason> {
        let model = self.main_model(users.inbox.model());
        let chooses = self.is_active(users.inbox.model());
        let retried = self.catalog().retries_next_prompt(&model, chooses);
        self.availability.mark_failed(&model, cause, &failure.message, retried);
        let message = failure.message.clone();
        let result = self.replace((&model, cause, &message), conversation, users, cancel).await?;
        if matches!(result, FallbackResult::NoModel)
            && self.options.fallback == FallbackPolicy::Ask
            && let Some(other) = self.fallback_model(&model, Some(cause), users.inbox.model())
        {
            failure
                .message
                .push_str(&format!("; to use `{}` instead, pass `--fallback auto`", other.model));
        }
        Ok(result)
    }

    /// Whether another model could answer for this one.
    pub(crate) fn has_fallback(&self, model: &str, configured: &str) -> bool {
        self.options.fallback != FallbackPolicy::Off
            && self.fallback_model(model, None, configured).is_some()
    }

    /// Returns the fallback model for a cause, or for an unknown one.
    fn fallback_model(
        &self,
        model: &str,
        cause: Option<FallbackCause>,
        configured: &str,
    ) -> Option<FallbackModel> {
        let mut chain = self.catalog().fallback_models(model, self.is_active(configured));
        chain.retain(|other| other.only_for.is_none() || other.only_for == cause);
        let ready = chain.iter().find(|other| self.availability.is_ready(&other.model));
        // The last resort is tried once per turn, regardless of what is known about it.
        let last = || {
            chain.iter().find(|other| {
                other.last_resort && !self.availability.failed_this_turn(&other.model)
            })
        };
        ready.or_else(last).cloned()
    }

    async fn replace(
        &mut self,
        (model, cause, message): (&str, FallbackCause, &str),
        conversation: &mut Conversation,
        users: &mut UserRequests<'_>,
        cancel: &CancellationToken,
    ) -> Result<FallbackResult, EndReason> {
        let Some(FallbackModel { model: other, auto_fallback, .. }) =
            self.fallback_model(model, Some(cause), users.inbox.model())
        else {
            return Ok(FallbackResult::NoModel);
        };
        let mut fallback = Fallback {
            from: model.to_owned(),
            to: other,
            cause,
            message: message.to_owned(),
            is_for_session: false,
            is_approved: false,
        };
        // Plan mode changes nothing, so it is enough to notify the user.
        let free = auto_fallback.covers(cause) || users.inbox.mode() == ApprovalMode::Plan;
        match self.options.fallback {
            FallbackPolicy::Off => return Ok(FallbackResult::NoModel),
            FallbackPolicy::Auto => {}
            FallbackPolicy::Ask if free => {}
            FallbackPolicy::Ask if !users.is_interactive() => return Ok(FallbackResult::NoModel),
            FallbackPolicy::Ask => match request_switch(&fallback, users, cancel).await? {
                ApprovalResponse::ProceedOnce => fallback.is_approved = true,
                ApprovalResponse::ProceedAlways => {
                    (fallback.is_approved, fallback.is_for_session) = (true, true)
                }
                ApprovalResponse::Retry => {
                    self.availability.mark_available(model);
                    return Ok(FallbackResult::Retry);
                }
                _ => return Ok(FallbackResult::NoModel),
            },
        }
        self.switch_model(fallback, conversation, users.inbox);
        Ok(FallbackResult::Switched)
    }

    fn switch_model(
        &mut self,
        fallback: Fallback,
        conversation: &mut Conversation,
        inbox: &mut Inbox,
    ) {
        let Fallback { from, to, cause, is_for_session, .. } = &fallback;
        let why = describe(*cause);
        let how_long = if *is_for_session { "this session" } else { "this prompt" };
        let text = format!(
            "`{from}` {why}. Using `{to}` for {how_long} ({}). Run `/model` to choose another, \
                or set `model.fallback` to `off` to disable fallback",
            fallback.message
        );
        if *is_for_session {
            inbox.set_model(to);
        }
        let reason = format!("`{from}` {why}");
        let requested = inbox.model().to_owned();
        let source = RouteSource::Fallback;
        let (model, error) = (to.clone(), None);
        let latency_ms = 0;
        let route = Route { model, requested, source, reason, latency_ms, error };
        self.set_route(route, conversation, inbox);
        self.bus.send(EventBody::FellBack(Box::new(fallback)));
        inbox.notice(Level::Warning, text);
    }
}

async fn request_switch(
    fallback: &Fallback,
    users: &mut UserRequests<'_>,
    cancel: &CancellationToken,
) -> Result<ApprovalResponse, EndReason> {
    let reason = fallback.message.clone();
    let ask = ApprovalRequest::for_session(
        users.next_id("model"),
        "model",
        format!("`{}` {}. Use `{}` instead?", fallback.from, describe(fallback.cause), fallback.to),
        PolicyDecision::new(Decision::Ask, "model.fallback", reason),
        Question::Fallback,
        vec![
            ApprovalResponse::ProceedOnce,
            ApprovalResponse::ProceedAlways,
            ApprovalResponse::Retry,
            ApprovalResponse::Cancel,
        ],
    );
    let ask = ApprovalRequest { kind: ToolKind::SwitchMode, ..ask };
    Ok(users.request_decision(ask, cancel).await?.outcome)
}

/// Describes the cause.
fn describe(cause: FallbackCause) -> &'static str {
    match cause {
        FallbackCause::Capacity => "is currently unavailable",
        FallbackCause::Quota => "has no quota left",
        FallbackCause::NotFound => "is not available for this key",
    }
}
