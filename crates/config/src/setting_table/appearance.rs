//! The look of the terminal interface.

use crate::setting_spec::SettingType::{Choice, Flag, Object as Obj, Text, Texts};
use crate::setting_spec::{SettingSpec, key};

pub(super) const SETTINGS: &[SettingSpec] = &[
    key("ui.theme", Text, "", "Theme name or file").with_label("Theme"),
    key(
        "ui.autoThemeSwitching",
        Flag,
        "true",
        "Choose the light or dark variant by the terminal background",
    )
    .with_label("Choose light or dark by the background"),
    key("ui.customThemes", Obj, "{}", "Custom themes by name"),
    key("ui.hideWindowTitle", Flag, "false", "Leave the window title unchanged")
        .with_label("Leave the window title unchanged"),
    key(
        "ui.showStatusInTitle",
        Flag,
        "false",
        "Show the model's current thought in the window title",
    )
    .with_label("Show thoughts in the window title"),
    key("ui.dynamicWindowTitle", Flag, "true", "Show the state of the session in the window title")
        .with_label("Session state in the window title"),
    key("ui.hideTips", Flag, "false", "Hide the tips at startup").with_label("Hide tips"),
    key("ui.hideBanner", Flag, "false", "Hide the banner at startup").with_label("Hide banner"),
    key(
        "ui.hideContextSummary",
        Flag,
        "false",
        "Hide the summary of context files and MCP servers",
    )
    .with_label("Hide the context summary"),
    key("ui.showUserIdentity", Flag, "true", "Show the authentication method at startup")
        .with_label("Show the authentication method"),
    key("ui.showHomeDirectoryWarning", Flag, "true", "Warn when started in the home directory")
        .with_label("Home directory warning"),
    key("ui.showShortcutsHint", Flag, "true", "Show a hint about the keys").with_label("Key hint"),
    key("ui.escapePastedAtSymbols", Flag, "false", "Treat `@` in pasted text as plain text")
        .with_label("Treat `@` in pasted text as plain text"),
    key(
        "ui.collapseDrawerDuringApproval",
        Flag,
        "true",
        "Hide the composer while a request waits for approval",
    )
    .with_label("Hide the composer during approval"),
    key("ui.compactToolOutput", Flag, "true", "Show tool results in one line")
        .with_label("Compact tool results"),
    key(
        "ui.errorVerbosity",
        Choice(&["low", "full"]),
        "\"low\"",
        "Level of detail in error messages",
    )
    .with_label("Error details"),
    key("ui.showModelInfoInChat", Flag, "false", "Show the model name above each answer")
        .with_label("Show the model above answers"),
    key("ui.footer.hideCWD", Flag, "false", "Hide the working directory in the status line"),
    key("ui.useBackgroundColor", Flag, "true", "Use background colors, such as behind prompts")
        .with_label("Background colors"),
    key("ui.showSpinner", Flag, "true", "Show a spinner while the agent is working")
        .with_label("Spinner"),
    key(
        "ui.loadingPhrases",
        Choice(&["tips", "witty", "all", "off"]),
        "\"off\"",
        "Phrases shown while the agent is working",
    )
    .with_label("Loading phrases"),
    key("ui.customWittyPhrases", Texts, "[]", "Custom phrases for `ui.loadingPhrases`")
        .with_label("Custom loading phrases"),
    key("ui.hideFooter", Flag, "false", "Hide the status line").with_label("Hide the status line"),
    key("ui.footer.items", Texts, "", "Items of the status line, in order")
        .with_label("Status line items"),
    key("ui.footer.showLabels", Flag, "true", "Show labels above the items of the status line")
        .with_label("Status line labels"),
    key(
        "ui.statusLine.command",
        Text,
        "",
        "Command whose first output line is shown as the status line (gets JSON on stdin)",
    )
    .with_label("Custom status line command"),
    key("ui.footer.hideSandboxStatus", Flag, "false", "Hide the sandbox state in the status line")
        .with_label("Hide the sandbox state"),
    key("ui.footer.hideModelInfo", Flag, "false", "Hide the model in the status line")
        .with_label("Hide the model"),
    key(
        "ui.footer.hideContextPercentage",
        Flag,
        "true",
        "Hide the context usage in the status line",
    )
    .with_label("Hide the context usage"),
    key("ui.showMemoryUsage", Flag, "false", "Show the memory usage of Parallax")
        .with_label("Memory usage"),
    key("ui.showLineNumbers", Flag, "true", "Show line numbers in code blocks")
        .with_label("Line numbers in code"),
    key("ui.showCitations", Flag, "false", "Show the sources of an answer")
        .with_label("Sources of answers"),
    key(
        "ui.useAlternateBuffer",
        Flag,
        "false",
        "Use the alternate screen buffer (full-screen mode)",
    )
    .with_label_after_restart("Full-screen mode"),
    key(
        "ui.inlineImages",
        Choice(&["auto", "off", "kitty", "iterm", "sixel"]),
        "\"auto\"",
        "Protocol for images in the terminal (Parallax only)",
    )
    .with_label("Images in the terminal"),
    key("ui.inlineThinkingMode", Choice(&["off", "full"]), "\"off\"", "Show the model's thoughts")
        .with_label("Show thoughts"),
    key("ui.accessibility.screenReader", Flag, "false", "Plain text output for screen readers")
        .with_label_after_restart("Screen reader mode"),
];
