//! Selects the model once per prompt, and again when plan mode starts or ends: by fallback, the
//! user's choice, the approval mode, the prompt, and a small classifier model only if these do
//! not decide.

mod classifier;
mod prompt_rules;

use std::sync::Arc;
use std::time::{Duration, Instant};

use parallax_protocol::CancellationToken;
use parallax_protocol::event::{EndReason, EventBody};
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::routing::{FallbackPolicy, Route, RouteSource, Router, Routes, Scale};
use parallax_protocol::store::{Record, RouteRecord};

use self::prompt_rules::PromptSize;
use crate::availability::ModelAvailability;
use crate::history::now;
use crate::session::Session;
use crate::usage_tracking::{UsageTrackingModel, millis};

/// Time limit of the classifier. The user waits for it.
const TIMEOUT: Duration = Duration::from_millis(1500);
/// The score from which the strong model is used.
const THRESHOLD: u64 = 90;

/// How models are routed, and what happens when one is unavailable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoutingOptions {
    /// The routing mode.
    pub router: Router,
    /// Whether plan mode uses the strong model and work on an approved plan the fast one.
    pub plan: bool,
    /// The score, up to 100, from which the strong model is used.
    pub threshold: u64,
    /// Time limit of the classifier.
    pub patience: Duration,
    /// The fallback policy.
    pub fallback: FallbackPolicy,
}

impl Default for RoutingOptions {
    fn default() -> Self {
        Self {
            router: Router::On,
            plan: true,
            threshold: THRESHOLD,
            patience: TIMEOUT,
            fallback: FallbackPolicy::Ask,
        }
    }
}

/// Which model answers, and why.
pub(crate) struct ModelRouter {
    pub(crate) routing: RoutingOptions,
    /// The availability of models.
    pub(crate) models: ModelAvailability,
    /// The route of the running prompt, once selected.
    pub(crate) route: Option<Route>,
    /// Whether the route was selected in plan mode.
    routed_in_plan_mode: bool,
    /// The model of the previous prompt.
    last_model: Option<String>,
    /// Whether the fast model failed at the previous prompt.
    fast_model_failed: bool,
}

impl ModelRouter {
    pub(crate) fn new(routing: RoutingOptions) -> Self {
        Self {
            routing,
            models: ModelAvailability::default(),
            route: None,
            routed_in_plan_mode: false,
            last_model: None,
            fast_model_failed: false,
        }
    }
}

/// A routing decision before it is reported.
struct RouteDecision {
    strong: bool,
    source: RouteSource,
    reason: String,
    error: Option<String>,
}

impl RouteDecision {
    fn new(strong: bool, source: RouteSource, reason: impl Into<String>) -> Self {
        Self { strong, source, reason: reason.into(), error: None }
    }
}

impl Session {
    /// Returns the model in use: the routed one, or the one that the configured name resolves to.
    pub(crate) fn main_model(&self) -> String {
        match &self.router.route {
            Some(route) => route.model.clone(),
            None => self.client.model.catalog().resolve(&self.inbox.model),
        }
    }

    /// Whether routing is active.
    pub(crate) fn chooses(&self) -> bool {
        self.routes().is_some()
    }

    /// Returns the models to choose from, if routing is active.
    fn routes(&self) -> Option<Routes> {
        self.routes_for(&self.inbox.model)
    }

    fn routes_for(&self, model: &str) -> Option<Routes> {
        match self.router.routing.router {
            // The name then means the strong model.
            Router::Off => None,
            Router::On | Router::Rules => self.client.model.catalog().routes(model),
        }
    }

    /// Whether plan mode started or ended since the model was selected. An explicitly selected
    /// model is kept.
    fn plan_mode_changed(&self, route: &Route) -> bool {
        let is_planning = self.inbox.mode == ApprovalMode::Plan;
        self.router.routing.plan
            && self.router.routed_in_plan_mode != is_planning
            && route.source != RouteSource::Override
    }

    /// Selects the model at the first request of a prompt, after the user selected another, and
    /// when plan mode starts or ends.
    pub(crate) async fn choose_model(
        &mut self,
        cancel: &CancellationToken,
    ) -> Result<(), EndReason> {
        // A model that the user sets applies from the next request on.
        let same = self.router.route.as_ref().filter(|route| route.asked == self.inbox.model);
        let is_again = same.is_some();
        if same.is_some_and(|route| !self.plan_mode_changed(route)) {
            return Ok(());
        }
        let begun = Instant::now();
        let asked = self.inbox.model.clone();
        let overridden_model = self.current.take_model_override();
        let named = overridden_model.clone().unwrap_or_else(|| asked.clone());
        let (model, choice) = match self.routes_for(&named) {
            None => {
                let model = self.client.model.catalog().resolve(&named);
                let reason = match overridden_model {
                    Some(_) => format!("the prompt's command selects `{named}`"),
                    None if model == asked => format!("`{asked}` is set"),
                    None => format!("`{asked}` is set and resolves to `{model}`"),
                };
                (model, RouteDecision::new(true, RouteSource::Override, reason))
            }
            Some(routes) => {
                let choice = self.choose(&routes, is_again, cancel).await;
                if cancel.is_cancelled() {
                    return Err(EndReason::Cancelled);
                }
                (if choice.strong { routes.strong } else { routes.fast }, choice)
            }
        };
        let RouteDecision { source, reason, error, .. } = choice;
        let latency_ms = millis(begun);
        self.set_route(Route { model, asked, source, reason, latency_ms, error });
        Ok(())
    }

    /// Sets the model for the rest of the prompt and reports it.
    pub(crate) fn set_route(&mut self, route: Route) {
        tracing::info!(
            model = %route.model, source = ?route.source, reason = %route.reason,
            latency_ms = route.latency_ms, error = ?route.error, "model chosen"
        );
        self.inbox.notify_model_changed(&route.model);
        self.hub.send(EventBody::Routed(Box::new(route.clone())));
        // For later processes; the user's own choice needs no record.
        if route.source != RouteSource::Override {
            let record = RouteRecord { time: now(), route: route.clone() };
            self.conversation.history.record(&Record::Route(record));
        }
        self.router.routed_in_plan_mode = self.inbox.mode == ApprovalMode::Plan;
        self.router.route = Some(route);
    }

    /// Selects the model. Within a prompt (`is_again`), the classifier is not used.
    async fn choose(
        &mut self,
        routes: &Routes,
        is_again: bool,
        cancel: &CancellationToken,
    ) -> RouteDecision {
        if self.router.routing.plan {
            if self.inbox.mode == ApprovalMode::Plan {
                return RouteDecision::new(true, RouteSource::ApprovalMode, "plan mode is active");
            }
            if let Some(plan) = self.conversation.plan() {
                let reason = format!("the work follows the plan `{}`", plan.display());
                return RouteDecision::new(false, RouteSource::ApprovalMode, reason);
            }
        }
        let prompt = self
            .conversation
            .prompts
            .marks()
            .last()
            .map(|mark| mark.text.clone())
            .unwrap_or_default();
        let rule = |strong, reason: &str| RouteDecision::new(strong, RouteSource::Rules, reason);
        if self.router.fast_model_failed {
            return rule(true, "the fast model failed at the previous prompt");
        }
        match prompt_rules::look(&prompt) {
            PromptSize::Large(why) => rule(true, why),
            PromptSize::Small => rule(false, "the prompt is short and clear"),
            PromptSize::Continuation => match &self.router.last_model {
                Some(last) => rule(*last != routes.fast, "it continues the previous task"),
                None => RouteDecision::new(true, RouteSource::Default, "there is no previous task"),
            },
            PromptSize::TooShort => RouteDecision::new(
                true,
                RouteSource::Default,
                "it is too short for a classifier request",
            ),
            PromptSize::Unclear if self.router.routing.router == Router::Rules => {
                RouteDecision::new(
                    true,
                    RouteSource::Default,
                    "no rule matches, and the classifier is disabled (`model.routing`)",
                )
            }
            PromptSize::Unclear if is_again => RouteDecision::new(
                true,
                RouteSource::Default,
                "plan mode ended, and no rule matches",
            ),
            PromptSize::Unclear => self.classify(routes, &prompt, cancel).await,
        }
    }

    async fn classify(
        &mut self,
        routes: &Routes,
        prompt: &str,
        cancel: &CancellationToken,
    ) -> RouteDecision {
        let metered = UsageTrackingModel::new(Arc::clone(&self.client.model), self.hub.clone())
            .counted(self.budget.ledger());
        let question = classifier::ClassifierRequest {
            model: Arc::new(metered),
            name: routes.classifier.clone(),
            scale: routes.scale,
            threshold: self.router.routing.threshold,
            patience: self.router.routing.patience,
            text: classifier::text(self.conversation.history.contents(), prompt, routes.scale),
        };
        let source = match routes.scale {
            Scale::Choice => RouteSource::Classifier,
            Scale::Score => RouteSource::NumericalClassifier,
        };
        let classification = classifier::ask(question, cancel.child_token());
        let said = async {
            tokio::select! {
                biased;
                () = cancel.cancelled() => Err("cancelled".to_owned()),
                said = classification => said,
            }
        };
        match self.inbox.while_receiving(said).await {
            Ok(said) => RouteDecision::new(said.strong, source, said.reason),
            Err(error) => RouteDecision {
                error: Some(error),
                ..RouteDecision::new(true, RouteSource::Default, "the classifier gave no answer")
            },
        }
    }

    /// Ends the route of a prompt and remembers what the next one needs.
    pub(crate) fn end_route(&mut self, reason: &EndReason) {
        self.router.models.start_turn();
        let Some(route) = self.router.route.take() else { return };
        let was_fast = self.routes().is_some_and(|routes| routes.fast == route.model);
        self.router.fast_model_failed = was_fast && matches!(reason, EndReason::Loop { .. });
        self.router.last_model = Some(route.model);
    }
}
