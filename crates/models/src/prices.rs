//! Prices of models: public list prices by kind and version as of 2026, overridden by the
//! settings (`modelConfigs.prices`).

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parallax_protocol::price::{Price, Rates};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::families::{ModelVersion, version};

/// Prompts with more tokens have the long-context price.
const LONG: u64 = 200_000;

const fn rates(input: f64, cached: f64, output: f64) -> Rates {
    Rates::new(input, cached, output)
}

const fn flat_price(input: f64, cached: f64, output: f64) -> Price {
    Price { short_prompts: rates(input, cached, output), long_prompts: None }
}

const fn tiered_price(short_prompts: Rates, long: Rates) -> Price {
    Price { short_prompts, long_prompts: Some((LONG, long)) }
}

/// This model costs half of its price through 2026-11-30.
const ARGON: &str = "gemini-4-argon";
const ARGON_OFFER_END: Duration = Duration::from_secs(1_796_083_200);

/// A price and the first version that has it.
type PriceRow = ((u32, u32), Price);

/// Prices by a word in the name; the first match applies. Newest first: a model has the price of
/// the first version that it reaches.
const PRICES: &[(&str, &[PriceRow])] = &[
    ("argon", &[((4, 0), flat_price(4.00, 0.40, 20.00))]),
    (
        "flash-lite",
        &[
            ((3, 5), flat_price(0.30, 0.03, 2.50)),
            ((3, 0), flat_price(0.25, 0.025, 1.50)),
            ((2, 5), flat_price(0.10, 0.01, 0.40)),
            ((2, 0), flat_price(0.075, 0.018_75, 0.30)),
        ],
    ),
    (
        "flash",
        &[
            ((3, 8), flat_price(0.75, 0.075, 3.75)),
            ((3, 6), flat_price(1.50, 0.15, 7.50)),
            ((3, 5), flat_price(1.50, 0.15, 9.00)),
            ((3, 0), flat_price(0.50, 0.05, 3.00)),
            ((2, 5), flat_price(0.30, 0.03, 2.50)),
            ((2, 0), flat_price(0.10, 0.025, 0.40)),
        ],
    ),
    (
        "pro",
        &[
            ((3, 0), tiered_price(rates(2.00, 0.20, 12.00), rates(4.00, 0.40, 18.00))),
            ((2, 5), tiered_price(rates(1.25, 0.125, 10.00), rates(2.50, 0.25, 15.00))),
        ],
    ),
];

/// A price in the settings, in US dollars per million tokens.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PriceSetting {
    #[serde(deserialize_with = "deserialize_price")]
    input: f64,
    #[serde(deserialize_with = "deserialize_price")]
    output: f64,
    /// Without it, cached tokens have the input price.
    #[serde(default, deserialize_with = "deserialize_optional_price")]
    cached: Option<f64>,
    long_context: Option<LongContextPrice>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LongContextPrice {
    #[serde(rename = "above")]
    threshold: u64,
    #[serde(deserialize_with = "deserialize_price")]
    input: f64,
    #[serde(deserialize_with = "deserialize_price")]
    output: f64,
    #[serde(default, deserialize_with = "deserialize_optional_price")]
    cached: Option<f64>,
}

/// Parses a price. A negative price would make a budget unlimited.
fn deserialize_price<'de, D: Deserializer<'de>>(source: D) -> Result<f64, D::Error> {
    let amount = f64::deserialize(source)?;
    match amount >= 0.0 {
        true => Ok(amount),
        false => Err(D::Error::custom(format!("a price must be 0 or more, not {amount}"))),
    }
}

fn deserialize_optional_price<'de, D: Deserializer<'de>>(
    source: D,
) -> Result<Option<f64>, D::Error> {
    deserialize_price(source).map(Some)
}

impl From<PriceSetting> for Price {
    fn from(text: PriceSetting) -> Self {
        let own =
            |input, cached: Option<f64>, output| rates(input, cached.unwrap_or(input), output);
        Self {
            short_prompts: own(text.input, text.cached, text.output),
            long_prompts: text
                .long_context
                .map(|long| (long.threshold, own(long.input, long.cached, long.output))),
        }
    }
}

/// Returns the price of a model: the user's price for its name or prefix, otherwise the built-in
/// one.
pub(crate) fn price(model: &str, overrides: &BTreeMap<String, PriceSetting>) -> Option<Price> {
    let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
    let longest = overrides
        .iter()
        .filter(|(key, _)| name.starts_with(&key.to_ascii_lowercase()))
        .max_by_key(|(key, _)| key.len());
    if let Some((_, price)) = longest {
        return Some((*price).into());
    }
    if name == ARGON && SystemTime::now() < UNIX_EPOCH + ARGON_OFFER_END {
        return Some(flat_price(2.00, 0.20, 10.00));
    }
    let (_, rows) = PRICES.iter().find(|(kind, _)| name.contains(kind))?;
    match version(model) {
        ModelVersion::Foreign => None,
        ModelVersion::Newest => rows.first().map(|(_, price)| *price),
        ModelVersion::Number(number) => {
            rows.iter().find(|(since, _)| number >= *since).map(|(_, price)| *price)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_price_is_rejected() {
        let read = |text: &str| serde_json::from_str::<PriceSetting>(text);
        assert!(read(r#"{"input": 0, "output": 1, "cached": 0}"#).is_ok());
        for text in [r#"{"input": -5, "output": 1}"#, r#"{"input": 5, "output": 1, "cached": -1}"#]
        {
            assert!(read(text).expect_err("a problem").to_string().contains("0 or more"), "{text}");
        }
    }

    #[test]
    fn model_price_follows_its_family_and_version() {
        let input =
            |model: &str| price(model, &BTreeMap::new()).map(|price| price.short_prompts.input);
        for (model, want) in [
            ("gemini-2.5-pro", Some(1.25)),
            ("models/gemini-2.5-pro-preview-05-06", Some(1.25)),
            ("gemini-3-pro-preview", Some(2.0)),
            ("gemini-3.1-pro-preview-customtools", Some(2.0)),
            ("gemini-3-flash-preview", Some(0.5)),
            ("gemini-3.8-flash", Some(0.75)),
            ("gemini-3.5-flash-lite", Some(0.3)),
            ("gemini-2.5-flash-lite", Some(0.1)),
            ("gemini-flash-latest", Some(0.75)),
            ("gemini-1.5-pro", None),
            ("gemma-4-31b-it", None),
            ("some-pro", None),
        ] {
            assert_eq!(input(model), want, "{model}");
        }
    }

    #[test]
    fn user_price_has_precedence() {
        let text = r#"{"gemini-3": {"input": 9, "output": 9}, "gemini-3-pro": {"input": 1,
            "cached": 0.5, "output": 2, "longContext": {"above": 7, "input": 3, "output": 4}}}"#;
        let overrides: BTreeMap<String, PriceSetting> = serde_json::from_str(text).expect("prices");
        let pro = price("gemini-3-pro-preview", &overrides).expect("a price");
        assert_eq!(pro.short_prompts, rates(1.0, 0.5, 2.0));
        assert_eq!(pro.long_prompts, Some((7, rates(3.0, 3.0, 4.0))));
        assert_eq!(price("gemini-3-flash", &overrides), Some(flat_price(9.0, 9.0, 9.0)));
    }
}
