//! Asks the user to raise a spent budget.

use parallax_protocol::CancellationToken;
use parallax_protocol::budget::{BudgetKind, BudgetScope, BudgetSpent};
use parallax_protocol::content::Role;
use parallax_protocol::event::{Ask, EndReason, EventBody, Level, Question};
use parallax_protocol::ids::AskId;
use parallax_protocol::op::AskOutcome;
use parallax_protocol::policy::{Decision, Verdict};
use parallax_protocol::store::BudgetRecord;
use parallax_protocol::tool::Preview;

use crate::approval::ApprovalState;
use crate::history::now;
use crate::inbox::TurnInput;
use crate::session::Session;
use crate::turn::{INTERRUPTED, TIMED_OUT};

/// Replaces the user's message when the time was up in the middle of a response.
const GO_ON: &str = "[The time limit of this turn was raised. Continue where you were.]";

impl Session {
    /// Runs a turn; when its time is up and the user extends it, the turn continues.
    pub(crate) async fn run_with_time_limit(
        &mut self,
        mut beginning: TurnInput,
        mut cancel: CancellationToken,
    ) -> EndReason {
        self.budget.start_turn();
        self.apply_time_limit();
        loop {
            let timer = self.start_timer(&cancel);
            let reason = self.run_turn(beginning, &cancel).await;
            drop(timer);
            self.budget.pause_clock();
            let spent = match (reason, self.current.timed_out.get()) {
                (EndReason::Cancelled, Some(spent)) => *spent,
                (reason, _) => return reason,
            };
            if !self.can_extend_time() {
                return EndReason::Budget(spent);
            }
            // The turn's token is already cancelled.
            cancel = CancellationToken::new();
            if self.inbox.shutdown {
                cancel.cancel();
            }
            self.inbox.turn = Some(cancel.clone());
            match self.request_increase(spent, &cancel).await {
                Ok(true) => {}
                Ok(false) => {
                    self.conversation.close_open_calls(TIMED_OUT);
                    return EndReason::Budget(spent);
                }
                Err(reason) => {
                    self.conversation.close_open_calls(INTERRUPTED);
                    return reason;
                }
            }
            if self.conversation.history.last_role() == Some(Role::Model)
                && self.conversation.open_calls().is_empty()
            {
                self.conversation.history.push_note(GO_ON);
            }
            self.budget.resume_clock();
            beginning = TurnInput::Continue;
        }
    }

    /// Closes the history of an interrupted turn, unless the turn may be continued.
    pub(crate) fn close_interrupted_turn(&mut self) {
        match self.current.timed_out.get() {
            // If the program ends, the next process can resume the turn.
            None if self.inbox.shutdown => {}
            Some(_) if self.can_extend_time() => {}
            Some(_) => self.conversation.close_open_calls(TIMED_OUT),
            None => self.conversation.close_open_calls(INTERRUPTED),
        }
    }

    /// Whether a turn whose time is up may continue.
    fn can_extend_time(&self) -> bool {
        self.budget.asks && self.agents.role.is_none()
    }

    /// Asks the user to increase a budget, if a user is present.
    ///
    /// # Errors
    /// Returns the end reason if the turn is interrupted while the user decides.
    pub(crate) async fn request_increase(
        &mut self,
        spent: BudgetSpent,
        cancel: &CancellationToken,
    ) -> Result<bool, EndReason> {
        let ledger = self.budget.ledger();
        if !self.budget.asks || ledger.is_declined() {
            return Ok(false);
        }
        // The time in which the user decides does not count, even when a subagent asks.
        self.budget.pause_clock();
        let ask = self.approval.increase_request(spent);
        let id = ask.id.clone();
        let decided = tokio::select! {
            biased;
            decided = self.request_decision(ask, cancel) => Some(decided?),
            // Raised with `/budget`, or by the response to another agent's request.
            () = ledger.raised(&spent) => None,
        };
        let Some(decide) = decided else {
            self.hub.send(EventBody::AskClosed { ask: id, outcome: None });
            self.budget.resume_clock();
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
        let (scope_name, limit) = (scope_name(spent.scope), spent.amount(limit));
        self.inbox.notice(Level::Info, format!("The budget of {scope_name} is now {limit}"));
        self.budget.resume_clock();
        Ok(true)
    }
}

impl ApprovalState {
    pub(crate) fn increase_request(&mut self, spent: BudgetSpent) -> Ask {
        self.asks += 1;
        let (used, limit) = (spent.amount(spent.used), spent.amount(spent.limit));
        let scope_name = scope_name(spent.scope);
        let title = match spent.kind {
            BudgetKind::Time => format!("The time limit of {scope_name} ({limit}) is reached"),
            _ => format!("{used} of the budget of {scope_name} ({limit}) are used"),
        };
        let why = format!("set it with {} or `/budget`", spent.where_set());
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

fn scope_name(scope: BudgetScope) -> &'static str {
    match scope {
        BudgetScope::Session => "this session",
        BudgetScope::Prompt => "this prompt",
    }
}
