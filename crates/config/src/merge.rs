//! Merges the layers of settings.

use std::collections::HashMap;

use parallax_protocol::Object;
use serde_json::Value;

use crate::layers::ValueOrigin;

/// Lists that are merged across layers without duplicates.
const UNION: &[&str] = &[
    "tools.exclude",
    "policyPaths",
    "adminPolicyPaths",
    "advanced.excludedEnvVars",
    "context.fileFiltering.customIgnoreFilePaths",
    "skills.disabled",
    "hooksConfig.disabled",
    "extensions.disabled",
    "extensions.workspacesWithMigrationNudge",
    "mcp.excluded",
    "security.sandbox.hidden",
];

/// The origins of each value, by dotted key.
pub(crate) type Origins = HashMap<String, Vec<ValueOrigin>>;

enum MergeStrategy {
    Replace,
    Concat,
    Union,
    /// Only entries that all layers contain, ignoring case.
    Intersect,
    /// Merged one level deep: entries are replaced as a whole.
    Shallow,
}

fn strategy(key: &str) -> MergeStrategy {
    let is_hook_list = key.strip_prefix("hooks.").is_some_and(|event| !event.contains('.'));
    match key {
        "mcpServers" => MergeStrategy::Shallow,
        "mcp.allowed" => MergeStrategy::Intersect,
        "context.includeDirectories" => MergeStrategy::Concat,
        _ if is_hook_list => MergeStrategy::Concat,
        _ if UNION.contains(&key) => MergeStrategy::Union,
        _ => MergeStrategy::Replace,
    }
}

/// Merges `upper` over `lower`.
pub(crate) fn merge(
    lower: &mut Object,
    upper: Object,
    origin: &ValueOrigin,
    origins: &mut Origins,
) {
    merge_at(lower, upper, "", origin, origins);
}

fn merge_at(
    lower: &mut Object,
    upper: Object,
    prefix: &str,
    origin: &ValueOrigin,
    origins: &mut Origins,
) {
    for (name, value) in upper {
        if matches!(name.as_str(), "__proto__" | "constructor" | "prototype") {
            continue;
        }
        let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        // Only the service may set this.
        if key == "admin" {
            continue;
        }
        match (lower.get_mut(&name), value, strategy(&key)) {
            (Some(Value::Object(there)), Value::Object(fields), MergeStrategy::Shallow) => {
                for (entry, field) in fields {
                    record_origin(origins, format!("{key}.{entry}"), origin, false);
                    there.insert(entry, field);
                }
            }
            (Some(Value::Object(there)), Value::Object(fields), _) => {
                merge_at(there, fields, &key, origin, origins);
            }
            (None, Value::Object(fields), MergeStrategy::Shallow) => {
                fields.keys().for_each(|entry| {
                    record_origin(origins, format!("{key}.{entry}"), origin, false)
                });
                lower.insert(name, Value::Object(fields));
            }
            (None, Value::Object(fields), _) => {
                // Merged like any other object, so that reserved names are skipped and origins are
                // recorded.
                let mut fresh = Object::new();
                merge_at(&mut fresh, fields, &key, origin, origins);
                lower.insert(name, Value::Object(fresh));
            }
            (Some(Value::Array(there)), Value::Array(items), MergeStrategy::Concat) => {
                there.extend(items);
                record_origin(origins, key, origin, true);
            }
            (Some(Value::Array(there)), Value::Array(items), MergeStrategy::Union) => {
                for item in items {
                    if !there.contains(&item) {
                        there.push(item);
                    }
                }
                record_origin(origins, key, origin, true);
            }
            (Some(Value::Array(there)), Value::Array(items), MergeStrategy::Intersect) => {
                let folded = |value: &Value| value.as_str().map(str::to_lowercase);
                there.retain(|item| items.iter().any(|other| folded(other) == folded(item)));
                record_origin(origins, key, origin, true);
            }
            (_, value, _) => {
                record_origin(origins, key, origin, false);
                lower.insert(name, value);
            }
        }
    }
}

fn record_origin(origins: &mut Origins, key: String, origin: &ValueOrigin, adds: bool) {
    let sources = origins.entry(key).or_default();
    if !adds {
        sources.clear();
    }
    sources.push(origin.clone());
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::{Value, json};

    use super::{Origins, merge};
    use crate::layers::{Layer, ValueOrigin};

    fn merged(layers: &[Value]) -> (Value, Origins) {
        let mut origins = Origins::new();
        let mut all = parallax_protocol::Object::new();
        for (index, layer) in layers.iter().enumerate() {
            let origin = ValueOrigin { layer: Layer::User, file: PathBuf::from(index.to_string()) };
            merge(&mut all, layer.as_object().cloned().unwrap_or_default(), &origin, &mut origins);
        }
        (Value::Object(all), origins)
    }

    #[test]
    fn keys_are_merged_by_their_strategy() {
        let (all, origins) = merged(&[
            json!({"tools": {"core": ["a"], "exclude": ["x", "y"]}, "mcpServers": {"s": {"command": "c", "args": []}, "t": {}},
                   "context": {"includeDirectories": ["1"]}, "hooks": {"BeforeTool": [1]}, "mcp": {"allowed": ["A", "b"]}, "telemetry": true}),
            json!({"tools": {"core": ["b"], "exclude": ["y", "z"]}, "mcpServers": {"s": {"url": "u"}},
                   "context": {"includeDirectories": ["1", "2"], "fileName": "F"}, "hooks": {"BeforeTool": [2]}, "mcp": {"allowed": ["a", "c"]},
                   "telemetry": {"enabled": true}, "__proto__": {"a": 1}, "ui": {"constructor": 1, "theme": "t"}, "admin": {"x": 1}}),
        ]);
        assert_eq!(
            all,
            json!({"tools": {"core": ["b"], "exclude": ["x", "y", "z"]}, "mcpServers": {"s": {"url": "u"}, "t": {}},
                   "context": {"includeDirectories": ["1", "1", "2"], "fileName": "F"}, "hooks": {"BeforeTool": [1, 2]}, "mcp": {"allowed": ["A"]},
                   "telemetry": {"enabled": true}, "ui": {"theme": "t"}})
        );
        let files = |key: &str| -> Vec<String> {
            origins
                .get(key)
                .into_iter()
                .flatten()
                .map(|origin| origin.file.display().to_string())
                .collect()
        };
        assert_eq!(files("tools.core"), ["1"]);
        assert_eq!(files("tools.exclude"), ["0", "1"]);
        assert_eq!(files("ui.theme"), ["1"]);
    }
}
