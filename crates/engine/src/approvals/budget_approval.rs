//! Checks the budget before a request, and asks the user to raise an exhausted one.

use parallax_protocol::CancellationToken;
use parallax_protocol::budget::{BudgetKind, BudgetScope, ExhaustedBudget};
use parallax_protocol::event::{ApprovalRequest, EndReason, Failure, FailureKind, Level, Question};
use parallax_protocol::op::ApprovalResponse;
use parallax_protocol::policy::{Decision, PolicyDecision};
use parallax_protocol::price::Price;
use parallax_protocol::store::BudgetRecord;
use parallax_protocol::tool::Preview;

use super::user_requests::UserRequests;
use crate::budget::Budget;
use crate::history::now;

/// Checks that another request may be sent to a model, whose price may be unknown. Asks the user to
/// increase an exhausted budget if possible.
///
/// # Errors
/// Returns the end reason if a budget is exhausted, a cost budget cannot be enforced because the
/// price is unknown, or the turn is interrupted.
pub(crate) async fn check_budget(
    budget: &mut Budget,
    (model, price): (&str, Option<Price>),
    users: &mut UserRequests<'_>,
    cancel: &CancellationToken,
) -> Result<(), EndReason> {
    while let Some(spent) = budget.exceeded_limit() {
        if !request_increase(budget, spent, users, cancel).await? {
            return Err(EndReason::Budget(spent));
        }
    }
    if budget.ledger().limits_cost() && price.is_none() {
        return Err(EndReason::Failed(Failure {
            kind: FailureKind::Config,
            message: format!(
                "cannot enforce the cost budget: the price of `{model}` is unknown. Set \
                    `modelConfigs.prices`, or limit tokens with `--max-tokens`"
            ),
            status: None,
        }));
    }
    if let Some(spent) = budget.approaching_limit() {
        let (used, limit) = (spent.format_amount(spent.used), spent.format_amount(spent.limit));
        let text = format!("{used} of the budget of {limit} have been used");
        users.inbox.notice(Level::Warning, text);
    }
    Ok(())
}

/// Asks the user to increase a budget, if a user is present.
///
/// # Errors
/// Returns the end reason if the turn is interrupted while the user decides.
pub(crate) async fn request_increase(
    budget: &Budget,
    spent: ExhaustedBudget,
    users: &mut UserRequests<'_>,
    cancel: &CancellationToken,
) -> Result<bool, EndReason> {
    let ledger = budget.ledger();
    if !budget.can_ask_user() || ledger.is_declined() {
        return Ok(false);
    }
    // The time in which the user decides does not count, even when a subagent asks.
    budget.pause_clock();
    let ask = increase_request(spent, users);
    let id = ask.id.clone();
    let decided = tokio::select! {
        biased;
        decided = users.request_decision(ask, cancel) => Some(decided?),
        // Raised with `/budget`, or by the response to another agent's request.
        () = ledger.wait_for_increase(&spent) => None,
    };
    let Some(decide) = decided else {
        users.close(id, None);
        budget.resume_clock();
        return Ok(true);
    };
    if decide.outcome != ApprovalResponse::ProceedOnce {
        ledger.decline_increase();
        return Ok(false);
    }
    let more = decide.increase.filter(|more| more.is_finite() && *more > 0.0);
    let limit = spent.used.max(spent.limit) + more.unwrap_or(spent.limit);
    ledger.set(spent.kind, spent.scope, Some(limit));
    let (kind, scope) = (spent.kind, spent.scope);
    let record = BudgetRecord { time: now(), kind, scope, limit: Some(limit) };
    users.inbox.add_set_limit(record);
    let (scope_name, limit) = (scope_name(spent.scope), spent.format_amount(limit));
    users.inbox.notice(Level::Info, format!("The budget of {scope_name} is now {limit}"));
    budget.resume_clock();
    Ok(true)
}

fn increase_request(spent: ExhaustedBudget, users: &mut UserRequests<'_>) -> ApprovalRequest {
    let (used, limit) = (spent.format_amount(spent.used), spent.format_amount(spent.limit));
    let scope_name = scope_name(spent.scope);
    let title = match spent.kind {
        BudgetKind::Time => format!("The time limit of {scope_name} ({limit}) was reached"),
        _ => format!("{used} of the budget of {scope_name} ({limit}) have been used"),
    };
    let reason = format!("set it with {} or `/budget`", spent.setting_name());
    let ask = ApprovalRequest::for_session(
        users.next_id("budget"),
        "budget",
        title,
        PolicyDecision::new(Decision::Ask, "budget", reason),
        Question::Budget,
        vec![ApprovalResponse::ProceedOnce, ApprovalResponse::Cancel],
    );
    ApprovalRequest { preview: Some(Preview::Budget(spent)), ..ask }
}

fn scope_name(scope: BudgetScope) -> &'static str {
    match scope {
        BudgetScope::Session => "this session",
        BudgetScope::Prompt => "this prompt",
    }
}
