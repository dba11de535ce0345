//! A spent budget where a person is there: may the turn spend more?

use parallax_protocol::CancellationToken;
use parallax_protocol::budget::{BudgetKind, BudgetScope, BudgetSpent};
use parallax_protocol::content::Role;
use parallax_protocol::event::{Ask, EndReason, EventBody, Level, Question};
use parallax_protocol::ids::AskId;
use parallax_protocol::op::AskOutcome;
use parallax_protocol::policy::{Decision, Verdict};
use parallax_protocol::store::BudgetRecord;
use parallax_protocol::tool::Preview;

use crate::history::now;
use crate::inbox::Beginning;
use crate::session::Session;
use crate::turn::{INTERRUPTED, TIMED_OUT};

/// Stands for a person's word where the time was over in the middle of an answer.
const GO_ON: &str = "[The time for this turn was over and is raised: go on where you were.]";

impl Session {
    /// Runs a turn; when its time is over and a person gives it more, it goes on.
    pub(crate) async fn run_in_time(
        &mut self,
        mut beginning: Beginning,
        mut cancel: CancellationToken,
    ) -> EndReason {
        self.budget.begin();
        self.hold_to_wished_time();
        loop {
            let timer = self.start_timer(&cancel);
            let reason = self.run_turn(beginning, &cancel).await;
            drop(timer);
            self.budget.stop();
            let spent = match (reason, self.timed_out.get()) {
                (EndReason::Cancelled, Some(spent)) => *spent,
                (reason, _) => return reason,
            };
            if !self.may_go_on_later() {
                return EndReason::Budget(spent);
            }
            // The turn's token is used up.
            cancel = CancellationToken::new();
            if self.inbox.shutdown {
                cancel.cancel();
            }
            self.inbox.turn = Some(cancel.clone());
            match self.is_raised(spent, &cancel).await {
                Ok(true) => {}
                Ok(false) => {
                    self.settle(TIMED_OUT);
                    return EndReason::Budget(spent);
                }
                Err(reason) => {
                    self.settle(INTERRUPTED);
                    return reason;
                }
            }
            if self.history.last_role() == Some(Role::Model) && self.open_calls().is_empty() {
                self.history.push_note(GO_ON);
            }
            self.budget.go_on();
            beginning = Beginning::CutOff;
        }
    }

    /// What is settled when a turn is cut off; a person who is asked for more
    /// time may have it gone on with.
    pub(crate) fn settle_cut_off(&mut self) {
        match self.timed_out.get() {
            // Where the program ends, the next one may go on with it.
            None if self.inbox.shutdown => {}
            Some(_) if self.may_go_on_later() => {}
            Some(_) => self.settle(TIMED_OUT),
            None => self.settle(INTERRUPTED),
        }
    }

    /// Whether a turn whose time is over may go on.
    fn may_go_on_later(&self) -> bool {
        self.budget.asks && self.role.is_none()
    }

    /// Asks whether more may be spent, where somebody can answer, and raises the
    /// budget.
    ///
    /// # Errors
    /// When the turn is interrupted meanwhile.
    pub(crate) async fn is_raised(
        &mut self,
        spent: BudgetSpent,
        cancel: &CancellationToken,
    ) -> Result<bool, EndReason> {
        let ledger = self.budget.ledger();
        if !self.budget.asks || ledger.is_refused() {
            return Ok(false);
        }
        // Nobody is charged for the time in which a person thinks. What a
        // sub-agent asks stops the session's time all the same.
        self.budget.stop();
        let ask = self.budget_question(spent);
        let id = ask.id.clone();
        let decided = tokio::select! {
            biased;
            decided = self.put_question(ask, cancel) => Some(decided?),
            // Raised with `/budget`, or by the answer to another agent's question.
            () = ledger.raised(&spent) => None,
        };
        let Some(decide) = decided else {
            self.hub.send(EventBody::AskClosed { ask: id, outcome: None });
            self.budget.go_on();
            return Ok(true);
        };
        if decide.outcome != AskOutcome::ProceedOnce {
            ledger.refuse();
            return Ok(false);
        }
        let more = decide.more.filter(|more| more.is_finite() && *more > 0.0);
        let limit = spent.used.max(spent.limit) + more.unwrap_or(spent.limit);
        ledger.set(spent.kind, spent.scope, Some(limit));
        let (kind, scope) = (spent.kind, spent.scope);
        let record = BudgetRecord { time: now(), kind, scope, limit: Some(limit) };
        self.inbox.set_budgets.push(record);
        let (whose, limit) = (whose(spent.scope), spent.amount(limit));
        self.inbox.notice(Level::Info, format!("the budget of {whose} is {limit} now"));
        self.budget.go_on();
        Ok(true)
    }

    fn budget_question(&mut self, spent: BudgetSpent) -> Ask {
        self.asks += 1;
        let (used, limit) = (spent.amount(spent.used), spent.amount(spent.limit));
        let whose = whose(spent.scope);
        let title = match spent.kind {
            BudgetKind::Time => format!("the time of {whose}, {limit}, is over"),
            _ => format!("{used} are spent of the budget of {whose}, {limit}"),
        };
        let why = format!("{} or `/budget` sets it", spent.where_set());
        let ask = Ask::of_session(
            AskId::new(format!("ask-budget-{}", self.asks)),
            "budget",
            title,
            Verdict::new(Decision::Ask, "budget", why),
            Question::Budget,
            vec![AskOutcome::ProceedOnce, AskOutcome::Cancel],
        );
        Ask { preview: Some(Preview::Budget(spent)), ..ask }
    }
}

fn whose(scope: BudgetScope) -> &'static str {
    match scope {
        BudgetScope::Session => "this session",
        BudgetScope::Prompt => "this prompt",
    }
}
