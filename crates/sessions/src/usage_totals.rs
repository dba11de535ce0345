//! Usage of a session's answers according to its journal.

use parallax_protocol::model::Usage;
use parallax_protocol::price::Price;
use parallax_protocol::requests::Requests;
use parallax_protocol::store::Record;

/// Usage and cost. Utility requests are not recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct UsageTotals {
    /// Tokens of all answers.
    pub usage: Usage,
    /// US dollars, as far as prices are known.
    pub cost: f64,
}

impl UsageTotals {
    /// Sums up the usage in these records.
    pub fn from_records(records: &[Record], price: impl Fn(&str) -> Option<Price>) -> Self {
        let mut used = Self::default();
        for record in records {
            let Record::Content(content) = record else { continue };
            let Some(usage) = &content.usage else { continue };
            used.usage.add(usage);
            let name = content.model.as_deref().unwrap_or_default();
            used.cost += price(name).map_or(0.0, |price| price.cost(usage).total());
        }
        used
    }
}

/// Returns the requests in these records: the last recorded sums plus later answers, which a killed
/// process did not add.
pub fn requests(records: &[Record], price: impl Fn(&str) -> Option<Price>) -> Vec<Requests> {
    let noted = records.iter().enumerate().rev().find_map(|(index, record)| match record {
        Record::Spent(spent) if !spent.requests.is_empty() => Some((index + 1, &spent.requests)),
        _ => None,
    });
    let (from, mut sums) = noted.map_or((0, Vec::new()), |(from, sums)| (from, sums.clone()));
    for record in records.get(from..).unwrap_or_default() {
        let Record::Content(content) = record else { continue };
        let Some(usage) = content.usage else { continue };
        let model = content.model.clone().unwrap_or_default();
        let price = price(&model);
        let answer = Requests {
            model,
            role: "main".to_owned(),
            count: 1,
            untimed: 1,
            usage,
            cost: price.map(|price| price.cost(&usage)).unwrap_or_default(),
            unpriced: price.is_none(),
            ..Requests::default()
        };
        parallax_protocol::requests::add(&mut sums, answer);
    }
    sums
}

#[cfg(test)]
mod tests {
    use parallax_protocol::price::Rates;
    use serde_json::json;

    use super::*;

    #[test]
    fn usage_of_answers_is_summed() {
        let answer = |tokens: u64| {
            let usage = json!({"promptTokenCount": tokens, "totalTokenCount": tokens + 1});
            let wire = json!({"role": "model", "parts": [{"text": "x"}]});
            let record = json!({"time": "", "wire": wire, "model": "m", "usage": usage});
            Record::Content(serde_json::from_value(record).unwrap())
        };
        let price = |name: &str| {
            let short_prompts = Rates::new(1.0, 1.0, 0.0);
            let price = Price { short_prompts, long_prompts: None };
            (name == "m").then_some(price)
        };
        let used = UsageTotals::from_records(&[answer(1_000_000), answer(500_000)], price);
        assert_eq!(used.usage.prompt, 1_500_000);
        assert_eq!(used.usage.total, 1_500_002);
        assert!((used.cost - 1.5).abs() < 1e-9, "{}", used.cost);
    }
}
