//! `/budget`: shows usage and limits, and changes limits.

use parallax_protocol::budget::{BudgetKind, BudgetScope, BudgetUse};
use parallax_protocol::op::Op;
use parallax_screen::Line;
use parallax_sdk::OpenSession;

use crate::app::App;
use crate::app::effect::Effect;

/// `/budget`, `/budget [session|prompt] cost|tokens|time AMOUNT|off`.
pub(crate) fn run(app: &mut App, arguments: &str) {
    if arguments.is_empty() {
        return app
            .run_with_session(OpenSession::budgets, |app, uses: Vec<BudgetUse>| show(app, &uses));
    }
    match LimitChange::read(arguments) {
        Ok(LimitChange { kind, scope, limit }) => {
            app.queue_effect(Effect::Send(Op::SetBudget { kind, scope, limit }));
            let whose = scope_label(scope);
            app.info(match limit {
                Some(limit) => {
                    format!("The budget for {whose} is now {}.", kind.format_amount(limit))
                }
                None => format!("Removed the {} limit for {whose}.", kind.as_str()),
            });
        }
        Err(reason) => app.error(reason),
    }
}

fn show(app: &mut App, uses: &[BudgetUse]) {
    let mut rows = Vec::new();
    for scope in [BudgetScope::Session, BudgetScope::Prompt] {
        rows.push(Line::styled(heading(scope), app.theme.accent.bold()));
        for entry in uses.iter().filter(|entry| entry.scope == scope) {
            let used = entry.kind.format_amount(entry.used);
            let row = Line::styled(format!("  {:<8}", entry.kind.as_str()), app.theme.secondary);
            rows.push(match entry.limit {
                Some(limit) => {
                    let style = match entry.used {
                        used if used >= limit => app.theme.error,
                        used if used >= limit * 0.8 => app.theme.warning,
                        _ => app.theme.text,
                    };
                    row.with_span(format!("{used} of {}", entry.kind.format_amount(limit)), style)
                }
                None => {
                    row.with_span(used, app.theme.text).with_span("  no limit", app.theme.secondary)
                }
            });
        }
    }
    let hint = "`/budget cost 2`, `/budget tokens 500k`, `/budget prompt time 10m`, `/budget \
                cost off`: for this session, including when it is resumed. The `budget.…` \
                settings apply to all sessions.";
    rows.push(Line::styled(hint, app.theme.secondary));
    app.show_wrapped_rows(rows);
}

/// A change to a limit.
#[derive(Debug, PartialEq)]
struct LimitChange {
    kind: BudgetKind,
    scope: BudgetScope,
    limit: Option<f64>,
}

impl LimitChange {
    fn read(arguments: &str) -> Result<Self, String> {
        let how = "`/budget [prompt] cost|tokens|time AMOUNT|off`";
        let mut words = arguments.split_whitespace().peekable();
        let scope = match words.peek() {
            Some(&"prompt") => BudgetScope::Prompt,
            _ => BudgetScope::Session,
        };
        words.next_if(|word| matches!(*word, "prompt" | "session"));
        let word = words.next().unwrap_or_default();
        let Some(kind) = BudgetKind::parse(word) else {
            return Err(format!("Unknown budget `{word}`: use {how}."));
        };
        let amount = words.collect::<Vec<_>>().join(" ");
        let limit = match amount.as_str() {
            "off" | "none" => None,
            "" => return Err(format!("No amount given: use {how}.")),
            typed => match kind.parse_amount(typed) {
                Some(limit) => Some(limit),
                None => {
                    return Err(format!(
                        "Invalid amount of {} `{typed}`: use {how}.",
                        kind.as_str()
                    ));
                }
            },
        };
        Ok(Self { kind, scope, limit })
    }
}

fn heading(scope: BudgetScope) -> &'static str {
    match scope {
        BudgetScope::Session => "This session",
        BudgetScope::Prompt => "Per prompt (usage of the current prompt)",
    }
}

fn scope_label(scope: BudgetScope) -> &'static str {
    match scope {
        BudgetScope::Session => "this session",
        BudgetScope::Prompt => "each prompt",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_arguments_are_parsed_or_explained() {
        let order = |kind, scope, limit| Ok(LimitChange { kind, scope, limit });
        let (session, prompt) = (BudgetScope::Session, BudgetScope::Prompt);
        assert_eq!(LimitChange::read("cost $2"), order(BudgetKind::Cost, session, Some(2.0)));
        assert_eq!(
            LimitChange::read("session tokens 5k"),
            order(BudgetKind::Tokens, session, Some(5e3))
        );
        assert_eq!(LimitChange::read("prompt time off"), order(BudgetKind::Time, prompt, None));
        for invalid in ["", "cost", "prompt", "cost much", "cost -1", "money 3"] {
            assert!(
                LimitChange::read(invalid).is_err_and(|reason| reason.contains("/budget")),
                "{invalid}"
            );
        }
    }
}
