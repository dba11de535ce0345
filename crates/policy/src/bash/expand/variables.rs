//! The values that the text of a line gives to variables.

use std::collections::BTreeMap;

/// Values of one variable that are kept, and combinations of values that are tried.
const MOST_VALUES: usize = 8;
const MOST_COMBINATIONS: usize = 16;

/// A part of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ValuePiece {
    /// Known text.
    Text(String),
    /// What only the run tells, as it is written.
    Source(String),
}

/// A value: of an array one entry for each element, otherwise one.
pub(super) type Value = Vec<Vec<ValuePiece>>;

/// Every value that a variable may have somewhere in the line. Which of them holds
/// at a place is not followed: all combinations are tried.
#[derive(Debug, Clone, Default)]
pub(super) struct Variables {
    values: BTreeMap<String, Vec<Value>>,
    chosen: BTreeMap<String, usize>,
}

impl Variables {
    pub(super) fn add(&mut self, name: &str, value: Value) {
        let values = self.values.entry(name.to_owned()).or_default();
        if values.len() < MOST_VALUES && !values.contains(&value) {
            values.push(value);
        }
    }

    pub(super) fn add_text(&mut self, name: &str, text: &str) {
        self.add(name, vec![vec![ValuePiece::Text(text.to_owned())]]);
    }

    /// The value in the combination that is tried now.
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        let values = self.values.get(name)?;
        values.get(self.chosen.get(name).copied().unwrap_or_default())
    }

    /// How many combinations there are, up to a limit.
    pub(super) fn combinations(&self) -> usize {
        let product = self
            .values
            .values()
            .fold(1, |all: usize, values| all.saturating_mul(values.len().max(1)));
        product.min(MOST_COMBINATIONS)
    }

    /// Goes to one of the combinations.
    pub(super) fn choose(&mut self, mut combination: usize) {
        self.chosen.clear();
        for (name, values) in self.values.iter().filter(|(_, values)| values.len() > 1) {
            self.chosen.insert(name.clone(), combination % values.len());
            combination /= values.len();
        }
    }
}
