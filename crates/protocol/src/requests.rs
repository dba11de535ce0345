//! Statistics of model requests by model and purpose.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::event::ModelCall;
use crate::price::Cost;
use crate::usage::Usage;

/// The requests to one model for one purpose.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Requests {
    /// The model that answered or was requested.
    pub model: String,
    /// The purpose (`main`, `web_search`, …).
    pub role: String,
    /// The number of requests.
    pub count: u64,
    /// The number of requests without a recorded duration.
    #[serde(skip_serializing_if = "is_none")]
    pub untimed: u64,
    /// The total duration of the others, in milliseconds.
    pub latency_ms: u64,
    /// The token counts.
    pub usage: Usage,
    /// The cost, as far as prices are known.
    pub cost: Cost,
    /// Whether the price is unknown for some of the tokens.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unpriced: bool,
    /// The number of failed requests by error class.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<String, u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's way")]
fn is_none(count: &u64) -> bool {
    *count == 0
}

impl From<&ModelCall> for Requests {
    fn from(call: &ModelCall) -> Self {
        Self {
            model: call.model.clone(),
            role: call.role.clone(),
            count: 1,
            untimed: 0,
            latency_ms: call.latency_ms,
            usage: call.usage,
            cost: call.cost.unwrap_or_default(),
            unpriced: call.cost.is_none() && call.usage != Usage::default(),
            errors: call.error.iter().map(|class| (class.clone(), 1)).collect(),
        }
    }
}

/// Adds requests to those of the same model and purpose.
pub fn add(sums: &mut Vec<Requests>, more: Requests) {
    let Some(sum) = sums.iter_mut().find(|it| it.model == more.model && it.role == more.role)
    else {
        return sums.push(more);
    };
    sum.count = sum.count.saturating_add(more.count);
    sum.untimed = sum.untimed.saturating_add(more.untimed);
    sum.latency_ms = sum.latency_ms.saturating_add(more.latency_ms);
    sum.usage.add(&more.usage);
    sum.cost.add(&more.cost);
    sum.unpriced |= more.unpriced;
    for (class, count) in more.errors {
        *sum.errors.entry(class).or_default() += count;
    }
}
