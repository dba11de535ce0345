//! Prices of tokens.

use serde::{Deserialize, Serialize};

use crate::usage::Usage;

/// The price of a model, in US dollars per million tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Price {
    /// The rates for prompts that are not long.
    pub short_prompts: Rates,
    /// The token count above which a prompt is long, and the rates for long prompts.
    pub long_prompts: Option<(u64, Rates)>,
}

/// Rates for one prompt size, in US dollars per million tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rates {
    /// For prompt tokens that were not cached.
    pub input: f64,
    /// For prompt tokens that were read from the cache.
    pub cached: f64,
    /// For prompt tokens that were written to the cache.
    pub cache_write: f64,
    /// For output tokens, including thinking.
    pub output: f64,
}

impl Rates {
    /// Creates rates without a surcharge for writing to the cache.
    pub const fn new(input: f64, cached: f64, output: f64) -> Self {
        Self { input, cached, cache_write: input, output }
    }
}

impl Price {
    /// A price of zero, for responses that do not come from a service.
    pub const FREE: Self = Self { short_prompts: Rates::new(0.0, 0.0, 0.0), long_prompts: None };

    /// Returns the cost of a request.
    #[expect(clippy::cast_precision_loss, reason = "no request has 2^52 tokens")]
    pub fn cost(&self, usage: &Usage) -> Cost {
        let rates = match self.long_prompts {
            Some((above, rates)) if usage.prompt > above => rates,
            _ => self.short_prompts,
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

/// A cost, in US dollars.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cost {
    /// For prompt tokens that were not cached.
    pub input: f64,
    /// For cached prompt tokens.
    pub cached: f64,
    /// For output.
    pub output: f64,
}

impl Cost {
    /// Creates a cost from a total that the service reported, in billionths of a US dollar. It is
    /// divided in the proportions of the list price, if there is one.
    #[expect(clippy::cast_precision_loss, reason = "no request costs 2^52 billionths")]
    pub fn from_charge(billionths: u64, by_price: Option<Self>) -> Self {
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

    /// Returns the total.
    pub fn total(&self) -> f64 {
        self.input + self.cached + self.output
    }

    /// Adds another cost.
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
        let short_prompts = Rates::new(2.0, 0.2, 12.0);
        let long = Rates::new(4.0, 0.4, 18.0);
        let price = Price { short_prompts, long_prompts: Some((200_000, long)) };
        let usage = |prompt, cached| Usage {
            prompt,
            cached,
            output: 500_000,
            thought: 500_000,
            tool_prompt: 1_000_000,
            ..Usage::default()
        };
        let near = |left: f64, right: f64| (left - right).abs() < 1e-9;
        let cost = price.cost(&usage(200_000, 100_000));
        assert!(near(cost.input, 2.2) && near(cost.cached, 0.02) && near(cost.output, 12.0));
        let cost = price.cost(&usage(200_001, 0));
        assert!(near(cost.output, 18.0) && near(cost.total(), 4.800_004 + 18.0));
        let stated = Cost::from_charge(1_000_000_000, Some(cost));
        assert!(near(stated.total(), 1.0) && near(stated.output * 22.800_004, 18.0));
        assert!(near(Cost::from_charge(5, None).output, 5e-9));
        // A service that reports inconsistent counts.
        assert!(near(price.cost(&usage(1_000_000, 2_000_000)).cached, 0.4));

        let rates = Rates { cache_write: 2.5, ..Rates::new(2.0, 0.2, 12.0) };
        let written = Usage { prompt: 100_000, cache_write: 40_000, ..Usage::default() };
        let cost = Price { short_prompts: rates, long_prompts: None }.cost(&written);
        assert!(near(cost.input, 0.06 * 2.0 + 0.04 * 2.5));
    }
}
