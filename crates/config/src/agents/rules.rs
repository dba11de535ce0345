//! The `policy` field of a definition: rules for the tool calls of this agent, in the syntax of
//! rule files.

use std::fmt::Write as _;
use std::path::PathBuf;

use parallax_policy::{RuleFile, Severity, Tier, lint};
use serde_json::Value;

/// The default priority of a rule.
const PRIORITY: u32 = 500;

/// Creates the text of a rule file for the agent.
///
/// # Errors
/// Returns the reason if the rules are invalid. Without its rules, an agent could do more than its
/// author intended.
pub(super) fn read(agent: &str, value: &Value) -> Result<String, String> {
    let rules = value.as_array().ok_or("`policy` must be a list of rules")?;
    let mut text = String::new();
    for rule in rules {
        let rule = rule.as_object().ok_or("a rule of `policy` must be a mapping")?;
        if rule.contains_key("subagent") {
            return Err(
                "rules of `policy` always apply to this agent: remove `subagent`".to_owned()
            );
        }
        // Writing to a string cannot fail.
        let _ = writeln!(text, "[[rule]]\nsubagent = {}", quote(agent));
        if !rule.contains_key("priority") {
            let _ = writeln!(text, "priority = {PRIORITY}");
        }
        for (key, value) in rule {
            let _ = writeln!(text, "{} = {}", quote(key), toml(value)?);
        }
    }
    let file = RuleFile { tier: Tier::User, path: PathBuf::new(), text: Ok(text.clone()) };
    match lint(&file, None).into_iter().find(|problem| problem.severity == Severity::Error) {
        Some(problem) => Err(format!("`policy`: {}", problem.message())),
        None => Ok(text),
    }
}

fn toml(value: &Value) -> Result<String, String> {
    Ok(match value {
        Value::Null => return Err("a value in `policy` is empty".to_owned()),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => quote(text),
        Value::Array(items) => {
            let items = items.iter().map(toml).collect::<Result<Vec<_>, _>>()?;
            format!("[{}]", items.join(", "))
        }
        Value::Object(fields) => {
            let field = |(key, value): (&String, &Value)| {
                Ok::<_, String>(format!("{} = {}", quote(key), toml(value)?))
            };
            let fields = fields.iter().map(field).collect::<Result<Vec<_>, _>>()?;
            format!("{{ {} }}", fields.join(", "))
        }
    })
}

/// Quotes a string as JSON, which TOML also accepts, except for one control character.
fn quote(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn agent_rules_apply_only_to_that_agent() {
        let rules = json!([
            {"toolName": "run_shell_command", "commandPrefix": ["git \"x\"", "ls"],
             "decision": "allow"},
            {"toolName": "write_file", "decision": "deny", "priority": 900}
        ]);
        let text = read("looker", &rules).expect("rules");
        assert_eq!(text.matches("subagent = \"looker\"").count(), 2, "{text}");
        assert_eq!(text.matches("priority").count(), 2, "{text}");
    }

    #[test]
    fn invalid_rule_disables_the_agent() {
        for (rules, reason) in [
            (json!({}), "list of rules"),
            (json!(["x"]), "a mapping"),
            (json!([{"toolName": "glob", "decision": "perhaps"}]), "`policy`: "),
            (
                json!([{"toolName": "glob", "decision": "deny", "subagent": "x"}]),
                "remove `subagent`",
            ),
            (json!([{"toolName": null, "decision": "deny"}]), "is empty"),
        ] {
            let error = read("a", &rules).expect_err("none");
            assert!(error.contains(reason), "{rules}: {error}");
        }
    }
}
