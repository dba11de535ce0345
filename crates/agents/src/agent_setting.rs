//! The settings of an agent that the user can override in `agents.overrides.<name>`.

use parallax_protocol::Object;
use serde_json::Value;

/// Maximum run time of an agent: one day.
const MAX_MINUTES: u64 = 24 * 60;

/// A setting of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentSetting {
    /// Whether the agent can be started.
    Enabled,
    /// The model: a name, an alias, or `inherit`.
    Model,
    /// Maximum number of model requests.
    MaxTurns,
    /// Maximum run time in minutes.
    MaxTimeMinutes,
}

impl AgentSetting {
    /// All settings in display order.
    pub const ALL: [Self; 4] = [Self::Enabled, Self::Model, Self::MaxTurns, Self::MaxTimeMinutes];

    /// Returns the name of the setting, which is its last key.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enabled => "enabled",
            Self::Model => "model",
            Self::MaxTurns => "maxTurns",
            Self::MaxTimeMinutes => "maxTimeMinutes",
        }
    }

    /// Returns the setting with a name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|setting| setting.as_str().eq_ignore_ascii_case(name))
    }

    /// Returns the group of keys that contains the setting.
    fn group(self) -> Option<&'static str> {
        match self {
            Self::Enabled => None,
            Self::Model => Some("modelConfig"),
            Self::MaxTurns | Self::MaxTimeMinutes => Some("runConfig"),
        }
    }

    /// Parses a typed value.
    ///
    /// # Errors
    /// Returns a description of the expected value.
    pub fn read(self, input: &str) -> Result<Value, &'static str> {
        let input = input.trim();
        let whole = |most: u64| {
            let number = input.parse::<u64>().ok();
            number.filter(|number| (1..=most).contains(number)).map(Value::from)
        };
        match self {
            Self::Enabled => match input {
                "true" | "on" => Ok(Value::Bool(true)),
                "false" | "off" => Ok(Value::Bool(false)),
                _ => Err("it must be `true` or `false`"),
            },
            Self::Model => match input {
                "" => Err("it must be the name of a model, or `inherit`"),
                name => Ok(Value::from(name)),
            },
            Self::MaxTurns => whole(u64::from(u32::MAX)).ok_or("it must be a positive integer"),
            Self::MaxTimeMinutes => {
                whole(MAX_MINUTES).ok_or("it must be a whole number of minutes, at most 1440")
            }
        }
    }

    /// Sets the value among an agent's overrides. `None` removes it, together with its group if
    /// that becomes empty.
    pub(super) fn apply(self, changes: &mut Object, value: Option<Value>) {
        let Some(group) = self.group() else {
            set(changes, self.as_str(), value);
            return;
        };
        let mut inner = changes.get(group).and_then(Value::as_object).cloned().unwrap_or_default();
        set(&mut inner, self.as_str(), value);
        set(changes, group, (!inner.is_empty()).then_some(Value::Object(inner)));
    }
}

fn set(object: &mut Object, key: &str, value: Option<Value>) {
    match value {
        Some(value) => drop(object.insert(key.to_owned(), value)),
        None => drop(object.shift_remove(key)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changing_a_setting_leaves_other_settings_unchanged() {
        let Value::Object(mut changes) = json!({"tools": ["glob"], "runConfig": {"maxTurns": 3}})
        else {
            unreachable!("an object")
        };
        AgentSetting::MaxTimeMinutes.apply(&mut changes, Some(json!(5)));
        AgentSetting::Model.apply(&mut changes, Some(json!("flash")));
        AgentSetting::MaxTurns.apply(&mut changes, None);
        let expected = json!({"tools": ["glob"], "runConfig": {"maxTimeMinutes": 5},
            "modelConfig": {"model": "flash"}});
        assert_eq!(Value::Object(changes.clone()), expected);
        AgentSetting::MaxTimeMinutes.apply(&mut changes, None);
        AgentSetting::Model.apply(&mut changes, None);
        assert_eq!(Value::Object(changes), json!({"tools": ["glob"]}));
    }

    #[test]
    fn typed_setting_values_are_validated() {
        assert_eq!(AgentSetting::MaxTurns.read(" 7 "), Ok(json!(7)));
        assert_eq!(AgentSetting::Enabled.read("off"), Ok(json!(false)));
        assert!(AgentSetting::MaxTimeMinutes.read("1441").is_err());
        assert!(
            AgentSetting::MaxTurns.read("0").is_err() && AgentSetting::Model.read(" ").is_err()
        );
        assert_eq!(AgentSetting::parse("maxturns"), Some(AgentSetting::MaxTurns));
    }
}
