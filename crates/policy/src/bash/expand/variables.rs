//! The values that a line assigns to variables.

use std::collections::BTreeMap;

/// Maximum number of values stored for a variable and of combinations tried.
const MAX_VALUES: usize = 8;
const MAX_COMBINATIONS: usize = 16;

/// A part of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ValueSegment {
    /// Known text.
    Text(String),
    /// Source text whose value is known only at run time.
    Source(String),
}

/// A value: one entry for each element of an array, otherwise one entry.
pub(super) type Value = Vec<Vec<ValueSegment>>;

/// Every value that a variable may have somewhere in the line. Which value applies at a position is
/// not tracked; all combinations are tried.
#[derive(Debug, Clone, Default)]
pub(super) struct Variables {
    values: BTreeMap<String, Vec<Value>>,
    chosen: BTreeMap<String, usize>,
}

impl Variables {
    pub(super) fn add(&mut self, name: &str, value: Value) {
        let values = self.values.entry(name.to_owned()).or_default();
        if values.len() < MAX_VALUES && !values.contains(&value) {
            values.push(value);
        }
    }

    pub(super) fn add_text(&mut self, name: &str, text: &str) {
        self.add(name, vec![vec![ValueSegment::Text(text.to_owned())]]);
    }

    /// Returns the value in the current combination.
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        let values = self.values.get(name)?;
        values.get(self.chosen.get(name).copied().unwrap_or_default())
    }

    /// Returns the number of combinations, up to a limit.
    pub(super) fn combinations(&self) -> usize {
        let product = self
            .values
            .values()
            .fold(1, |all: usize, values| all.saturating_mul(values.len().max(1)));
        product.min(MAX_COMBINATIONS)
    }

    /// Selects one of the combinations.
    pub(super) fn choose(&mut self, mut combination: usize) {
        self.chosen.clear();
        for (name, values) in self.values.iter().filter(|(_, values)| values.len() > 1) {
            self.chosen.insert(name.clone(), combination % values.len());
            combination /= values.len();
        }
    }
}
