//! The settings shown in the settings dialog: those that Parallax supports and that fit on one
//! line.

use serde_json::Value;

use crate::layers::ValueOrigin;
use crate::setting_spec::{SettingSpec, SettingType};
use crate::setting_table::settings_table;
use crate::settings::Settings;

/// A row of the settings dialog.
#[derive(Debug, Clone, PartialEq)]
pub struct SettingRow {
    /// The dotted name.
    pub key: &'static str,
    /// The display label.
    pub label: &'static str,
    /// The group in which it is shown.
    pub category: &'static str,
    /// A short description.
    pub doc: &'static str,
    /// The type.
    pub kind: SettingType,
    /// The default; `null` if there is none.
    pub default: Value,
    /// The current value.
    pub value: Value,
    /// The origin of the value; `None` for the default.
    pub origin: Option<ValueOrigin>,
    /// Whether a change takes effect only in the next session.
    pub needs_restart: bool,
}

/// Returns the rows of the dialog, grouped by category.
pub fn setting_rows(settings: &Settings) -> Vec<SettingRow> {
    let row = |spec: &'static SettingSpec| {
        let default = serde_json::from_str(spec.default).unwrap_or(Value::Null);
        SettingRow {
            key: spec.name,
            label: spec.label,
            category: category(spec.name),
            doc: spec.doc,
            kind: spec.kind,
            value: settings.get(spec.name).cloned().unwrap_or_else(|| default.clone()),
            default,
            origin: settings.origins(spec.name).last().cloned(),
            needs_restart: spec.needs_restart,
        }
    };
    settings_table().filter(|spec| !spec.label.is_empty()).map(row).collect()
}

fn category(key: &str) -> &'static str {
    match key.split('.').next().unwrap_or(key) {
        "general" | "output" => "General",
        "ui" => "Appearance",
        "model" => "Model",
        "context" => "Context",
        "tools" | "useWriteTodos" => "Tools",
        "security" => "Security",
        _ => "Advanced",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dialog_row_is_a_known_setting_with_a_valid_default() {
        let rows = setting_rows(&Settings::default());
        for row in &rows {
            assert_eq!(row.value, row.default, "{}", row.key);
            assert!(row.default.is_null() || row.kind.accept(&row.default).is_some());
        }
        let mut groups: Vec<&str> = rows.iter().map(|row| row.category).collect();
        groups.dedup();
        assert_eq!(
            groups,
            ["General", "Appearance", "Model", "Context", "Tools", "Security", "Advanced"]
        );
    }

    #[test]
    fn description_of_a_dialog_row_adds_to_its_label() {
        let words = |text: &str| -> Vec<String> {
            let text = text.to_lowercase();
            let words = text.split(|char: char| !char.is_alphanumeric());
            words.filter(|word| word.len() > 3).map(str::to_owned).collect()
        };
        let adds_nothing = |row: &SettingRow| {
            let label = words(row.label);
            words(row.doc).into_iter().filter(|word| !label.contains(word)).count() < 2
        };
        let rows = setting_rows(&Settings::default());
        let repeated: Vec<&str> =
            rows.iter().filter(|row| adds_nothing(row)).map(|row| row.key).collect();
        assert!(repeated.is_empty(), "{repeated:?}");
    }
}
