//! The settings shown in the settings dialog: those that Parallax supports and that fit on one
//! line.

use serde_json::Value;

use crate::keys::{KEYS, SettingType};
use crate::layers::ValueOrigin;
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
    pub kind: SettingType,
    /// The default; `null` if there is none.
    pub default: Value,
    /// The current value.
    pub value: Value,
    /// The origin of the value; `None` for the default.
    pub origin: Option<ValueOrigin>,
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
    ("general.defaultApprovalMode", "Approval mode at startup", Restart),
    ("general.enableNotifications", "Notifications", Now),
    ("general.notificationMethod", "Notification method", Now),
    ("general.retryFetchErrors", "Retry after ambiguous network failures", Restart),
    ("general.maxAttempts", "Maximum attempts per request", Restart),
    ("output.format", "Output format", Restart),
    ("ui.theme", "Theme", Now),
    ("ui.autoThemeSwitching", "Choose light or dark by the background", Now),
    ("ui.hideWindowTitle", "Leave the window title unchanged", Now),
    ("ui.showStatusInTitle", "Show thoughts in the window title", Now),
    ("ui.dynamicWindowTitle", "Session state in the window title", Now),
    ("ui.hideTips", "Hide tips", Now),
    ("ui.hideBanner", "Hide banner", Now),
    ("ui.hideContextSummary", "Hide the context summary", Now),
    ("ui.showUserIdentity", "Show the authentication method", Now),
    ("ui.showHomeDirectoryWarning", "Home directory warning", Now),
    ("ui.showShortcutsHint", "Key hint", Now),
    ("ui.escapePastedAtSymbols", "Treat `@` in pasted text as plain text", Now),
    ("ui.collapseDrawerDuringApproval", "Hide the composer during approval", Now),
    ("ui.compactToolOutput", "Compact tool results", Now),
    ("ui.errorVerbosity", "Error details", Now),
    ("ui.showModelInfoInChat", "Show the model above answers", Now),
    ("ui.useBackgroundColor", "Background colors", Now),
    ("ui.showSpinner", "Spinner", Now),
    ("ui.loadingPhrases", "Loading phrases", Now),
    ("ui.customWittyPhrases", "Custom loading phrases", Now),
    ("ui.hideFooter", "Hide the status line", Now),
    ("ui.footer.items", "Status line items", Now),
    ("ui.footer.showLabels", "Status line labels", Now),
    ("ui.statusLine.command", "Custom status line command", Now),
    ("ui.footer.hideSandboxStatus", "Hide the sandbox state", Now),
    ("ui.footer.hideModelInfo", "Hide the model", Now),
    ("ui.footer.hideContextPercentage", "Hide the context usage", Now),
    ("ui.showMemoryUsage", "Memory usage", Now),
    ("ui.showLineNumbers", "Line numbers in code", Now),
    ("ui.showCitations", "Sources of answers", Now),
    ("ui.useAlternateBuffer", "Full-screen mode", Restart),
    ("ui.inlineImages", "Images in the terminal", Now),
    ("ui.inlineThinkingMode", "Show thoughts", Now),
    ("ui.accessibility.screenReader", "Screen reader mode", Restart),
    ("model.name", "Model", Restart),
    ("model.maxSessionTurns", "Maximum model requests per run", Restart),
    ("model.disableLoopDetection", "Disable loop detection", Restart),
    ("model.streamIdleTimeoutMs", "Stream idle timeout (ms)", Restart),
    ("context.fileName", "Context file names", Restart),
    ("context.importFormat", "Format of context file imports", Restart),
    ("context.includeDirectoryTree", "Directory tree in the first request", Restart),
    ("context.includeDirectories", "Additional workspace directories", Restart),
    (
        "context.loadMemoryFromIncludeDirectories",
        "Context files of additional directories",
        Restart,
    ),
    ("context.fileFiltering.respectGitIgnore", "Respect .gitignore", Restart),
    ("context.fileFiltering.respectGeminiIgnore", "Respect .geminiignore", Restart),
    ("context.fileFiltering.customIgnoreFilePaths", "Additional ignore files", Restart),
    ("tools.shell.showColor", "Colors in command output", Restart),
    ("tools.shell.pager", "Pager for commands", Restart),
    ("tools.shell.inactivityTimeout", "Command inactivity timeout (s)", Restart),
    ("tools.shell.enableShellOutputEfficiency", "Prefer quiet flags", Restart),
    ("tools.shell.commandSubstitution", "Command substitution", Restart),
    ("tools.truncateToolOutputThreshold", "Maximum tool result (characters)", Restart),
    ("useWriteTodos", "To-do tool", Restart),
    ("security.toolSandboxing", "Sandbox for commands", Restart),
    ("security.sandbox.network.default", "Network access of commands", Restart),
    ("security.sandbox.network.auto_edit", "Network access in auto-edit mode", Restart),
    ("security.sandbox.network.plan", "Network access in plan mode", Restart),
    ("security.sandbox.network.yolo", "Network access in yolo mode", Restart),
    ("security.sandbox.hostLoopback", "Access to local servers", Restart),
    ("security.checkpoints.enabled", "Undo", Restart),
    ("security.disableYoloMode", "Disable yolo mode", Restart),
    ("security.disableAlwaysAllow", "Disable \"always allow\"", Restart),
    ("security.enablePermanentToolApproval", "Save \"always allow\" rules", Restart),
    ("security.buildFileGuard", "Build file guard", Restart),
    ("security.folderTrust.enabled", "Folder trust", Restart),
    ("security.environmentVariableRedaction.enabled", "Withhold secrets from commands", Restart),
    ("experimental.useOSC52Paste", "Paste through the terminal (OSC 52)", Now),
    ("experimental.useOSC52Copy", "Copy through the terminal (OSC 52)", Now),
    ("advanced.ignoreLocalEnv", "Ignore project `.env` files", Restart),
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
