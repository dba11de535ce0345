//! Tests of which project settings need acceptance.

use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::tighten;
use crate::environment::Environment;
use crate::layers::{Layer, LayerFile};
use crate::outer_settings::OuterSettings;

fn layer(values: &Value) -> LayerFile {
    LayerFile {
        layer: Layer::User,
        path: "/home/.gemini/settings.json".into(),
        text: String::new(),
        values: values.as_object().cloned().unwrap_or_default(),
    }
}

fn tightened(values: &Value, outer: &Value) -> (Value, Vec<String>) {
    let mut values = values.as_object().cloned().unwrap_or_default();
    let outer = OuterSettings {
        layers: vec![layer(outer)],
        auth_method: "gemini-api-key".to_owned(),
        environment: Environment::new([("HOME".into(), "/home/u".into())]),
        ..OuterSettings::default()
    };
    let removed = tighten(&mut values, Path::new("/p"), &outer);
    (Value::Object(values), removed)
}

#[test]
fn project_tool_list_without_a_tool_of_the_user_is_ignored_with_a_warning() {
    let tools = |list: &[&str]| json!({"tools": {"core": list}});
    let outer = OuterSettings {
        layers: vec![layer(&tools(&["read_file", "glob"]))],
        environment: Environment::new([("HOME".into(), "/home/u".into())]),
        ..OuterSettings::default()
    };
    for (list, warned) in [(&["write_file"][..], true), (&["glob"], false), (&[], false)] {
        let mut warnings = Vec::new();
        super::narrow_core_tools(&mut [layer(&tools(list))], &outer, &mut warnings);
        assert_eq!(warnings.iter().any(|it| it.contains("is ignored")), warned, "{list:?}");
    }
}

#[test]
fn loosening_settings_are_removed_and_tightening_ones_kept() {
    // (project settings, settings that remain, removed keys)
    let table = [
        (
            json!({"tools": {"allowed": ["run_shell_command"]}}),
            json!({"tools": {}}),
            "tools.allowed",
        ),
        (json!({"tools": {"exclude": ["glob"]}}), json!({"tools": {"exclude": ["glob"]}}), ""),
        (
            json!({"tools": {"core": ["glob", "run_shell_command(ls)"]}}),
            json!({"tools": {"core": ["glob", "run_shell_command(ls)"]}}),
            "",
        ),
        (json!({"tools": {"core": ["glob"]}}), json!({"tools": {"core": ["glob"]}}), ""),
        (json!({"tools": {"sandbox": false}}), json!({"tools": {}}), ""),
        (json!({"tools": {"sandbox": "$S"}}), json!({"tools": {}}), "tools.sandbox"),
        (json!({"tools": {"sandbox": true}}), json!({"tools": {"sandbox": true}}), ""),
        (
            json!({"tools": {"sandbox": {"command": "docker", "image": "evil"}}}),
            json!({"tools": {}}),
            "tools.sandbox",
        ),
        (
            json!({"security": {"disableYoloMode": true}}),
            json!({"security": {"disableYoloMode": true}}),
            "",
        ),
        (
            json!({"security": {"disableYoloMode": "false"}}),
            json!({"security": {"disableYoloMode": "false"}}),
            "",
        ),
        (
            json!({"general": {"enableAutoUpdate": false}}),
            json!({"general": {"enableAutoUpdate": false}}),
            "",
        ),
        (
            json!({"security": {"sandbox": {"writable": ["/"], "caches": false}}}),
            json!({"security": {"sandbox": {"caches": false}}}),
            "security.sandbox.writable",
        ),
        (
            json!({"security": {"folderTrust": {"enabled": false}}}),
            json!({"security": {"folderTrust": {}}}),
            "security.folderTrust.enabled",
        ),
        (json!({"security": {"unknown": {"a.b": 1}}}), json!({"security": {}}), "security.unknown"),
        (
            json!({"mcpServers": {"s": {"command": "c", "trust": "yes"}, "t": {"trust": false}}}),
            json!({"mcpServers": {"s": {"command": "c"}, "t": {"trust": false}}}),
            "mcpServers.s.trust",
        ),
        (
            json!({"mcp": {"autoAllowInHeadless": true, "lazy": false}}),
            json!({"mcp": {"lazy": false}}),
            "mcp.autoAllowInHeadless",
        ),
        (
            json!({"policyPaths": ["/x"], "ui": {"theme": "t"}}),
            json!({"ui": {"theme": "t"}}),
            "policyPaths",
        ),
        (
            json!({"telemetry": {"enabled": true, "otlpEndpoint": "http://x"}}),
            json!({}),
            "telemetry",
        ),
        (
            json!({"general": {"defaultApprovalMode": "auto_edit"}}),
            json!({"general": {}}),
            "general.defaultApprovalMode",
        ),
        (
            json!({"context": {"includeDirectories": ["a", "/p/b", "../c", "/p/../d", "$HOME"], "fileName": "../../.ssh/id"}}),
            json!({"context": {"includeDirectories": ["a", "/p/b"]}}),
            "context.includeDirectories context.fileName",
        ),
    ];
    for (values, left, keys) in table {
        let (remaining, taken) = tightened(&values, &json!({}));
        assert_eq!((remaining, taken.join(" ")), (left, keys.to_owned()), "{values}");
    }
}

#[test]
fn only_differences_from_user_settings_count_as_loosening() {
    let user = json!({
        "tools": {"allowed": ["run_shell_command(ls)"], "sandbox": {"command": "docker", "image": "own"}},
        "security": {"disableYoloMode": true, "sandbox": {"writable": ["/data"]}},
        "telemetry": {"enabled": true, "target": "local"},
        "mcpServers": {"s": {"command": "c", "trust": true}},
        "context": {"includeDirectories": ["/shared"], "fileName": ["/shared/RULES.md"]},
        "policyPaths": ["/rules"], "hooksConfig": {"enabled": false},
        "general": {"defaultApprovalMode": "auto_edit"},
    });
    assert_eq!(tightened(&user, &user), (user.clone(), Vec::new()));
    let part = json!({"telemetry": {"enabled": true}, "policyPaths": []});
    assert_eq!(tightened(&part, &user), (part.clone(), Vec::new()));
    for project in [
        json!({"tools": {"allowed": ["ShellTool(ls -l)", "run_shell_command(ls)"]}}),
        json!({"mcpServers": {"s": {"command": "c", "excludeTools": ["x"]}}}),
    ] {
        assert_eq!(tightened(&project, &user), (project, Vec::new()));
    }
    let local =
        json!({"telemetry": {"enabled": true, "target": "local", "outfile": ".gemini/t.log"}});
    assert_eq!(tightened(&local, &json!({})), (local, Vec::new()));
    for (project, key) in [
        (json!({"tools": {"allowed": ["run_shell_command(rm)"]}}), "tools.allowed"),
        (json!({"security": {"disableYoloMode": false}}), "security.disableYoloMode"),
        (json!({"telemetry": {"target": "gcp"}}), "telemetry"),
        (json!({"mcpServers": {"s": {"command": "other"}}}), "mcpServers.s"),
        (json!({"policyPaths": ["/other"]}), "policyPaths"),
    ] {
        assert_eq!(tightened(&project, &user).1, [key], "{project}");
    }
}

#[test]
fn agent_overrides_that_only_restrict_need_no_acceptance() {
    let limits = |name: &str, turns: u64| json!({"agents": {"overrides": {(name): {"runConfig": {"maxTurns": turns}}}}});
    let enabled = |on: bool| json!({"agents": {"overrides": {"generalist": {"enabled": on}}}});
    for (project, user, is_loose) in [
        (enabled(false), json!({}), false),
        (enabled(true), json!({}), false),
        (enabled(true), enabled(false), true),
        (limits("codebase_investigator", 2), json!({}), false),
        (limits("codebase_investigator", 60), json!({}), true),
        (limits("mine", 30), limits("mine", 40), false),
        (limits("mine", 5), limits("mine", 4), true),
        (
            json!({"agents": {"overrides": {"mine": {"enabled": false, "tools": ["*"]}}}}),
            json!({}),
            true,
        ),
        (json!({"agents": {"overrides": {"mine": {"enabled": "yes"}}}}), json!({}), true),
    ] {
        let (_, taken) = tightened(&project, &user);
        assert_eq!(!taken.is_empty(), is_loose, "{project} with {user}");
    }
}

#[test]
fn harmless_settings_need_no_acceptance() {
    let user = json!({
        "context": {"includeDirectories": ["/usr/share/doc", "$HOME/x"]},
        "policyPaths": ["$HOME/rules"],
        "mcpServers": {"a": {"command": "c", "timeout": 600_000}},
    });
    for project in [
        json!({"security": {"auth": {"selectedType": "gemini-api-key"}}}),
        json!({"security": {"auth": {"enforcedType": "gemini-api-key"}}}),
        json!({"mcp": {"samplingTokens": 10}}),
        json!({"mcp": {"samplingTokens": 50_000}}),
        json!({"privacy": {"usageStatisticsEnabled": true}}),
        json!({"context": {"includeDirectories": ["/usr/share/doc/", "${HOME}/x", "../p/sub", "../p"]}}),
        json!({"policyPaths": ["${HOME}/rules"]}),
        json!({"mcpServers": {"a": {"command": "c", "args": [], "env": {}, "description": "x"}}}),
    ] {
        assert_eq!(tightened(&project, &user), (project, Vec::new()));
    }
    // A list of allowed extensions where the user has none, and the workspace itself.
    let own = |paths: Value| json!({"tools": {"sandboxAllowedPaths": paths}});
    for (project, left) in [
        (json!({"security": {"allowedExtensions": ["a", "b"]}}), None),
        (json!({"security": {"allowedExtensions": []}}), None),
        (own(json!(["."])), Some(own(json!([])))),
        (own(json!(["./", "/p", "/p/../p", "sub/..", "./x", "/p/a/b"])), Some(own(json!([])))),
    ] {
        let left = left.unwrap_or_else(|| project.clone());
        assert_eq!(tightened(&project, &json!({})), (left, Vec::new()));
    }
    for paths in [
        json!([".", ".git"]),
        json!(["a/.vscode"]),
        json!([".."]),
        json!(["/p", "~"]),
        json!([""]),
        json!(["$P"]),
    ] {
        assert_eq!(tightened(&own(paths), &json!({})).1, ["tools.sandboxAllowedPaths"]);
    }
    for (project, user) in [
        (json!([""]), json!([])),
        (json!(["a", 5]), json!([])),
        (json!("a"), json!([])),
        (json!([]), json!(["a"])),
        (json!(["a", "b"]), json!(["a"])),
    ] {
        let list = |list: &Value| json!({"security": {"allowedExtensions": list}});
        let key = "security.allowedExtensions";
        assert_eq!(tightened(&list(&project), &list(&user)).1, [key], "{project}");
    }
    // Without effect while telemetry is off.
    for (project, left) in [
        (json!({"telemetry": {"target": "gcp"}}), json!({})),
        (json!({"telemetry": {"otlpEndpoint": "http://x:4317", "logPrompts": true}}), json!({})),
        (
            json!({"telemetry": {"enabled": false, "target": "gcp", "otlpEndpoint": "http://x"}}),
            json!({"telemetry": {"enabled": false}}),
        ),
    ] {
        assert_eq!(tightened(&project, &json!({})), (left, Vec::new()));
    }
    for (project, key) in [
        (
            json!({"security": {"auth": {"selectedType": "vertex-ai"}}}),
            "security.auth.selectedType",
        ),
        (json!({"security": {"auth": {"enforcedType": "gateway"}}}), "security.auth.enforcedType"),
        (json!({"mcp": {"samplingTokens": 50_001}}), "mcp.samplingTokens"),
        (
            json!({"context": {"includeDirectories": ["../q", "../p/../q"]}}),
            "context.includeDirectories",
        ),
        (json!({"context": {"includeDirectories": ["sub/../../p"]}}), "context.includeDirectories"),
        (json!({"telemetry": {"enabled": "$ON", "target": "gcp"}}), "telemetry"),
    ] {
        assert_eq!(tightened(&project, &user).1, [key], "{project}");
    }
    let vertex = json!({"security": {"auth": {"selectedType": "vertex-ai"}}});
    let key = json!({"security": {"auth": {"selectedType": "gemini-api-key"}}});
    assert_eq!(tightened(&vertex, &vertex), (vertex.clone(), Vec::new()));
    assert_eq!(tightened(&key, &vertex).1, ["security.auth.selectedType"]);
}

#[test]
fn user_server_is_not_replaced_by_a_project_server() {
    let user = json!({"mcpServers": {"s": {"command": "good"}, "t": {"command": "same"}}});
    let project = json!({"mcpServers": {"s": {"command": "evil"}, "t": {"command": "same"}, "u": {"command": "own"}}});
    let (remaining, removed) = tightened(&project, &user);
    assert_eq!(
        remaining,
        json!({"mcpServers": {"t": {"command": "same"}, "u": {"command": "own"}}})
    );
    assert_eq!(removed, ["mcpServers.s"]);
    // Server lists and rules treat both names as the same server.
    let (_, removed) = tightened(&json!({"mcpServers": {"S": {"command": "evil"}}}), &user);
    assert_eq!(removed, ["mcpServers.S"]);
}

/// Generates values with the relevant names and words.
fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        prop::sample::select(vec!["true", "false", "docker", "../x", "ask", "a", "$A"])
            .prop_map(|text| json!(text)),
    ];
    let names = prop::sample::select(vec![
        "security",
        "tools",
        "sandbox",
        "allowed",
        "core",
        "network",
        "default",
        "mcpServers",
        "s",
        "trust",
        "telemetry",
        "enabled",
        "context",
        "includeDirectories",
        "fileName",
        "policyPaths",
        "hooksConfig",
        "general",
        "defaultApprovalMode",
        "hidden",
        "toolSandboxing",
        "confirmationRequired",
        "a.b",
    ]);
    leaf.prop_recursive(4, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            prop::collection::vec((names.clone(), inner), 0..6).prop_map(|fields| {
                Value::Object(fields.into_iter().map(|(name, it)| (name.to_owned(), it)).collect())
            }),
        ]
    })
}

proptest! {
    #[test]
    fn tightened_setting_no_longer_counts_as_loosening(values in values(), user in values()) {
        let (once, _) = tightened(&values, &user);
        let (twice, removed) = tightened(&once, &user);
        prop_assert!(removed.is_empty(), "{} then {:?}", once, removed);
        prop_assert_eq!(
            once.pointer("/tools/allowed").is_none_or(|it| it.is_null() || *it == json!([])),
            true
        );
        prop_assert!(twice.pointer("/security/sandbox/writable").is_none());
    }
}

#[test]
fn user_denials_and_sandbox_override_the_project() {
    let user =
        json!({"tools": {"confirmationRequired": ["a"], "sandbox": {"networkAccess": false}}});
    let project = json!({"tools": {"confirmationRequired": ["b"], "sandbox": "docker"}});
    let (remaining, removed) = tightened(&project, &user);
    assert_eq!(remaining, json!({"tools": {"confirmationRequired": ["a", "b"]}}));
    assert_eq!(removed, ["tools.sandbox"]);
    let project = json!({"tools": {"confirmationRequired": "none"}});
    assert_eq!(tightened(&project, &user).0, json!({"tools": {"confirmationRequired": ["a"]}}));
}

#[test]
fn project_may_enable_the_sandbox_that_the_user_disabled() {
    let user = json!({"tools": {"sandbox": false}});
    let project = json!({"tools": {"sandbox": true}});
    assert_eq!(tightened(&project, &user), (project.clone(), Vec::new()));
}
