//! Suggested rules for an approval request, from the narrowest to the broadest.

use std::path::{Path, PathBuf};

use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::{ApprovalMode, SuggestedRule};
use parallax_protocol::tool::ToolKind;

use crate::bash::{self, Command};
use crate::call::{CallQuery, ShellCall, WriteTarget};
use crate::command_prefix::{is_settled, quote_word};
use crate::hint;
use crate::names::{NARROWED, SHELL};
use crate::problem::Severity;
use crate::rule::{Priority, Rule, RuleSource};
use crate::rule_file::{RuleFile, Tier};
use crate::rule_toml::{ParseOptions, read};
use crate::suggested_rule_file::{check, suggested_rule_toml};
use crate::transparent::is_transparent;

/// The priority of a session rule.
const SESSION: Priority = Priority(3950);

/// Maximum number of prefixes; a longer list is not readable.
const MAX_PREFIXES: usize = 8;

/// Programs that run arbitrary code: a rule that covers all uses of one would allow everything.
const RUN_ANYTHING: &[&str] = &[
    "ash",
    "awk",
    "bash",
    "bunx",
    "busybox",
    "chroot",
    "cmake",
    "command",
    "csh",
    "dash",
    "deno",
    "docker",
    "doas",
    "env",
    "eval",
    "exec",
    "find",
    "fish",
    "flock",
    "gawk",
    "ksh",
    "lua",
    "mawk",
    "nice",
    "node",
    "nohup",
    "npx",
    "nsenter",
    "osascript",
    "parallel",
    "perl",
    "php",
    "pkexec",
    "pnpx",
    "podman",
    "pwsh",
    "python",
    "python2",
    "python3",
    "ruby",
    "runuser",
    "script",
    "setsid",
    "sh",
    "source",
    "ssh",
    "strace",
    "su",
    "sudo",
    "systemd-run",
    "tclsh",
    "tee",
    "time",
    "timeout",
    "uvx",
    "watch",
    "xargs",
    "zsh",
    ".",
    // Interpreters, editors, and clients of databases with commands for the shell.
    "ed",
    "emacs",
    "ex",
    "gdb",
    "ghci",
    "irb",
    "julia",
    "less",
    "lldb",
    "m4",
    "man",
    "mariadb",
    "mongosh",
    "more",
    "mysql",
    "nvim",
    "psql",
    "redis-cli",
    "sqlite3",
    "vi",
    "vim",
    "rm",
    "dd",
    "mv",
    "cp",
    "ln",
    "chmod",
    "chown",
    "curl",
    "wget",
];

/// Returns the suggested rules for a call that requires approval; `permissions` are the permissions
/// that the approval request also covers.
pub(crate) fn suggested_rules(
    call: &CallQuery<'_>,
    permissions: &Permissions,
) -> Vec<SuggestedRule> {
    let permissions = permissions.clone().union(&call.query.effects.permissions);
    let suggested_rules = match &call.shell {
        Some(shell) => for_line(call, shell, &permissions),
        None => for_tool(call, &permissions),
    };
    let mut unique: Vec<SuggestedRule> = Vec::new();
    for rule in suggested_rules {
        if !unique.contains(&rule) {
            unique.push(rule);
        }
    }
    unique
}

fn base(call: &CallQuery<'_>, permissions: &Permissions) -> SuggestedRule {
    const MODES: [ApprovalMode; 4] =
        [ApprovalMode::Plan, ApprovalMode::Default, ApprovalMode::AutoEdit, ApprovalMode::Yolo];
    SuggestedRule {
        tool_name: call.query.tool.to_owned(),
        permissions: permissions.clone(),
        modes: MODES.into_iter().filter(|mode| *mode >= call.mode).collect(),
        ..SuggestedRule::default()
    }
}

/// Returns the commands of a line that a rule must name.
fn commands_to_name<'c>(shell: &'c ShellCall<'_>, redirects: bool) -> Vec<&'c Command> {
    let commands = shell.line.commands.iter().enumerate();
    commands
        // A command that needs no rule is omitted, unless its output is redirected.
        .filter(|(index, command)| {
            !command.is_passed_on
                && !is_transparent(&shell.line, *index)
                && (redirects || !shell.is_safe(*index))
        })
        .map(|(_, command)| command)
        .collect()
}

/// Returns why no rule can name everything that the line runs.
fn no_rule_reason(shell: &ShellCall<'_>, commands: &[&Command]) -> Option<String> {
    let shown = |command: &Command| short_source(&command.source);
    if let Some(reason) = shell.unanalyzable_reason() {
        return Some(format!("the command line cannot be analyzed: {reason}"));
    }
    if commands.is_empty() {
        return Some("it contains no command that a rule can name".to_owned());
    }
    if commands.len() > MAX_PREFIXES {
        let count = commands.len();
        return Some(format!(
            "it runs {count} commands, but a rule can name at most {MAX_PREFIXES}"
        ));
    }
    let unsettled = commands.iter().find(|command| !is_settled(command))?;
    let is_known = unsettled.words.iter().all(|word| word.text.is_some());
    Some(match is_known && unsettled.words.iter().any(|word| word.glob) {
        false => format!("the effect of `{}` is known only at run time", shown(unsettled)),
        true => format!("a rule cannot name `~` and patterns, as in `{}`", shown(unsettled)),
    })
}

/// Returns the beginning of a command on a single line.
fn short_source(source: &str) -> String {
    const MAX_COUNT: usize = 40;
    let words = source.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(MAX_COUNT) {
        Some((end, _)) => format!("{}…", words.get(..end).unwrap_or_default()),
        None => words,
    }
}

/// Returns why there are no suggested rules for the call, for display.
pub(crate) fn no_rule_message(call: &CallQuery<'_>) -> String {
    let reason = call.shell.as_ref().and_then(|shell| {
        let redirects = shell.redirections().next().is_some();
        no_rule_reason(shell, &commands_to_name(shell, redirects))
    });
    reason.unwrap_or_else(|| "no rule for it would cover the whole command".to_owned())
}

fn for_line(
    call: &CallQuery<'_>,
    shell: &ShellCall<'_>,
    permissions: &Permissions,
) -> Vec<SuggestedRule> {
    let redirects = shell.redirections().next().is_some();
    let commands = commands_to_name(shell, redirects);
    if no_rule_reason(shell, &commands).is_some() {
        return Vec::new();
    }
    let mut permissions = permissions.clone();
    for path in shell.write_targets().iter().filter_map(WriteTarget::path) {
        if call.folders.are_outside(path) && !permissions.file_system.write.contains(path) {
            permissions.file_system.write.push(path.clone());
        }
    }
    let with = |prefixes: Option<Vec<String>>| {
        let mut unique = Vec::new();
        for prefix in prefixes? {
            if !unique.contains(&prefix) {
                unique.push(prefix);
            }
        }
        Some(SuggestedRule {
            tool_name: SHELL.to_owned(),
            command_prefix: unique,
            allow_redirection: redirects,
            path_glob: if redirects { files_of(call, shell) } else { None },
            ..base(call, &permissions)
        })
    };
    let all = |prefix: fn(&Command) -> Option<String>| {
        with(commands.iter().map(|command| prefix(command)).collect())
    };
    let mut suggested_rules: Vec<Option<SuggestedRule>> = vec![all(exact_command)];
    if !permissions.outside {
        suggested_rules.push(all(without_operands));
        suggested_rules.push(all(narrowest_prefix));
        suggested_rules.push(all(program));
    }
    let mut unique: Vec<SuggestedRule> = Vec::new();
    for rule in suggested_rules.into_iter().flatten() {
        if !unique.contains(&rule) {
            unique.push(rule);
        }
    }
    // A permission to write outside the sandbox is meant for this command only.
    let suggested = all(without_operands).filter(|_| permissions.file_system.is_empty());
    if let Some(rule) = unique.iter_mut().find(|rule| Some(&**rule) == suggested.as_ref()) {
        rule.is_default = true;
    }
    unique
}

/// Returns the program and its subcommand without operands if that is not more dangerous than the
/// command itself, otherwise all words.
fn without_operands(command: &Command) -> Option<String> {
    if bash::danger_reason(command).is_some() || bash::destruction(command).is_some() {
        return exact_command(command);
    }
    let prefix = bash::prefixes(command).into_iter().next().unwrap_or_default();
    let runs_module = matches!(prefix.as_slice(), [_, option, _, ..] if option == "-m");
    // The program alone would allow all of its subcommands.
    let is_whole = prefix.len() == 1
        && command.name().is_some_and(bash::has_subcommands)
        && command.words.len() > 1;
    let is_relative = prefix.first().is_none_or(|program| program.starts_with('.'));
    match is_whole || is_relative || (accepts_arbitrary_words(command) && !runs_module) {
        true => exact_command(command),
        false => Some(join_words(&prefix)),
    }
}

fn join_words(words: &[String]) -> String {
    words.iter().map(|word| quote_word(word)).collect::<Vec<_>>().join(" ")
}

/// Returns all words of the command if the text determines them. No further words may follow if the
/// program runs or destroys its arguments.
fn exact_command(command: &Command) -> Option<String> {
    let words: Option<Vec<String>> =
        command.words.iter().map(|word| word.text.clone().filter(|_| !word.glob)).collect();
    let end = if accepts_arbitrary_words(command) { " $" } else { "" };
    words.map(|words| join_words(&words) + end)
}

/// Returns the program and its subcommand, or what [`without_operands`] returns if these are not
/// specific enough: the rules of a line must not become narrower again for one of its commands.
fn narrowest_prefix(command: &Command) -> Option<String> {
    match hint::narrowest_prefix(command) {
        Some(prefix) if prefix.len() > 1 && !accepts_arbitrary_words(command) => {
            Some(join_words(&prefix))
        }
        _ => without_operands(command),
    }
}

/// Whether an additional word could be one more thing to run, destroy, or send. Words after a
/// script are arguments of the script.
fn accepts_arbitrary_words(command: &Command) -> bool {
    const INTERPRETERS: [&str; 14] = [
        "bash", "dash", "ksh", "lua", "node", "perl", "php", "python", "python2", "python3",
        "ruby", "sh", "tclsh", "zsh",
    ];
    let Some(name) = command.name() else { return true };
    let script = command.arguments().first().and_then(|word| word.text.as_deref());
    let runs_script = INTERPRETERS.contains(&name)
        && script.is_some_and(|script| !script.starts_with('-') && !script.is_empty());
    (RUN_ANYTHING.contains(&name) && !runs_script) || changes_services(command)
}

/// Whether the command changes or deletes something in a cluster or at a service, where a further
/// word may name everything.
fn changes_services(command: &Command) -> bool {
    const CLIENTS: [&str; 13] = [
        "aws", "az", "doctl", "fly", "flyctl", "gcloud", "gh", "glab", "helm", "heroku", "kubectl",
        "oc", "pulumi",
    ];
    const INFRASTRUCTURE: [&str; 2] = ["terraform", "tofu"];
    const VERBS: [&str; 16] = [
        "api",
        "apply",
        "delete",
        "destroy",
        "drain",
        "exec",
        "import",
        "patch",
        "purge",
        "rb",
        "remove",
        "replace",
        "rm",
        "scale",
        "uninstall",
        "upgrade",
    ];
    let is_client = command
        .name()
        .is_some_and(|name| CLIENTS.contains(&name) || INFRASTRUCTURE.contains(&name));
    is_client
        && command.arguments().iter().filter_map(|word| word.text.as_deref()).any(|word| {
            VERBS.contains(&word)
                || ["delete-", "terminate-", "remove-"].iter().any(|verb| word.starts_with(verb))
        })
}

/// Returns the program alone, unless it runs arbitrary code.
fn program(command: &Command) -> Option<String> {
    let name = command.name().filter(|name| !RUN_ANYTHING.contains(name))?;
    let text = command.words.first()?.text.clone()?;
    let is_simple = text == name || !text.starts_with('.');
    is_simple.then(|| join_words(&[text]))
}

fn for_tool(call: &CallQuery<'_>, permissions: &Permissions) -> Vec<SuggestedRule> {
    let query = call.query;
    let talks = matches!(query.kind, ToolKind::Communicate | ToolKind::SwitchMode | ToolKind::Plan);
    if talks || matches!(query.tool, "ask_user" | "enter_plan_mode" | "exit_plan_mode") {
        return Vec::new();
    }
    let whole = base(call, permissions);
    let is_narrowed = call.names.iter().any(|name| NARROWED.contains(name));
    if is_narrowed {
        let effects = query.effects;
        let paths = if effects.writes.is_empty() { &effects.reads } else { &effects.writes };
        let [path] = paths.as_slice() else { return Vec::new() };
        return for_path(path, query.workspace)
            .into_iter()
            .map(|glob| SuggestedRule { path_glob: Some(glob), ..whole.clone() })
            .collect();
    }
    if let Some(agent) = call.agent() {
        return vec![SuggestedRule { tool_name: agent.to_owned(), ..whole }];
    }
    let mut suggested_rules = vec![whole.clone()];
    if let Some(server) = query.origin.server {
        suggested_rules.push(SuggestedRule {
            tool_name: "*".to_owned(),
            mcp_name: Some(server.to_owned()),
            ..whole
        });
    }
    suggested_rules
}

/// Returns one glob for the files that a line with redirections reads and writes, or `None` if no
/// files can be named.
fn files_of(call: &CallQuery<'_>, shell: &ShellCall<'_>) -> Option<String> {
    let known = shell.write_targets().iter().all(|target| target.path().is_some());
    let mut globs: Vec<String> = Vec::new();
    for path in call.paths() {
        let glob = for_path(path, call.query.workspace).into_iter().next()?;
        if !globs.contains(&glob) {
            globs.push(glob);
        }
    }
    match globs.as_slice() {
        [] => None,
        _ if !known || globs.len() > MAX_PREFIXES => None,
        [one] => Some(one.clone()),
        all if all.iter().any(|glob| glob.contains(',')) => None,
        all => Some(format!("{{{}}}", all.join(","))),
    }
}

/// Returns globs for the file and for its directory.
fn for_path(path: &Path, roots: &[PathBuf]) -> Vec<String> {
    let shown = |path: &Path| path.to_str().map(globset::escape);
    // With several workspace directories, a relative path would apply to each of them.
    let relative = match roots {
        [root] => path.strip_prefix(root).ok().filter(|relative| !relative.as_os_str().is_empty()),
        _ => None,
    };
    let path = relative.unwrap_or(path);
    let mut globs: Vec<String> = shown(path).into_iter().collect();
    let directory = path.parent().filter(|directory| directory.parent().is_some());
    if let Some(directory) = directory.and_then(shown) {
        globs.push(format!("{directory}/**"));
    }
    globs
}

/// Converts a suggested rule to a session rule.
///
/// # Errors
/// Returns why the rule cannot be used, for display.
pub(crate) fn session_rule(rule: &SuggestedRule, home: Option<&Path>) -> Result<Rule, String> {
    check(rule)?;
    let file = RuleFile {
        tier: Tier::User,
        path: PathBuf::from("the rule"),
        text: Ok(suggested_rule_toml(rule)),
    };
    let loaded = read(&file, ParseOptions { home, workspace_may_allow: true });
    if let Some(problem) =
        loaded.problems.iter().find(|problem| problem.severity == Severity::Error)
    {
        return Err(problem.message.clone());
    }
    let mut rule = loaded.rules.into_iter().next().ok_or("The rule is empty")?;
    rule.source = RuleSource::Session;
    rule.priority = SESSION;
    Ok(rule)
}
