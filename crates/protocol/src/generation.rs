//! How the generation settings of a request describe thinking.
//!
//! Like contents, these settings have the form of the Gemini API, as do the user's settings.
//! Providers with another form read them through this module.

use serde_json::{Value, json};

use crate::Object;

/// The setting whose fields control thinking.
pub const THINKING: &str = "thinkingConfig";
/// The field of [`THINKING`] that requests a summary of the thoughts.
pub const THOUGHT_SUMMARY: &str = "includeThoughts";
const LEVEL: &str = "thinkingLevel";
const BUDGET: &str = "thinkingBudget";

/// The settings for thinking.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThinkingSettings<'a> {
    /// How much to think, in words.
    pub level: Option<&'a str>,
    /// How much to think, in tokens.
    pub budget: Option<i64>,
    /// Whether the response contains a summary of the thoughts.
    pub has_summary: Option<bool>,
}

impl<'a> ThinkingSettings<'a> {
    /// Reads them from the generation settings of a request.
    pub fn read(generation: &'a Object) -> Self {
        let Some(thinking) = generation.get(THINKING) else { return Self::default() };
        Self {
            level: thinking.get(LEVEL).and_then(Value::as_str),
            budget: thinking.get(BUDGET).and_then(Value::as_i64),
            has_summary: thinking.get(THOUGHT_SUMMARY).and_then(Value::as_bool),
        }
    }
}

/// Sets the thinking level.
pub fn set_thinking_level(generation: &mut Object, level: &str) {
    // A budget from the settings would contradict the level.
    generation.insert(THINKING.to_owned(), json!({LEVEL: level, BUDGET: null}));
}

/// Removes the thinking level.
pub fn remove_thinking_level(generation: &mut Object) {
    if let Some(Value::Object(thinking)) = generation.get_mut(THINKING) {
        thinking.remove(LEVEL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn level_replaces_the_budget_of_the_settings() {
        let mut generation = Object::new();
        generation.insert(THINKING.to_owned(), json!({BUDGET: 5, THOUGHT_SUMMARY: true}));
        let settings = ThinkingSettings::read(&generation);
        assert_eq!((settings.budget, settings.has_summary), (Some(5), Some(true)));
        set_thinking_level(&mut generation, "high");
        let settings = ThinkingSettings::read(&generation);
        assert_eq!((settings.level, settings.budget), (Some("high"), None));
        remove_thinking_level(&mut generation);
        assert_eq!(ThinkingSettings::read(&generation), ThinkingSettings::default());
    }
}
