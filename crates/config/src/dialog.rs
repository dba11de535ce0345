//! The settings shown in the settings dialog: those that Parallax supports and that fit on one
//! line.

use serde_json::Value;

use crate::keys::{KEYS, Kind};
use crate::layers::Origin;
use crate::settings::Settings;

/// A row of the settings dialog.
#[derive(Debug, Clone, PartialEq)]
pub struct SettingRow {
    /// The dotted name.
    pub key: &'static str,
    /// The display label.
    pub label: &'static str,
    /// The group in which it is shown.
    pub category: &'static str,
    /// A short description.
    pub doc: &'static str,
    /// The type.
    pub kind: Kind,
    /// The default; `null` if there is none.
    pub default: Value,
    /// The current value.
    pub value: Value,
    /// The origin of the value; `None` for the default.
    pub origin: Option<Origin>,
    /// Whether a change takes effect only in the next session.
    pub restart: bool,
}

/// When a change takes effect.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counts {
    Now,
    Restart,
}
use Counts::{Now, Restart};

/// Key, label, and when a change takes effect.
const SHOWN: &[(&str, &str, Counts)] = &[
    ("general.preferredEditor", "Preferred editor", Now),
    ("general.openEditorInNewWindow", "Open editor in a new window", Now),
    ("general.vimMode", "Vim mode", Now),
    ("general.defaultApprovalMode", "Approval mode at start", Restart),
    ("general.enableNotifications", "Notifications", Now),
    ("general.notificationMethod", "Notification method", Now),
    ("general.devtools", "Start DevTools", Restart),
    ("general.retryFetchErrors", "Retry after unclear network failures", Restart),
    ("general.maxAttempts", "Attempts of a request", Restart),
    ("output.format", "Output format", Restart),
    ("ui.theme", "Theme", Now),
    ("ui.autoThemeSwitching", "Theme follows the background", Now),
    ("ui.hideWindowTitle", "Leave the window title alone", Now),
    ("ui.showStatusInTitle", "Thoughts in the window title", Now),
    ("ui.dynamicWindowTitle", "State in the window title", Now),
    ("ui.hideTips", "Hide tips", Now),
    ("ui.hideBanner", "Hide banner", Now),
    ("ui.hideContextSummary", "Hide what the session reads", Now),
    ("ui.showUserIdentity", "How one is signed in, at start", Now),
    ("ui.showHomeDirectoryWarning", "Warn in the home directory", Now),
    ("ui.showShortcutsHint", "Hint at the keys", Now),
    ("ui.escapePastedAtSymbols", "`@` in pasted text names no file", Now),
    ("ui.collapseDrawerDuringApproval", "Only the question while one is open", Now),
    ("ui.compactToolOutput", "Results in one line where that says it", Now),
    ("ui.errorVerbosity", "How much of an error is shown", Now),
    ("ui.showModelInfoInChat", "Name the model at each answer", Now),
    ("ui.useBackgroundColor", "Backgrounds behind prompts", Now),
    ("ui.showSpinner", "Spinner", Now),
    ("ui.loadingPhrases", "Said while the model works", Now),
    ("ui.customWittyPhrases", "Phrases of your own for that", Now),
    ("ui.hideFooter", "Hide footer", Now),
    ("ui.footer.items", "Footer items", Now),
    ("ui.footer.showLabels", "Footer labels", Now),
    ("ui.statusLine.command", "Status line of your own", Now),
    ("ui.footer.hideSandboxStatus", "Footer without the sandbox", Now),
    ("ui.footer.hideModelInfo", "Footer without the model", Now),
    ("ui.footer.hideContextPercentage", "Footer without the context used", Now),
    ("ui.showMemoryUsage", "Memory usage in the footer", Now),
    ("ui.showLineNumbers", "Line numbers in code", Now),
    ("ui.showCitations", "Sources under an answer", Now),
    ("ui.useAlternateBuffer", "Full-screen mode", Restart),
    ("ui.inlineImages", "Pictures in the terminal", Now),
    ("ui.inlineThinkingMode", "Show thoughts", Now),
    ("ui.accessibility.screenReader", "Screen reader mode", Restart),
    ("model.name", "Model", Restart),
    ("model.maxSessionTurns", "Most model requests of a run", Restart),
    ("model.disableLoopDetection", "No loop guard", Restart),
    ("model.streamIdleTimeoutMs", "Limit for a silent stream (ms)", Restart),
    ("context.fileName", "Names of context files", Restart),
    ("context.importFormat", "Imports of context files", Restart),
    ("context.includeDirectoryTree", "Folder tree in the first request", Restart),
    ("context.includeDirectories", "More workspace folders", Restart),
    ("context.loadMemoryFromIncludeDirectories", "Context files of those folders", Restart),
    ("context.fileFiltering.respectGitIgnore", "Respect .gitignore", Restart),
    ("context.fileFiltering.respectGeminiIgnore", "Respect .geminiignore", Restart),
    ("context.fileFiltering.customIgnoreFilePaths", "More ignore files", Restart),
    ("tools.shell.showColor", "Colours of commands", Restart),
    ("tools.shell.pager", "Pager of commands", Restart),
    ("tools.shell.inactivityTimeout", "Limit for silent commands (s)", Restart),
    ("tools.shell.enableShellOutputEfficiency", "Prefer quiet commands", Restart),
    ("tools.shell.commandSubstitution", "Commands inside commands", Restart),
    ("tools.truncateToolOutputThreshold", "Longest tool output (characters)", Restart),
    ("useWriteTodos", "Todo tool", Restart),
    ("security.toolSandboxing", "Sandbox for commands", Restart),
    ("security.sandbox.network.default", "Network of commands", Restart),
    ("security.sandbox.network.auto_edit", "Network in auto-edit mode", Restart),
    ("security.sandbox.network.plan", "Network in plan mode", Restart),
    ("security.sandbox.network.yolo", "Network in yolo mode", Restart),
    ("security.sandbox.hostLoopback", "Services of this machine", Restart),
    ("security.checkpoints.enabled", "Undo", Restart),
    ("security.disableYoloMode", "Refuse yolo mode", Restart),
    ("security.disableAlwaysAllow", "No \"always\" answers", Restart),
    ("security.enablePermanentToolApproval", "Save \"always\" answers", Restart),
    ("security.buildFileGuard", "Guard of build files", Restart),
    ("security.folderTrust.enabled", "Folder trust", Restart),
    ("security.environmentVariableRedaction.enabled", "Keep secrets from commands", Restart),
    ("experimental.useOSC52Paste", "Paste through the terminal (OSC 52)", Now),
    ("experimental.useOSC52Copy", "Copy through the terminal (OSC 52)", Now),
    ("advanced.ignoreLocalEnv", "Ignore .env of projects", Restart),
];

/// Returns the rows of the dialog, grouped by category.
pub fn setting_rows(settings: &Settings) -> Vec<SettingRow> {
    let row = |(name, label, counts): &(&str, &'static str, Counts)| {
        let key = KEYS.iter().find(|key| key.name == *name)?;
        let default = serde_json::from_str(key.default).unwrap_or(Value::Null);
        Some(SettingRow {
            key: key.name,
            label,
            category: category(key.name),
            doc: key.doc,
            kind: key.kind,
            value: settings.get(key.name).cloned().unwrap_or_else(|| default.clone()),
            default,
            origin: settings.origins(key.name).last().cloned(),
            restart: *counts == Restart,
        })
    };
    SHOWN.iter().filter_map(row).collect()
}

fn category(key: &str) -> &'static str {
    match key.split('.').next().unwrap_or(key) {
        "general" | "output" => "General",
        "ui" => "Appearance",
        "model" => "Model",
        "context" => "Context",
        "tools" | "useWriteTodos" => "Tools",
        "security" => "Security",
        _ => "Advanced",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_a_known_setting_with_a_default_of_its_kind() {
        let rows = setting_rows(&Settings::default());
        assert_eq!(rows.len(), SHOWN.len());
        for row in &rows {
            assert_eq!(row.value, row.default, "{}", row.key);
            assert!(row.default.is_null() || row.kind.accept(&row.default).is_some());
        }
        let mut groups: Vec<&str> = rows.iter().map(|row| row.category).collect();
        groups.dedup();
        assert_eq!(
            groups,
            ["General", "Appearance", "Model", "Context", "Tools", "Security", "Advanced"]
        );
    }
}
