//! Settings that Parallax does not know. They are kept, because another program or version may
//! use them; the doctor reports them, because a misspelled setting has no effect.

use parallax_protocol::Object;
use serde_json::Value;

use crate::settings::Settings;
use crate::suggestions::similar_names;
use crate::{setting_table, unsupported_settings};

/// A setting without an effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownSetting {
    /// The dotted key. Keys below an unknown object are not listed one by one.
    pub key: String,
    /// The known setting that may be meant.
    pub suggestion: Option<&'static str>,
}

impl Settings {
    /// Returns the unknown settings of all layers, sorted by key.
    pub fn unknown_settings(&self) -> Vec<UnknownSetting> {
        let mut found = Vec::new();
        collect("", &self.merged, &mut found);
        found.sort_by(|one, other| one.key.cmp(&other.key));
        found
    }
}

fn collect(parent: &str, values: &Object, found: &mut Vec<UnknownSetting>) {
    let known = || setting_table::settings_table().map(|setting| setting.name);
    for (name, value) in values {
        let key = if parent.is_empty() { name.clone() } else { format!("{parent}.{name}") };
        // Editors read the schema of a file from there.
        let is_known = key == "$schema"
            || known().any(|name| name == key)
            || unsupported_settings::is_unsupported(&key);
        if is_known {
            continue;
        }
        let is_group = known().any(|name| is_below(name, &key));
        match value {
            Value::Object(fields) if is_group => collect(&key, fields, found),
            _ => {
                let typed = key.to_lowercase();
                let suggestion = known()
                    .find(|name| name.to_lowercase() == typed)
                    .or_else(|| similar_names(&key, known()).first().copied());
                found.push(UnknownSetting { key, suggestion });
            }
        }
    }
}

/// Whether the setting `name` is in the group `group`.
fn is_below(name: &str, group: &str) -> bool {
    name.strip_prefix(group).is_some_and(|rest| rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn misspelled_settings_are_reported_with_the_intended_one() {
        let values = json!({
            "$schema": "x", "general": {"vimMod": true, "vimMode": true},
            "mcpServers": {"s": {"anything": 1}}, "ui": {"Theme": "x"}, "other": {"a": {"b": 1}},
            "model": {"skipNextSpeakerCheck": false},
        });
        let mut found = Vec::new();
        collect("", values.as_object().expect("an object"), &mut found);
        let keys: Vec<_> = found.iter().map(|it| (it.key.as_str(), it.suggestion)).collect();
        assert_eq!(
            keys,
            [
                ("general.vimMod", Some("general.vimMode")),
                ("ui.Theme", Some("ui.theme")),
                ("other", None)
            ]
        );
    }
}
