//! The tool list of a project (`tools.core`). It narrows the user's list and never grants anything,
//! so it needs no acceptance.

use parallax_policy::ToolPattern;
use parallax_protocol::Object;
use serde_json::Value;

use super::effective::merge_effective_settings;
use crate::layers::LayerFile;
use crate::migrate::{get_dotted, set_default, take};
use crate::outer_settings::OuterSettings;

const KEY: &str = "tools.core";

/// Narrows the lists of the project's files to the tools of the user's list. Ignores a list that
/// would leave none of the user's tools, with a warning. Returns `true` if the project has a list and the user has
/// none, so that its tools need approval like any other.
pub(crate) fn narrow(
    project: &mut [LayerFile],
    outer: &OuterSettings,
    warnings: &mut Vec<String>,
) -> bool {
    let users = list(&merge_effective_settings(outer, None));
    let mut allowed = users.clone();
    for file in &mut *project {
        let Some(own) = list(&file.values) else { continue };
        let own_is_empty = own.is_empty();
        let narrowed = match &allowed {
            Some(allowed) => intersect_entries(allowed, &own),
            None => own,
        };
        take(&mut file.values, KEY);
        if !narrowed.is_empty() {
            let entries = narrowed.iter().map(|entry| Value::String(entry.clone())).collect();
            set_default(&mut file.values, KEY, Value::Array(entries));
            allowed = Some(narrowed);
        } else if !own_is_empty {
            warnings.push(format!(
                "`{KEY}` in `{}` is ignored: it would leave none of the tools that your settings \
                 allow",
                file.path.display()
            ));
        }
    }
    users.is_none() && allowed.is_some()
}

/// Returns the list, if it is valid.
fn list(values: &Object) -> Option<Vec<String>> {
    let entries = get_dotted(values, KEY)?.as_array()?;
    entries.iter().map(|entry| entry.as_str().map(str::to_owned)).collect()
}

/// Returns the intersection of both lists, with the narrower entry of each pair.
fn intersect_entries(users: &[String], project: &[String]) -> Vec<String> {
    let mut narrowed = Vec::new();
    for (ours, theirs) in project.iter().flat_map(|ours| users.iter().map(move |it| (ours, it))) {
        let entry = match (covers(theirs, ours), covers(ours, theirs)) {
            (true, _) => ours,
            (false, true) => theirs,
            (false, false) => continue,
        };
        if !narrowed.contains(entry) {
            narrowed.push(entry.clone());
        }
    }
    narrowed
}

/// Whether an entry matches everything that another one matches.
pub(super) fn covers(wide: &str, narrow: &str) -> bool {
    let (wide_tool, wide_commands) = parts(wide);
    let (narrow_tool, narrow_commands) = parts(narrow);
    let narrow_tool = match ToolPattern::parse(narrow_tool) {
        ToolPattern::Exact(name) => name,
        ToolPattern::Any | ToolPattern::Wildcard { .. } => narrow_tool.to_owned(),
    };
    ToolPattern::parse(wide_tool).covers(&narrow_tool)
        && match (wide_commands, narrow_commands) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(wide), Some(narrow)) => narrow
                .strip_prefix(wide)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(' ')),
        }
}

/// Returns the tool and the command prefix: `run_shell_command(git log)`.
fn parts(entry: &str) -> (&str, Option<&str>) {
    let entry = entry.trim();
    match entry.strip_suffix(')').and_then(|rest| rest.split_once('(')) {
        Some((tool, "*")) => (tool.trim(), None),
        Some((tool, commands)) => (tool.trim(), Some(commands.trim().trim_end_matches(":*"))),
        None => (entry, None),
    }
}

#[cfg(test)]
mod tests {
    use super::{covers, intersect_entries};

    fn narrow(users: &[&str], project: &[&str]) -> Vec<String> {
        let owned = |list: &[&str]| list.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        intersect_entries(&owned(users), &owned(project))
    }

    #[test]
    fn project_list_narrows_the_user_list() {
        assert_eq!(narrow(&["read_file", "glob"], &["glob", "write_file"]), ["glob"]);
        assert_eq!(
            narrow(&["run_shell_command(git)", "glob"], &["ShellTool"]),
            ["run_shell_command(git)"]
        );
        assert_eq!(
            narrow(&["run_shell_command"], &["run_shell_command(git log)"]),
            ["run_shell_command(git log)"]
        );
        assert_eq!(
            narrow(&["mcp_git_push", "mcp_git_*"], &["mcp_*"]),
            ["mcp_git_push", "mcp_git_*"]
        );
        assert!(narrow(&["glob"], &["run_shell_command"]).is_empty());
        assert!(narrow(&["glob"], &[]).is_empty());
    }

    #[test]
    fn entry_covers_only_complete_words() {
        assert!(covers("run_shell_command(git)", "Shell(git log)"));
        assert!(!covers("run_shell_command(git)", "run_shell_command(gitk)"));
        assert!(!covers("run_shell_command(git)", "run_shell_command"));
        assert!(covers("run_shell_command(npm run:*)", "run_shell_command(npm run lint)"));
        assert!(covers("*", "mcp_a_b") && !covers("mcp_a_b", "*"));
    }
}
