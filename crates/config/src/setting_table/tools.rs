//! Tools and MCP servers.

use crate::setting_spec::SettingType::{
    Choice, Flag, FlagTextOrObject, Number as Num, Object as Obj, Text, Texts,
};
use crate::setting_spec::{SettingSpec, key};

pub(super) const SETTINGS: &[SettingSpec] = &[
    key("tools.sandbox", FlagTextOrObject, "", "Sandbox for all of Parallax"),
    key(
        "tools.sandboxAllowedPaths",
        Texts,
        "[]",
        "Additional paths that can be read in the sandbox",
    ),
    key("tools.sandboxNetworkAccess", Flag, "false", "Allow network access in the sandbox"),
    key("tools.shell.showColor", Flag, "true", "Keep the colors that a command prints")
        .with_label_after_restart("Colors in command output"),
    key("tools.shell.enableInteractiveShell", Flag, "true", "Run commands in a pseudo-terminal"),
    key(
        "tools.shell.backgroundCompletionBehavior",
        Choice(&["silent", "inject", "notify"]),
        "\"silent\"",
        "What happens when a background command ends",
    ),
    key(
        "tools.shell.pager",
        Text,
        "\"cat\"",
        "Pager for long command output; `cat` prints all of it",
    )
    .with_label_after_restart("Pager for commands"),
    key(
        "tools.shell.inactivityTimeout",
        Num,
        "300",
        "Stop a command after this many seconds without output; 0: never",
    )
    .with_label_after_restart("Command inactivity timeout (s)"),
    key(
        "tools.shell.enableShellOutputEfficiency",
        Flag,
        "true",
        "Tell the model to prefer quiet flags",
    )
    .with_label_after_restart("Prefer quiet flags"),
    key(
        "tools.shell.commandSubstitution",
        Choice(&["block", "check", "allow"]),
        "\"check\"",
        "Whether `$(…)` in commands is rejected, checked, or left unchecked (Parallax only)",
    )
    .with_label_after_restart("Command substitution"),
    key("tools.discoveryCommand", Text, "", "Command that lists the project's own tools"),
    key("tools.callCommand", Text, "", "Command that runs the project's own tools"),
    key(
        "tools.strictDiscoveredTools",
        Flag,
        "false",
        "Treat output on stderr as a failure of a discovered tool, even with exit code 0",
    ),
    key("tools.core", Texts, "", "The only available tools; they need no approval"),
    key("tools.allowed", Texts, "[]", "Tools and commands that need no approval"),
    key(
        "tools.confirmationRequired",
        Texts,
        "[]",
        "Tools and commands that always require approval",
    ),
    key("tools.exclude", Texts, "[]", "Tools and commands that are unavailable"),
    key(
        "tools.webSearch.url",
        Text,
        "",
        "Web search URL with `{query}`, for models without built-in search (Parallax only)",
    ),
    key(
        "tools.webSearch.headers",
        Obj,
        "{}",
        "HTTP headers of `tools.webSearch` requests (Parallax only)",
    ),
    key(
        "tools.webSearch.body",
        Obj,
        "",
        "JSON body of `tools.webSearch` requests, with `{query}` in its strings (Parallax only)",
    ),
    key("tools.useRipgrep", Flag, "true", "No effect: search is built in"),
    key(
        "contextManagement.tools.outputMasking.protectionThresholdTokens",
        Num,
        "50000",
        "Tokens of the newest tool results that are never masked",
    ),
    key(
        "contextManagement.tools.outputMasking.minPrunableThresholdTokens",
        Num,
        "30000",
        "Number of tokens of older tool results above which they are masked",
    ),
    key(
        "contextManagement.tools.outputMasking.protectLatestTurn",
        Flag,
        "true",
        "Never mask the tool results of the latest turn",
    ),
    key(
        "tools.truncateToolOutputThreshold",
        Num,
        "40000",
        "Give the model the beginning and end of results with more characters; 0: no limit",
    )
    .with_label_after_restart("Maximum tool result (characters)"),
    key(
        "tools.disableLLMCorrection",
        Flag,
        "true",
        "No effect: failed edits are never corrected by a model",
    ),
    key(
        "useWriteTodos",
        Flag,
        "true",
        "Let the model keep a to-do list, which is shown above the composer",
    )
    .with_label_after_restart("To-do tool"),
    key("mcp.serverCommand", Text, "", "Command that starts an MCP server"),
    key("mcp.allowed", Texts, "", "The only MCP servers that are started"),
    key(
        "mcp.autoAllowInHeadless",
        Flag,
        "false",
        "In headless runs, allow MCP tools that no rule covers",
    ),
    key("mcp.excluded", Texts, "[]", "MCP servers that are not started"),
    key(
        "mcp.lazy",
        Flag,
        "true",
        "Start a known MCP server when one of its tools is first called (Parallax only)",
    ),
    key(
        "mcp.firstWaitMs",
        Num,
        "10000",
        "How long a headless run waits for new MCP servers, in milliseconds (Parallax only)",
    ),
    key(
        "mcp.samplingTokens",
        Num,
        "50000",
        "Tokens per session that an MCP server can use for sampling; 0: none (Parallax only)",
    ),
    key(
        "mcp.toolBudget",
        Num,
        "10",
        "Percentage of the context window for the declarations of MCP tools; above it, the model must search for tools; 0: no limit (Parallax only)",
    ),
    key("mcp.sandbox", Flag, "false", "Run MCP server programs in the sandbox (Parallax only)"),
    key(
        "mcp.schemas",
        Choice(&["verbatim", "openapi"]),
        "\"verbatim\"",
        "How the schemas of MCP tools are sent to the model (Parallax only)",
    ),
    key("mcpServers", Obj, "{}", "MCP servers by name"),
];
