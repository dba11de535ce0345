//! The budget of a session from flags and settings.

use std::sync::Arc;
use std::time::Duration;

use parallax_engine::{Budget, BudgetLimits, Spending};
use parallax_protocol::budget::{BudgetKind, BudgetScope};
use parallax_protocol::model::Model;
use parallax_protocol::store::{BudgetRecord, Record};
use parallax_sessions::usage_totals::{self, UsageTotals};

use crate::session_config::SessionConfig;

/// Returns the budget of a session with these records. A flag limits this run; settings and
/// limits set during the session limit the whole session.
pub(crate) fn session_budget(
    launch: &SessionConfig,
    records: &[Record],
    model: &dyn Model,
) -> Budget {
    let flags = launch.options.limits;
    let set = limits(launch, "session");
    let session = BudgetLimits {
        cost: flags.cost.or(set.cost),
        tokens: flags.tokens.or(set.tokens),
        time: flags.time.or(set.time),
    };
    let before = recorded_spending(records, model);
    let counted = Spending {
        cost: if flags.cost.is_some() { 0.0 } else { before.cost },
        tokens: if flags.tokens.is_some() { 0 } else { before.tokens },
        time: Duration::ZERO,
    };
    let budget = Budget::new(session, limits(launch, "prompt"), counted).with_earlier_spending(
        before,
        usage_totals::requests(records, |name| model.catalog().price(name)),
    );
    let environment = &launch.config.environment;
    let variable = |name: &str| environment.process_variable(name).map(str::to_owned);
    let budget = match parallax_store::shared_budget(&variable) {
        Some(shared) => budget.with_shared_budget(Arc::new(shared)),
        None => budget,
    };
    let ledger = budget.ledger();
    for record in records {
        let Record::Budget(BudgetRecord { kind, scope, limit, .. }) = record else { continue };
        let by_flag = *scope == BudgetScope::Session
            && match kind {
                BudgetKind::Cost => flags.cost.is_some(),
                BudgetKind::Tokens => flags.tokens.is_some(),
                BudgetKind::Time => flags.time.is_some(),
            };
        if !by_flag {
            ledger.set(*kind, *scope, *limit);
        }
    }
    budget
}

/// Returns the settings `budget.<of>.*`. Missing, zero, and negative values mean no limit.
fn limits(launch: &SessionConfig, of: &str) -> BudgetLimits {
    let settings = &launch.config.settings;
    let number = |key: &str| {
        let number = settings.number(&format!("budget.{of}.{key}"))?;
        (number.is_finite() && number > 0.0).then_some(number)
    };
    BudgetLimits {
        cost: number("maxCost"),
        tokens: settings.count(&format!("budget.{of}.maxTokens")).filter(|tokens| *tokens > 0),
        time: number("timeout").and_then(|time| Duration::try_from_secs_f64(time).ok()),
    }
}

/// Returns what the session has spent: the last recorded sum plus later answers, which a killed
/// process did not add.
fn recorded_spending(records: &[Record], model: &dyn Model) -> Spending {
    let noted = records.iter().enumerate().rev().find_map(|(index, record)| match record {
        Record::Spent(spent) => Some((index + 1, spent)),
        _ => None,
    });
    let (from, cost, tokens) =
        noted.map_or((0, 0.0, 0), |(from, spent)| (from, spent.cost.max(0.0), spent.tokens));
    let since = UsageTotals::from_records(records.get(from..).unwrap_or_default(), |name| {
        model.catalog().price(name)
    });
    Spending {
        cost: cost + since.cost,
        tokens: tokens.saturating_add(since.usage.total),
        time: Duration::ZERO,
    }
}
