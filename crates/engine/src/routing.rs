//! Selects the model once per prompt, and again when plan mode starts or ends: by fallback, the
//! user's choice, the approval mode, the prompt, and a small classifier model only if these do
//! not decide.

mod availability;
mod classifier;
mod fallback;
mod prompt_rules;

use std::sync::Arc;
use std::time::Instant;

use parallax_protocol::CancellationToken;
use parallax_protocol::event::{EndReason, EventBody};
use parallax_protocol::model::{Model, ModelCatalog};
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::routing::{ClassifierAnswerFormat, Route, RouteSource, Routes, RoutingMode};
use parallax_protocol::store::{Record, RouteRecord};

use self::availability::ModelAvailability;
use self::prompt_rules::PromptSize;
use crate::budget::Ledger;
use crate::conversation::Conversation;
use crate::event_bus::EventBus;
use crate::history::now;
use crate::inbox::Inbox;
use crate::options::RoutingOptions;
use crate::usage_tracking::{UsageTrackingModel, millis};

pub(crate) use self::fallback::{FallbackResult, fallback_cause};

/// Which model answers, and why.
pub(crate) struct ModelRouter {
    options: RoutingOptions,
    model: Arc<dyn Model>,
    bus: EventBus,
    ledger: Ledger,
    /// The availability of models.
    availability: ModelAvailability,
    /// The route of the running prompt, once selected.
    route: Option<Route>,
    /// Whether the route was selected in plan mode.
    routed_in_plan_mode: bool,
    /// The model of the previous prompt.
    last_model: Option<String>,
    /// Whether the fast model failed at the previous prompt.
    fast_model_failed: bool,
}

/// A routing decision before it is reported.
struct RouteDecision {
    needs_strong_model: bool,
    source: RouteSource,
    reason: String,
    error: Option<String>,
}

impl RouteDecision {
    fn new(needs_strong_model: bool, source: RouteSource, reason: impl Into<String>) -> Self {
        Self { needs_strong_model, source, reason: reason.into(), error: None }
    }
}

impl ModelRouter {
    pub(crate) fn new(
        options: RoutingOptions,
        model: Arc<dyn Model>,
        bus: EventBus,
        ledger: Ledger,
    ) -> Self {
        Self {
            options,
            model,
            bus,
            ledger,
            availability: ModelAvailability::default(),
            route: None,
            routed_in_plan_mode: false,
            last_model: None,
            fast_model_failed: false,
        }
    }

    fn catalog(&self) -> &dyn ModelCatalog {
        self.model.catalog()
    }

    /// Returns the model in use: the routed one, or the one that the configured name resolves to.
    pub(crate) fn main_model(&self, configured: &str) -> String {
        match &self.route {
            Some(route) => route.model.clone(),
            None => self.catalog().resolve(configured),
        }
    }

    /// Whether routing is active.
    pub(crate) fn is_active(&self, configured: &str) -> bool {
        self.routes_for(configured).is_some()
    }

    /// Returns the models to choose from, if routing is active.
    fn routes_for(&self, model: &str) -> Option<Routes> {
        match self.options.router {
            // The name then means the strong model.
            RoutingMode::Off => None,
            RoutingMode::On | RoutingMode::Rules => self.catalog().routes(model),
        }
    }

    /// Returns the name that settings use for the model: the requested one, unless another model
    /// replaces it.
    pub(crate) fn settings_alias(&self, model: &str, configured: &str) -> String {
        let requested = self.route.as_ref().map_or(configured, |route| &route.requested);
        let chosen = self.is_active(configured) && requested == configured;
        match chosen || self.catalog().resolve(requested) == model {
            true => requested.to_owned(),
            false => model.to_owned(),
        }
    }

    /// Whether the model gets only one attempt.
    pub(crate) fn limits_to_one_attempt(&self, model: &str) -> bool {
        self.availability.is_limited_to_one_attempt(model)
    }

    /// Records that the model responded.
    pub(crate) fn mark_available(&mut self, model: &str) {
        self.availability.mark_available(model);
    }

    /// Whether plan mode started or ended since the model was selected. An explicitly selected
    /// model is kept.
    fn plan_mode_changed(&self, route: &Route, mode: ApprovalMode) -> bool {
        self.options.plan
            && self.routed_in_plan_mode != (mode == ApprovalMode::Plan)
            && route.source != RouteSource::Override
    }

    /// Selects the model at the first request of a prompt, after the user selected another, and
    /// when plan mode starts or ends. `requested` is taken from the prompt when it selects a model.
    ///
    /// # Errors
    /// Returns the end reason if the turn is interrupted.
    pub(crate) async fn choose_model(
        &mut self,
        requested: &mut Option<String>,
        conversation: &mut Conversation,
        inbox: &mut Inbox,
        cancel: &CancellationToken,
    ) -> Result<(), EndReason> {
        // A model that the user sets applies from the next request on.
        let same = self.route.as_ref().filter(|route| route.requested == inbox.model());
        let is_again = same.is_some();
        if same.is_some_and(|route| !self.plan_mode_changed(route, inbox.mode())) {
            return Ok(());
        }
        let started_at = Instant::now();
        let session_model = inbox.model().to_owned();
        // It is used once: a model that the user sets later takes precedence.
        let requested = requested.take();
        let named = requested.clone().unwrap_or_else(|| session_model.clone());
        let (model, choice) = match self.routes_for(&named) {
            None => {
                let model = self.catalog().resolve(&named);
                let reason = match requested {
                    Some(_) => format!("the prompt's command selects `{named}`"),
                    None if model == session_model => format!("`{session_model}` is set"),
                    None => format!("`{session_model}` is set and resolves to `{model}`"),
                };
                (model, RouteDecision::new(true, RouteSource::Override, reason))
            }
            Some(routes) => {
                let choice = self.choose(&routes, is_again, conversation, inbox, cancel).await;
                if cancel.is_cancelled() {
                    return Err(EndReason::Cancelled);
                }
                (if choice.needs_strong_model { routes.strong_model } else { routes.fast }, choice)
            }
        };
        let RouteDecision { source, reason, error, .. } = choice;
        let latency_ms = millis(started_at);
        let route = Route { model, requested: session_model, source, reason, latency_ms, error };
        self.set_route(route, conversation, inbox);
        Ok(())
    }

    /// Sets the model for the rest of the prompt and reports it.
    fn set_route(&mut self, route: Route, conversation: &mut Conversation, inbox: &Inbox) {
        tracing::info!(
            model = %route.model, source = ?route.source, reason = %route.reason,
            latency_ms = route.latency_ms, error = ?route.error, "model chosen"
        );
        inbox.notify_model_changed(&route.model);
        self.bus.send(EventBody::Routed(Box::new(route.clone())));
        // For later processes; the user's own choice needs no record.
        if route.source != RouteSource::Override {
            let record = RouteRecord { time: now(), route: route.clone() };
            conversation.history_mut().record(&Record::Route(record));
        }
        self.routed_in_plan_mode = inbox.mode() == ApprovalMode::Plan;
        self.route = Some(route);
    }

    /// Selects the model. Within a prompt (`is_again`), the classifier is not used.
    async fn choose(
        &self,
        routes: &Routes,
        is_again: bool,
        conversation: &Conversation,
        inbox: &mut Inbox,
        cancel: &CancellationToken,
    ) -> RouteDecision {
        if self.options.plan {
            if inbox.mode() == ApprovalMode::Plan {
                return RouteDecision::new(true, RouteSource::ApprovalMode, "plan mode is active");
            }
            if let Some(plan) = conversation.plan() {
                let reason = format!("the work follows the plan `{}`", plan.display());
                return RouteDecision::new(false, RouteSource::ApprovalMode, reason);
            }
        }
        let newest = conversation.prompts().last();
        let prompt = newest.map(|mark| mark.text.clone()).unwrap_or_default();
        let rule = |strong, reason: &str| RouteDecision::new(strong, RouteSource::Rules, reason);
        if self.fast_model_failed {
            return rule(true, "the fast model failed at the previous prompt");
        }
        match prompt_rules::classify(&prompt) {
            PromptSize::Large(why) => rule(true, why),
            PromptSize::Small => rule(false, "the prompt is short and clear"),
            PromptSize::Continuation => match &self.last_model {
                Some(last) => rule(*last != routes.fast, "it continues the previous task"),
                None => RouteDecision::new(true, RouteSource::Default, "there is no previous task"),
            },
            PromptSize::TooShort => RouteDecision::new(
                true,
                RouteSource::Default,
                "it is too short for a classifier request",
            ),
            PromptSize::Unclear if self.options.router == RoutingMode::Rules => RouteDecision::new(
                true,
                RouteSource::Default,
                "no rule matches, and the classifier is disabled (`model.routing`)",
            ),
            PromptSize::Unclear if is_again => RouteDecision::new(
                true,
                RouteSource::Default,
                "plan mode ended, and no rule matches",
            ),
            PromptSize::Unclear => {
                self.classify(routes, &prompt, conversation, inbox, cancel).await
            }
        }
    }

    async fn classify(
        &self,
        routes: &Routes,
        prompt: &str,
        conversation: &Conversation,
        inbox: &mut Inbox,
        cancel: &CancellationToken,
    ) -> RouteDecision {
        let metered = UsageTrackingModel::new(Arc::clone(&self.model), self.bus.clone())
            .with_ledger(self.ledger.clone());
        let question = classifier::ClassifierRequest {
            model: Arc::new(metered),
            name: routes.classifier.clone(),
            scale: routes.scale,
            threshold: self.options.threshold,
            time_limit: self.options.time_limit,
            text: classifier::text(conversation.history().contents(), prompt, routes.scale),
        };
        let source = match routes.scale {
            ClassifierAnswerFormat::Choice => RouteSource::Classifier,
            ClassifierAnswerFormat::Score => RouteSource::NumericalClassifier,
        };
        let classification = classifier::ask(question, cancel.child_token());
        let output = async {
            tokio::select! {
                biased;
                () = cancel.cancelled() => Err("cancelled".to_owned()),
                output = classification => output,
            }
        };
        match inbox.while_receiving(output).await {
            Ok(output) => RouteDecision::new(output.needs_strong_model, source, output.reason),
            Err(error) => RouteDecision {
                error: Some(error),
                ..RouteDecision::new(true, RouteSource::Default, "the classifier gave no answer")
            },
        }
    }

    /// Ends the route of a prompt and remembers what the next one needs.
    pub(crate) fn end_turn(&mut self, reason: &EndReason, configured: &str) {
        self.availability.start_turn();
        let Some(route) = self.route.take() else { return };
        let was_fast = self.routes_for(configured).is_some_and(|routes| routes.fast == route.model);
        self.fast_model_failed = was_fast && matches!(reason, EndReason::Loop { .. });
        self.last_model = Some(route.model);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_parts::{TestModel, conversation, inbox};

    fn router() -> ModelRouter {
        let options = RoutingOptions { router: RoutingMode::Rules, ..RoutingOptions::default() };
        ModelRouter::new(options, Arc::new(TestModel), EventBus::new(), Ledger::default())
    }

    #[tokio::test]
    async fn model_that_a_prompt_requests_is_used_once() {
        let (mut router, mut conversation, mut inbox) = (router(), conversation(), inbox("auto"));
        let cancel = CancellationToken::new();
        let mut requested = Some("other".to_owned());
        router
            .choose_model(&mut requested, &mut conversation, &mut inbox, &cancel)
            .await
            .expect("a model");
        assert_eq!((router.main_model("auto").as_str(), requested), ("other", None));
        router.end_turn(&EndReason::Done, "auto");
        assert_eq!(router.main_model("auto"), "strong");
    }

    #[tokio::test]
    async fn plan_mode_is_routed_to_the_strong_model_and_follows_its_end() {
        let (mut router, mut conversation, mut inbox) = (router(), conversation(), inbox("auto"));
        let cancel = CancellationToken::new();
        inbox.set_mode(ApprovalMode::Plan);
        router
            .choose_model(&mut None, &mut conversation, &mut inbox, &cancel)
            .await
            .expect("a model");
        assert_eq!(router.main_model("auto"), "strong");
        conversation.history_mut().push_note("so that the plan is in the history");
        conversation.approve_plan("plan.md".into());
        conversation.history_mut().push_note("the work");
        inbox.set_mode(ApprovalMode::Default);
        router
            .choose_model(&mut None, &mut conversation, &mut inbox, &cancel)
            .await
            .expect("a model");
        assert_eq!(router.main_model("auto"), "fast");
    }

    #[test]
    fn settings_use_the_requested_name_unless_another_model_replaces_it() {
        let mut router = router();
        assert_eq!(router.settings_alias("strong", "auto"), "auto");
        assert_eq!(router.settings_alias("other", "mine"), "other");
        assert_eq!(router.settings_alias("mine", "mine"), "mine");
        assert!(router.has_fallback("strong", "auto") && !router.has_fallback("small", "auto"));
        router.options.fallback = parallax_protocol::routing::FallbackPolicy::Off;
        assert!(!router.has_fallback("strong", "auto"));
    }
}
