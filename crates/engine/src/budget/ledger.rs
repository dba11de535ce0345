//! Counts spending and holds the limits: shared by everything that uses a model for a session
//! and by the front end that raises a limit.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use parallax_protocol::budget::{
    BudgetKind, BudgetScope, BudgetUse, ExhaustedBudget, ProcessSpending, SharedBudget,
    SharedSpending,
};
use parallax_protocol::event::ModelCall;
use parallax_protocol::model::Usage;
use parallax_protocol::requests::{self, Requests};
use parallax_protocol::store::RequestRecord;
use tokio::sync::Notify;

use super::open_reservations::OpenReservations;
use super::waiting_time::WaitingTime;
use super::{BudgetLimits, Spending};
use crate::tokens;

/// Maximum number of requests that wait to be recorded; others are only counted.
const MAX_UNRECORDED: usize = 1024;

/// The limits of a scope and its spending.
#[derive(Debug, Default, Clone, Copy)]
struct BudgetAccount {
    limits: BudgetLimits,
    spent: Spending,
}

#[derive(Debug, Default)]
pub(super) struct LedgerState {
    session: BudgetAccount,
    prompt: BudgetAccount,
    /// Cost and tokens of the whole session, regardless of when the limits were set.
    total: Spending,
    /// The requests of the whole session.
    requests: Vec<Requests>,
    /// Requests that are not in a journal yet.
    unrecorded: Vec<RequestRecord>,
    /// When the running turn was started or resumed.
    started: Option<Instant>,
    /// Whether the user declined to spend more on this prompt.
    declined_increase: bool,
    /// The time limit that the prompt itself sets.
    turn_limit: Option<Duration>,
    /// What running requests may cost.
    pub(super) reservations: OpenReservations,
    /// What the session had cost when this process began to share a budget.
    shared_from: f64,
    /// Whether the shared budget did not cover a request.
    pub(super) is_refused: bool,
    /// What requests may have cost that were dropped without being counted, in US dollars.
    pub(super) lost: f64,
    /// How long requests have waited for other processes.
    pub(super) waiting: WaitingTime,
}

impl LedgerState {
    /// Returns what this process spent of a shared budget.
    fn process_spending(&self) -> ProcessSpending {
        ProcessSpending {
            spent: self.shared_spending(),
            reserved: self.reservations.total(),
            lost: self.lost,
            waited: self.waiting.total().as_secs_f64(),
            is_refused: self.is_refused,
        }
    }

    pub(super) fn shared_spending(&self) -> f64 {
        self.total.cost - self.shared_from
    }

    /// Returns the limits of cost, with what is spent.
    pub(super) fn cost_limits(&self) -> impl Iterator<Item = (BudgetScope, f64, f64)> {
        let accounts = [(BudgetScope::Session, self.session), (BudgetScope::Prompt, self.prompt)];
        accounts
            .into_iter()
            .filter_map(|(scope, account)| Some((scope, account.limits.cost?, account.spent.cost)))
            .map(|(scope, limit, spent)| (scope, limit, spent + self.lost))
    }

    /// Returns both budgets, including the time of the running turn.
    fn current(&self) -> [(BudgetScope, BudgetAccount); 2] {
        let running = self.started.map_or(Duration::ZERO, |started_at| started_at.elapsed());
        [(BudgetScope::Session, self.session), (BudgetScope::Prompt, self.prompt)].map(
            |(scope, mut account)| {
                account.spent.time += running;
                (scope, account)
            },
        )
    }

    fn stop(&mut self) {
        let Some(started_at) = self.started.take() else { return };
        for account in [&mut self.session, &mut self.prompt] {
            account.spent.time += started_at.elapsed();
        }
    }
}

/// Returns the tokens of a request. Some services omit the total.
pub(crate) fn total_tokens(usage: &Usage) -> u64 {
    let parts = [usage.prompt, usage.output, usage.thought, usage.tool_prompt];
    usage.total.max(parts.into_iter().fold(0, u64::saturating_add))
}

/// Counts spending and holds the limits.
#[derive(Clone, Default)]
pub struct Ledger {
    accounts: Arc<Mutex<LedgerState>>,
    pub(super) changed: Arc<Notify>,
    pub(super) shared: Option<Arc<dyn SharedBudget>>,
}

impl std::fmt::Debug for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ledger").field("accounts", &self.accounts).finish_non_exhaustive()
    }
}

impl Ledger {
    pub(super) fn new(session: BudgetLimits, prompt: BudgetLimits, spent: Spending) -> Self {
        let ledger = Self::default();
        ledger.change(|accounts| {
            accounts.session = BudgetAccount { limits: session, spent };
            accounts.prompt.limits = prompt;
            accounts.total = spent;
        });
        ledger
    }

    pub(super) fn set_total(&self, total: Spending, requests: Vec<Requests>) {
        self.change(|accounts| (accounts.total, accounts.requests) = (total, requests));
    }

    /// Also limits cost by a budget that other processes share.
    pub(super) fn share(&mut self, budget: Arc<dyn SharedBudget>) {
        self.change(|accounts| accounts.shared_from = accounts.total.cost);
        self.shared = Some(budget);
    }

    /// Returns the requests of the session in all its processes, by model and role.
    pub(super) fn requests(&self) -> Vec<Requests> {
        self.change(|accounts| accounts.requests.clone())
    }

    /// Returns what the session has spent in all its processes, without time.
    pub(super) fn total(&self) -> Spending {
        self.change(|accounts| accounts.total)
    }

    /// Counts a request.
    pub fn count(&self, call: &ModelCall) {
        self.count_as(call, &call.role, RequestRecord::default());
    }

    /// Returns the requests that ended since the last time, for the journal.
    pub(super) fn take_unrecorded(&self) -> Vec<RequestRecord> {
        self.change(|accounts| std::mem::take(&mut accounts.unrecorded))
    }

    /// Counts a request under a role. `details` contains what `call` lacks.
    pub(crate) fn count_as(&self, call: &ModelCall, role: &str, details: RequestRecord) {
        let cost = call.cost.map_or(0.0, |cost| cost.total());
        let tokens = match total_tokens(&call.usage) {
            // Some omit all counts, as do answers that broke off.
            0 if call.error.is_none() || cost > 0.0 => tokens::estimate_request(call.request_bytes),
            tokens => tokens,
        };
        let record = RequestRecord {
            time: time_ago(call.latency_ms),
            model: call.model.clone(),
            role: role.to_owned(),
            usage: call.usage,
            cost: call.cost.map(|cost| cost.total()),
            latency_ms: call.latency_ms,
            bytes: call.request_bytes,
            error: call.error.clone(),
            ..details
        };
        let counted = Requests { role: role.to_owned(), ..Requests::from(call) };
        self.change(|accounts| {
            let LedgerState { session, prompt, total, requests, unrecorded, .. } = accounts;
            requests::add(requests, counted);
            if unrecorded.len() < MAX_UNRECORDED {
                unrecorded.push(record);
            }
            for spent in [&mut session.spent, &mut prompt.spent, total] {
                spent.cost += cost;
                spent.tokens = spent.tokens.saturating_add(tokens);
            }
        });
    }

    /// Returns what the session has spent so far.
    pub fn session(&self) -> Spending {
        self.change(|accounts| accounts.session.spent)
    }

    /// Whether this much more reaches a limit of cost or tokens.
    #[expect(clippy::cast_precision_loss, reason = "token counts stay below 2^52")]
    pub(crate) fn would_exceed(&self, cost: f64, tokens: u64) -> bool {
        self.budget_uses().into_iter().any(|BudgetUse { kind, limit, used, .. }| {
            let more = match kind {
                BudgetKind::Cost => cost,
                BudgetKind::Tokens => tokens as f64,
                BudgetKind::Time => return false,
            };
            limit.is_some_and(|limit| used + more >= limit)
        })
    }

    /// Returns all limits with their use: those of the session, then those of the prompt.
    #[expect(clippy::cast_precision_loss, reason = "token counts stay below 2^52")]
    pub fn budget_uses(&self) -> Vec<BudgetUse> {
        let of = |(scope, account): (BudgetScope, BudgetAccount)| {
            let BudgetAccount { limits, spent } = account;
            let entry = |kind, limit, used| BudgetUse { kind, scope, limit, used };
            [
                entry(BudgetKind::Cost, limits.cost, spent.cost),
                entry(
                    BudgetKind::Tokens,
                    limits.tokens.map(|tokens| tokens as f64),
                    spent.tokens as f64,
                ),
                entry(
                    BudgetKind::Time,
                    limits.time.map(|time| time.as_secs_f64()),
                    spent.time.as_secs_f64(),
                ),
            ]
        };
        self.change(|accounts| accounts.current()).into_iter().flat_map(of).collect()
    }

    /// Sets a limit. `None` and values up to 0 remove it.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a positive number; the cast saturates"
    )]
    pub fn set(&self, kind: BudgetKind, scope: BudgetScope, limit: Option<f64>) {
        let limit = limit.filter(|limit| limit.is_finite() && *limit > 0.0);
        self.change(|accounts| {
            let account = match scope {
                BudgetScope::Session => &mut accounts.session,
                BudgetScope::Prompt => &mut accounts.prompt,
            };
            match kind {
                BudgetKind::Cost => account.limits.cost = limit,
                BudgetKind::Tokens => {
                    account.limits.tokens = limit.map(|tokens| (tokens as u64).max(1));
                }
                BudgetKind::Time => {
                    account.limits.time =
                        limit.and_then(|time| Duration::try_from_secs_f64(time).ok());
                    // A limit set by the user overrides one from a file.
                    accounts.turn_limit = None;
                }
            }
            accounts.declined_increase = false;
        });
        self.changed.notify_waiters();
    }

    /// Whether cost is limited.
    pub(crate) fn limits_cost(&self) -> bool {
        self.shared.is_some() || self.change(|accounts| accounts.cost_limits().next().is_some())
    }

    /// Starts a prompt.
    pub(super) fn begin(&self) {
        self.change(|accounts| {
            accounts.prompt.spent = Spending::default();
            accounts.declined_increase = false;
            accounts.turn_limit = None;
        });
        self.start_clock();
    }

    /// Limits the time of the running prompt.
    pub(crate) fn limit_turn(&self, time: Duration) {
        self.change(|accounts| accounts.turn_limit = Some(time));
        self.changed.notify_waiters();
    }

    /// Starts the clock; returns whether it was stopped before.
    pub(super) fn start_clock(&self) -> bool {
        let starts = self.change(|accounts| {
            let starts = accounts.started.is_none();
            accounts.started.get_or_insert_with(Instant::now);
            starts
        });
        self.changed.notify_waiters();
        starts
    }

    /// Runs work that precedes a turn within the session's time limit. Work that takes longer is
    /// dropped.
    ///
    /// # Errors
    /// Returns the exhausted budget if the time limit is reached.
    pub async fn run_within<T>(&self, work: impl Future<Output = T>) -> Result<T, ExhaustedBudget> {
        let is_mine = self.start_clock();
        let done = tokio::select! {
            biased;
            done = work => Ok(done),
            spent = self.wait_for_time_limit() => Err(spent),
        };
        if is_mine {
            self.stop();
        }
        done
    }

    /// Stops the clock.
    pub(super) fn stop(&self) {
        self.change(LedgerState::stop);
    }

    /// Records that the user declined to spend more on this prompt.
    pub(crate) fn decline_increase(&self) {
        self.change(|accounts| accounts.declined_increase = true);
    }

    pub(crate) fn is_declined(&self) -> bool {
        self.change(|accounts| accounts.declined_increase)
    }

    /// Returns how long the turn may still run, and which limit is reached then. `None` while the
    /// clock is stopped.
    pub(super) fn time_left(&self) -> Option<(Duration, ExhaustedBudget)> {
        let turn_limit = self.change(|accounts| accounts.turn_limit);
        let left = |(scope, account): (BudgetScope, BudgetAccount)| {
            let turn_limit = turn_limit.filter(|_| scope == BudgetScope::Prompt);
            let limit = account.limits.time.into_iter().chain(turn_limit).min()?;
            let used = limit.as_secs_f64();
            let spent = ExhaustedBudget { kind: BudgetKind::Time, scope, limit: used, used };
            Some((limit.saturating_sub(account.spent.time), spent))
        };
        let accounts =
            self.change(|accounts| accounts.started.is_some().then(|| accounts.current()))?;
        accounts.into_iter().filter_map(left).min_by_key(|(remaining, _)| *remaining)
    }

    /// Waits until the time of the turn is up.
    pub(super) async fn wait_for_time_limit(&self) -> ExhaustedBudget {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // From here on no change is missed.
            changed.as_mut().enable();
            match self.time_left() {
                Some((left, spent)) if left.is_zero() => return spent,
                Some((left, _)) => {
                    // Either way, the remaining time is looked up again.
                    let _ = tokio::time::timeout(left, changed).await;
                }
                None => changed.await,
            }
        }
    }

    /// Waits until a budget is no longer exhausted.
    pub(crate) async fn wait_for_increase(&self, spent: &ExhaustedBudget) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            let is_spent = |entry: &BudgetUse| {
                (entry.kind, entry.scope) == (spent.kind, spent.scope)
                    && entry.limit.is_some_and(|limit| limit <= spent.limit.max(entry.used))
            };
            if !self.budget_uses().iter().any(is_spent) {
                return;
            }
            changed.await;
        }
    }

    /// Changes this process's part of the shared budget. Blocking.
    ///
    /// # Errors
    /// Returns an error if the shared budget cannot be read or written.
    pub(super) fn update_shared<T>(
        &self,
        budget: &dyn SharedBudget,
        mut change: impl FnMut(&mut LedgerState, &SharedSpending) -> T,
    ) -> std::io::Result<Option<T>> {
        let mut changed = None;
        budget.update(&mut |others| {
            self.change(|state| {
                changed = Some(change(state, others));
                state.process_spending()
            })
        })?;
        Ok(changed)
    }

    pub(super) fn change<T>(&self, change: impl FnOnce(&mut LedgerState) -> T) -> T {
        change(&mut self.accounts.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Returns the time this many milliseconds ago, RFC 3339.
fn time_ago(milliseconds: u64) -> String {
    let now = jiff::Timestamp::now();
    let ago = jiff::SignedDuration::from_millis(i64::try_from(milliseconds).unwrap_or(i64::MAX));
    let time = now.checked_sub(ago).unwrap_or(now);
    time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}
