//! Chooses the model of a prompt, once, and again when plan mode begins or ends in its
//! midst: what stands in for one that cannot answer, a person's choice, the approval
//! mode, what the prompt looks like, and only in doubt a small model that is asked.

mod ahead;
mod classifier;
mod rules;

use std::sync::Arc;
use std::time::{Duration, Instant};

use parallax_protocol::CancellationToken;
use parallax_protocol::event::{EndReason, EventBody};
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::routing::{
    FallbackPolicy, Route, RouteSource, Router, Routes, Scale, SentAhead,
};
use parallax_protocol::store::{Record, RouteRecord};

pub(crate) use self::ahead::{Ahead, Events};
use self::classifier::Said;
use self::rules::Look;
use crate::history::now;
use crate::meter::{Metered, millis};
use crate::session::Session;

/// A person waits for the first word of the answer meanwhile.
const PATIENCE: Duration = Duration::from_millis(1500);
/// How long the small model has before the strong one is asked meanwhile: one that is
/// quick costs no second request.
const HEAD_START: Duration = Duration::from_millis(150);
/// The number from which the strong model answers.
const THRESHOLD: u64 = 90;

/// How models are chosen, and what happens when one cannot answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoutingOptions {
    /// How much is done to choose.
    pub router: Router,
    /// Whether planning is for the strong model and the work on a plan for the
    /// fast one.
    pub plan: bool,
    /// The number of 100 from which the strong model answers.
    pub threshold: u64,
    /// How long the small model that is asked in doubt has.
    pub patience: Duration,
    /// Whether the strong model is asked while the small one thinks.
    pub ahead: bool,
    /// How long the small one has before that.
    pub head_start: Duration,
    /// What is done when a model cannot answer.
    pub fallback: FallbackPolicy,
}

impl Default for RoutingOptions {
    fn default() -> Self {
        Self {
            router: Router::On,
            plan: true,
            threshold: THRESHOLD,
            patience: PATIENCE,
            // What is asked in vain is paid for.
            ahead: false,
            head_start: HEAD_START,
            fallback: FallbackPolicy::Ask,
        }
    }
}

/// A choice, before it is told.
struct Choice {
    strong: bool,
    source: RouteSource,
    reason: String,
    error: Option<String>,
    /// The strong model's answer as far as it came meanwhile.
    ahead: Option<Ahead>,
}

impl Choice {
    fn new(strong: bool, source: RouteSource, reason: impl Into<String>) -> Self {
        Self { strong, source, reason: reason.into(), error: None, ahead: None }
    }
}

impl Session {
    /// The model that answers now: the one chosen for the prompt, or else the
    /// one that the set name means.
    pub(crate) fn main_model(&self) -> String {
        match &self.route {
            Some(route) => route.model.clone(),
            None => self.model.resolve(&self.inbox.model),
        }
    }

    /// Whether the program chooses among models.
    pub(crate) fn chooses(&self) -> bool {
        self.routes().is_some()
    }

    /// The models to choose among, if there is a choice.
    fn routes(&self) -> Option<Routes> {
        self.routes_of(&self.inbox.model)
    }

    fn routes_of(&self, model: &str) -> Option<Routes> {
        match self.routing.router {
            // The name means the strong model then.
            Router::Off => None,
            Router::On | Router::Rules => self.model.routes(model),
        }
    }

    /// Whether plan mode began or ended since the model was chosen: planning is for one
    /// model, and the work on a plan for the other. A model that was named is not left.
    fn changed_course(&self, route: &Route) -> bool {
        let is_planning = self.inbox.mode == ApprovalMode::Plan;
        self.routing.plan
            && self.routed_planning != is_planning
            && route.source != RouteSource::Override
    }

    /// Chooses the model of the prompt, at its first request, after a person took
    /// another, and when plan mode begins or ends; else it stays. Gives the request to it
    /// that is under way already.
    pub(crate) async fn choose_model(
        &mut self,
        cancel: &CancellationToken,
    ) -> Result<Option<Ahead>, EndReason> {
        // A model that a person sets counts from the next request on.
        let same = self.route.as_ref().filter(|route| route.asked == self.inbox.model);
        let is_again = same.is_some();
        if same.is_some_and(|route| !self.changed_course(route)) {
            return Ok(None);
        }
        let begun = Instant::now();
        let asked = self.inbox.model.clone();
        let wished = self.wished_model();
        let named = wished.clone().unwrap_or_else(|| asked.clone());
        let (model, choice) = match self.routes_of(&named) {
            None => {
                let model = self.model.resolve(&named);
                let reason = match wished {
                    Some(_) => format!("the command of the prompt wants `{named}`"),
                    None if model == asked => format!("`{asked}` is set"),
                    None => format!("`{asked}` is set, which means `{model}` here"),
                };
                (model, Choice::new(true, RouteSource::Override, reason))
            }
            Some(routes) => {
                let choice = self.choose(&routes, is_again, cancel).await;
                if cancel.is_cancelled() {
                    return Err(EndReason::Cancelled);
                }
                (if choice.strong { routes.strong } else { routes.fast }, choice)
            }
        };
        let Choice { source, reason, error, ahead: sent, .. } = choice;
        let was_sent = sent.is_some();
        let kept = sent.filter(|sent| sent.is_to(&model) && self.still_fits(sent));
        let ahead = was_sent.then_some(match kept {
            Some(_) => SentAhead::Used,
            None => SentAhead::Dropped,
        });
        let latency_ms = millis(begun);
        self.set_route(Route { model, asked, source, reason, latency_ms, error, ahead });
        Ok(kept)
    }

    /// Takes a model for the rest of the prompt, and tells it.
    pub(crate) fn set_route(&mut self, route: Route) {
        tracing::info!(
            model = %route.model, source = ?route.source, reason = %route.reason,
            latency_ms = route.latency_ms, error = ?route.error, "model chosen"
        );
        self.inbox.follow_model(&route.model);
        self.hub.send(EventBody::Routed(Box::new(route.clone())));
        // For who asks in a later process; what a person named needs no reason.
        if route.source != RouteSource::Override {
            let record = RouteRecord { time: now(), route: route.clone() };
            self.history.record(&Record::Route(record));
        }
        self.routed_planning = self.inbox.mode == ApprovalMode::Plan;
        self.route = Some(route);
    }

    /// In the midst of a prompt, `is_again`, nobody waits for a small model.
    async fn choose(
        &mut self,
        routes: &Routes,
        is_again: bool,
        cancel: &CancellationToken,
    ) -> Choice {
        if self.routing.plan {
            if self.inbox.mode == ApprovalMode::Plan {
                return Choice::new(true, RouteSource::ApprovalMode, "it is plan mode");
            }
            if let Some(plan) = self.plan() {
                let reason = format!("the work follows the plan `{}`", plan.display());
                return Choice::new(false, RouteSource::ApprovalMode, reason);
            }
        }
        let prompt = self.prompts.marks().last().map(|mark| mark.text.clone()).unwrap_or_default();
        let rule = |strong, reason: &str| Choice::new(strong, RouteSource::Rules, reason);
        if self.stuck {
            return rule(true, "the fast model did not get on with the prompt before");
        }
        match rules::look(&prompt) {
            Look::Large(why) => rule(true, why),
            Look::Small => rule(false, "the prompt is short and clear"),
            Look::GoesOn => match &self.last_model {
                Some(last) => rule(*last != routes.fast, "it goes on with what was there"),
                None => Choice::new(true, RouteSource::Default, "there is nothing to go by"),
            },
            Look::Brief => {
                Choice::new(true, RouteSource::Default, "it is too short to be worth a question")
            }
            Look::Unclear if self.routing.router == Router::Rules => Choice::new(
                true,
                RouteSource::Default,
                "no rule fits, and no model is asked (`model.routing`)",
            ),
            Look::Unclear if is_again => {
                Choice::new(true, RouteSource::Default, "plan mode is over, and no rule fits")
            }
            Look::Unclear => self.classify(routes, &prompt, cancel).await,
        }
    }

    async fn classify(
        &mut self,
        routes: &Routes,
        prompt: &str,
        cancel: &CancellationToken,
    ) -> Choice {
        let metered =
            Metered::new(Arc::clone(&self.model), self.hub.clone()).counted(self.budget.ledger());
        let question = classifier::Question {
            model: Arc::new(metered),
            name: routes.classifier.clone(),
            scale: routes.scale,
            threshold: self.routing.threshold,
            patience: self.routing.patience,
            text: classifier::text(self.history.contents(), prompt, routes.scale),
        };
        let source = match routes.scale {
            Scale::Choice => RouteSource::Classifier,
            Scale::Score => RouteSource::NumericalClassifier,
        };
        let asking = classifier::ask(question, cancel.child_token());
        let (said, ahead) = self.hear(asking, &routes.strong, cancel).await;
        match said {
            Ok(said) => Choice { ahead, ..Choice::new(said.strong, source, said.reason) },
            Err(error) => Choice {
                error: Some(error),
                ahead,
                ..Choice::new(true, RouteSource::Default, "the classifier said nothing")
            },
        }
    }

    /// Waits for what the classifier says. When that takes a while, the model that answers
    /// by default is asked meanwhile.
    async fn hear(
        &mut self,
        asking: impl Future<Output = Result<Said, String>>,
        default: &str,
        cancel: &CancellationToken,
    ) -> (Result<Said, String>, Option<Ahead>) {
        let stopped = || Err("cancelled".to_owned());
        let mut asking = std::pin::pin!(asking);
        let alone = async {
            tokio::select! {
                biased;
                () = cancel.cancelled() => Some(stopped()),
                said = &mut asking => Some(said),
                () = tokio::time::sleep(self.routing.head_start), if self.routing.ahead => None,
            }
        };
        if let Some(said) = self.inbox.during(alone).await {
            return (said, None);
        }
        let mut ahead = self.send_ahead(default, cancel);
        let both = async {
            tokio::select! {
                biased;
                () = cancel.cancelled() => stopped(),
                said = &mut asking => said,
                never = ahead::fill(&mut ahead) => match never {},
            }
        };
        let said = self.inbox.during(both).await;
        (said, ahead)
    }

    /// A prompt is over: what the next one may go by.
    pub(crate) fn end_route(&mut self, reason: &EndReason) {
        self.models.begin();
        let Some(route) = self.route.take() else { return };
        let was_fast = self.routes().is_some_and(|routes| routes.fast == route.model);
        self.stuck = was_fast && matches!(reason, EndReason::Loop { .. });
        self.last_model = Some(route.model);
    }
}
