//! What tokens cost.

use serde::{Deserialize, Serialize};

use crate::model::Usage;

/// What the tokens of a model cost, in US dollars for a million of them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Price {
    /// Of any prompt.
    pub short: Rates,
    /// Of long prompts: the tokens from which they are long, and the rates then.
    pub long: Option<(u64, Rates)>,
}

/// Rates of one kind of prompt, in US dollars for a million tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rates {
    /// Tokens of the prompt that were not cached.
    pub input: f64,
    /// Those that were.
    pub cached: f64,
    /// Those that were stored for later prompts.
    pub cache_write: f64,
    /// Tokens of the answer, thinking included.
    pub output: f64,
}

impl Rates {
    /// Rates where storing tokens for later prompts costs nothing more.
    pub const fn new(input: f64, cached: f64, output: f64) -> Self {
        Self { input, cached, cache_write: input, output }
    }
}

impl Price {
    /// Costs nothing: the answers come from no service.
    pub const FREE: Self = Self { short: Rates::new(0.0, 0.0, 0.0), long: None };

    /// What a request cost.
    #[expect(clippy::cast_precision_loss, reason = "no request has 2^52 tokens")]
    pub fn of(&self, usage: &Usage) -> Cost {
        let rates = match self.long {
            Some((above, rates)) if usage.prompt > above => rates,
            _ => self.short,
        };
        let dollars = |tokens: u64, rate: f64| tokens as f64 * rate / 1e6;
        let cached = usage.cached.min(usage.prompt);
        let written = usage.cache_write.min(usage.prompt - cached);
        let fresh = usage.prompt - cached - written + usage.tool_prompt;
        let answer = usage.output + usage.thought;
        Cost {
            input: dollars(fresh, rates.input) + dollars(written, rates.cache_write),
            cached: dollars(cached, rates.cached),
            output: dollars(answer, rates.output),
        }
    }
}

/// What was spent, in US dollars.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cost {
    /// For tokens of prompts that were not cached.
    pub input: f64,
    /// For those that were.
    pub cached: f64,
    /// For answers.
    pub output: f64,
}

impl Cost {
    /// A total that the service stated, in billionths of a US dollar. The shares are those of
    /// the list price, if there is one.
    #[expect(clippy::cast_precision_loss, reason = "no request costs 2^52 billionths")]
    pub fn charged(billionths: u64, by_price: Option<Self>) -> Self {
        let total = billionths as f64 / 1e9;
        match by_price.filter(|cost| cost.total() > 0.0) {
            Some(cost) => {
                let share = total / cost.total();
                Self {
                    input: cost.input * share,
                    cached: cost.cached * share,
                    output: cost.output * share,
                }
            }
            None => Self { output: total, ..Self::default() },
        }
    }

    /// All of it.
    pub fn total(&self) -> f64 {
        self.input + self.cached + self.output
    }

    /// Adds another.
    pub fn add(&mut self, other: &Self) {
        self.input += other.input;
        self.cached += other.cached;
        self.output += other.output;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_tokens_thoughts_and_long_prompts_have_their_own_rates() {
        let short = Rates::new(2.0, 0.2, 12.0);
        let long = Rates::new(4.0, 0.4, 18.0);
        let price = Price { short, long: Some((200_000, long)) };
        let usage = |prompt, cached| Usage {
            prompt,
            cached,
            output: 500_000,
            thought: 500_000,
            tool_prompt: 1_000_000,
            ..Usage::default()
        };
        let near = |left: f64, right: f64| (left - right).abs() < 1e-9;
        let cost = price.of(&usage(200_000, 100_000));
        assert!(near(cost.input, 2.2) && near(cost.cached, 0.02) && near(cost.output, 12.0));
        let cost = price.of(&usage(200_001, 0));
        assert!(near(cost.output, 18.0) && near(cost.total(), 4.800_004 + 18.0));
        let stated = Cost::charged(1_000_000_000, Some(cost));
        assert!(near(stated.total(), 1.0) && near(stated.output * 22.800_004, 18.0));
        assert!(near(Cost::charged(5, None).output, 5e-9));
        // A service that counts wrong.
        assert!(near(price.of(&usage(1_000_000, 2_000_000)).cached, 0.4));

        let rates = Rates { cache_write: 2.5, ..Rates::new(2.0, 0.2, 12.0) };
        let written = Usage { prompt: 100_000, cache_write: 40_000, ..Usage::default() };
        let cost = Price { short: rates, long: None }.of(&written);
        assert!(near(cost.input, 0.06 * 2.0 + 0.04 * 2.5));
    }
}
