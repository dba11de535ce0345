//! What happens when a model cannot answer and another one could. Never in
//! silence: a person is asked, or told.

use parallax_protocol::CancellationToken;
use parallax_protocol::event::{Ask, EndReason, EventBody, Failure, Level, Question};
use parallax_protocol::ids::AskId;
use parallax_protocol::model::ModelError;
use parallax_protocol::op::{AskOutcome, Decide};
use parallax_protocol::policy::{ApprovalMode, Decision, Verdict};
use parallax_protocol::routing::{
    Fallback, FallbackCause, FallbackPolicy, Route, RouteSource, Substitute,
};
use parallax_protocol::tool::ToolKind;

use crate::session::Session;

/// How a failure goes on.
pub(crate) enum Fell {
    /// Another model is in its place: send again.
    Switched,
    /// A person wants the same model tried again.
    Again,
    /// There is no other, or it is not wanted.
    No,
}

/// Why the model cannot answer, when another one could.
pub(crate) fn cause(error: &ModelError) -> Option<FallbackCause> {
    match error {
        ModelError::Quota { .. } => Some(FallbackCause::Quota),
        ModelError::ModelNotFound { .. } => Some(FallbackCause::NotFound),
        // Without an answer of the service no model would have one.
        ModelError::Unavailable { status: Some(_), .. } => Some(FallbackCause::Capacity),
        _ => None,
    }
}

impl Session {
    /// Looks, before a request, whether its model is known not to answer, and
    /// takes another.
    pub(crate) async fn avoid_trouble(
        &mut self,
        cancel: &CancellationToken,
    ) -> Result<(), EndReason> {
        // Each model is left once at most.
        for _ in 0..4 {
            let model = self.main_model();
            let Some((cause, message)) = self.models.trouble(&model) else { return Ok(()) };
            match self.replace(&model, cause, &message, cancel).await? {
                Fell::Switched => {}
                // It may answer again; if not, that is told.
                Fell::Again | Fell::No => return Ok(()),
            }
        }
        Ok(())
    }

    /// A model could not answer. Puts another in its place where there is one
    /// and nobody minds; else the failure says what would have let it.
    pub(crate) async fn fall_back(
        &mut self,
        cause: FallbackCause,
        failure: &mut Failure,
        cancel: &CancellationToken,
    ) -> Result<Fell, EndReason> {
        let model = self.main_model();
        let retried = self.model.tries_again(&model, self.chooses());
        self.models.failed(&model, cause, &failure.message, retried);
        let message = failure.message.clone();
        let fell = self.replace(&model, cause, &message, cancel).await?;
        if matches!(fell, Fell::No)
            && self.routing.fallback == FallbackPolicy::Ask
            && let Some(other) = self.substitute(&model, Some(cause))
        {
            failure
                .message
                .push_str(&format!("; `{}` could answer: `--fallback auto` lets it", other.model));
        }
        Ok(fell)
    }

    /// Who could answer in its place when that is the cause, or when none is known yet.
    pub(crate) fn substitute(
        &self,
        model: &str,
        cause: Option<FallbackCause>,
    ) -> Option<Substitute> {
        let mut chain = self.model.substitutes(model, self.chooses());
        chain.retain(|other| other.only.is_none() || other.only == cause);
        let ready = chain.iter().find(|other| self.models.is_ready(&other.model));
        // Once in a prompt the last one is asked whatever is known of it.
        let last =
            || chain.iter().find(|other| other.last_resort && !self.models.was_left(&other.model));
        ready.or_else(last).cloned()
    }

    async fn replace(
        &mut self,
        model: &str,
        cause: FallbackCause,
        message: &str,
        cancel: &CancellationToken,
    ) -> Result<Fell, EndReason> {
        let Some(Substitute { model: other, unasked, .. }) = self.substitute(model, Some(cause))
        else {
            return Ok(Fell::No);
        };
        let mut fallback = Fallback {
            from: model.to_owned(),
            to: other,
            cause,
            message: message.to_owned(),
            lasting: false,
            agreed: false,
        };
        // A plan changes nothing: it is only told which model made it.
        let free = unasked.covers(cause) || self.inbox.mode == ApprovalMode::Plan;
        match self.routing.fallback {
            FallbackPolicy::Off => return Ok(Fell::No),
            FallbackPolicy::Auto => {}
            FallbackPolicy::Ask if free => {}
            FallbackPolicy::Ask if !self.interactive => return Ok(Fell::No),
            FallbackPolicy::Ask => match self.ask_to_switch(&fallback, cancel).await? {
                AskOutcome::ProceedOnce => fallback.agreed = true,
                AskOutcome::ProceedAlways => (fallback.agreed, fallback.lasting) = (true, true),
                AskOutcome::Retry => {
                    self.models.well(model);
                    return Ok(Fell::Again);
                }
                _ => return Ok(Fell::No),
            },
        }
        self.switch(fallback);
        Ok(Fell::Switched)
    }

    fn switch(&mut self, fallback: Fallback) {
        let Fallback { from, to, cause, lasting, .. } = &fallback;
        let why = words(*cause);
        let how_long = if *lasting { "this session" } else { "this prompt" };
        let text = format!(
            "`{from}` {why}: {how_long} goes on with `{to}` ({}); `/model` chooses another, \
             `model.fallback: off` forbids it",
            fallback.message
        );
        if *lasting {
            self.inbox.set_model(to);
        }
        let reason = format!("`{from}` {why}");
        let asked = self.inbox.model.clone();
        let source = RouteSource::Fallback;
        let (model, error) = (to.clone(), None);
        let (latency_ms, ahead) = (0, None);
        self.set_route(Route { model, asked, source, reason, latency_ms, error, ahead });
        self.hub.send(EventBody::FellBack(Box::new(fallback)));
        self.inbox.notice(Level::Warning, text);
    }

    async fn ask_to_switch(
        &mut self,
        fallback: &Fallback,
        cancel: &CancellationToken,
    ) -> Result<AskOutcome, EndReason> {
        self.asks += 1;
        let why = fallback.message.clone();
        let ask = Ask::of_session(
            AskId::new(format!("ask-model-{}", self.asks)),
            "model",
            format!("`{}` {}: go on with `{}`?", fallback.from, words(fallback.cause), fallback.to),
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
        Ok(self.put_question(ask, cancel).await?.outcome)
    }

    /// Puts a question that is about no call, and waits for its answer.
    ///
    /// # Errors
    /// When the turn is interrupted meanwhile.
    pub(crate) async fn put_question(
        &mut self,
        ask: Ask,
        cancel: &CancellationToken,
    ) -> Result<Decide, EndReason> {
        let (id, offered) = (ask.id.clone(), ask.outcomes.clone());
        self.hook_notify(&ask);
        self.hub.send(EventBody::Ask(Box::new(ask)));
        loop {
            for decide in std::mem::take(&mut self.inbox.decisions) {
                if decide.ask == id && offered.contains(&decide.outcome) {
                    let outcome = Some(decide.outcome);
                    self.hub.send(EventBody::AskClosed { ask: id, outcome });
                    return Ok(decide);
                }
                let text = match decide.ask == id {
                    true => format!("the question `{id}` stays open: this answer is not offered"),
                    false => format!("there is no open question `{}`", decide.ask),
                };
                self.inbox.notice(Level::Error, text);
            }
            tokio::select! {
                biased;
                () = self.inbox.take_one() => {}
                () = cancel.cancelled() => {
                    self.hub.send(EventBody::AskClosed { ask: id, outcome: None });
                    return Err(EndReason::Cancelled);
                }
            }
        }
    }
}

/// What is the matter with the model.
fn words(cause: FallbackCause) -> &'static str {
    match cause {
        FallbackCause::Capacity => "cannot answer now",
        FallbackCause::Quota => "has no quota left",
        FallbackCause::NotFound => "is not there for this key",
    }
}
