//! Converts settings and flags to rules.

use std::path::PathBuf;
use std::sync::Arc;

use parallax_protocol::Object;
use parallax_protocol::policy::{ApprovalMode, Decision};
use parallax_protocol::protected_links::FindLinkTargets;

use crate::arguments_text::arguments_text;
use crate::build_guard::BuildFileGuard;
use crate::command_prefix::CommandPrefix;
use crate::conditions::Commands;
use crate::names::{SHELL, canonical_name};
use crate::pattern;
use crate::rule::{ALLOWED, Rule, RuleSource};
use crate::rule_file::RuleFile;
use crate::sandbox_table::SandboxTable;
use crate::tool_pattern::ToolPattern;

/// Settings and flags about tools. Entries are names (including old and class-style names), `*`,
/// `prefix*`, or `run_shell_command(command prefix)`.
#[derive(Debug, Clone, Default)]
pub struct PolicyOptions {
    /// `tools.core`: the only available tools, which need no approval. `None` makes all tools
    /// available.
    pub core: Option<Vec<String>>,
    /// Whether `tools.core` only selects the available tools, which then need approval as usual.
    pub core_tools_need_approval: bool,
    /// `tools.allowed` and `--allowed-tools`: tools that need no approval.
    pub allowed: Vec<String>,
    /// `tools.exclude`: tools that are not available.
    pub exclude: Vec<String>,
    /// Tools that are not available in this session, for example by `--exclude-tools`.
    pub excluded_in_session: Vec<String>,
    /// Tools that extensions exclude (`excludeTools`), by extension name.
    pub excluded_by: Vec<(String, Vec<String>)>,
    /// `tools.confirmationRequired`: tools that always need approval.
    pub confirmation_required: Vec<String>,
    /// MCP servers with `trust`, whose tools need no approval.
    pub trusted_servers: Vec<String>,
    /// Pairs of an agent and one of its own MCP servers with `trust`. Their tools need no approval
    /// when that agent calls them.
    pub agent_servers: Vec<(String, String)>,
    /// MCP servers allowed by name (`mcp.allowed`), whose tools need no approval.
    pub allowed_servers: Vec<String>,
    /// `mcp.autoAllowInHeadless`: whether tools of MCP servers are allowed if no user is available
    /// for approval.
    pub allow_servers_headless: bool,
    /// Built-in skills, which are activated without approval.
    pub built_in_skills: Vec<String>,
    /// `security.buildFileGuard`.
    pub build_file_guard: BuildFileGuard,
    /// The plan directory, resolved.
    pub plans_directory: Option<PathBuf>,
    /// Directories for temporary files, resolved; empty means `/tmp` and `/var/tmp`.
    pub temporary_directories: Vec<PathBuf>,
    /// The home directory of the user, for `~/` in rules.
    pub home: Option<PathBuf>,
    /// Rule files of all tiers, in the order in which they are named.
    pub files: Vec<RuleFile>,
    /// Whether rules of the project may also allow calls.
    pub workspace_may_allow: bool,
    /// `security.disableAlwaysAllow`: whether "always" answers are neither offered nor applied.
    pub disable_always_allow: bool,
    /// `tools.shell.commandSubstitution` = `allow`: whether commands in `$(…)` are exempt from
    /// evaluation.
    pub free_substitutions: bool,
    /// What commands may do beyond the sandbox, by mode and by program.
    pub sandbox: SandboxTable,
    /// Finds what protected links point to, which is as protected as they are.
    pub links: Option<Arc<dyn FindLinkTargets>>,
}

/// Above the rules that make skills require approval, below the rules of files and settings.
const BUILT_IN_SKILL: u32 = 1060;

const NOT_PLAN: [ApprovalMode; 3] =
    [ApprovalMode::Default, ApprovalMode::AutoEdit, ApprovalMode::Yolo];

/// The entries of one setting, split into tools and commands.
#[derive(Default)]
struct SettingEntries {
    tools: Vec<String>,
    commands: Vec<String>,
}

/// Returns the rules, and messages for display about entries that could not be converted.
pub(crate) fn rules(options: &PolicyOptions) -> (Vec<Rule>, Vec<String>) {
    let mut notices = Vec::new();
    let mut rules = Vec::new();

    let exclude = read(&options.exclude, "tools.exclude", true, &mut notices);
    rules.extend(exclude.denials("excluded", "tools.exclude", "The setting `tools.exclude`"));

    let exclude = read(&options.excluded_in_session, "--exclude-tools", true, &mut notices);
    for mut rule in exclude.denials("excluded", "--exclude-tools", "This session") {
        rule.source = RuleSource::Session;
        rules.push(rule);
    }

    for (extension, tools) in &options.excluded_by {
        let output = format!("excludeTools` of the extension `{extension}");
        let exclude = read(tools, &output, true, &mut notices);
        let what = format!("excluded by the extension `{extension}`");
        let owner = format!("The extension `{extension}`");
        rules.extend(exclude.denials(&what, "excludeTools", &owner));
    }

    for (servers, what, key, priority) in [
        (&options.trusted_servers, "is trusted", "mcpServers.trust", 4200),
        (&options.allowed_servers, "is allowed", "mcp.allowed", 4100),
    ] {
        for server in servers {
            let name = format!("MCP server `{server}` {what}");
            let mut rule = settings_rule(&name, key, priority, Decision::Allow);
            rule.conditions.tools = vec![ToolPattern::for_server(server, "*")];
            rule.conditions.server = Some(server.clone());
            rule.conditions.modes = NOT_PLAN.to_vec();
            rules.push(rule);
        }
    }

    if options.allow_servers_headless {
        let key = "mcp.autoAllowInHeadless";
        let name = "MCP servers when no user is present";
        let mut rule = settings_rule(name, key, 4100, Decision::Allow);
        rule.conditions.tools = vec![ToolPattern::for_server("*", "*")];
        rule.conditions.modes = NOT_PLAN.to_vec();
        rule.conditions.interactive = Some(false);
        rules.push(rule);
    }

    for (agent, server) in &options.agent_servers {
        let name = format!("MCP server `{server}` of `{agent}` is trusted");
        let mut rule = settings_rule(&name, "mcp_servers.trust", 4200, Decision::Allow);
        rule.conditions.tools = vec![ToolPattern::for_server(server, "*")];
        rule.conditions.server = Some(server.clone());
        rule.conditions.agent = Some(agent.clone());
        rule.conditions.modes = NOT_PLAN.to_vec();
        rules.push(rule);
    }

    for skill in &options.built_in_skills {
        // Matches the whole arguments, so that no other key can contain the name.
        let mut arguments = Object::new();
        arguments.insert("name".to_owned(), skill.as_str().into());
        let pattern = format!("^{}$", regex::escape(&arguments_text(&arguments, None)));
        let Ok(pattern) = pattern::compile(&pattern) else { continue };
        let mut rule = Rule::new("built-in skills", BUILT_IN_SKILL, Decision::Allow);
        rule.conditions.tools = vec![ToolPattern::Exact("activate_skill".to_owned())];
        rule.conditions.arguments = Some(pattern);
        rules.push(rule);
    }

    let ask =
        read(&options.confirmation_required, "tools.confirmationRequired", true, &mut notices);
    rules.extend(ask.rules("always asks", "tools.confirmationRequired", 4350, Decision::Ask));

    let allowed = read(&options.allowed, ALLOWED, false, &mut notices);
    rules.extend(allowed.rules("allowed", ALLOWED, 4300, Decision::Allow));
    if !allowed.commands.is_empty() && !allowed.names_whole_shell() {
        let mut narrow = settings_rule("only the allowed commands", ALLOWED, 4290, Decision::Ask);
        narrow.conditions.tools = vec![ToolPattern::Exact(SHELL.to_owned())];
        narrow.deny_message = Some(format!(
            "Only these shell commands are allowed, without variables or substitutions: {}",
            join_commands(&allowed.commands)
        ));
        rules.push(narrow);
    }

    if let Some(core) = &options.core {
        let core = read(core, "tools.core", false, &mut notices);
        for mut rule in core.rules("in the list of tools", "tools.core", 4250, Decision::Allow) {
            rule.conditions.modes = NOT_PLAN.to_vec();
            rule.exempts_only = options.core_tools_need_approval;
            rules.push(rule);
        }
        let mut others =
            settings_rule("not in the list of tools", "tools.core", 4240, Decision::Deny);
        others.conditions.tools = vec![ToolPattern::Any];
        others.conditions.modes = NOT_PLAN.to_vec();
        others.deny_message = Some(if core.commands.is_empty() {
            "The setting `tools.core` does not list this tool".to_owned()
        } else {
            format!(
                "The setting `tools.core` does not list this call; the shell commands that it \
                 lists, without variables or substitutions: {}",
                join_commands(&core.commands)
            )
        });
        rules.push(others);
    }
    (rules, notices)
}

/// Separates whole tools from shell commands. An entry that narrows another tool counts as the
/// whole tool if that is stricter, and is ignored otherwise.
fn read(entries: &[String], key: &str, strict: bool, notices: &mut Vec<String>) -> SettingEntries {
    let mut read = SettingEntries::default();
    for entry in entries.iter().map(|entry| entry.trim()).filter(|entry| !entry.is_empty()) {
        let Some((name, argument)) = entry.strip_suffix(')').and_then(|rest| rest.split_once('('))
        else {
            read.tools.push(entry.to_owned());
            continue;
        };
        let name = name.trim();
        if canonical_name(name) == SHELL {
            match argument.trim() {
                // Empty parentheses must not allow every command.
                "" if !strict => notices.push(format!(
                    "`{entry}` in `{key}` is ignored: it does not name a command; use `{SHELL}` \
                     for all commands"
                )),
                "" | "*" => read.tools.push(SHELL.to_owned()),
                prefix => read.commands.push(prefix.to_owned()),
            }
        } else if strict {
            read.tools.push(name.to_owned());
            notices.push(format!(
                "`{entry}` in `{key}` applies to all of `{name}`: only `{SHELL}` can be narrowed"
            ));
        } else {
            notices.push(format!(
                "`{entry}` in `{key}` is ignored: only `{SHELL}` entries can be narrowed"
            ));
        }
    }
    read
}

impl SettingEntries {
    fn names_whole_shell(&self) -> bool {
        self.tools.iter().any(|tool| ToolPattern::parse(tool).matches(&[SHELL]))
    }

    /// Returns the rules that deny these, with messages that name who excludes them.
    fn denials(&self, what: &str, key: &'static str, owner: &str) -> Vec<Rule> {
        let mut rules = self.rules(what, key, 4400, Decision::Deny);
        for rule in &mut rules {
            rule.deny_message = Some(match rule.conditions.commands {
                Commands::Any => format!("{owner} excludes this tool"),
                _ => format!(
                    "{owner} excludes commands that begin with {}",
                    join_commands(&self.commands)
                ),
            });
        }
        rules
    }

    fn rules(&self, what: &str, key: &'static str, priority: u32, decision: Decision) -> Vec<Rule> {
        let mut rules = Vec::new();
        for tool in &self.tools {
            let mut rule = settings_rule(&format!("`{tool}` {what}"), key, priority, decision);
            rule.conditions.tools = vec![ToolPattern::parse(tool)];
            rules.push(rule);
        }
        if !self.commands.is_empty() {
            let name = format!("commands {} {what}", join_commands(&self.commands));
            let mut rule = settings_rule(&name, key, priority, decision);
            rule.conditions.tools = vec![ToolPattern::Exact(SHELL.to_owned())];
            rule.conditions.commands = Commands::Prefixes(
                self.commands.iter().map(|prefix| CommandPrefix::parse(prefix)).collect(),
            );
            rules.push(rule);
        }
        rules
    }
}

fn settings_rule(name: &str, key: &'static str, priority: u32, decision: Decision) -> Rule {
    let mut rule = Rule::new(name, priority, decision);
    rule.source = RuleSource::Setting(key);
    rule
}

fn join_commands(commands: &[String]) -> String {
    commands.iter().map(|command| format!("`{command}`")).collect::<Vec<_>>().join(", ")
}
