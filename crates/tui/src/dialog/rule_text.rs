//! A policy rule as one line, for display and editing.
//!
//! The pattern can be edited: for commands their first words (several separated by ` | `), for
//! files a glob, otherwise a regular expression for the arguments.

use parallax_protocol::policy::{ApprovalMode, SuggestedRule};

use crate::status_line::mode_name;
use crate::transcript::display_name;

/// Returns the editable pattern of a rule.
pub(crate) fn pattern(rule: &SuggestedRule) -> String {
    if !rule.command_prefix.is_empty() {
        return rule.command_prefix.join(" | ");
    }
    rule.path_glob.clone().or_else(|| rule.args_pattern.clone()).unwrap_or_default()
}

/// Returns the rule with another pattern.
///
/// # Errors
/// Returns the reason as a message if the pattern is invalid.
pub(crate) fn with_pattern(rule: &SuggestedRule, pattern: &str) -> Result<SuggestedRule, String> {
    let pattern = pattern.trim();
    let mut changed = rule.clone();
    if pattern.is_empty() && is_open(rule) {
        changed.args_pattern = None;
        return Ok(changed);
    }
    if pattern.is_empty() {
        return Err("a rule without a pattern would allow everything; enter a pattern".to_owned());
    }
    if rule.command_prefix.is_empty() {
        if rule.path_glob.is_some() {
            changed.path_glob = Some(pattern.to_owned());
        } else {
            changed.args_pattern = Some(pattern.to_owned());
        }
        return Ok(changed);
    }
    let words: Vec<String> = pattern
        .split(" | ")
        .map(str::trim)
        .filter(|word| !word.is_empty() && *word != "|")
        .map(str::to_owned)
        .collect();
    if words.is_empty() {
        return Err("enter the first words of the commands".to_owned());
    }
    changed.command_prefix = words;
    Ok(changed)
}

/// Whether the rule covers all calls of a tool, or those selected by arguments.
fn is_open(rule: &SuggestedRule) -> bool {
    rule.command_prefix.is_empty() && rule.path_glob.is_none()
}

/// Describes the whole rule.
pub(crate) fn describe(rule: &SuggestedRule) -> String {
    let modes = match rule.modes.as_slice() {
        [] => String::new(),
        some => format!(", {}", modes(some)),
    };
    format!("{}{modes}", describe_rule(rule, commands(&rule.command_prefix)))
}

/// Describes the rule for an answer to a request that shows the command: without exact commands and
/// modes.
pub(crate) fn short_description(rule: &SuggestedRule) -> String {
    let prefixes = &rule.command_prefix;
    let is_exact = !prefixes.is_empty() && prefixes.iter().all(|prefix| prefix.ends_with(" $"));
    let commands = match prefixes.len() {
        1 if is_exact => "this exact command".to_owned(),
        _ if is_exact => "these exact commands".to_owned(),
        _ => abbreviate_prefixes(prefixes),
    };
    describe_rule(rule, commands)
}

/// Returns exact commands as they are, and prefixes with `…` after them.
fn abbreviate_prefixes(prefixes: &[String]) -> String {
    let short = prefixes.iter().map(|prefix| match prefix.strip_suffix(" $") {
        Some(exact) => format!("`{exact}`"),
        None => format!("`{prefix} …`"),
    });
    short.collect::<Vec<_>>().join(", ")
}

fn describe_rule(rule: &SuggestedRule, commands: String) -> String {
    let mut text = match (&rule.mcp_name, rule.command_prefix.as_slice()) {
        (Some(server), _) => format!("{} of {server}", tool(rule)),
        (None, []) => tool(rule).to_owned(),
        (None, _) => commands,
    };
    if let Some(glob) = &rule.path_glob {
        text.push_str(&format!(" for `{glob}`"));
    }
    if let Some(pattern) = &rule.args_pattern {
        text.push_str(&format!(" with arguments like `{pattern}`"));
    }
    if rule.allow_redirection {
        text.push_str(", with redirections");
    }
    let leave = rule.permissions.describe();
    if !leave.is_empty() {
        text.push_str(&format!(", with {leave}"));
    }
    text
}

/// Returns the syntax of the pattern as a hint for editing.
pub(crate) fn syntax(rule: &SuggestedRule) -> Option<&'static str> {
    let words =
        "the first words of a command; append ` $` for an exact match; separate several with ` | `";
    if is_open(rule) {
        return Some("a regular expression for the arguments as JSON; empty: all calls");
    }
    (!rule.command_prefix.is_empty()).then_some(words)
}

/// Describes command prefixes and exact commands (with a trailing `$` in the rule).
fn commands(prefixes: &[String]) -> String {
    let quoted = |words: &[&str]| {
        let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
        quoted.join(", ")
    };
    let exact: Vec<&str> = prefixes.iter().filter_map(|prefix| prefix.strip_suffix(" $")).collect();
    let open = prefixes.iter().map(String::as_str).filter(|prefix| !prefix.ends_with(" $"));
    let open: Vec<&str> = open.collect();
    match (exact.as_slice(), open.as_slice()) {
        (exact, []) if exact.len() == 1 => format!("exactly {}", quoted(exact)),
        ([], open) if open.len() == 1 => format!("commands that begin with {}", quoted(open)),
        (exact, []) => format!("{} commands, exactly {}", exact.len(), quoted(exact)),
        ([], open) => format!("commands that begin with one of {}", quoted(open)),
        (exact, open) => format!(
            "{} commands: exactly {}; commands that begin with {}",
            prefixes.len(),
            quoted(exact),
            quoted(open)
        ),
    }
}

fn tool(rule: &SuggestedRule) -> &str {
    match rule.unprefixed_tool_name() {
        "" | "*" => "all tools",
        name => display_name(name),
    }
}

/// Describes the modes in which a rule applies.
fn modes(modes: &[ApprovalMode]) -> String {
    let all_but_plan = [ApprovalMode::Default, ApprovalMode::AutoEdit, ApprovalMode::Yolo];
    if modes.len() == 3 && all_but_plan.iter().all(|mode| modes.contains(mode)) {
        return "not in plan mode".to_owned();
    }
    let names: Vec<&str> = modes.iter().map(|mode| mode_name(*mode)).collect();
    format!("modes: {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_text_round_trips_through_editing() {
        let rule = SuggestedRule {
            tool_name: "run_shell_command".to_owned(),
            command_prefix: vec!["git status".to_owned(), "ls".to_owned()],
            ..SuggestedRule::default()
        };
        assert_eq!(pattern(&rule), "git status | ls");
        let changed = with_pattern(&rule, " git | ls -l ").expect("a rule");
        assert_eq!(changed.command_prefix, ["git", "ls -l"]);
        assert_eq!(describe(&changed), "commands that begin with one of `git`, `ls -l`");
        let exact = with_pattern(&rule, "python3 -m pytest -q $").expect("a rule");
        assert_eq!(describe(&exact), "exactly `python3 -m pytest -q`");
        let mixed = with_pattern(&rule, "python3 -m pytest -q $ | git log").expect("a rule");
        assert_eq!(
            describe(&mixed),
            "2 commands: exactly `python3 -m pytest -q`; commands that begin with `git log`"
        );
        assert!(with_pattern(&rule, "  ").is_err() && with_pattern(&rule, " | ").is_err());
        let web = SuggestedRule { tool_name: "web_fetch".to_owned(), ..SuggestedRule::default() };
        let narrow = with_pattern(&web, r"https://example\.com/").expect("a rule");
        assert_eq!(describe(&narrow), r"WebFetch with arguments like `https://example\.com/`");
        assert_eq!(with_pattern(&narrow, "").expect("a rule"), web);
    }
}
