//! Migrates old names of settings in memory. Does not change files.

use std::path::Path;

use parallax_protocol::Object;
use serde_json::Value;

/// Flat names of the first format and their current names. An empty target means `model`, which is
/// handled separately.
const FLAT: &[(&str, &str)] = &[
    ("accessibility", "ui.accessibility"),
    ("allowedTools", "tools.allowed"),
    ("allowMCPServers", "mcp.allowed"),
    ("excludeMCPServers", "mcp.excluded"),
    ("mcpServerCommand", "mcp.serverCommand"),
    ("autoConfigureMaxOldSpaceSize", "advanced.autoConfigureMemory"),
    ("bugCommand", "advanced.bugCommand"),
    ("checkpointing", "general.checkpointing"),
    ("coreTools", "tools.core"),
    ("excludeTools", "tools.exclude"),
    ("toolDiscoveryCommand", "tools.discoveryCommand"),
    ("toolCallCommand", "tools.callCommand"),
    ("contextFileName", "context.fileName"),
    ("customThemes", "ui.customThemes"),
    ("customWittyPhrases", "ui.customWittyPhrases"),
    ("debugKeystrokeLogging", "general.debugKeystrokeLogging"),
    ("preferredEditor", "general.preferredEditor"),
    ("vimMode", "general.vimMode"),
    ("retryFetchErrors", "general.retryFetchErrors"),
    ("disableAutoUpdate", "general.disableAutoUpdate"),
    ("disableUpdateNag", "general.disableUpdateNag"),
    ("dnsResolutionOrder", "advanced.dnsResolutionOrder"),
    ("enforcedAuthType", "security.auth.enforcedType"),
    ("selectedAuthType", "security.auth.selectedType"),
    ("useExternalAuth", "security.auth.useExternal"),
    ("excludedProjectEnvVars", "advanced.excludedEnvVars"),
    ("fileFiltering", "context.fileFiltering"),
    ("folderTrust", "security.folderTrust.enabled"),
    ("hasSeenIdeIntegrationNudge", "ide.hasSeenNudge"),
    ("ideMode", "ide.enabled"),
    ("hideWindowTitle", "ui.hideWindowTitle"),
    ("hideTips", "ui.hideTips"),
    ("hideBanner", "ui.hideBanner"),
    ("hideFooter", "ui.hideFooter"),
    ("hideContextSummary", "ui.hideContextSummary"),
    ("showMemoryUsage", "ui.showMemoryUsage"),
    ("showLineNumbers", "ui.showLineNumbers"),
    ("showCitations", "ui.showCitations"),
    ("theme", "ui.theme"),
    ("hideCWD", "ui.footer.hideCWD"),
    ("hideSandboxStatus", "ui.footer.hideSandboxStatus"),
    ("hideModelInfo", "ui.footer.hideModelInfo"),
    ("includeDirectories", "context.includeDirectories"),
    ("loadMemoryFromIncludeDirectories", "context.loadMemoryFromIncludeDirectories"),
    ("memoryImportFormat", "context.importFormat"),
    ("memoryDiscoveryMaxDirs", "context.discoveryMaxDirs"),
    ("maxSessionTurns", "model.maxSessionTurns"),
    ("skipNextSpeakerCheck", "model.skipNextSpeakerCheck"),
    ("summarizeToolOutput", "model.summarizeToolOutput"),
    ("sandbox", "tools.sandbox"),
    ("shellPager", "tools.shell.pager"),
    ("shellShowColor", "tools.shell.showColor"),
    ("enableInteractiveShell", "tools.shell.enableInteractiveShell"),
    ("usageStatisticsEnabled", "privacy.usageStatisticsEnabled"),
    ("useRipgrep", "tools.useRipgrep"),
];

/// Deprecated names; `true` if the new setting has the inverse meaning.
const RENAMED: &[(&str, &str, bool)] = &[
    ("general.disableAutoUpdate", "general.enableAutoUpdate", true),
    ("general.disableUpdateNag", "general.enableAutoUpdateNotification", true),
    ("ui.accessibility.disableLoadingPhrases", "ui.accessibility.enableLoadingPhrases", true),
    ("context.fileFiltering.disableFuzzySearch", "context.fileFiltering.enableFuzzySearch", true),
    ("tools.approvalMode", "general.defaultApprovalMode", false),
    ("experimental.plan", "general.plan.enabled", false),
    (
        "experimental.codebaseInvestigatorSettings.enabled",
        "agents.overrides.codebase_investigator.enabled",
        false,
    ),
    (
        "experimental.codebaseInvestigatorSettings.maxNumTurns",
        "agents.overrides.codebase_investigator.runConfig.maxTurns",
        false,
    ),
    (
        "experimental.codebaseInvestigatorSettings.maxTimeMinutes",
        "agents.overrides.codebase_investigator.runConfig.maxTimeMinutes",
        false,
    ),
    (
        "experimental.codebaseInvestigatorSettings.model",
        "agents.overrides.codebase_investigator.modelConfig.model",
        false,
    ),
    (
        "experimental.codebaseInvestigatorSettings.thinkingBudget",
        "agents.overrides.codebase_investigator.modelConfig.generateContentConfig.thinkingConfig.thinkingBudget",
        false,
    ),
    ("experimental.cliHelpAgentSettings.enabled", "agents.overrides.cli_help.enabled", false),
];

/// Migrates the old names of one file; if both names are set, the new one is used. Returns notices.
pub(crate) fn migrate(values: &mut Object, path: &Path) -> Vec<String> {
    let mut notices = Vec::new();
    let mut flat = Vec::new();
    for (old, new) in FLAT {
        if let Some(value) = values.shift_remove(*old) {
            set_default(values, new, value);
            flat.push(*old);
        }
    }
    if values.get("model").is_some_and(Value::is_string)
        && let Some(name) = values.shift_remove("model")
    {
        set_default(values, "model.name", name);
        flat.push("model");
    }
    if let Some(share) = take(values, "chatCompression.contextPercentageThreshold") {
        set_default(values, "model.compressionThreshold", share);
        flat.push("chatCompression");
    }
    if !flat.is_empty() {
        let names = flat.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        notices
            .push(format!("{} uses deprecated names, which still work: {names}", path.display()));
    }
    for (old, new, inverted) in RENAMED {
        let Some(value) = take(values, old) else { continue };
        let value = match value {
            Value::Bool(flag) if *inverted => Value::Bool(!flag),
            // Only a boolean can be inverted.
            other if *inverted => {
                notices.push(format!(
                    "{}: `{old}` is ignored: {other} is neither `true` nor `false`",
                    path.display()
                ));
                continue;
            }
            other => other,
        };
        set_default(values, new, value);
        notices.push(format!("{}: `{old}` is now called `{new}`", path.display()));
    }
    if get_dotted(values, "ui.accessibility.enableLoadingPhrases") == Some(&Value::Bool(false)) {
        set_default(values, "ui.loadingPhrases", Value::String("off".to_owned()));
    }
    notices
}

/// Returns the value at a dotted key.
pub(crate) fn get_dotted<'a>(values: &'a Object, key: &str) -> Option<&'a Value> {
    let (parents, last) =
        key.rsplit_once('.').map_or((None, key), |(parents, last)| (Some(parents), last));
    let mut object = values;
    for parent in parents.into_iter().flat_map(|parents| parents.split('.')) {
        object = object.get(parent)?.as_object()?;
    }
    object.get(last)
}

/// Removes and returns the value at a dotted key.
pub(crate) fn take(values: &mut Object, key: &str) -> Option<Value> {
    match key.split_once('.') {
        None => values.shift_remove(key),
        Some((parent, rest)) => take(values.get_mut(parent)?.as_object_mut()?, rest),
    }
}

/// Sets the value at a dotted key unless it exists; objects are merged.
pub(crate) fn set_default(values: &mut Object, key: &str, value: Value) {
    match key.split_once('.') {
        None => match (values.get_mut(key), value) {
            // Both are parts of one group.
            (Some(Value::Object(there)), Value::Object(more)) => {
                for (name, field) in more {
                    set_default(there, &name, field);
                }
            }
            (Some(_), _) => {}
            (None, value) => {
                values.insert(key.to_owned(), value);
            }
        },
        Some((parent, rest)) => {
            let group = values.entry(parent).or_insert_with(|| Value::Object(Object::new()));
            if let Some(group) = group.as_object_mut() {
                set_default(group, rest, value);
            }
        }
    }
}
