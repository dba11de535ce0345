//! The table of all settings: names, types, defaults, descriptions, and labels of the settings dialog.
//! Settings files are checked against it, and the reference documentation is generated from it.
//! Unknown keys are kept unchanged.

mod advanced;
mod appearance;
mod context;
mod customization;
mod experimental;
mod general;
mod model;
mod security;
mod tools;

use serde_json::Value;

use crate::setting_spec::SettingSpec;

/// The settings by subject, in the order of the settings dialog.
const SUBJECTS: &[(&str, &[SettingSpec])] = &[
    ("General", general::SETTINGS),
    ("Appearance", appearance::SETTINGS),
    ("Models and budgets", model::SETTINGS),
    ("Context", context::SETTINGS),
    ("Tools and MCP servers", tools::SETTINGS),
    ("Security", security::SETTINGS),
    ("Experimental", experimental::SETTINGS),
    ("Advanced", advanced::SETTINGS),
    ("Commands, skills, hooks, and rules", customization::SETTINGS),
];

/// Returns all known settings, in the order of the settings dialog.
pub fn settings_table() -> impl Iterator<Item = &'static SettingSpec> {
    SUBJECTS.iter().flat_map(|(_, settings)| *settings)
}

/// Returns the settings by subject.
#[cfg(test)]
pub(crate) fn settings_by_subject() -> &'static [(&'static str, &'static [SettingSpec])] {
    SUBJECTS
}

/// Returns the default of a key, if it has one.
pub(crate) fn default_of(name: &str) -> Option<Value> {
    let key = settings_table().find(|key| key.name == name)?;
    serde_json::from_str(key.default).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{default_of, settings_table};

    #[test]
    fn settings_table_is_consistent() {
        let mut names = HashSet::new();
        for key in settings_table() {
            assert!(names.insert(key.name), "{} stands twice", key.name);
            assert!(!key.doc.is_empty() && !key.doc.ends_with('.'), "{}", key.name);
            if !key.default.is_empty() {
                let default = default_of(key.name);
                assert!(
                    default.is_some_and(|default| key.kind.accept(&default) == Some(default)),
                    "{}",
                    key.name
                );
            }
        }
    }
}
