//! What a request may cost is reserved before it is sent, so that requests under way cannot exceed
//! a limit together.

use std::time::Duration;

use parallax_protocol::budget::{BudgetKind, BudgetScope, ExhaustedBudget, SharedSpending};
use parallax_protocol::model::{ModelCatalog, Request, Usage};
use parallax_protocol::price::Price;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::ledger::{Ledger, LedgerState};

/// The output in tokens that a request must be able to have; with less, its input would be paid for
/// nothing.
const MIN_OUTPUT: u64 = 1_024;
/// Tolerance for rounding errors in sums of US dollars.
const ROUNDING: f64 = 1e-9;
/// How often a request checks whether other processes have released their reservations.
const POLL: Duration = Duration::from_millis(100);
/// How often a running request renews its reservation. Others count one that is not renewed as
/// spent after a minute.
const RENEWAL: Duration = Duration::from_secs(10);
/// The output in tokens that the fastest common models generate in a second.
const FASTEST_OUTPUT: u64 = 1_000;

/// Returns the most output tokens of a request.
pub(crate) fn max_output(catalog: &dyn ModelCatalog, request: &Request) -> u64 {
    let settings = catalog.generation(request);
    let set = settings.get("maxOutputTokens").and_then(serde_json::Value::as_u64);
    set.filter(|tokens| *tokens > 0).unwrap_or_else(|| catalog.limits(&request.model).output)
}

/// Returns the most output tokens that a model may have generated in this time.
fn output_within(time: Duration) -> u64 {
    time.as_secs().saturating_add(1).saturating_mul(FASTEST_OUTPUT).max(MIN_OUTPUT)
}

/// What a request may cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RequestPrice {
    /// US dollars of the input.
    input: f64,
    /// US dollars per million output tokens.
    output_rate: f64,
    /// The most output tokens.
    max_output: u64,
    /// Whether the request can be sent with a lower output limit.
    is_limitable: bool,
}

impl RequestPrice {
    /// Creates it for an estimated number of prompt tokens, the number of these in the provider's
    /// cache, and the largest output.
    pub(crate) fn new(price: Price, prompt: u64, cached: u64, max_output: u64) -> Self {
        let cached = cached.min(prompt);
        let usage = Usage { prompt, cached, ..Usage::default() };
        let written = Usage { cache_write: prompt - cached, ..usage };
        let million = Usage { prompt, output: 1_000_000, ..Usage::default() };
        let input = |usage| {
            let cost = price.cost(&usage);
            cost.input + cost.cached
        };
        Self {
            input: input(usage).max(input(written)),
            output_rate: price.cost(&million).output,
            max_output,
            is_limitable: true,
        }
    }

    /// Marks the output limit of the request as fixed, because its settings must not change.
    #[must_use]
    pub(crate) fn with_fixed_output(self) -> Self {
        Self { is_limitable: false, ..self }
    }

    #[expect(clippy::cast_precision_loss, reason = "token counts stay below 2^52")]
    fn with_output(&self, tokens: u64) -> f64 {
        self.input + tokens as f64 * self.output_rate / 1e6
    }

    fn maximum_cost(&self) -> f64 {
        self.with_output(self.max_output)
    }

    fn minimum_cost(&self) -> f64 {
        match self.is_limitable {
            true => self.with_output(self.max_output.min(MIN_OUTPUT)),
            false => self.maximum_cost(),
        }
    }

    /// The output that an amount pays for.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative; the cast saturates"
    )]
    fn output_for(&self, amount: f64) -> u64 {
        let tokens = (amount + ROUNDING - self.input).max(0.0) / self.output_rate * 1e6;
        (tokens as u64).min(self.max_output)
    }
}

/// Whether a request may be sent.
#[derive(Debug, Clone, Copy, PartialEq)]
enum SendDecision {
    /// The request may cost this much; the limit is set if it could cost more.
    Send(f64, Option<ExhaustedBudget>),
    /// Not before others have ended.
    Wait,
    /// A limit does not cover it.
    Refuse(ExhaustedBudget),
}

/// A limit, its remainder, and whether running requests may release more of it.
struct RemainingLimit {
    limit: ExhaustedBudget,
    remaining: f64,
    may_grow: bool,
    is_shared: bool,
}

impl LedgerState {
    fn remaining_limits(&self, shared: Option<&SharedSpending>) -> Vec<RemainingLimit> {
        let reserved = self.reservations.total();
        let remainder = |scope, limit: f64, used: f64, reserved: f64| RemainingLimit {
            limit: ExhaustedBudget { kind: BudgetKind::Cost, scope, limit, used },
            remaining: limit - used - reserved,
            may_grow: reserved > 0.0,
            is_shared: false,
        };
        let own =
            self.cost_limits().map(|(scope, limit, used)| remainder(scope, limit, used, reserved));
        let shared = shared.map(|shared| {
            let used = shared.spent + self.shared_spending();
            let reserved = shared.reserved + reserved;
            let remainder = remainder(BudgetScope::Session, shared.limit, used, reserved);
            RemainingLimit { is_shared: true, ..remainder }
        });
        own.chain(shared).collect()
    }

    /// Reserves what a request may cost, if the limits cover it.
    fn reserve(&mut self, price: &RequestPrice, shared: Option<&SharedSpending>) -> SendDecision {
        let (mut amount, mut limited_by) = (price.maximum_cost(), None);
        let remainders = self.remaining_limits(shared);
        // A remainder that cannot grow limits the output; the request waits for one that may grow.
        for fixed in remainders.iter().filter(|remainder| !remainder.may_grow) {
            if fixed.remaining + ROUNDING < amount {
                (amount, limited_by) = (fixed.remaining, Some(fixed));
            }
        }
        if let Some(fixed) = limited_by
            && amount + ROUNDING < price.minimum_cost()
        {
            self.is_refused |= fixed.is_shared;
            return SendDecision::Refuse(fixed.limit);
        }
        let lacks = |remainder: &&RemainingLimit| remainder.remaining + ROUNDING < amount;
        if remainders.iter().any(|remainder| lacks(&remainder)) {
            return SendDecision::Wait;
        }
        self.reservations.add(amount);
        SendDecision::Send(amount, limited_by.map(|fixed| fixed.limit))
    }
}

/// Why a request is not sent.
#[derive(Debug)]
pub(crate) enum ReservationError {
    /// A limit does not cover it.
    Exhausted(ExhaustedBudget),
    /// The budget that is shared with other processes cannot be used; the message says why.
    Unavailable(String),
}

/// What a running request may cost. Release it when the request is counted. If it is dropped
/// before, it counts as spent.
#[derive(Debug)]
pub(crate) struct Reservation {
    ledger: Ledger,
    price: RequestPrice,
    amount: f64,
    limited_by: Option<ExhaustedBudget>,
    reserved_at: Instant,
    /// Shows other processes that this one is alive.
    renewal: Option<JoinHandle<()>>,
}

impl Reservation {
    fn new(
        ledger: Ledger,
        price: RequestPrice,
        amount: f64,
        limited_by: Option<ExhaustedBudget>,
    ) -> Self {
        let renewal = ledger.shared.is_some().then(|| {
            let ledger = ledger.clone();
            tokio::spawn(async move {
                loop {
                    tokio::time::sleep(RENEWAL).await;
                    ledger.publish().await;
                }
            })
        });
        Self { ledger, price, amount, limited_by, reserved_at: Instant::now(), renewal }
    }

    /// Returns the most output tokens, if they are fewer than the request could have, and the
    /// budget that limits them.
    pub(crate) fn output_limit(&self) -> Option<(u64, ExhaustedBudget)> {
        Some((self.price.output_for(self.amount), self.limited_by?))
    }

    /// Whether the budget also covers another request that continues the answer, which has cost
    /// this much so far.
    pub(crate) async fn extend(&mut self, cost: f64) -> bool {
        let more = cost + self.price.maximum_cost() - self.amount;
        let price = RequestPrice { input: more, max_output: 0, ..self.price };
        match self.ledger.try_reserve(price).await {
            Ok((SendDecision::Send(..), unsent)) => {
                unsent.confirm();
                self.amount += more;
                // Both are released as one.
                self.ledger.change(|state| state.reservations.join());
                true
            }
            _ => false,
        }
    }

    /// Releases it when its request is counted. Other processes know the rest of the budget then.
    pub(crate) async fn release(self) {
        self.end(0.0).await;
    }

    /// Releases it when its request was stopped before the model had finished, and is counted with
    /// this cost. The model may have generated more than was received, such as thoughts, which a
    /// shared budget counts as spent.
    pub(crate) async fn release_unfinished(self, counted: f64) {
        let lost = match self.ledger.shared {
            Some(_) => {
                let output = output_within(self.reserved_at.elapsed());
                (self.price.with_output(output).min(self.amount) - counted).max(0.0)
            }
            None => 0.0,
        };
        self.end(lost).await;
    }

    async fn end(mut self, lost: f64) {
        let amount = std::mem::take(&mut self.amount);
        self.ledger.change(|state| {
            state.reservations.remove(amount);
            state.lost += lost;
        });
        self.ledger.changed.notify_waiters();
        self.ledger.publish().await;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(renewal) = &self.renewal {
            renewal.abort();
        }
        if self.amount <= 0.0 {
            return;
        }
        self.ledger.change(|state| {
            state.reservations.remove(self.amount);
            state.lost += self.amount;
        });
        self.ledger.publish_later();
    }
}

/// What was reserved for a request, until that is known to be sent.
struct UnsentReservation {
    ledger: Ledger,
    amount: f64,
}

impl UnsentReservation {
    fn new(ledger: &Ledger, decision: SendDecision) -> Self {
        let amount = if let SendDecision::Send(amount, _) = decision { amount } else { 0.0 };
        Self { ledger: ledger.clone(), amount }
    }

    /// Records that the request was sent.
    fn confirm(mut self) {
        self.amount = 0.0;
    }
}

impl Drop for UnsentReservation {
    fn drop(&mut self) {
        if self.amount > 0.0 {
            self.ledger.change(|state| state.reservations.remove(self.amount));
            self.ledger.publish_later();
        }
    }
}

/// Counts the time while it exists.
struct WaitingGuard(Ledger);

impl WaitingGuard {
    fn new(ledger: &Ledger) -> Self {
        ledger.change(|state| state.waiting.start());
        Self(ledger.clone())
    }
}

impl Drop for WaitingGuard {
    fn drop(&mut self) {
        self.0.change(|state| state.waiting.stop());
    }
}

impl Ledger {
    /// Reserves what a request may cost. While other requests are running, it waits until they
    /// leave enough for the largest output. `None`: nothing limits its cost.
    ///
    /// # Errors
    /// Returns why the request must not be sent.
    pub(crate) async fn reserve(
        &self,
        price: RequestPrice,
    ) -> Result<Option<Reservation>, ReservationError> {
        if !self.limits_cost() || price.maximum_cost() <= 0.0 {
            return Ok(None);
        }
        let mut waiting = None;
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // From here on no change is missed.
            changed.as_mut().enable();
            let (decision, unsent) = self.try_reserve(price).await?;
            match decision {
                SendDecision::Send(amount, limited_by) => {
                    unsent.confirm();
                    return Ok(Some(Reservation::new(self.clone(), price, amount, limited_by)));
                }
                SendDecision::Refuse(limit) => return Err(ReservationError::Exhausted(limit)),
                SendDecision::Wait if self.shared.is_some() => {
                    waiting.get_or_insert_with(|| WaitingGuard::new(self));
                    // Either way, the rest of the budget is looked up again.
                    let _ = tokio::time::timeout(POLL, changed).await;
                }
                SendDecision::Wait => changed.await,
            }
        }
    }

    /// Publishes what this process did with the budget that it shares.
    async fn publish(&self) {
        let Some(shared) = self.shared.clone() else { return };
        let ledger = self.clone();
        let publish = move || {
            if let Err(error) = ledger.update_shared(&*shared, |_, _| ()) {
                tracing::warn!(%error, "failed to write the shared budget");
            }
        };
        // It fails only when the program ends.
        let _ = tokio::task::spawn_blocking(publish).await;
    }

    /// Publishes it without waiting.
    fn publish_later(&self) {
        self.changed.notify_waiters();
        // If the program ends before, others count what it had published.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let ledger = self.clone();
            drop(runtime.spawn(async move { ledger.publish().await }));
        }
    }

    /// Reserves what a request may cost, if the limits cover it. Dropping the second value releases
    /// it.
    async fn try_reserve(
        &self,
        price: RequestPrice,
    ) -> Result<(SendDecision, UnsentReservation), ReservationError> {
        let Some(shared) = self.shared.clone() else {
            let decision = self.change(|state| state.reserve(&price, None));
            return Ok((decision, UnsentReservation::new(self, decision)));
        };
        let ledger = self.clone();
        let reserve = move || {
            let reserved = ledger
                .update_shared(&*shared, |state, others| state.reserve(&price, Some(others)))?;
            Ok(reserved.map(|decision| (decision, UnsentReservation::new(&ledger, decision))))
        };
        let unavailable = |reason: String| {
            ReservationError::Unavailable(format!("cannot read the budget of the batch: {reason}"))
        };
        match tokio::task::spawn_blocking(reserve).await {
            Ok(Ok(Some(reserved))) => Ok(reserved),
            Ok(Ok(None)) => Err(unavailable("it was not changed".to_owned())),
            Ok(Err(error)) => {
                let error: std::io::Error = error;
                Err(unavailable(error.to_string()))
            }
            Err(error) => Err(unavailable(error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use parallax_protocol::budget::{ProcessSpending, SharedBudget};
    use parallax_protocol::event::ModelCall;
    use parallax_protocol::price::{Cost, Rates};

    use super::*;
    use crate::budget::{Budget, BudgetLimits, Spending};

    /// One dollar for a million tokens of input, ten for a million of output.
    const PRICE: Price = Price { short_prompts: Rates::new(1.0, 0.1, 10.0), long_prompts: None };

    fn budget(limit: f64) -> Budget {
        let limits = BudgetLimits { cost: Some(limit), ..BudgetLimits::default() };
        Budget::new(limits, BudgetLimits::default(), Spending::default())
    }

    /// Ten cents of input, and at most forty of output.
    fn request() -> RequestPrice {
        RequestPrice::new(PRICE, 100_000, 0, 40_000)
    }

    fn count(ledger: &Ledger, cost: f64) {
        ledger.count(&ModelCall {
            model: "m".into(),
            role: "main".into(),
            usage: Usage::default(),
            cost: Some(Cost { input: cost, ..Cost::default() }),
            latency_ms: 1,
            request_bytes: 0,
            error: None,
        });
    }

    async fn reserve(ledger: &Ledger, price: RequestPrice) -> Result<Option<Reservation>, String> {
        ledger.reserve(price).await.map_err(|error| match error {
            ReservationError::Exhausted(budget) => budget.to_string(),
            ReservationError::Unavailable(message) => message,
        })
    }

    #[test]
    fn price_of_input_depends_on_the_cache_and_on_writing_to_it() {
        let input = |price, cached| RequestPrice::new(price, 100_000, cached, 0).maximum_cost();
        assert!((input(PRICE, 0) - 0.1).abs() < ROUNDING);
        assert!((input(PRICE, 50_000) - 0.055).abs() < ROUNDING);
        let rates = Rates { cache_write: 2.0, ..PRICE.short_prompts };
        let written = Price { short_prompts: rates, long_prompts: None };
        assert!((input(written, 50_000) - 0.105).abs() < ROUNDING);
    }

    #[tokio::test]
    async fn request_over_the_remaining_budget_is_limited_or_rejected() {
        let budget = budget(1.0);
        let ledger = budget.ledger();
        let whole = reserve(&ledger, request()).await.expect("covered").expect("limited");
        assert_eq!(whole.output_limit(), None);
        count(&ledger, 0.7);
        whole.release().await;
        // Ten cents are left for the input, twenty for the output.
        let part = reserve(&ledger, request()).await.expect("covered").expect("limited");
        let (tokens, budget) = part.output_limit().expect("a limit");
        assert_eq!((tokens, budget.limit), (20_000, 1.0));
        part.release().await;
        let fixed = reserve(&ledger, request().with_fixed_output()).await.expect_err("refused");
        assert!(fixed.contains("may not cover another request ($0.70 used)"), "{fixed}");
        count(&ledger, 0.195);
        assert!(reserve(&ledger, request()).await.is_err(), "only 500 tokens of output are left");
        ledger.set(BudgetKind::Cost, BudgetScope::Session, None);
        assert!(reserve(&ledger, request()).await.expect("no limit").is_none());
    }

    #[tokio::test]
    async fn request_waits_while_reservations_may_be_released() {
        let ledger = budget(0.8).ledger();
        let first = reserve(&ledger, request()).await.expect("covered");
        let waiting = reserve(&ledger, request());
        tokio::pin!(waiting);
        let early = tokio::time::timeout(Duration::from_millis(20), &mut waiting).await;
        assert!(early.is_err(), "thirty cents would be left");
        count(&ledger, 0.2);
        first.expect("limited").release().await;
        let second = waiting.await.expect("covered").expect("limited");
        assert_eq!(second.output_limit(), None);
    }

    #[tokio::test]
    async fn each_request_of_an_answer_is_reserved() {
        let ledger = budget(1.0).ledger();
        let mut answer = reserve(&ledger, request()).await.expect("covered").expect("limited");
        assert!(answer.extend(0.5).await);
        assert!(!answer.extend(1.0).await);
        count(&ledger, 0.3);
        answer.release().await;
        let next = reserve(&ledger, request()).await.expect("covered").expect("limited");
        assert_eq!(next.output_limit(), None, "nothing else is reserved");
    }

    #[tokio::test]
    async fn request_that_is_dropped_without_being_counted_is_spent() {
        let shared = TestBudget::default();
        let budget = budget(1.0).with_shared_budget(Arc::new(shared.clone()));
        let ledger = budget.ledger();
        drop(reserve(&ledger, request()).await.expect("covered").expect("limited"));
        let part = reserve(&ledger, request()).await.expect("covered").expect("limited");
        assert_eq!(part.output_limit(), None, "fifty cents are left");
        part.release().await;
        let own = *shared.own.lock().expect("own");
        assert_eq!((own.spent, own.reserved, own.lost), (0.0, 0.0, 0.5));
    }

    #[tokio::test(start_paused = true)]
    async fn unfinished_request_counts_what_was_not_received_in_a_shared_budget() {
        let shared = TestBudget::default();
        let ledger = budget(1.0).with_shared_budget(Arc::new(shared.clone())).ledger();
        for (seconds, lost) in [(0, 0.01024), (10, 0.11), (60, 0.4)] {
            let before = shared.own.lock().expect("own").lost;
            let unfinished = reserve(&ledger, request()).await.expect("covered").expect("limited");
            tokio::time::advance(Duration::from_secs(seconds)).await;
            unfinished.release_unfinished(0.1).await;
            let own = *shared.own.lock().expect("own");
            assert!((own.lost - before - lost).abs() < ROUNDING, "{seconds} s: {}", own.lost);
            assert!(own.reserved.abs() < ROUNDING);
        }

        let ledger = budget(1.0).ledger();
        let unfinished = reserve(&ledger, request()).await.expect("covered").expect("limited");
        unfinished.release_unfinished(0.1).await;
        assert!(ledger.change(|state| state.lost).abs() < ROUNDING, "it is not shared");
    }

    #[tokio::test]
    async fn request_that_is_not_sent_leaves_no_reservation() {
        let shared = TestBudget::default();
        let ledger = budget(1.0).with_shared_budget(Arc::new(shared.clone())).ledger();
        let (_, unsent) = ledger.try_reserve(request()).await.expect("covered");
        assert!(shared.own.lock().expect("own").reserved > 0.0);
        drop(unsent);
        ledger.publish().await;
        let own = *shared.own.lock().expect("own");
        assert_eq!((own.reserved, own.lost), (0.0, 0.0));
    }

    /// A budget of one dollar, and what the processes have published.
    #[derive(Clone, Default)]
    struct TestBudget {
        other: Arc<Mutex<SharedSpending>>,
        own: Arc<Mutex<ProcessSpending>>,
    }

    impl SharedBudget for TestBudget {
        fn update(
            &self,
            change: &mut dyn FnMut(&SharedSpending) -> ProcessSpending,
        ) -> std::io::Result<()> {
            let others = *self.other.lock().expect("others");
            *self.own.lock().expect("own") = change(&SharedSpending { limit: 1.0, ..others });
            Ok(())
        }
    }

    #[tokio::test]
    async fn budget_waits_for_other_processes_and_then_counts_them() {
        let shared = TestBudget::default();
        let none = BudgetLimits::default();
        let budget = Budget::new(none, none, Spending { cost: 5.0, ..Spending::default() });
        let ledger = budget.with_shared_budget(Arc::new(shared.clone())).ledger();
        assert!(ledger.limits_cost());
        count(&ledger, 0.2);
        shared.other.lock().expect("others").reserved = 0.5;
        let waiting = reserve(&ledger, request());
        tokio::pin!(waiting);
        let early = tokio::time::timeout(Duration::from_millis(20), &mut waiting).await;
        assert!(early.is_err());
        *shared.other.lock().expect("others") =
            SharedSpending { spent: 0.4, ..SharedSpending::default() };
        let limited = waiting.await.expect("covered").expect("limited");
        assert_eq!(limited.output_limit().map(|(tokens, _)| tokens), Some(30_000));
        let own = *shared.own.lock().expect("own");
        assert!((own.spent - 0.2).abs() < ROUNDING && (own.reserved - 0.4).abs() < ROUNDING);
        shared.other.lock().expect("others").spent = 0.79;
        limited.release().await;
        assert!(reserve(&ledger, request()).await.is_err());
        assert!(shared.own.lock().expect("own").is_refused);
    }
}
