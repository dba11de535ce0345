//! The table of all settings: names, types, defaults, and descriptions. Settings files are checked
//! against it, and the reference documentation is generated from it. Unknown keys are kept
//! unchanged.

use std::path::Path;

use parallax_protocol::Object;
use serde_json::{Number, Value, json};

use crate::migrate::{look, take};

/// The type of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`.
    Flag,
    /// A number.
    Number,
    /// A string.
    Text,
    /// One of the listed strings.
    Choice(&'static [&'static str]),
    /// A duration with the unit `h`, `d`, `w`, or `m`.
    Age,
    /// A list of strings.
    Texts,
    /// A string or a list of strings.
    TextOrTexts,
    /// A list of arbitrary values.
    List,
    /// An object.
    Object,
    /// A boolean or one of the listed strings.
    FlagOr(&'static [&'static str]),
    /// A boolean, a string, or an object.
    FlagTextOrObject,
}

/// A setting.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// The dotted name.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// The default as JSON; empty if there is none.
    pub default: &'static str,
    /// A short description.
    pub doc: &'static str,
}

const fn key(name: &'static str, kind: Kind, default: &'static str, doc: &'static str) -> Key {
    Key { name, kind, default, doc }
}

use Kind::{
    Age, Choice, Flag, FlagOr, FlagTextOrObject, List, Number as Num, Object as Obj, Text,
    TextOrTexts, Texts,
};

/// All known settings.
pub const KEYS: &[Key] = &[
    key(
        "general.preferredEditor",
        Text,
        "",
        "Editor for prompts and files; else `$VISUAL`, `$EDITOR`",
    ),
    key("general.vimMode", Flag, "false", "Vim keys in the composer"),
    key(
        "general.defaultApprovalMode",
        Choice(&["default", "auto_edit", "plan"]),
        "\"default\"",
        "Approval mode at start",
    ),
    key("general.enableNotifications", Flag, "false", "Notifications of the terminal"),
    key(
        "general.notificationMethod",
        Choice(&["auto", "osc9", "osc777", "bell"]),
        "\"auto\"",
        "How the terminal is told to notify",
    ),
    key("general.openEditorInNewWindow", Flag, "false", "A new window for editors of windows"),
    key("general.checkpointing.enabled", Flag, "false", "Checkpoints before edits"),
    key("general.plan.enabled", Flag, "true", "Plan mode exists"),
    key("general.plan.directory", Text, "", "Folder for plans, inside the project"),
    key("general.plan.modelRouting", Flag, "true", "A stronger model while planning"),
    key(
        "general.retryFetchErrors",
        Flag,
        "true",
        "Retry after unclear network failures and cut streams",
    ),
    key("general.maxAttempts", Num, "10", "Attempts of a model request, at most 10"),
    key("general.sessionRetention.enabled", Flag, "true", "Delete old sessions"),
    key("general.sessionRetention.maxAge", Age, "\"30d\"", "Older sessions go"),
    key("general.sessionRetention.maxCount", Num, "", "More sessions than this go, oldest first"),
    key("general.sessionRetention.minRetention", Age, "\"1d\"", "Younger sessions stay"),
    key("general.devtools", Flag, "false", "DevTools starts with sessions of the terminal"),
    key(
        "general.sessionNames",
        Choice(&["prompt", "model"]),
        "\"prompt\"",
        "What sessions are called: their first prompt, or what a quick model says (ours)",
    ),
    key(
        "general.sessionEncryption",
        Choice(&["off", "keychain", "file"]),
        "\"off\"",
        "Whether sessions are encrypted, and where the key lies (ours; not a project's)",
    ),
    key(
        "general.sessionRedaction",
        Flag,
        "false",
        "Secrets are taken out of sessions before they are written (ours; not a project's)",
    ),
    key(
        "sessions.mirror",
        Choice(&["off", "gemini"]),
        "\"off\"",
        "Keeps a copy of each session where Gemini CLI keeps its own (ours; not a project's)",
    ),
    key("general.topicUpdateNarration", Flag, "true", "The model names its topic as it works"),
    key(
        "output.format",
        Choice(&["text", "json", "stream-json"]),
        "\"text\"",
        "Format of headless output",
    ),
    key("ui.theme", Text, "", "Name or file of the theme"),
    key("ui.autoThemeSwitching", Flag, "true", "A light or dark theme by the background"),
    key("ui.customThemes", Obj, "{}", "Themes of your own, by name"),
    key("ui.hideWindowTitle", Flag, "false", "The title of the window stays as it is"),
    key("ui.showStatusInTitle", Flag, "false", "What the model thinks about, in the title"),
    key("ui.dynamicWindowTitle", Flag, "true", "The title tells what goes on"),
    key("ui.showHomeDirectoryWarning", Flag, "true", "A warning in the home directory"),
    key("ui.hideTips", Flag, "false", "No tips at start"),
    key("ui.hideBanner", Flag, "false", "No banner at start"),
    key("ui.hideContextSummary", Flag, "false", "No line about context files and servers"),
    key("ui.hideFooter", Flag, "false", "No footer"),
    key("ui.escapePastedAtSymbols", Flag, "false", "`@` in pasted text names no file"),
    key("ui.showShortcutsHint", Flag, "true", "A hint at the keys"),
    key("ui.compactToolOutput", Flag, "true", "One line for a result"),
    key("ui.footer.items", Texts, "", "What the footer shows, in order"),
    key(
        "ui.statusLine.command",
        Text,
        "",
        "A command whose first line of output is a status line of your own (JSON on its input)",
    ),
    key("ui.footer.showLabels", Flag, "true", "Names above what the footer shows"),
    key("ui.footer.hideCWD", Flag, "false", "The footer without the folder"),
    key("ui.footer.hideSandboxStatus", Flag, "false", "The footer without the sandbox"),
    key("ui.footer.hideModelInfo", Flag, "false", "The footer without the model"),
    key("ui.footer.hideContextPercentage", Flag, "true", "The footer without the context used"),
    key("ui.collapseDrawerDuringApproval", Flag, "true", "No composer while a question is open"),
    key("ui.showMemoryUsage", Flag, "false", "Show how much memory the program uses"),
    key("ui.showLineNumbers", Flag, "true", "Line numbers in code"),
    key("ui.showCitations", Flag, "false", "Show the sources of an answer"),
    key("ui.showModelInfoInChat", Flag, "false", "Name the model at each answer"),
    key("ui.showUserIdentity", Flag, "true", "Show how one is signed in at start"),
    key("ui.useAlternateBuffer", Flag, "false", "Full-screen mode"),
    key("ui.useBackgroundColor", Flag, "true", "Backgrounds behind prompts"),
    key("ui.showSpinner", Flag, "true", "Something turns while the model works"),
    key(
        "ui.loadingPhrases",
        Choice(&["tips", "witty", "all", "off"]),
        "\"off\"",
        "What is said while the model works",
    ),
    key("ui.customWittyPhrases", Texts, "[]", "Phrases of your own for that"),
    key("ui.inlineThinkingMode", Choice(&["off", "full"]), "\"off\"", "Show thoughts"),
    key(
        "ui.inlineImages",
        Choice(&["auto", "off", "kitty", "iterm", "sixel"]),
        "\"auto\"",
        "How pictures are drawn in the terminal (ours)",
    ),
    key("ui.errorVerbosity", Choice(&["low", "full"]), "\"low\"", "How much of an error is shown"),
    key("ui.accessibility.screenReader", Flag, "false", "Plain lines for screen readers"),
    key("ide.enabled", Flag, "false", "Connect to the companion extension of the editor"),
    key("ide.hasSeenNudge", Flag, "false", "The question whether to connect was answered"),
    key("privacy.usageStatisticsEnabled", Flag, "false", "Accepted; nothing is ever sent"),
    key("telemetry", FlagTextOrObject, "", "Where OpenTelemetry data goes"),
    key("model.name", Text, "", "The model"),
    key(
        "model.routing",
        Choice(&["on", "rules", "off"]),
        "\"on\"",
        "How `auto` chooses: rules and in doubt a small model, rules only, not at all (ours)",
    ),
    key("model.routingTimeoutMs", Num, "1500", "How long the small model that is asked has (ours)"),
    key("model.routingThreshold", Num, "90", "Of 100, from which the strong model answers (ours)"),
    key(
        "model.fallback",
        Choice(&["ask", "auto", "off"]),
        "\"ask\"",
        "Whether another model answers when one cannot (ours)",
    ),
    key("model.maxSessionTurns", Num, "-1", "Model requests of a run; -1: no limit"),
    key("budget.session.maxCost", Num, "", "US dollars that a session may cost (ours)"),
    key("budget.session.maxTokens", Num, "", "Tokens that a session may use (ours)"),
    key("budget.session.timeout", Num, "", "Seconds that the turns of a run may take (ours)"),
    key("budget.prompt.maxCost", Num, "", "US dollars that a prompt may cost (ours)"),
    key("budget.prompt.maxTokens", Num, "", "Tokens that a prompt may use (ours)"),
    key("budget.prompt.timeout", Num, "", "Seconds that a prompt may take (ours)"),
    key("model.summarizeToolOutput", Obj, "", "Tools whose output is summarised"),
    key(
        "model.compressionThreshold",
        Num,
        "0.5",
        "Share of the window at which history is compressed",
    ),
    key("model.compactAtTokens", Num, "100000", "Tokens at which history is compressed (ours)"),
    key("model.disableLoopDetection", Flag, "false", "No loop guard"),
    key("model.skipNextSpeakerCheck", Flag, "true", "No effect here: nobody is asked who speaks"),
    key(
        "model.streamIdleTimeoutMs",
        Num,
        "120000",
        "A silent stream is cut after so long; 0: never (ours)",
    ),
    key("modelConfigs", Obj, "", "Named generation presets, overrides, model definitions"),
    key(
        "providers",
        Obj,
        "{}",
        "Model providers by name: wire, base URL, variable of the key, headers, models (ours)",
    ),
    key("agents.overrides", Obj, "{}", "Settings of single agents"),
    key("context.fileName", TextOrTexts, "[\"GEMINI.md\",\"AGENTS.md\"]", "Names of memory files"),
    key(
        "context.importFormat",
        Choice(&["tree", "flat"]),
        "\"tree\"",
        "How imports of memory files are shown",
    ),
    key(
        "context.includeDirectoryTree",
        Flag,
        "true",
        "The folder tree goes with the first request",
    ),
    key("context.discoveryMaxDirs", Num, "200", "Accepted"),
    key(
        "context.memoryMaxTokens",
        Num,
        "10000",
        "Tokens of one memory file from which a warning says so; 0: never (ours)",
    ),
    key(
        "context.memoryBoundaryMarkers",
        Texts,
        "[\".git\"]",
        "Names that mark the top of a project; empty: look no higher",
    ),
    key("context.includeDirectories", Texts, "[]", "More workspace folders"),
    key("context.loadMemoryFromIncludeDirectories", Flag, "false", "Read memory files there too"),
    key("context.fileFiltering.respectGitIgnore", Flag, "true", "Leave out what git ignores"),
    key(
        "context.fileFiltering.respectGeminiIgnore",
        Flag,
        "true",
        "Leave out what `.geminiignore` names",
    ),
    key(
        "context.fileFiltering.enableRecursiveFileSearch",
        Flag,
        "true",
        "`@` completes in subfolders",
    ),
    key("context.fileFiltering.enableFuzzySearch", Flag, "true", "`@` completes by loose match"),
    key(
        "context.fileFiltering.customIgnoreFilePaths",
        Texts,
        "[]",
        "More ignore files; the first is the strongest",
    ),
    key("tools.sandbox", FlagTextOrObject, "", "Sandbox for the whole program"),
    key("tools.sandboxAllowedPaths", Texts, "[]", "Paths that can be read in a sandbox"),
    key("tools.sandboxNetworkAccess", Flag, "false", "The network is on in a sandbox"),
    key(
        "tools.shell.commandSubstitution",
        Choice(&["block", "check", "allow"]),
        "\"check\"",
        "What happens to commands inside commands (ours)",
    ),
    key("tools.shell.enableInteractiveShell", Flag, "true", "Commands run in a terminal"),
    key(
        "tools.shell.backgroundCompletionBehavior",
        Choice(&["silent", "inject", "notify"]),
        "\"silent\"",
        "What happens when a background command ends",
    ),
    key("tools.shell.pager", Text, "\"cat\"", "Pager of commands"),
    key("tools.shell.showColor", Flag, "true", "Colours of commands are shown"),
    key(
        "tools.shell.inactivityTimeout",
        Num,
        "300",
        "Seconds of silence after which a command is ended; 0: never",
    ),
    key(
        "tools.shell.enableShellOutputEfficiency",
        Flag,
        "true",
        "Tell the model to prefer quiet flags",
    ),
    key("tools.discoveryCommand", Text, "", "A command that tells of tools of the project"),
    key("tools.callCommand", Text, "", "The command that runs such tools"),
    key(
        "tools.strictDiscoveredTools",
        Flag,
        "false",
        "Such a call fails when it writes to stderr, though it ends well",
    ),
    key("tools.core", Texts, "", "The only tools there are; they do not ask"),
    key("tools.allowed", Texts, "[]", "Tools and commands that do not ask"),
    key("tools.confirmationRequired", Texts, "[]", "Tools and commands that always ask"),
    key("tools.exclude", Texts, "[]", "Tools and commands that are not there"),
    key("tools.useRipgrep", Flag, "true", "Accepted; the search is built in"),
    key(
        "contextManagement.tools.outputMasking.protectionThresholdTokens",
        Num,
        "50000",
        "Tokens of the newest tool outputs that stay whole",
    ),
    key(
        "contextManagement.tools.outputMasking.minPrunableThresholdTokens",
        Num,
        "30000",
        "Tokens of older tool outputs from which they go to files",
    ),
    key(
        "contextManagement.tools.outputMasking.protectLatestTurn",
        Flag,
        "true",
        "The newest tool outputs stay whole in any case",
    ),
    key(
        "tools.truncateToolOutputThreshold",
        Num,
        "40000",
        "Characters of a tool's output; 0: no limit",
    ),
    key("tools.disableLLMCorrection", Flag, "true", "No effect here: edits are never repaired"),
    key("useWriteTodos", Flag, "true", "The todo tool exists"),
    key("mcp.serverCommand", Text, "", "Command that starts an MCP server"),
    key("mcp.allowed", Texts, "", "The only MCP servers that start"),
    key(
        "mcp.autoAllowInHeadless",
        Flag,
        "false",
        "Where nobody can be asked, tools of MCP servers need no rule",
    ),
    key("mcp.excluded", Texts, "[]", "MCP servers that do not start"),
    key(
        "mcp.lazy",
        Flag,
        "true",
        "A server that is known starts when one of its tools is called (ours)",
    ),
    key(
        "mcp.firstWaitMs",
        Num,
        "10000",
        "How long a headless run waits for MCP servers never seen before, in milliseconds (ours)",
    ),
    key(
        "mcp.samplingTokens",
        Num,
        "50000",
        "Tokens that the model may use to answer for one MCP server in a session; 0: none (ours)",
    ),
    key(
        "mcp.toolBudget",
        Num,
        "10",
        "Percent of the window that MCP tools may need; with more they are looked for; 0: no limit (ours)",
    ),
    key("mcp.sandbox", Flag, "false", "Programs of MCP servers run in the sandbox (ours)"),
    key(
        "mcp.schemas",
        Choice(&["verbatim", "openapi"]),
        "\"verbatim\"",
        "How the arguments of MCP tools are declared (ours)",
    ),
    key("mcpServers", Obj, "{}", "MCP servers by name"),
    key("security.toolSandboxing", FlagOr(&["auto"]), "\"auto\"", "Sandbox for single commands"),
    key("security.sandbox.network.default", Flag, "false", "Network of commands (ours)"),
    key("security.sandbox.network.auto_edit", Flag, "false", "The same in mode `auto_edit` (ours)"),
    key("security.sandbox.network.plan", Flag, "false", "The same in mode `plan` (ours)"),
    key("security.sandbox.network.yolo", Flag, "true", "The same in mode `yolo` (ours)"),
    key(
        "security.sandbox.hostLoopback",
        Flag,
        "false",
        "Commands reach services of this machine; in `yolo`, unless set, as the network (ours)",
    ),
    key("security.sandbox.caches", Flag, "", "Commands may write package caches (ours)"),
    key("security.sandbox.writable", Texts, "[]", "More places commands may write (ours)"),
    key("security.sandbox.hidden", Texts, "[]", "More places commands do not see (ours)"),
    key("security.sandbox.readable", Texts, "[]", "Hidden places commands do see (ours)"),
    key("security.checkpoints.enabled", Flag, "true", "Changes can be undone (ours)"),
    key("security.checkpoints.maxBytes", Num, "", "Bytes kept to undo changes (ours)"),
    key("security.disableYoloMode", Flag, "false", "Mode `yolo` is refused"),
    key("security.disableAlwaysAllow", Flag, "false", "No \"always\" answers"),
    key("security.enablePermanentToolApproval", Flag, "false", "\"Always\" answers can be saved"),
    key("security.autoAddToPolicyByDefault", Flag, "false", "Saving is the first choice"),
    key("security.folderTrust.enabled", Flag, "true", "Folders must be trusted"),
    key(
        "security.buildFileGuard",
        Choice(&["ask", "off"]),
        "\"ask\"",
        "Edits of build files ask (ours)",
    ),
    key(
        "security.secretStorage",
        Choice(&["auto", "file"]),
        "\"auto\"",
        "Where keys and tokens are kept: the keychain of the system where there is one, or files (ours)",
    ),
    key(
        "security.environmentVariableRedaction.enabled",
        Flag,
        "true",
        "Secrets are kept from child processes",
    ),
    key("security.environmentVariableRedaction.allowed", Texts, "[]", "Variables that always pass"),
    key("security.environmentVariableRedaction.blocked", Texts, "[]", "Variables that never pass"),
    key("security.auth.selectedType", Text, "", "How to authenticate"),
    key("security.auth.enforcedType", Text, "", "The only way to authenticate"),
    key(
        "security.auth.useExternal",
        Flag,
        "false",
        "A server of your own signs requests in; no key is looked for",
    ),
    key(
        "advanced.excludedEnvVars",
        Texts,
        "[\"DEBUG\",\"DEBUG_MODE\"]",
        "Names that a project's `.env` may not set",
    ),
    key(
        "advanced.ignoreLocalEnv",
        Flag,
        "false",
        "Plain `.env` files outside the home do not count",
    ),
    key("advanced.bugCommand", Obj, "", "Where bugs are reported"),
    key("advanced.docsUrl", Text, "", "Where `/docs` leads (ours)"),
    key("experimental.taskTracker", Flag, "false", "Tasks with a tracker, in place of todos"),
    key("experimental.enableAgents", Flag, "true", "Agents exist"),
    key("experimental.useOSC52Paste", Flag, "false", "Ask the terminal for the clipboard"),
    key("experimental.useOSC52Copy", Flag, "false", "Copy by the terminal, never by a program"),
    key("experimental.worktrees", Flag, "false", "No effect here: `git worktree` makes them"),
    key(
        "commands.includeOtherAgents",
        Flag,
        "false",
        "Slash commands of Claude Code count too (ours)",
    ),
    key("skills.enabled", Flag, "true", "Skills exist"),
    key("skills.disabled", Texts, "[]", "Skills that are off"),
    key("hooksConfig.enabled", Flag, "true", "Hooks run"),
    key("hooksConfig.disabled", Texts, "[]", "Hooks that are off"),
    key("hooksConfig.notifications", Flag, "true", "Hooks that take their time are shown"),
    key(
        "hooksConfig.moreEvents",
        Flag,
        "false",
        "Hooks hear of plans, agents and files too (ours)",
    ),
    key("hooks", Obj, "{}", "Hooks by event"),
    key("policyPaths", Texts, "[]", "Policy files of the user"),
    key("adminPolicyPaths", Texts, "[]", "Policy files of the machine"),
    key("hooks.BeforeTool", List, "[]", "Hooks before a tool runs"),
    key("hooks.AfterTool", List, "[]", "Hooks after a tool ran"),
];

/// Returns the default of a key, if it has one.
pub(crate) fn default_of(name: &str) -> Option<Value> {
    let key = KEYS.iter().find(|key| key.name == name)?;
    serde_json::from_str(key.default).ok()
}

impl Kind {
    pub(crate) fn expected(self) -> String {
        match self {
            Flag => "`true` or `false`".to_owned(),
            Num => "a number".to_owned(),
            Text => "a text".to_owned(),
            Choice(choices) => {
                format!(
                    "one of {}",
                    choices
                        .iter()
                        .map(|choice| format!("`{choice}`"))
                        .collect::<Vec<_>>()
                        .join(", ")
                )
            }
            Age => "a time such as `30d` (units h, d, w, m)".to_owned(),
            Texts => "a list of texts".to_owned(),
            TextOrTexts => "a text or a list of texts".to_owned(),
            List => "a list".to_owned(),
            Obj => "an object".to_owned(),
            FlagOr(words) => {
                let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
                format!("`true`, `false` or {}", words.join(", "))
            }
            FlagTextOrObject => "`true`, `false`, a text or an object".to_owned(),
        }
    }

    /// Converts the value to this type; numbers and booleans may be written as strings. Returns
    /// `None` if the value does not fit.
    pub(crate) fn accept(self, value: &Value) -> Option<Value> {
        let texts = |value: &Value| {
            value.as_array().is_some_and(|items| items.iter().all(Value::is_string))
        };
        let fits = match self {
            Flag => match value.as_str() {
                Some("true") => return Some(Value::Bool(true)),
                Some("false") => return Some(Value::Bool(false)),
                _ => value.is_boolean(),
            },
            Num => match value.as_str() {
                Some(text) => return number(text.trim()).map(Value::Number),
                None => value.is_number(),
            },
            Text => value.is_string(),
            Choice(choices) => value.as_str().is_some_and(|text| choices.contains(&text)),
            Age => value.as_str().is_some_and(|text| crate::settings::parse_age(text).is_some()),
            Texts => texts(value),
            TextOrTexts => value.is_string() || texts(value),
            List => value.is_array(),
            Obj => value.is_object(),
            FlagOr(words) => match value.as_str() {
                Some("true") => return Some(Value::Bool(true)),
                Some("false") => return Some(Value::Bool(false)),
                Some(text) => words.contains(&text),
                None => value.is_boolean(),
            },
            FlagTextOrObject => value.is_boolean() || value.is_string() || value.is_object(),
        };
        fits.then(|| value.clone())
    }
}

fn number(text: &str) -> Option<Number> {
    text.parse::<i64>().map(Number::from).ok().or_else(|| Number::from_f64(text.parse().ok()?))
}

/// The prefix of the settings that decide which sessions are deleted.
const RETENTION: &str = "general.sessionRetention.";

/// The internal key that records which retention setting had an invalid value, so that nothing is
/// deleted.
pub(crate) const UNUSABLE_RETENTION: &str = "general.sessionRetention.unusable";

/// Maximum number of warnings about one file.
const MOST: usize = 5;

/// Checks the values of one file against the table. A value of the wrong type is reported and
/// removed, so that the next lower layer applies.
pub(crate) fn check(values: &mut Object, path: &Path) -> Vec<String> {
    let mut issues = Vec::new();
    for key in KEYS {
        if let Some(group) = group_that_is_none(values, key.name) {
            let value = take(values, &group).unwrap_or_default();
            if RETENTION.starts_with(&group) {
                let off = json!({"enabled": false, "unusable": group});
                let off = if group == "general" { json!({"sessionRetention": off}) } else { off };
                replace(values, &group, off);
            }
            issues.push(format!("`{group}` must be an object, not {}", shown(&value)));
            continue;
        }
        let Some(value) = look(values, key.name) else { continue };
        match key.kind.accept(value) {
            Some(accepted) if accepted == *value => {}
            Some(accepted) => replace(values, key.name, accepted),
            // `null` means "not set".
            None => {
                let value = take(values, key.name).unwrap_or_default();
                if !value.is_null() {
                    // Replacing an unreadable limit by the default could delete sessions that the
                    // user wants to keep.
                    if key.name.starts_with(RETENTION) {
                        replace(values, &format!("{RETENTION}enabled"), Value::Bool(false));
                        replace(values, UNUSABLE_RETENTION, Value::String(key.name.to_owned()));
                    }
                    issues.push(format!(
                        "`{}` must be {}, not {}",
                        key.name,
                        key.kind.expected(),
                        shown(&value)
                    ));
                }
            }
        }
    }
    let more = issues.len().saturating_sub(MOST);
    issues.truncate(MOST);
    let mut warnings: Vec<String> = issues
        .into_iter()
        .map(|issue| format!("{}: {issue}; the value is not used", path.display()))
        .collect();
    if more > 0 {
        warnings.push(format!("{}: … and {more} more such values", path.display()));
    }
    warnings
}

/// Returns the first parent of the key that exists but is not an object.
fn group_that_is_none(values: &Object, name: &str) -> Option<String> {
    name.match_indices('.').find_map(|(end, _)| {
        let group = name.get(..end)?;
        let value = look(values, group)?;
        (!value.is_object()).then(|| group.to_owned())
    })
}

fn replace(values: &mut Object, name: &str, value: Value) {
    match name.split_once('.') {
        None => {
            values.insert(name.to_owned(), value);
        }
        Some((group, rest)) => {
            if let Some(Value::Object(group)) = values.get_mut(group) {
                replace(group, rest, value);
            }
        }
    }
}

/// Formats a value for a message, truncated. Shows only its type if it may hold a secret.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "`null`".to_owned(),
        Value::Bool(flag) => format!("`{flag}`"),
        Value::Number(number) => format!("`{number}`"),
        Value::String(text) if text.len() <= 20 => format!("`\"{text}\"`"),
        Value::String(_) => "a text".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::path::Path;

    use serde_json::json;

    use super::{KEYS, check, default_of};

    #[test]
    fn the_table_is_sound() {
        let mut names = HashSet::new();
        for key in KEYS {
            assert!(names.insert(key.name), "{} stands twice", key.name);
            assert!(!key.doc.is_empty() && !key.doc.ends_with('.'), "{}", key.name);
            if !key.default.is_empty() {
                let default = default_of(key.name);
                assert!(
                    default.is_some_and(|default| key.kind.accept(&default) == Some(default)),
                    "{}",
                    key.name
                );
            }
        }
    }

    #[test]
    fn wrong_types_are_taken_out_and_named() {
        let mut values = json!({
            "general": {"vimMode": "true", "maxAttempts": "3", "retryFetchErrors": 1, "defaultApprovalMode": "yolo",
                        "sessionRetention": {"maxAge": "soon"}},
            "ui": "dark", "tools": {"core": ["a", 1], "exclude": ["b"]}, "own": {"x": 1}, "model": {"name": null}
        });
        let object = values.as_object_mut().expect("object");
        let warnings = check(object, Path::new("/s.json"));
        assert_eq!(
            values,
            json!({"general": {"vimMode": true, "maxAttempts": 3, "sessionRetention": {"enabled": false, "unusable": "general.sessionRetention.maxAge"}}, "tools": {"exclude": ["b"]},
                   "own": {"x": 1}, "model": {}})
        );
        assert_eq!(
            warnings,
            [
                "/s.json: `general.defaultApprovalMode` must be one of `default`, `auto_edit`, `plan`, not `\"yolo\"`; the value is not used",
                "/s.json: `general.retryFetchErrors` must be `true` or `false`, not `1`; the value is not used",
                "/s.json: `general.sessionRetention.maxAge` must be a time such as `30d` (units h, d, w, m), not `\"soon\"`; the value is not used",
                "/s.json: `ui` must be an object, not `\"dark\"`; the value is not used",
                "/s.json: `tools.core` must be a list of texts, not a list; the value is not used",
            ]
        );
    }
}
