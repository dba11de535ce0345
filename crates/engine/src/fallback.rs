//! Fallback to another model when one is unavailable. Never silent: the user is asked or
//! notified.

use parallax_protocol::CancellationToken;
use parallax_protocol::event::{Ask, EndReason, EventBody, Failure, Level, Question};
use parallax_protocol::ids::AskId;
use parallax_protocol::model::ModelError;
use parallax_protocol::op::{AskOutcome, Decide};
use parallax_protocol::policy::{ApprovalMode, Decision, Verdict};
use parallax_protocol::routing::{
    Fallback, FallbackCause, FallbackModel, FallbackPolicy, Route, RouteSource,
};
use parallax_protocol::tool::ToolKind;

use crate::session::Session;

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
pub(crate) fn cause(error: &ModelError) -> Option<FallbackCause> {
    match error {
        ModelError::Quota { .. } => Some(FallbackCause::Quota),
        ModelError::ModelNotFound { .. } => Some(FallbackCause::NotFound),
        // If the service itself does not respond, no other model would either.
        ModelError::Unavailable { status: Some(_), .. } => Some(FallbackCause::Capacity),
        _ => None,
    }
}

impl Session {
    /// Before a request, switches away from a model that is known to be unavailable.
    pub(crate) async fn avoid_unavailable_model(
        &mut self,
        cancel: &CancellationToken,
    ) -> Result<(), EndReason> {
        // Each model is left at most once.
        for _ in 0..4 {
            let model = self.main_model();
            let Some((cause, message)) = self.router.models.outage(&model) else { return Ok(()) };
            match self.replace(&model, cause, &message, cancel).await? {
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
        cancel: &CancellationToken,
    ) -> Result<FallbackResult, EndReason> {
        let model = self.main_model();
        let retried = self.client.model.catalog().retries_next_prompt(&model, self.chooses());
        self.router.models.mark_failed(&model, cause, &failure.message, retried);
        let message = failure.message.clone();
        let result = self.replace(&model, cause, &message, cancel).await?;
        if matches!(result, FallbackResult::NoModel)
            && self.router.routing.fallback == FallbackPolicy::Ask
            && let Some(other) = self.fallback_model(&model, Some(cause))
        {
            failure
                .message
                .push_str(&format!("; to use `{}` instead, pass `--fallback auto`", other.model));
        }
        Ok(result)
    }

    /// Returns the fallback model for a cause, or for an unknown one.
    pub(crate) fn fallback_model(
        &self,
        model: &str,
        cause: Option<FallbackCause>,
    ) -> Option<FallbackModel> {
        let mut chain = self.client.model.catalog().fallback_models(model, self.chooses());
        chain.retain(|other| other.only.is_none() || other.only == cause);
        let ready = chain.iter().find(|other| self.router.models.is_ready(&other.model));
        // The last resort is tried once per turn, whatever is known about it.
        let last = || {
            chain.iter().find(|other| {
                other.last_resort && !self.router.models.failed_this_turn(&other.model)
            })
        };
        ready.or_else(last).cloned()
    }

    async fn replace(
        &mut self,
        model: &str,
        cause: FallbackCause,
        message: &str,
        cancel: &CancellationToken,
    ) -> Result<FallbackResult, EndReason> {
        let Some(FallbackModel { model: other, auto_fallback, .. }) =
            self.fallback_model(model, Some(cause))
        else {
            return Ok(FallbackResult::NoModel);
        };
        let mut fallback = Fallback {
            from: model.to_owned(),
            to: other,
            cause,
            message: message.to_owned(),
            lasting: false,
            agreed: false,
        };
        // Plan mode changes nothing, so it is enough to notify the user.
        let free = auto_fallback.covers(cause) || self.inbox.mode == ApprovalMode::Plan;
        match self.router.routing.fallback {
            FallbackPolicy::Off => return Ok(FallbackResult::NoModel),
            FallbackPolicy::Auto => {}
            FallbackPolicy::Ask if free => {}
            FallbackPolicy::Ask if !self.environment.interactive => {
                return Ok(FallbackResult::NoModel);
            }
            FallbackPolicy::Ask => match self.request_switch(&fallback, cancel).await? {
                AskOutcome::ProceedOnce => fallback.agreed = true,
                AskOutcome::ProceedAlways => (fallback.agreed, fallback.lasting) = (true, true),
                AskOutcome::Retry => {
                    self.router.models.mark_available(model);
                    return Ok(FallbackResult::Retry);
                }
                _ => return Ok(FallbackResult::NoModel),
            },
        }
        self.switch(fallback);
        Ok(FallbackResult::Switched)
    }

    fn switch(&mut self, fallback: Fallback) {
        let Fallback { from, to, cause, lasting, .. } = &fallback;
        let why = words(*cause);
        let how_long = if *lasting { "this session" } else { "this prompt" };
        let text = format!(
            "`{from}` {why}. Using `{to}` for {how_long} ({}). Run `/model` to choose another, \
                or set `model.fallback` to `off` to disable fallback",
            fallback.message
        );
        if *lasting {
            self.inbox.set_model(to);
        }
        let reason = format!("`{from}` {why}");
        let asked = self.inbox.model.clone();
        let source = RouteSource::Fallback;
        let (model, error) = (to.clone(), None);
        let latency_ms = 0;
        self.set_route(Route { model, asked, source, reason, latency_ms, error });
        self.hub.send(EventBody::FellBack(Box::new(fallback)));
        self.inbox.notice(Level::Warning, text);
    }

    async fn request_switch(
        &mut self,
        fallback: &Fallback,
        cancel: &CancellationToken,
    ) -> Result<AskOutcome, EndReason> {
        self.approval.asks += 1;
        let why = fallback.message.clone();
        let ask = Ask::of_session(
            AskId::new(format!("ask-model-{}", self.approval.asks)),
            "model",
            format!(
                "`{}` {}. Use `{}` instead?",
                fallback.from,
                words(fallback.cause),
                fallback.to
            ),
            Verdict::new(Decision::Ask, "model.fallback", why),
            Question::Fallback,
            vec![
                AskOutcome::ProceedOnce,
                AskOutcome::ProceedAlways,
                AskOutcome::Retry,
                AskOutcome::Cancel,
            ],
        );
        let ask = Ask { kind: ToolKind::SwitchMode, ..ask };
        Ok(self.request_decision(ask, cancel).await?.outcome)
    }

    /// Sends an approval request that concerns no tool call, and waits for the response.
    ///
    /// # Errors
    /// Returns the end reason if the turn is interrupted while the user decides.
    pub(crate) async fn request_decision(
        &mut self,
        ask: Ask,
        cancel: &CancellationToken,
    ) -> Result<Decide, EndReason> {
        let (id, offered) = (ask.id.clone(), ask.outcomes.clone());
        self.notify_hooks_of_approval(&ask);
        self.hub.send(EventBody::Ask(Box::new(ask)));
        loop {
            for decide in std::mem::take(&mut self.inbox.decisions) {
                if decide.ask == id && offered.contains(&decide.outcome) {
                    let outcome = Some(decide.outcome);
                    self.hub.send(EventBody::AskClosed { ask: id, outcome });
                    return Ok(decide);
                }
                let text = match decide.ask == id {
                    true => format!(
                        "request `{id}` is still pending: this response is not \
                        available"
                    ),
                    false => format!("No pending request `{}`", decide.ask),
                };
                self.inbox.notice(Level::Error, text);
            }
            tokio::select! {
                biased;
                () = self.inbox.receive() => {}
                () = cancel.cancelled() => {
                    self.hub.send(EventBody::AskClosed { ask: id, outcome: None });
                    return Err(EndReason::Cancelled);
                }
            }
        }
    }
}

/// Describes the cause.
fn words(cause: FallbackCause) -> &'static str {
    match cause {
        FallbackCause::Capacity => "is not available now",
        FallbackCause::Quota => "has no quota left",
        FallbackCause::NotFound => "is not available for this key",
    }
}
