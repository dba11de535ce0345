//! Turn overrides from a command's file.

use parallax_config::commands::{CommandOverrides, CommandSource};
use parallax_config::other_agents::parallax_tool;
use parallax_protocol::op::TurnOverrides;
use parallax_protocol::policy::{ApprovalMode, SuggestedRule};

/// Tools that never need approval.
const FREE: [&str; 4] = ["read_file", "glob", "grep_search", "list_directory"];

/// Returns the approval mode of a command's prompt, and why the mode in its file is ignored, if it
/// is. Any file may choose a stricter mode than `now`; only the user's own files may choose a more
/// permissive one, but never yolo.
pub(crate) fn mode_of(
    overrides: &CommandOverrides,
    source: &CommandSource,
    now: ApprovalMode,
    trusted: bool,
) -> (ApprovalMode, Option<String>) {
    let Some(requested) = overrides.mode.filter(|requested| *requested > now) else {
        return (overrides.mode.unwrap_or(now), None);
    };
    let reason = match (requested, source) {
        (ApprovalMode::Yolo, _) => "files cannot select it: start with `--yolo`",
        (_, CommandSource::Project | CommandSource::Extension(_)) => {
            "only your own commands can skip approval"
        }
        _ if !trusted => "the folder is not trusted",
        _ => return (requested, None),
    };
    (now, Some(format!("`mode = {}` is ignored: {reason}", requested.as_str())))
}

/// Returns the turn overrides of a command, and notices about ignored ones. Only the user's own
/// files may allow tool calls, because project and extension files are written by others.
pub(crate) fn turn_overrides(
    overrides: &CommandOverrides,
    source: &CommandSource,
) -> (TurnOverrides, Vec<String>) {
    let mut accepted = TurnOverrides {
        model: overrides.model.clone(),
        timeout: overrides.timeout,
        ..TurnOverrides::default()
    };
    accepted.tools = overrides.tools.as_ref().map(|tools| {
        let name = |entry: &String| parallax_tool(entry.split('(').next().unwrap_or(entry).trim());
        tools.iter().map(name).collect()
    });
    let mut notices = Vec::new();
    if *source == CommandSource::User {
        for entry in &overrides.allowed {
            match rule(entry) {
                Ok(rule) => accepted.allowed.extend(rule),
                Err(reason) => notices.push(format!("`{entry}` in `allowed-tools`: {reason}")),
            }
        }
    } else if !overrides.allowed.is_empty() {
        notices.push(
            "`allowed-tools` skips approval only in your own commands: these calls require \
             approval"
                .to_owned(),
        );
    }
    (accepted, notices)
}

/// Parses an entry of `allowed-tools`: a name, or `NAME(what)`. Returns `None` if such calls need
/// no permission.
fn rule(entry: &str) -> Result<Option<SuggestedRule>, String> {
    let (name, what) = match entry.trim().strip_suffix(')').and_then(|it| it.split_once('(')) {
        Some((name, what)) => (name.trim(), Some(what.trim())),
        None => (entry.trim(), None),
    };
    let what = what.filter(|what| !what.is_empty() && *what != "*");
    let tool_name = parallax_tool(name);
    if FREE.contains(&tool_name.as_str()) {
        return Ok(None);
    }
    let rule = SuggestedRule { tool_name, ..SuggestedRule::default() };
    Ok(Some(match (rule.tool_name.as_str(), what) {
        ("run_shell_command", Some(prefix)) => {
            let prefix = prefix.trim_end_matches('*').trim_end_matches(':').trim();
            if prefix.is_empty() {
                return Err("it does not name a command".to_owned());
            }
            SuggestedRule { command_prefix: vec![prefix.to_owned()], ..rule }
        }
        ("run_shell_command", None) => {
            return Err("specify commands, such as `run_shell_command(git status)`".to_owned());
        }
        ("write_file" | "replace", what) => {
            SuggestedRule { path_glob: Some(what.unwrap_or("**").to_owned()), ..rule }
        }
        (_, Some(_)) => return Err("only commands and paths can be restricted".to_owned()),
        (_, None) => rule,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allowed_and_denied_entries_become_rules() {
        let overrides = CommandOverrides {
            allowed: ["Bash(git add:*)", "Edit", "Read", "Bash", "web_fetch"]
                .map(str::to_owned)
                .to_vec(),
            ..CommandOverrides::default()
        };
        let (accepted, notices) = turn_overrides(&overrides, &CommandSource::User);
        let rules = accepted.allowed;
        let named: Vec<(&str, &[String], Option<&str>)> = rules
            .iter()
            .map(|rule| {
                (&*rule.tool_name, rule.command_prefix.as_slice(), rule.path_glob.as_deref())
            })
            .collect();
        let prefix = ["git add".to_owned()];
        assert_eq!(
            named,
            [
                ("run_shell_command", prefix.as_slice(), None),
                ("replace", &[], Some("**")),
                ("web_fetch", &[], None)
            ]
        );
        assert_eq!(notices.len(), 1, "{notices:?}");
        let (none, notices) = turn_overrides(&overrides, &CommandSource::Project);
        assert!(none == TurnOverrides::default() && notices.len() == 1, "{notices:?}");
    }

    #[test]
    fn command_file_of_a_project_can_only_choose_a_stricter_mode() {
        use ApprovalMode::{AutoEdit, Default, Plan, Yolo};
        use CommandSource::{Project, User};
        for (expected, source, now, actual, report) in [
            (Plan, Project, Default, Plan, false),
            (Default, Project, Yolo, Default, false),
            (AutoEdit, Project, Default, Default, true),
            (AutoEdit, User, Default, AutoEdit, false),
            (Yolo, User, Default, Default, true),
        ] {
            let overrides =
                CommandOverrides { mode: Some(expected), ..CommandOverrides::default() };
            let (mode, reason) = mode_of(&overrides, &source, now, true);
            assert_eq!((mode, reason.is_some()), (actual, report), "{expected:?} {source:?}");
        }
        let overrides = CommandOverrides { mode: Some(AutoEdit), ..CommandOverrides::default() };
        assert_eq!(mode_of(&overrides, &User, Default, false).0, Default);
        assert_eq!(mode_of(&CommandOverrides::default(), &User, Default, true), (Default, None));
    }
}
