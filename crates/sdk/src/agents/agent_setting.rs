//! What a person changes of an agent, and where that stands in
//! `agents.overrides.<name>`.

use parallax_protocol::Object;
use serde_json::Value;

/// A day: no agent runs longer.
const MOST_MINUTES: u64 = 24 * 60;

/// A setting of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentSetting {
    /// Whether it can be started.
    Enabled,
    /// Its model: a name, an alias, or `inherit`.
    Model,
    /// Requests that it may make.
    MaxTurns,
    /// Minutes that it may take.
    MaxTimeMinutes,
}

impl AgentSetting {
    /// All, in the order in which they are shown.
    pub const ALL: [Self; 4] = [Self::Enabled, Self::Model, Self::MaxTurns, Self::MaxTimeMinutes];

    /// Its name for people: the last key.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enabled => "enabled",
            Self::Model => "model",
            Self::MaxTurns => "maxTurns",
            Self::MaxTimeMinutes => "maxTimeMinutes",
        }
    }

    /// The setting of a name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|setting| setting.as_str().eq_ignore_ascii_case(name))
    }

    /// The group of keys that it stands in.
    fn group(self) -> Option<&'static str> {
        match self {
            Self::Enabled => None,
            Self::Model => Some("modelConfig"),
            Self::MaxTurns | Self::MaxTimeMinutes => Some("runConfig"),
        }
    }

    /// The value of what a person typed.
    ///
    /// # Errors
    /// What it must be instead.
    pub fn read(self, typed: &str) -> Result<Value, &'static str> {
        let typed = typed.trim();
        let whole = |most: u64| {
            let number = typed.parse::<u64>().ok();
            number.filter(|number| (1..=most).contains(number)).map(Value::from)
        };
        match self {
            Self::Enabled => match typed {
                "true" | "on" => Ok(Value::Bool(true)),
                "false" | "off" => Ok(Value::Bool(false)),
                _ => Err("it must be `true` or `false`"),
            },
            Self::Model => match typed {
                "" => Err("it must be the name of a model, or `inherit`"),
                name => Ok(Value::from(name)),
            },
            Self::MaxTurns => whole(u64::from(u32::MAX)).ok_or("it must be a whole number above 0"),
            Self::MaxTimeMinutes => {
                whole(MOST_MINUTES).ok_or("it must be a whole number of minutes, 1440 at most")
            }
        }
    }

    /// Sets it among the changes of an agent; `None` takes it out, and its group
    /// with it when nothing else stands there.
    pub(super) fn put(self, changes: &mut Object, value: Option<Value>) {
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
    fn a_change_goes_in_and_out_and_leaves_the_others() {
        let Value::Object(mut changes) = json!({"tools": ["glob"], "runConfig": {"maxTurns": 3}})
        else {
            unreachable!("an object")
        };
        AgentSetting::MaxTimeMinutes.put(&mut changes, Some(json!(5)));
        AgentSetting::Model.put(&mut changes, Some(json!("flash")));
        AgentSetting::MaxTurns.put(&mut changes, None);
        let wanted = json!({"tools": ["glob"], "runConfig": {"maxTimeMinutes": 5},
            "modelConfig": {"model": "flash"}});
        assert_eq!(Value::Object(changes.clone()), wanted);
        AgentSetting::MaxTimeMinutes.put(&mut changes, None);
        AgentSetting::Model.put(&mut changes, None);
        assert_eq!(Value::Object(changes), json!({"tools": ["glob"]}));
    }

    #[test]
    fn what_is_typed_is_checked() {
        assert_eq!(AgentSetting::MaxTurns.read(" 7 "), Ok(json!(7)));
        assert_eq!(AgentSetting::Enabled.read("off"), Ok(json!(false)));
        assert!(AgentSetting::MaxTimeMinutes.read("1441").is_err());
        assert!(
            AgentSetting::MaxTurns.read("0").is_err() && AgentSetting::Model.read(" ").is_err()
        );
        assert_eq!(AgentSetting::parse("maxturns"), Some(AgentSetting::MaxTurns));
    }
}
