//! Budgets of a session: cost, tokens, and time.

use serde::{Deserialize, Serialize};

/// A budget that is used up.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "BudgetSpent")]
pub struct ExhaustedBudget {
    /// What is limited.
    pub kind: BudgetKind,
    /// What the budget applies to.
    pub scope: BudgetScope,
    /// The limit in US dollars, tokens, or seconds.
    pub limit: f64,
    /// The amount used, in the same unit.
    pub used: f64,
}

impl ExhaustedBudget {
    /// Formats an amount in the unit of this budget (`$0.50`, `20000 tokens`, `90 s`).
    pub fn format_amount(&self, amount: f64) -> String {
        self.kind.format_amount(amount)
    }

    /// Returns the flag and the setting that configure this budget.
    pub fn setting_name(&self) -> &'static str {
        use BudgetKind::{Cost, Time, Tokens};
        match (self.scope, self.kind) {
            (BudgetScope::Session, Cost) => "`--max-cost` or `budget.session.maxCost`",
            (BudgetScope::Session, Tokens) => "`--max-tokens` or `budget.session.maxTokens`",
            (BudgetScope::Session, Time) => "`--timeout` or `budget.session.timeout`",
            (BudgetScope::Prompt, Cost) => "`budget.prompt.maxCost`",
            (BudgetScope::Prompt, Tokens) => "`budget.prompt.maxTokens`",
            (BudgetScope::Prompt, Time) => "`budget.prompt.timeout`, or the command's `timeout`",
        }
    }
}

impl std::fmt::Display for ExhaustedBudget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let whose = match self.scope {
            BudgetScope::Session => "this session",
            BudgetScope::Prompt => "one prompt",
        };
        let (limit, used) = (self.format_amount(self.limit), self.format_amount(self.used));
        if self.used < self.limit {
            write!(
                f,
                "the budget of {whose} ({limit}) may not cover another request ({used} used)"
            )?;
        } else {
            write!(f, "the budget of {whose} ({limit}) is used up")?;
        }
        if self.used > self.limit {
            write!(f, " ({used})")?;
        }
        write!(f, "; completed work is kept. Raise {} to continue", self.setting_name())
    }
}

/// A budget and the amount used.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BudgetUse {
    /// What is limited.
    pub kind: BudgetKind,
    /// What the budget applies to.
    pub scope: BudgetScope,
    /// The limit; `None`: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
    /// The amount used.
    pub used: f64,
}

/// The quantity that a budget limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BudgetKind {
    /// Money, in US dollars.
    Cost,
    /// Tokens sent and received.
    Tokens,
    /// The duration of turns, in seconds.
    Time,
}

impl BudgetKind {
    /// Returns the name as the user types it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cost => "cost",
            Self::Tokens => "tokens",
            Self::Time => "time",
        }
    }

    /// Parses a name.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Cost, Self::Tokens, Self::Time].into_iter().find(|kind| kind.as_str() == word)
    }

    /// Formats an amount (`$0.50`, `20000 tokens`, `90 s`).
    pub fn format_amount(self, amount: f64) -> String {
        match self {
            Self::Cost if amount == 0.0 => "$0.00".to_owned(),
            Self::Cost if amount < 0.1 => format!("${amount:.4}"),
            Self::Cost => format!("${amount:.2}"),
            Self::Tokens => format!("{amount:.0} tokens"),
            Self::Time => format!("{amount:.0} s"),
        }
    }

    /// Parses an amount as the user types it: `$2`, `0.5`; `50000`, `50k`, `2M`; `90`, `90s`,
    /// `10m`, `1h`. `None` if it is invalid or not positive.
    pub fn parse_amount(self, input: &str) -> Option<f64> {
        let typed = input.trim().to_ascii_lowercase();
        let (number, unit) = match self {
            Self::Cost => (typed.trim_start_matches('$').trim_end_matches("usd"), 1.0),
            Self::Tokens => {
                let typed = typed.trim_end_matches("tokens").trim_end();
                split_unit(typed, &[("k", 1e3), ("m", 1e6)])
            }
            Self::Time => split_unit(&typed, &[("s", 1.0), ("m", 60.0), ("h", 3600.0)]),
        };
        let number: f64 = number.trim().replace('_', "").parse().ok()?;
        let amount = number * unit;
        (amount.is_finite() && amount > 0.0 && amount < 1e15).then_some(amount)
    }
}

fn split_unit<'a>(typed: &'a str, units: &[(&str, f64)]) -> (&'a str, f64) {
    let found = units.iter().find_map(|(name, unit)| Some((typed.strip_suffix(name)?, *unit)));
    found.unwrap_or((typed, 1.0))
}

/// What a budget applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BudgetScope {
    /// The whole session.
    Session,
    /// One prompt.
    Prompt,
}

/// What other processes did with a cost budget that this process shares with them, in US dollars.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SharedSpending {
    /// The limit for all processes.
    pub limit: f64,
    /// What was spent, without this process.
    pub spent: f64,
    /// What running requests of other processes may cost.
    pub reserved: f64,
}

/// What a process did with a cost budget that it shares with others, in US dollars.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ProcessSpending {
    /// What it has spent since it began.
    pub spent: f64,
    /// What its running requests may cost.
    pub reserved: f64,
    /// What requests may have cost that were dropped without being counted.
    pub lost: f64,
    /// How long it has waited until requests of others ended, in seconds.
    pub waited: f64,
    /// Whether it does not send a request because the budget does not cover it.
    pub is_refused: bool,
}

/// A cost budget that several processes share.
pub trait SharedBudget: Send + Sync {
    /// Replaces what this process has spent and reserved; no other process changes the budget
    /// meanwhile. Blocking.
    ///
    /// # Errors
    /// Returns an error if the budget cannot be read or written.
    fn update(
        &self,
        change: &mut dyn FnMut(&SharedSpending) -> ProcessSpending,
    ) -> std::io::Result<()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_amounts_are_parsed_in_common_forms() {
        for (kind, typed, want) in [
            (BudgetKind::Cost, "$2", Some(2.0)),
            (BudgetKind::Cost, " 0.50 ", Some(0.5)),
            (BudgetKind::Cost, "2 USD", Some(2.0)),
            (BudgetKind::Cost, "-1", None),
            (BudgetKind::Cost, "nan", None),
            (BudgetKind::Cost, "inf", None),
            (BudgetKind::Tokens, "50k", Some(50_000.0)),
            (BudgetKind::Tokens, "1_000 tokens", Some(1000.0)),
            (BudgetKind::Tokens, "2M", Some(2e6)),
            (BudgetKind::Time, "90", Some(90.0)),
            (BudgetKind::Time, "10m", Some(600.0)),
            (BudgetKind::Time, "1.5h", Some(5400.0)),
            (BudgetKind::Time, "soon", None),
            (BudgetKind::Time, "", None),
        ] {
            assert_eq!(kind.parse_amount(typed), want, "{typed}");
        }
    }
}
