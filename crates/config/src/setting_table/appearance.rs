//! The look of the terminal interface.

use crate::setting_spec::SettingType::{Choice, Flag, Object as Obj, Text, Texts};
use crate::setting_spec::{SettingSpec, key};

pub(super) const SETTINGS: &[SettingSpec] = &[
    key("ui.theme", Text, "", "Name of a theme, or path of a theme file").with_label("Theme"),
    key(
        "ui.autoThemeSwitching",
        Flag,
        "true",
        "Use the variant of the theme that fits the terminal's background",
    )
    .with_label("Match the theme to the background"),
    key("ui.customThemes", Obj, "{}", "Custom themes by name"),
    key("ui.hideWindowTitle", Flag, "false", "Do not change the title of the terminal window")
        .with_label("Leave the window title unchanged"),
    key(
        "ui.showStatusInTitle",
        Flag,
        "false",
        "Add the subject of the model's current thought to the window title",
    )
    .with_label("Show thoughts in the window title"),
    key(
        "ui.dynamicWindowTitle",
        Flag,
        "true",
        "Show in the window title whether the agent is ready, working, or waiting for an answer",
    )
    .with_label("Session state in the window title"),
    key("ui.hideTips", Flag, "false", "Start without the tips for this project")
        .with_label("Hide tips"),
    key(
        "ui.hideBanner",
        Flag,
        "false",
        "Start without the product name, version, model, and directory",
    )
    .with_label("Hide banner"),
    key(
        "ui.hideContextSummary",
        Flag,
        "false",
        "Hide the summary of context files and MCP servers",
    )
    .with_label("Hide the context summary"),
    key("ui.showUserIdentity", Flag, "true", "Show at startup which key or account is in use")
        .with_label("Show the authentication method"),
    key(
        "ui.showHomeDirectoryWarning",
        Flag,
        "true",
        "Warn at startup when the project is the home directory, which contains all your files",
    )
    .with_label("Home directory warning"),
    key("ui.showShortcutsHint", Flag, "true", "Mention the `?` key at startup")
        .with_label("Key hint"),
    key(
        "ui.escapePastedAtSymbols",
        Flag,
        "false",
        "Do not add files to the prompt for names after `@` in pasted text",
    )
    .with_label("Treat `@` in pasted text as plain text"),
    key(
        "ui.collapseDrawerDuringApproval",
        Flag,
        "true",
        "Show approval requests in place of the composer",
    )
    .with_label("Hide the composer during approval"),
    key("ui.compactToolOutput", Flag, "true", "Show tool results on one line")
        .with_label("Compact tool results"),
    key(
        "ui.errorVerbosity",
        Choice(&["low", "full"]),
        "\"low\"",
        "Level of detail in error messages",
    )
    .with_label("Error details"),
    key(
        "ui.showModelInfoInChat",
        Flag,
        "false",
        "Show the model's name in a row above each answer",
    )
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
    key(
        "ui.customWittyPhrases",
        Texts,
        "[]",
        "Phrases that `ui.loadingPhrases` shows instead of the built-in ones",
    )
    .with_label("Custom loading phrases"),
    key(
        "ui.hideFooter",
        Flag,
        "false",
        "Hide the mode, model, branch, and more below the composer",
    )
    .with_label("Hide the status line"),
    key(
        "ui.footer.items",
        Texts,
        "",
        "What the status line shows, in order; `/footer` lists the items",
    )
    .with_label("Status line items"),
    key("ui.footer.showLabels", Flag, "true", "Show labels in a row above the status line")
        .with_label("Status line labels"),
    key(
        "ui.statusLine.command",
        Text,
        "",
        "Command whose first output line is shown as the status line (gets JSON on stdin)",
    )
    .with_label("Custom status line command"),
    key(
        "ui.footer.hideSandboxStatus",
        Flag,
        "false",
        "Do not report in the status line that the sandbox is off",
    )
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
    key("ui.showMemoryUsage", Flag, "false", "Show Parallax's memory usage in the status line")
        .with_label("Memory usage"),
    key("ui.showLineNumbers", Flag, "true", "Number the lines of code blocks in answers")
        .with_label("Line numbers in code"),
    key(
        "ui.showCitations",
        Flag,
        "false",
        "List sources below each answer, if the service reports them",
    )
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
    key(
        "ui.inlineThinkingMode",
        Choice(&["off", "full"]),
        "\"off\"",
        "`full` shows the model's thoughts above its answers",
    )
    .with_label("Show thoughts"),
    key("ui.accessibility.screenReader", Flag, "false", "Plain text output for screen readers")
        .with_label_after_restart("Screen reader mode"),
];
