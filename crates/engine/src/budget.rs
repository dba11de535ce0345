//! What a session may spend, and what it has spent: money, tokens, time.

mod ledger;
mod raise;

use std::sync::Arc;
use std::time::Duration;

use parallax_protocol::CancellationToken;
use parallax_protocol::budget::{BudgetKind, BudgetSpent, BudgetUse};
use parallax_protocol::event::{EndReason, Failure, FailureKind, Level};
use parallax_protocol::requests::Requests;
use parallax_protocol::store::{Record, SpentRecord};
use tokio::task::JoinHandle;

pub use self::ledger::Ledger;

use crate::history::now;
use crate::session::Session;

/// The share of a budget from which people are told.
const NEAR: f64 = 0.8;

/// What may be spent. Nothing set: no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct BudgetLimits {
    /// US dollars.
    pub cost: Option<f64>,
    /// Tokens sent and received, cached ones included.
    pub tokens: Option<u64>,
    /// Time in which turns run.
    pub time: Option<Duration>,
}

/// What was spent.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spent {
    /// US dollars.
    pub cost: f64,
    /// Tokens sent and received.
    pub tokens: u64,
    /// Time in which turns ran.
    pub time: Duration,
}

/// The limits of a session and of each of its prompts, with what is spent.
#[derive(Debug, Clone, Default)]
pub struct Budget {
    ledger: Ledger,
    /// Whether a person is there to raise what is spent.
    pub(crate) asks: bool,
    /// The budget of a session inside another, whose prompts are none.
    inner: bool,
    /// What was told to be nearly spent.
    told: Option<BudgetSpent>,
    /// The requests that the journal tells of.
    noted: Vec<Requests>,
}

impl Budget {
    /// A budget with these limits, of which so much is spent already.
    pub fn new(session: BudgetLimits, prompt: BudgetLimits, spent: Spent) -> Self {
        Self { ledger: Ledger::new(session, prompt, spent), ..Self::default() }
    }

    /// The same budget for a session that has spent so much before, with these
    /// requests, which its limits need not count.
    #[must_use]
    pub fn after(self, total: Spent, requests: Vec<Requests>) -> Self {
        self.ledger.set_total(total, requests.clone());
        Self { noted: requests, ..self }
    }

    /// The same budget; `asks`: whether a person is there who is asked to raise
    /// it when it is spent, so that turns go on.
    #[must_use]
    pub fn asking(self, asks: bool) -> Self {
        Self { asks, ..self }
    }

    /// Where what is spent is counted, and limits are set.
    pub fn ledger(&self) -> Ledger {
        self.ledger.clone()
    }

    /// The same budget for a session inside this one (a subagent): what it
    /// spends counts here, and its prompts are part of the prompt that runs.
    #[must_use]
    pub fn within(&self) -> Self {
        Self { inner: true, ..self.clone() }
    }

    /// A turn begins.
    pub(crate) fn begin(&mut self) {
        if !self.inner {
            self.ledger.begin();
        }
    }

    /// The turn's time runs on.
    pub(crate) fn go_on(&self) {
        self.ledger.go();
    }

    /// The turn's time stands still: it is over, or a person is asked.
    pub(crate) fn stop(&self) {
        self.ledger.stop();
    }

    /// What is spent, if something is.
    pub(crate) fn over(&self) -> Option<BudgetSpent> {
        self.limited().find(|spent| spent.used >= spent.limit)
    }

    /// Whether something would be nearly spent with that much more.
    #[expect(clippy::cast_precision_loss, reason = "nobody spends 2^52 tokens")]
    pub(crate) fn would_be_near(&self, tokens: u64, dollars: f64) -> bool {
        self.limited().any(|spent| {
            let more = match spent.kind {
                BudgetKind::Tokens => tokens as f64,
                BudgetKind::Cost => dollars,
                BudgetKind::Time => 0.0,
            };
            spent.used + more >= spent.limit * NEAR
        })
    }

    /// What is nearly spent; told once for a limit.
    pub(crate) fn near(&mut self) -> Option<BudgetSpent> {
        let near = self.limited().find(|spent| spent.used >= spent.limit * NEAR)?;
        let same = |told: &BudgetSpent| {
            (told.kind, told.scope, told.limit) == (near.kind, near.scope, near.limit)
        };
        if self.told.as_ref().is_some_and(same) {
            return None;
        }
        self.told = Some(near);
        Some(near)
    }

    /// What is limited and looked at between requests. Time has its own watch.
    fn limited(&self) -> impl Iterator<Item = BudgetSpent> + use<> {
        let limited = |BudgetUse { kind, scope, limit, used }| {
            Some(BudgetSpent { kind, scope, limit: limit?, used })
        };
        let uses = self.ledger.uses().into_iter().filter_map(limited);
        uses.filter(|spent| spent.kind != BudgetKind::Time)
    }
}

/// Ends a turn when its time is over. Dropped, it does not.
pub(crate) struct Timer(JoinHandle<()>);

impl Drop for Timer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Session {
    /// Watches the time of the turn. Inside another session that one's watch
    /// ends both.
    fn start_timer(&mut self, cancel: &CancellationToken) -> Option<Timer> {
        self.timed_out = Arc::default();
        if self.budget.inner {
            return None;
        }
        let (timed_out, cancel) = (Arc::clone(&self.timed_out), cancel.clone());
        let ledger = self.budget.ledger();
        Some(Timer(tokio::spawn(async move {
            // Set once: the turn was not timed out before.
            let _ = timed_out.set(ledger.time_is_up().await);
            cancel.cancel();
        })))
    }

    /// Notes limits that a person set, for when the session is resumed. One that
    /// has no prompt yet has no journal either: they wait for it.
    pub(crate) fn keep_budgets(&mut self) {
        if self.history.len() == 0 {
            return;
        }
        for record in std::mem::take(&mut self.inbox.set_budgets) {
            self.history.record(&Record::Budget(record));
        }
    }

    /// Notes what the session has spent, for when it is resumed: at the end of a
    /// turn, and before anything is taken back, which it does not earn again.
    pub(crate) fn note_spent(&mut self) {
        let requests = self.budget.ledger.requests();
        if self.budget.inner || requests == self.budget.noted || self.history.len() == 0 {
            return;
        }
        self.budget.noted.clone_from(&requests);
        let Spent { cost, tokens, .. } = self.budget.ledger.total();
        let record = SpentRecord { time: now(), cost, tokens, requests };
        self.history.record(&Record::Spent(record));
    }

    /// Whether what the model costs is known, where money is limited.
    pub(crate) fn is_priced(&self, model: &str) -> bool {
        !self.budget.ledger.limits_cost() || self.model.price(model).is_some()
    }

    /// Whether another request may be made with that model. A person who is
    /// there is asked first.
    ///
    /// # Errors
    /// When a budget is spent, or cannot be kept since nobody knows the price,
    /// and when the turn is interrupted.
    pub(crate) async fn may_spend(
        &mut self,
        model: &str,
        cancel: &CancellationToken,
    ) -> Result<(), EndReason> {
        self.keep_budgets();
        while let Some(spent) = self.budget.over() {
            if !self.is_raised(spent, cancel).await? {
                return Err(EndReason::Budget(spent));
            }
        }
        if !self.is_priced(model) {
            return Err(EndReason::Failed(Failure {
                kind: FailureKind::Config,
                message: format!(
                    "no price of `{model}` is known, so a budget of money cannot be kept: set \
                     `modelConfigs.prices`, or limit tokens with `--max-tokens`"
                ),
                status: None,
            }));
        }
        if let Some(spent) = self.budget.near() {
            let (used, limit) = (spent.amount(spent.used), spent.amount(spent.limit));
            let text = format!("{used} of the budget of {limit} are spent");
            self.inbox.notice(Level::Warning, text);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use parallax_protocol::budget::BudgetScope;
    use parallax_protocol::event::ModelCall;
    use parallax_protocol::model::Usage;
    use parallax_protocol::price::Cost;

    use super::*;

    fn call(cost: f64, prompt: u64) -> ModelCall {
        ModelCall {
            model: "m".into(),
            role: "main".into(),
            usage: Usage { prompt_token_count: prompt, ..Usage::default() },
            cost: Some(Cost { input: cost, ..Cost::default() }),
            latency_ms: 1,
            request_bytes: 0,
            error: None,
        }
    }

    #[test]
    fn a_service_that_tells_no_usage_does_not_escape_a_budget() {
        let limits = BudgetLimits { tokens: Some(1_000), ..BudgetLimits::default() };
        let budget = Budget::new(limits, BudgetLimits::default(), Spent::default());
        let silent = |error: Option<&str>| ModelCall {
            usage: Usage::default(),
            request_bytes: 4_000,
            error: error.map(str::to_owned),
            ..call(0.0, 0)
        };
        budget.ledger().count(&silent(Some("network")));
        assert_eq!(budget.over(), None);
        budget.ledger().count(&silent(None));
        assert!(budget.over().is_some());
        let rates = parallax_protocol::price::Rates { input: 4.0, cached: 1.0, output: 9.0 };
        let price = Some(parallax_protocol::price::Price { short: rates, long: None });
        let cost = crate::meter::cost(price, &Usage::default(), 4_000_000);
        assert!((cost.expect("a price").total() - 4.0).abs() < 1e-9);
    }

    #[test]
    fn a_prompt_begins_anew_and_the_session_does_not() {
        let session = BudgetLimits { cost: Some(1.0), ..BudgetLimits::default() };
        let prompt = BudgetLimits { tokens: Some(100), ..BudgetLimits::default() };
        let mut budget = Budget::new(session, prompt, Spent { cost: 0.5, ..Spent::default() });
        budget.begin();
        budget.ledger().count(&call(0.25, 60));
        assert_eq!((budget.over(), budget.near()), (None, None));
        budget.ledger().count(&call(0.0, 60));
        let over = budget.over().expect("spent");
        assert_eq!((over.kind, over.scope), (BudgetKind::Tokens, BudgetScope::Prompt));
        assert!(budget.near().is_some() && budget.near().is_none());
        budget.stop();
        budget.begin();
        assert_eq!(budget.over(), None);
        budget.within().ledger().count(&call(0.25, 0));
        let over = budget.over().expect("spent");
        assert_eq!((over.kind, over.scope), (BudgetKind::Cost, BudgetScope::Session));
        // A raised limit holds inside too, and is told of anew.
        budget.within().ledger().set(BudgetKind::Cost, BudgetScope::Session, Some(1.2));
        assert_eq!(budget.over(), None);
        assert!(budget.near().is_some());
        budget.ledger().set(BudgetKind::Cost, BudgetScope::Session, None);
        assert_eq!(budget.near(), None);
    }

    #[test]
    fn the_shorter_time_ends_the_turn() {
        let time = |seconds| BudgetLimits {
            time: Some(Duration::from_secs(seconds)),
            ..BudgetLimits::default()
        };
        let spent = Spent { time: Duration::from_secs(8), ..Spent::default() };
        let mut budget = Budget::new(time(10), time(5), spent);
        assert_eq!(budget.ledger.time_left(), None, "no time runs");
        budget.begin();
        let (left, spent) = budget.ledger.time_left().expect("a limit");
        assert_eq!((left.as_secs_f64().ceil(), spent.scope), (2.0, BudgetScope::Session));
        budget.ledger().set(BudgetKind::Time, BudgetScope::Session, Some(60.0));
        let (_, spent) = budget.ledger.time_left().expect("a limit");
        assert_eq!(spent.scope, BudgetScope::Prompt);
        budget.stop();
        assert_eq!(budget.ledger.time_left(), None);
    }
}
