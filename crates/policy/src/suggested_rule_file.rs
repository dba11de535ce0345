//! Suggested rules as rule file text.

use std::fmt::Write as _;
use std::path::PathBuf;

use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::{ApprovalMode, SuggestedRule};
use serde_json::Value;
use toml::de::DeValue;

use crate::line_checks;
use crate::names::NARROWED;
use crate::toml_table;
use crate::tool_pattern::ToolPattern;

/// Why a rule could not be added to a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddRuleError {
    /// The existing text is not a valid rule file and must not be overwritten.
    #[error("the existing file is not valid TOML: {0}")]
    Corrupt(String),
    /// The rule must not be saved.
    #[error("{0}")]
    Refused(String),
}

/// Returns the rule as it is shown and saved: one `[[rule]]` table.
pub fn suggested_rule_toml(rule: &SuggestedRule) -> String {
    let mut out = String::from("[[rule]]\n");
    let mut line = |key: &str, value: String| {
        // Writing to a `String` cannot fail.
        let _ = writeln!(out, "{key} = {value}");
    };
    line("name", text(&name_of(rule)));
    line("toolName", text(&rule.tool_name));
    if let Some(server) = &rule.mcp_name {
        line("mcpName", text(server));
    }
    match rule.command_prefix.as_slice() {
        [] => {}
        [one] => line("commandPrefix", text(one)),
        all => line("commandPrefix", list(all.iter().map(String::as_str))),
    }
    if let Some(pattern) = &rule.args_pattern {
        line("argsPattern", text(pattern));
    }
    if let Some(glob) = &rule.path_glob {
        line("pathGlob", text(glob));
    }
    if rule.allow_redirection {
        line("allowRedirection", "true".to_owned());
    }
    if !rule.permissions.is_empty() {
        line("permissions", permissions(&rule.permissions));
    }
    if !rule.modes.is_empty() {
        line("modes", list(rule.modes.iter().map(|mode| mode_name(*mode))));
    }
    line("decision", text("allow"));
    line("priority", "950".to_owned());
    out
}

/// Returns the text of a rule file with the rule appended. The text is unchanged if it already
/// contains the rule, under any name.
///
/// # Errors
/// Returns an error if the text is not a valid rule file or the rule must not be saved.
pub fn add_to_file(existing: &str, rule: &SuggestedRule) -> Result<String, AddRuleError> {
    check(rule).map_err(AddRuleError::Refused)?;
    let added = suggested_rule_toml(rule);
    let new = rules_of(&added)?;
    if rules_of(existing)?.iter().any(|rule| new.contains(rule)) {
        return Ok(existing.to_owned());
    }
    let mut text = existing.to_owned();
    if !text.is_empty() {
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text.push('\n');
    }
    text.push_str(&added);
    rules_of(&text)?;
    Ok(text)
}

/// Returns the rules without their names.
fn rules_of(text: &str) -> Result<Vec<Value>, AddRuleError> {
    let table = toml_table::parse(text).map_err(|(_, reason)| AddRuleError::Corrupt(reason))?;
    let rules = match table.get("rule").map(toml::Spanned::get_ref) {
        Some(DeValue::Array(rules)) => {
            rules.iter().map(|rule| toml_table::json(rule.get_ref())).collect()
        }
        _ => Vec::new(),
    };
    let unnamed = rules.into_iter().map(|mut rule: Value| {
        if let Some(rule) = rule.as_object_mut() {
            rule.remove("name");
        }
        rule
    });
    Ok(unnamed.collect())
}

fn mode_name(mode: ApprovalMode) -> &'static str {
    match mode {
        // The spelling that other programs read.
        ApprovalMode::AutoEdit => "autoEdit",
        other => other.as_str(),
    }
}

fn permissions(permissions: &Permissions) -> String {
    let Permissions {
        network,
        host_loopback,
        file_system,
        agents,
        repository_programs,
        caches,
        outside,
    } = permissions;
    let mut parts = Vec::new();
    for (provided, key) in [
        (network, "network"),
        (host_loopback, "hostLoopback"),
        (agents, "agents"),
        (repository_programs, "repositoryPrograms"),
        (caches, "caches"),
        (outside, "outside"),
    ] {
        if *provided {
            parts.push(format!("{key} = true"));
        }
    }
    if !file_system.is_empty() {
        let paths = |key: &str, paths: &[PathBuf]| {
            let paths: Vec<String> =
                paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
            (!paths.is_empty())
                .then(|| format!("{key} = {}", list(paths.iter().map(String::as_str))))
        };
        let files: Vec<String> =
            [paths("read", &file_system.read), paths("write", &file_system.write)]
                .into_iter()
                .flatten()
                .collect();
        parts.push(format!("fileSystem = {{ {} }}", files.join(", ")));
    }
    format!("{{ {} }}", parts.join(", "))
}

fn list<'a>(items: impl Iterator<Item = &'a str>) -> String {
    format!("[{}]", items.map(text).collect::<Vec<_>>().join(", "))
}

/// Returns the text as a single-line TOML string.
fn text(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            control if control.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

/// Checks whether the suggested rule may be saved.
///
/// # Errors
/// Returns what is wrong with the rule, for display.
pub(crate) fn check(rule: &SuggestedRule) -> Result<(), String> {
    let narrowed =
        !rule.command_prefix.is_empty() || rule.args_pattern.is_some() || rule.path_glob.is_some();
    let tool = rule.tool_name.as_str();
    let wide = ToolPattern::parse(tool);
    let reaches = NARROWED.iter().any(|name| wide.matches(&[name]));
    if rule.mcp_name.is_none() && reaches && !narrowed {
        return Err(format!(
            "A rule for every call of `{tool}` cannot be saved: specify commands, paths, or \
             arguments"
        ));
    }
    if rule.command_prefix.iter().any(|prefix| prefix.trim().is_empty()) {
        return Err("An empty command prefix would cover every command".to_owned());
    }
    Ok(())
}

/// Returns the name of a suggested rule.
fn name_of(rule: &SuggestedRule) -> String {
    let what = if !rule.command_prefix.is_empty() {
        rule.command_prefix.join(", ")
    } else if let Some(glob) = &rule.path_glob {
        format!("{} {glob}", rule.tool_name)
    } else if let Some(server) = &rule.mcp_name {
        format!("{} of {server}", rule.tool_name)
    } else {
        rule.tool_name.clone()
    };
    format!("always {}", line_checks::shorten(&what))
}
