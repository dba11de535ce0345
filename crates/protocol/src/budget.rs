//! What a session may spend: money, tokens, time.

use serde::{Deserialize, Serialize};

/// A budget that is spent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct BudgetSpent {
    /// What.
    pub kind: BudgetKind,
    /// Whose.
    pub scope: BudgetScope,
    /// How much there was: US dollars, tokens, or seconds.
    pub limit: f64,
    /// How much is used, in the same.
    pub used: f64,
}

impl BudgetSpent {
    /// An amount of it in words (`$0.50`, `20000 tokens`, `90 s`).
    pub fn amount(&self, amount: f64) -> String {
        self.kind.words(amount)
    }

    /// The flag and the setting that set it.
    pub fn where_set(&self) -> &'static str {
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

impl std::fmt::Display for BudgetSpent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let whose = match self.scope {
            BudgetScope::Session => "this session",
            BudgetScope::Prompt => "a prompt",
        };
        let (limit, used) = (self.amount(self.limit), self.amount(self.used));
        write!(f, "the budget of {whose}, {limit}, is spent")?;
        if self.used > self.limit {
            write!(f, " ({used})")?;
        }
        write!(f, "; what was done is kept. Raise {} to go on", self.where_set())
    }
}

/// A budget and what is used of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BudgetUse {
    /// What.
    pub kind: BudgetKind,
    /// Whose.
    pub scope: BudgetScope,
    /// How much there is; `None`: no limit.
    pub limit: Option<f64>,
    /// How much is used.
    pub used: f64,
}

/// What a budget is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BudgetKind {
    /// Money, in US dollars.
    Cost,
    /// Tokens sent and received.
    Tokens,
    /// Time in which turns run, in seconds.
    Time,
}

impl BudgetKind {
    /// The word for it, as a person types it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cost => "cost",
            Self::Tokens => "tokens",
            Self::Time => "time",
        }
    }

    /// The kind of a word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Cost, Self::Tokens, Self::Time].into_iter().find(|kind| kind.as_str() == word)
    }

    /// An amount in words (`$0.50`, `20000 tokens`, `90 s`).
    pub fn words(self, amount: f64) -> String {
        match self {
            Self::Cost if amount < 0.1 => format!("${amount:.4}"),
            Self::Cost => format!("${amount:.2}"),
            Self::Tokens => format!("{amount:.0} tokens"),
            Self::Time => format!("{amount:.0} s"),
        }
    }

    /// An amount as a person types it: `$2`, `0.5`; `50000`, `50k`, `2M`; `90`,
    /// `90s`, `10m`, `1h`. `None`: it is none, or not more than nothing.
    pub fn amount(self, typed: &str) -> Option<f64> {
        let typed = typed.trim().to_ascii_lowercase();
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

/// What a budget is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BudgetScope {
    /// All of the session.
    Session,
    /// One prompt.
    Prompt,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_as_people_write_them() {
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
            assert_eq!(kind.amount(typed), want, "{typed}");
        }
    }
}
