//! What may be spent and what is, from wherever it is: shared by all that ask a
//! model on behalf of a session, and by the face that raises a limit.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use parallax_protocol::budget::{BudgetKind, BudgetScope, BudgetSpent, BudgetUse};
use parallax_protocol::event::ModelCall;
use parallax_protocol::requests::{self, Requests};
use tokio::sync::Notify;

use super::{BudgetLimits, Spent};
use crate::meter::guessed_tokens;

/// The limits for something and what is spent of them.
#[derive(Debug, Default, Clone, Copy)]
struct Account {
    limits: BudgetLimits,
    spent: Spent,
}

#[derive(Debug, Default)]
struct Accounts {
    session: Account,
    prompt: Account,
    /// Money and tokens of the whole session, whatever the limits count from.
    total: Spent,
    /// The requests of the whole session.
    requests: Vec<Requests>,
    /// When the running turn began, or went on.
    begun: Option<Instant>,
    /// A person wants no more spent on this prompt.
    refused: bool,
    /// How long this prompt may take, by its own wish.
    wished: Option<Duration>,
}

impl Accounts {
    /// Both accounts, the time of the running turn in them.
    fn now(&self) -> [(BudgetScope, Account); 2] {
        let running = self.begun.map_or(Duration::ZERO, |begun| begun.elapsed());
        [(BudgetScope::Session, self.session), (BudgetScope::Prompt, self.prompt)].map(
            |(scope, mut account)| {
                account.spent.time += running;
                (scope, account)
            },
        )
    }

    fn stop(&mut self) {
        let Some(begun) = self.begun.take() else { return };
        for account in [&mut self.session, &mut self.prompt] {
            account.spent.time += begun.elapsed();
        }
    }
}

/// Counts what is spent, and holds what may be.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    accounts: Arc<Mutex<Accounts>>,
    changed: Arc<Notify>,
}

impl Ledger {
    pub(super) fn new(session: BudgetLimits, prompt: BudgetLimits, spent: Spent) -> Self {
        let ledger = Self::default();
        ledger.change(|accounts| {
            accounts.session = Account { limits: session, spent };
            accounts.prompt.limits = prompt;
            accounts.total = spent;
        });
        ledger
    }

    pub(super) fn set_total(&self, total: Spent, requests: Vec<Requests>) {
        self.change(|accounts| (accounts.total, accounts.requests) = (total, requests));
    }

    /// The requests of the session in all its processes, by model and purpose.
    pub(super) fn requests(&self) -> Vec<Requests> {
        self.change(|accounts| accounts.requests.clone())
    }

    /// What the session has spent in all its processes; no time.
    pub(super) fn total(&self) -> Spent {
        self.change(|accounts| accounts.total)
    }

    /// Counts a request.
    pub fn count(&self, call: &ModelCall) {
        let cost = call.cost.map_or(0.0, |cost| cost.total());
        // Some services leave the sum out.
        let usage = &call.usage;
        let sum = usage.prompt_token_count
            + usage.candidates_token_count
            + usage.thoughts_token_count
            + usage.tool_use_prompt_token_count;
        let tokens = match usage.total_token_count.max(sum) {
            // And some all of it.
            0 if call.error.is_none() => guessed_tokens(call.request_bytes),
            tokens => tokens,
        };
        self.change(|accounts| {
            let Accounts { session, prompt, total, requests, .. } = accounts;
            requests::add(requests, Requests::from(call));
            for spent in [&mut session.spent, &mut prompt.spent, total] {
                spent.cost += cost;
                spent.tokens = spent.tokens.saturating_add(tokens);
            }
        });
    }

    /// What the session has spent so far.
    pub fn session(&self) -> Spent {
        self.change(|accounts| accounts.session.spent)
    }

    /// All budgets and what is used of them: those of the session, then those of
    /// a prompt.
    #[expect(clippy::cast_precision_loss, reason = "nobody spends 2^52 tokens")]
    pub fn uses(&self) -> Vec<BudgetUse> {
        let of = |(scope, account): (BudgetScope, Account)| {
            let Account { limits, spent } = account;
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
        self.change(|accounts| accounts.now()).into_iter().flat_map(of).collect()
    }

    /// Sets a limit; `None`, nothing and less: there is none.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a number above nothing; larger than any count is no limit"
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
                    // A person's word counts more than a file's.
                    accounts.wished = None;
                }
            }
            accounts.refused = false;
        });
        self.changed.notify_waiters();
    }

    /// Whether money is limited.
    pub(super) fn limits_cost(&self) -> bool {
        self.change(|accounts| {
            accounts.session.limits.cost.or(accounts.prompt.limits.cost).is_some()
        })
    }

    /// A prompt begins.
    pub(super) fn begin(&self) {
        self.change(|accounts| {
            accounts.prompt.spent = Spent::default();
            accounts.refused = false;
            accounts.wished = None;
        });
        self.go();
    }

    /// The prompt that runs may take no longer than this.
    pub(crate) fn hold_to(&self, time: Duration) {
        self.change(|accounts| accounts.wished = Some(time));
        self.changed.notify_waiters();
    }

    /// The time of the turn runs; whether it did not before.
    pub(super) fn go(&self) -> bool {
        let begins = self.change(|accounts| {
            let begins = accounts.begun.is_none();
            accounts.begun.get_or_insert_with(Instant::now);
            begins
        });
        self.changed.notify_waiters();
        begins
    }

    /// Does what a prompt needs before its turn begins, in the time that the
    /// session has for both. Work that takes longer is dropped.
    ///
    /// # Errors
    /// The time is over.
    pub async fn in_time<T>(&self, work: impl Future<Output = T>) -> Result<T, BudgetSpent> {
        let is_mine = self.go();
        let done = tokio::select! {
            biased;
            done = work => Ok(done),
            spent = self.time_is_up() => Err(spent),
        };
        if is_mine {
            self.stop();
        }
        done
    }

    /// The time of the turn stands still.
    pub(super) fn stop(&self) {
        self.change(Accounts::stop);
    }

    /// A person wants no more spent on this prompt.
    pub(super) fn refuse(&self) {
        self.change(|accounts| accounts.refused = true);
    }

    pub(super) fn is_refused(&self) -> bool {
        self.change(|accounts| accounts.refused)
    }

    /// How long the turn may run on, and what is spent then. While no time runs
    /// there is no end of it.
    pub(super) fn time_left(&self) -> Option<(Duration, BudgetSpent)> {
        let wished = self.change(|accounts| accounts.wished);
        let left = |(scope, account): (BudgetScope, Account)| {
            let wished = wished.filter(|_| scope == BudgetScope::Prompt);
            let limit = account.limits.time.into_iter().chain(wished).min()?;
            let used = limit.as_secs_f64();
            let spent = BudgetSpent { kind: BudgetKind::Time, scope, limit: used, used };
            Some((limit.saturating_sub(account.spent.time), spent))
        };
        let accounts = self.change(|accounts| accounts.begun.is_some().then(|| accounts.now()))?;
        accounts.into_iter().filter_map(left).min_by_key(|(left, _)| *left)
    }

    /// Waits until the time of the turn is over.
    pub(super) async fn time_is_up(&self) -> BudgetSpent {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // From here on no change is missed.
            changed.as_mut().enable();
            match self.time_left() {
                Some((left, spent)) if left.is_zero() => return spent,
                Some((left, _)) => {
                    // Whichever comes first, what is left is looked up again.
                    let _ = tokio::time::timeout(left, changed).await;
                }
                None => changed.await,
            }
        }
    }

    /// Waits until a budget is no longer spent.
    pub(super) async fn raised(&self, spent: &BudgetSpent) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            let is_spent = |entry: &BudgetUse| {
                (entry.kind, entry.scope) == (spent.kind, spent.scope)
                    && entry.limit.is_some_and(|limit| entry.used >= limit)
            };
            if !self.uses().iter().any(is_spent) {
                return;
            }
            changed.await;
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut Accounts) -> T) -> T {
        change(&mut self.accounts.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
