//! Gemini CLI settings that have no effect in Parallax. Users who set one get a notice, so that
//! they do not rely on it.

use std::path::Path;

use parallax_protocol::Object;
use serde_json::Value;

use crate::migrate::get_dotted;

/// The key, the JSON value that needs no notice (empty if every value needs one), and the reason.
const KEYS: &[(&str, &str, &str)] = &[
    (
        "model.skipNextSpeakerCheck",
        "true",
        "the next speaker is never checked; the last response ends the turn",
    ),
    (
        "model.summarizeToolOutput",
        "{}",
        "long tool results are truncated and saved to a file, never summarized by a model",
    ),
    ("tools.disableLLMCorrection", "true", "failed edits are never corrected by a model"),
    ("experimental.worktrees", "false", "use the flag `--worktree`"),
    ("experimental.extensionManagement", "true", "extensions can always be managed"),
    ("experimental.extensionConfig", "true", "extension settings are always requested"),
    ("experimental.modelSteering", "true", "a running turn can always be steered"),
    ("ui.terminalBackgroundPollingInterval", "", "the terminal is always queried at startup"),
];

/// Whether the key is one of these settings.
pub(crate) fn is_unsupported(key: &str) -> bool {
    KEYS.iter().any(|(known, _, _)| *known == key)
}

/// Returns a one-line notice about such keys in one file; `None` if there are none.
pub(crate) fn notice(values: &Object, path: &Path) -> Option<String> {
    let set = |(key, idle, reason): &(&str, &str, &str)| {
        let value = get_dotted(values, key).filter(|value| !value.is_null())?;
        let asks = serde_json::from_str::<Value>(idle).map_or(true, |idle| idle != *value);
        asks.then(|| format!("`{key}` ({reason})"))
    };
    let named: Vec<String> = KEYS.iter().filter_map(set).collect();
    (!named.is_empty()).then(|| {
        let (these, have) =
            if named.len() == 1 { ("this setting", "has") } else { ("these settings", "have") };
        format!("{}: {these} {have} no effect: {}", path.display(), named.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_settings_that_request_something_are_reported() {
        let notice_for = |values: Value| {
            let values = values.as_object().cloned().expect("object");
            notice(&values, Path::new("/s.json"))
        };
        assert_eq!(notice_for(json!({"experimental": {"worktrees": false, "other": 1}})), None);
        assert_eq!(
            notice_for(json!({"experimental": {"worktrees": true}})).as_deref(),
            Some(
                "/s.json: this setting has no effect: `experimental.worktrees` (use the flag \
                 `--worktree`)"
            )
        );
        let two = notice_for(json!({"experimental": {"worktrees": true, "modelSteering": false}}));
        let two = two.expect("a notice");
        assert!(two.contains("these settings have no effect") && two.contains("modelSteering"));
    }
}
