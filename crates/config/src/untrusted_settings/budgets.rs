//! Budgets: a project may only lower the user's limits.

use parallax_protocol::Object;
use serde_json::Value;

use crate::layers::{Layer, LayerFile};
use crate::migrate::get_dotted;

const BUDGET: &str = "budget";

/// Returns the budgets that exceed the user's, or that remove a limit.
pub(super) fn loosening_budgets(values: &Object, outer: &[LayerFile]) -> Vec<String> {
    let amount = |value: &Value| {
        let amount = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok());
        amount.filter(|amount: &f64| *amount > 0.0)
    };
    let is_outer = |file: &&LayerFile| file.layer < Layer::WorkspaceGemini;
    let users = |key: &str| {
        let output = outer.iter().filter(is_outer).filter_map(|file| get_dotted(&file.values, key));
        output.filter_map(amount).next_back()
    };
    let is_less = |key: &str, value: &Value| {
        value.is_null()
            || amount(value)
                .is_some_and(|amount| users(key).is_none_or(|maximum| amount <= maximum))
    };
    let Some(budget) = get_dotted(values, BUDGET).filter(|budget| !budget.is_null()) else {
        return Vec::new();
    };
    let Some(spans) = budget.as_object() else { return vec![BUDGET.to_owned()] };
    let mut loose = Vec::new();
    for (span, limits) in spans {
        let Some(limits) = limits.as_object().filter(|_| !span.contains('.')) else {
            return vec![BUDGET.to_owned()];
        };
        for (name, value) in limits {
            let key = format!("{BUDGET}.{span}.{name}");
            if !is_less(&key, value) {
                loose.push(key);
            }
        }
    }
    loose
}
