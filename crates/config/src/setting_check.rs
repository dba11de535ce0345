//! Checks the values of settings files against the table.

use std::path::Path;

use parallax_protocol::Object;
use serde_json::{Value, json};

use crate::migrate::{get_dotted, take};
use crate::setting_table::settings_table;

/// The prefix of the settings that decide which sessions are deleted.
const RETENTION: &str = "general.sessionRetention.";

/// The internal key that records which retention setting had an invalid value, so that nothing is
/// deleted.
pub(crate) const UNUSABLE_RETENTION: &str = "general.sessionRetention.unusable";

/// Maximum number of warnings about one file.
const MAX_COUNT: usize = 5;

/// Checks the values of one file against the table. A value of the wrong type is reported and
/// removed, so that the next lower layer applies.
pub(crate) fn check(values: &mut Object, path: &Path) -> Vec<String> {
    let mut issues = Vec::new();
    for key in settings_table() {
        if let Some(group) = find_non_object_group(values, key.name) {
            let value = take(values, &group).unwrap_or_default();
            if RETENTION.starts_with(&group) {
                let off = json!({"enabled": false, "unusable": group});
                let off = if group == "general" { json!({"sessionRetention": off}) } else { off };
                replace(values, &group, off);
            }
            issues.push(format!("`{group}` must be an object, not {}", display_value(&value)));
            continue;
        }
        let Some(value) = get_dotted(values, key.name) else { continue };
        match key.kind.accept(value) {
            Some(accepted) if accepted == *value => {}
            Some(accepted) => replace(values, key.name, accepted),
            // `null` means "not set".
            None => {
                let value = take(values, key.name).unwrap_or_default();
                if !value.is_null() {
                    // Replacing an unreadable limit by the default could delete sessions that the
                    // user wants to keep.
                    if key.name.starts_with(RETENTION) {
                        replace(values, &format!("{RETENTION}enabled"), Value::Bool(false));
                        replace(values, UNUSABLE_RETENTION, Value::String(key.name.to_owned()));
                    }
                    issues.push(format!(
                        "`{}` must be {}, not {}",
                        key.name,
                        key.kind.expected_format(),
                        display_value(&value)
                    ));
                }
            }
        }
    }
    let more = issues.len().saturating_sub(MAX_COUNT);
    issues.truncate(MAX_COUNT);
    let mut warnings: Vec<String> = issues
        .into_iter()
        .map(|issue| format!("{}: {issue}; the value is ignored", path.display()))
        .collect();
    if more > 0 {
        warnings.push(format!("{}: … and {more} more invalid values", path.display()));
    }
    warnings
}

/// Returns the first parent of the key that exists but is not an object.
fn find_non_object_group(values: &Object, name: &str) -> Option<String> {
    name.match_indices('.').find_map(|(end, _)| {
        let group = name.get(..end)?;
        let value = get_dotted(values, group)?;
        (!value.is_object()).then(|| group.to_owned())
    })
}

fn replace(values: &mut Object, name: &str, value: Value) {
    match name.split_once('.') {
        None => {
            values.insert(name.to_owned(), value);
        }
        Some((group, rest)) => {
            if let Some(Value::Object(group)) = values.get_mut(group) {
                replace(group, rest, value);
            }
        }
    }
}

/// Formats a value for a message, truncated. Shows only its type if it may hold a secret.
fn display_value(value: &Value) -> String {
    match value {
        Value::Null => "`null`".to_owned(),
        Value::Bool(flag) => format!("`{flag}`"),
        Value::Number(number) => format!("`{number}`"),
        Value::String(text) if text.len() <= 20 => format!("`\"{text}\"`"),
        Value::String(_) => "a string".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::check;

    #[test]
    fn settings_of_the_wrong_type_are_removed_and_reported() {
        let mut values = json!({
            "general": {"vimMode": "true", "maxAttempts": "3", "retryFetchErrors": 1, "defaultApprovalMode": "yolo",
                        "sessionRetention": {"maxAge": "soon"}},
            "ui": "dark", "tools": {"core": ["a", 1], "exclude": ["b"]}, "own": {"x": 1}, "model": {"name": null}
        });
        let object = values.as_object_mut().expect("object");
        let warnings = check(object, Path::new("/s.json"));
        assert_eq!(
            values,
            json!({"general": {"vimMode": true, "maxAttempts": 3, "sessionRetention": {"enabled": false, "unusable": "general.sessionRetention.maxAge"}}, "tools": {"exclude": ["b"]},
                   "own": {"x": 1}, "model": {}})
        );
        assert_eq!(
            warnings,
            [
                "/s.json: `general.defaultApprovalMode` must be one of `default`, `auto_edit`, \
                 `plan`, not `\"yolo\"`; the value is ignored",
                "/s.json: `general.retryFetchErrors` must be `true` or `false`, not `1`; the value \
                 is ignored",
                "/s.json: `general.sessionRetention.maxAge` must be a duration such as `30d` \
                 (units h, d, w, m), not `\"soon\"`; the value is ignored",
                "/s.json: `ui` must be an object, not `\"dark\"`; the value is ignored",
                "/s.json: `tools.core` must be a list of strings, not a list; the value is ignored",
            ]
        );
    }
}
