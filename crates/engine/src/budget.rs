//! The budget of a session and its spending: cost, tokens, and time.

mod ledger;
mod open_reservations;
mod reservation;
mod waiting_time;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parallax_protocol::CancellationToken;
use parallax_protocol::budget::{BudgetKind, BudgetUse, ExhaustedBudget, SharedBudget};
use parallax_protocol::requests::Requests;
use parallax_protocol::store::{Record, SpendingRecord};
use tokio::task::JoinHandle;

pub use self::ledger::Ledger;
pub(crate) use self::ledger::total_tokens;
pub(crate) use self::reservation::{RequestPrice, Reservation, ReservationError, max_output};

use crate::history::{History, now};

/// The share of a budget from which the user is warned.
const NEAR_SHARE: f64 = 0.8;

/// Budget limits. `None`: no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct BudgetLimits {
    /// US dollars.
    pub cost: Option<f64>,
    /// Tokens sent and received, including cached ones.
    pub tokens: Option<u64>,
    /// Running time of turns.
    pub time: Option<Duration>,
}

/// The spending so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spending {
    /// US dollars.
    pub cost: f64,
    /// Tokens sent and received.
    pub tokens: u64,
    /// Running time of turns.
    pub time: Duration,
}

/// The limits of a session and of each prompt, with what is spent.
#[derive(Debug, Clone, Default)]
pub struct Budget {
    ledger: Ledger,
    /// Whether the user can be asked to raise an exhausted budget.
    can_ask_user: bool,
    /// Whether this is the budget of a nested session, whose prompts do not count as prompts.
    inner: bool,
    /// The warning that was shown last.
    reported: Option<ExhaustedBudget>,
    /// The request counts already saved in the journal.
    saved_requests: Vec<Requests>,
}

impl Budget {
    /// Creates a budget with limits and the amount already spent.
    pub fn new(session: BudgetLimits, prompt: BudgetLimits, spent: Spending) -> Self {
        Self { ledger: Ledger::new(session, prompt, spent), ..Self::default() }
    }

    /// Adds the session's earlier spending and requests, which its limits do not count.
    #[must_use]
    pub fn with_earlier_spending(self, total: Spending, requests: Vec<Requests>) -> Self {
        self.ledger.set_total(total, requests.clone());
        Self { saved_requests: requests, ..self }
    }

    /// Also limits cost by a budget that other processes share.
    #[must_use]
    pub fn with_shared_budget(mut self, budget: Arc<dyn SharedBudget>) -> Self {
        self.ledger.share(budget);
        self
    }

    /// Sets whether the user can be asked to raise an exhausted budget, so that the turn can
    /// continue.
    #[must_use]
    pub fn with_user_prompts(self, can_ask_user: bool) -> Self {
        Self { can_ask_user, ..self }
    }

    /// Returns the shared ledger, where spending is counted and limits are set.
    pub fn ledger(&self) -> Ledger {
        self.ledger.clone()
    }

    /// Returns the budget for a nested session (a subagent): its spending counts here, and its
    /// prompts belong to the running prompt.
    #[must_use]
    pub fn nested_budget(&self) -> Self {
        Self { inner: true, ..self.clone() }
    }

    /// Whether the user can be asked to raise an exhausted budget.
    pub(crate) fn can_ask_user(&self) -> bool {
        self.can_ask_user
    }

    /// Starts a turn.
    pub(crate) fn start_turn(&mut self) {
        if !self.inner {
            self.ledger.begin();
        }
    }

    /// Resumes the clock of the turn.
    pub(crate) fn resume_clock(&self) {
        self.ledger.start_clock();
    }

    /// Pauses the clock: the turn is over, or the user is asked.
    pub(crate) fn pause_clock(&self) {
        self.ledger.stop();
    }

    /// Returns the exceeded limit, if any.
    pub(crate) fn exceeded_limit(&self) -> Option<ExhaustedBudget> {
        self.exceeded_limits().find(|spent| spent.used >= spent.limit)
    }

    /// Returns a limit that is nearly reached; returned once per limit.
    pub(crate) fn approaching_limit(&mut self) -> Option<ExhaustedBudget> {
        let near = self.exceeded_limits().find(|spent| spent.used >= spent.limit * NEAR_SHARE)?;
        let same = |reported: &ExhaustedBudget| {
            (reported.kind, reported.scope, reported.limit) == (near.kind, near.scope, near.limit)
        };
        if self.reported.as_ref().is_some_and(same) {
            return None;
        }
        self.reported = Some(near);
        Some(near)
    }

    /// Returns the limits checked between requests. Time has its own timer.
    fn exceeded_limits(&self) -> impl Iterator<Item = ExhaustedBudget> + use<> {
        let limited = |BudgetUse { kind, scope, limit, used }| {
            Some(ExhaustedBudget { kind, scope, limit: limit?, used })
        };
        let uses = self.ledger.budget_uses().into_iter().filter_map(limited);
        uses.filter(|spent| spent.kind != BudgetKind::Time)
    }
}

/// Ends a turn when its time is up, unless dropped before.
pub(crate) struct TurnTimer(JoinHandle<()>);

impl Drop for TurnTimer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Budget {
    /// Starts the timer of a turn, which sets `timed_out` and cancels the turn. In a nested session
    /// the outer timer ends both.
    pub(crate) fn start_timer(
        &self,
        timed_out: Arc<OnceLock<ExhaustedBudget>>,
        cancel: &CancellationToken,
    ) -> Option<TurnTimer> {
        if self.inner {
            return None;
        }
        let (ledger, cancel) = (self.ledger.clone(), cancel.clone());
        Some(TurnTimer(tokio::spawn(async move {
            // The cell is new, so the turn has not timed out before.
            let _ = timed_out.set(ledger.wait_for_time_limit().await);
            cancel.cancel();
        })))
    }

    /// Saves the requests that ended. A session without a prompt has no journal yet.
    pub(crate) fn save_requests(&self, history: &mut History) {
        if self.inner || history.len() == 0 {
            return;
        }
        for record in self.ledger.take_unrecorded() {
            history.record(&Record::Request(record));
        }
    }

    /// Saves the session's spending: at the end of a turn, and before anything is rewound, which
    /// does not refund it.
    pub(crate) fn save_spending(&mut self, history: &mut History) {
        self.save_requests(history);
        let requests = self.ledger.requests();
        if self.inner || requests == self.saved_requests || history.len() == 0 {
            return;
        }
        self.saved_requests.clone_from(&requests);
        let Spending { cost, tokens, .. } = self.ledger.total();
        let uses = self.ledger.budget_uses().into_iter();
        let budgets = uses.filter(|budget| budget.limit.is_some()).collect();
        let record = SpendingRecord { time: now(), cost, tokens, requests, budgets };
        history.record(&Record::Spent(record));
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
            usage: Usage { prompt, ..Usage::default() },
            cost: Some(Cost { input: cost, ..Cost::default() }),
            latency_ms: 1,
            request_bytes: 0,
            error: None,
        }
    }

    #[test]
    fn missing_usage_is_estimated_against_the_budget() {
        let limits = BudgetLimits { tokens: Some(1_000), ..BudgetLimits::default() };
        let budget = Budget::new(limits, BudgetLimits::default(), Spending::default());
        let silent = |error: Option<&str>| ModelCall {
            usage: Usage::default(),
            request_bytes: 4_000,
            error: error.map(str::to_owned),
            ..call(0.0, 0)
        };
        budget.ledger().count(&silent(Some("network")));
        assert_eq!(budget.exceeded_limit(), None);
        budget.ledger().count(&silent(None));
        assert!(budget.exceeded_limit().is_some());
        let rates = parallax_protocol::price::Rates::new(4.0, 1.0, 9.0);
        let price =
            Some(parallax_protocol::price::Price { short_prompts: rates, long_prompts: None });
        let cost = crate::usage_tracking::cost(price, &Usage::default(), 4_000_000);
        assert!((cost.expect("a price").total() - 4.0).abs() < 1e-9);
    }

    #[test]
    fn prompt_budget_resets_and_session_budget_does_not() {
        let session = BudgetLimits { cost: Some(1.0), ..BudgetLimits::default() };
        let prompt = BudgetLimits { tokens: Some(100), ..BudgetLimits::default() };
        let mut budget =
            Budget::new(session, prompt, Spending { cost: 0.5, ..Spending::default() });
        budget.start_turn();
        budget.ledger().count(&call(0.25, 60));
        assert_eq!((budget.exceeded_limit(), budget.approaching_limit()), (None, None));
        budget.ledger().count(&call(0.0, 60));
        let over = budget.exceeded_limit().expect("spent");
        assert_eq!((over.kind, over.scope), (BudgetKind::Tokens, BudgetScope::Prompt));
        assert!(budget.approaching_limit().is_some() && budget.approaching_limit().is_none());
        budget.pause_clock();
        budget.start_turn();
        assert_eq!(budget.exceeded_limit(), None);
        budget.nested_budget().ledger().count(&call(0.25, 0));
        let over = budget.exceeded_limit().expect("spent");
        assert_eq!((over.kind, over.scope), (BudgetKind::Cost, BudgetScope::Session));
        // A raised limit also applies to nested sessions, and warns again.
        budget.nested_budget().ledger().set(BudgetKind::Cost, BudgetScope::Session, Some(1.2));
        assert_eq!(budget.exceeded_limit(), None);
        assert!(budget.approaching_limit().is_some());
        budget.ledger().set(BudgetKind::Cost, BudgetScope::Session, None);
        assert_eq!(budget.approaching_limit(), None);
    }

    #[test]
    fn shorter_time_limit_ends_the_turn() {
        let time = |seconds| BudgetLimits {
            time: Some(Duration::from_secs(seconds)),
            ..BudgetLimits::default()
        };
        let spent = Spending { time: Duration::from_secs(8), ..Spending::default() };
        let mut budget = Budget::new(time(10), time(5), spent);
        assert_eq!(budget.ledger.time_left(), None, "no time runs");
        budget.start_turn();
        let (remaining, spent) = budget.ledger.time_left().expect("a limit");
        assert_eq!((remaining.as_secs_f64().ceil(), spent.scope), (2.0, BudgetScope::Session));
        budget.ledger().set(BudgetKind::Time, BudgetScope::Session, Some(60.0));
        let (_, spent) = budget.ledger.time_left().expect("a limit");
        assert_eq!(spent.scope, BudgetScope::Prompt);
        budget.pause_clock();
        assert_eq!(budget.ledger.time_left(), None);
    }
}
