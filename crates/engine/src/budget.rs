//! What a session may spend, and what it has spent: money, tokens, time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use parallax_protocol::CancellationToken;
use parallax_protocol::event::{
    BudgetKind, BudgetScope, BudgetSpent, EndReason, Failure, FailureKind, Level, ModelCall,
};
use tokio::task::JoinHandle;

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

#[derive(Debug, Default)]
struct Totals {
    session: Spent,
    prompt: Spent,
}

/// Counts what is spent, from wherever it is: shared by all that ask a model on
/// behalf of a session.
#[derive(Debug, Clone, Default)]
pub struct Ledger(Arc<Mutex<Totals>>);

impl Ledger {
    /// Counts a request.
    pub fn count(&self, call: &ModelCall) {
        let cost = call.cost.map_or(0.0, |cost| cost.total());
        // Some services leave the sum out.
        let usage = &call.usage;
        let sum = usage.prompt_token_count
            + usage.candidates_token_count
            + usage.thoughts_token_count
            + usage.tool_use_prompt_token_count;
        let tokens = usage.total_token_count.max(sum);
        self.change(|totals| {
            for spent in [&mut totals.session, &mut totals.prompt] {
                spent.cost += cost;
                spent.tokens = spent.tokens.saturating_add(tokens);
            }
        });
    }

    /// What the session has spent so far.
    pub fn session(&self) -> Spent {
        self.change(|totals| totals.session)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Totals) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The limits of a session and of each of its prompts, with what is spent.
#[derive(Debug, Clone, Default)]
pub struct Budget {
    /// For the session.
    pub session: BudgetLimits,
    /// For each prompt.
    pub prompt: BudgetLimits,
    ledger: Ledger,
    /// The budget of a session inside another, whose prompts are none.
    inner: bool,
    /// Whether it was told that it is nearly spent.
    told: bool,
    /// When the running turn began.
    begun: Option<Instant>,
}

impl Budget {
    /// A budget with these limits, of which so much is spent already.
    pub fn new(session: BudgetLimits, prompt: BudgetLimits, spent: Spent) -> Self {
        let budget = Self { session, prompt, ..Self::default() };
        budget.ledger.change(|totals| totals.session = spent);
        budget
    }

    /// Where what is spent is counted.
    pub fn ledger(&self) -> Ledger {
        self.ledger.clone()
    }

    /// The same budget for a session inside this one (a subagent): what it
    /// spends counts here, and its prompts are part of the prompt that runs.
    #[must_use]
    pub fn within(&self) -> Self {
        Self { inner: true, ..self.clone() }
    }

    /// Whether money is limited.
    pub(crate) fn limits_cost(&self) -> bool {
        self.session.cost.or(self.prompt.cost).is_some()
    }

    /// A turn begins.
    pub(crate) fn begin(&mut self) {
        self.begun = Some(Instant::now());
        if !self.inner {
            self.ledger.change(|totals| totals.prompt = Spent::default());
        }
    }

    /// The turn is over.
    pub(crate) fn end(&mut self) {
        let Some(begun) = self.begun.take() else { return };
        if !self.inner {
            self.ledger.change(|totals| totals.session.time += begun.elapsed());
        }
    }

    /// How long the turn may run that begins now, and what is spent then.
    pub(crate) fn time_left(&self) -> Option<(Duration, BudgetSpent)> {
        let (session, _) = self.spent();
        let left = |scope, limit: Option<Duration>, used: Duration| {
            let limit = limit?;
            let spent = BudgetSpent {
                kind: BudgetKind::Time,
                scope,
                limit: limit.as_secs_f64(),
                used: limit.as_secs_f64(),
            };
            Some((limit.saturating_sub(used), spent))
        };
        let session = left(BudgetScope::Session, self.session.time, session.time);
        let prompt = left(BudgetScope::Prompt, self.prompt.time, Duration::ZERO);
        [session, prompt].into_iter().flatten().min_by_key(|(left, _)| *left)
    }

    /// What is spent, if something is.
    pub(crate) fn over(&self) -> Option<BudgetSpent> {
        self.uses().find(|spent| spent.used >= spent.limit)
    }

    /// What is nearly spent; told once.
    pub(crate) fn near(&mut self) -> Option<BudgetSpent> {
        if self.told {
            return None;
        }
        let near = self.uses().find(|spent| spent.used >= spent.limit * NEAR);
        self.told = near.is_some();
        near
    }

    fn spent(&self) -> (Spent, Spent) {
        self.ledger.change(|totals| (totals.session, totals.prompt))
    }

    #[expect(clippy::cast_precision_loss, reason = "nobody spends 2^52 tokens")]
    fn uses(&self) -> impl Iterator<Item = BudgetSpent> + use<> {
        let (session, prompt) = self.spent();
        let of = |scope, limits: BudgetLimits, spent: Spent| {
            let entry = |kind, limit: Option<f64>, used| {
                limit.map(|limit| BudgetSpent { kind, scope, limit, used })
            };
            let tokens = limits.tokens.map(|tokens| tokens as f64);
            [
                entry(BudgetKind::Cost, limits.cost, spent.cost),
                entry(BudgetKind::Tokens, tokens, spent.tokens as f64),
            ]
        };
        let all = [
            of(BudgetScope::Session, self.session, session),
            of(BudgetScope::Prompt, self.prompt, prompt),
        ];
        all.into_iter().flatten().flatten()
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
    /// A turn begins: what it may spend is counted, and its time runs.
    pub(crate) fn begin_budget(&mut self, cancel: &CancellationToken) -> Option<Timer> {
        self.budget.begin();
        self.timed_out = Arc::default();
        let (left, spent) = self.budget.time_left()?;
        let (timed_out, cancel) = (Arc::clone(&self.timed_out), cancel.clone());
        Some(Timer(tokio::spawn(async move {
            tokio::time::sleep(left).await;
            // Set once: the turn was not timed out before.
            let _ = timed_out.set(spent);
            cancel.cancel();
        })))
    }

    /// The turn is over: why, when its time was.
    pub(crate) fn end_budget(&mut self, reason: EndReason) -> EndReason {
        self.budget.end();
        match (reason, self.timed_out.get()) {
            (EndReason::Cancelled, Some(spent)) => EndReason::Budget(*spent),
            (reason, _) => reason,
        }
    }

    /// Whether another request may be made with that model.
    ///
    /// # Errors
    /// When a budget is spent, or cannot be kept since nobody knows the price.
    pub(crate) fn may_spend(&mut self, model: &str) -> Result<(), EndReason> {
        if let Some(spent) = self.budget.over() {
            return Err(EndReason::Budget(spent));
        }
        if self.budget.limits_cost() && self.model.price(model).is_none() {
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
        budget.end();
        budget.begin();
        assert_eq!(budget.over(), None);
        budget.within().ledger().count(&call(0.25, 0));
        let over = budget.over().expect("spent");
        assert_eq!((over.kind, over.scope), (BudgetKind::Cost, BudgetScope::Session));
    }

    #[test]
    fn the_shorter_time_ends_the_turn() {
        let time = |seconds| BudgetLimits {
            time: Some(Duration::from_secs(seconds)),
            ..BudgetLimits::default()
        };
        let spent = Spent { time: Duration::from_secs(8), ..Spent::default() };
        let budget = Budget::new(time(10), time(5), spent);
        let (left, spent) = budget.time_left().expect("a limit");
        assert_eq!((left.as_secs(), spent.scope), (2, BudgetScope::Session));
        assert_eq!(Budget::default().time_left(), None);
    }
}
