//! Sandbox, checkpoints, approvals, trust, and keys.

use crate::setting_spec::SettingType::{Choice, Flag, FlagOr, Number as Num, Text, Texts};
use crate::setting_spec::{SettingSpec, key};

pub(super) const SETTINGS: &[SettingSpec] = &[
    key("security.toolSandboxing", FlagOr(&["auto"]), "\"auto\"", "Confine what commands can read, write, and reach; `auto`: where the system supports it").with_label_after_restart("Sandbox for commands"),
    key(
        "security.sandbox.network.default",
        Flag,
        "false",
        "Allow network access for commands in modes that have no setting of their own (Parallax only)",
    ).with_label_after_restart("Network access for commands"),
    key(
        "security.sandbox.network.auto_edit",
        Flag,
        "false",
        "Allow network access for commands in `auto_edit` mode (Parallax only)",
    ).with_label_after_restart("Network access in auto-edit mode"),
    key(
        "security.sandbox.network.plan",
        Flag,
        "false",
        "Allow network access for commands in `plan` mode (Parallax only)",
    ).with_label_after_restart("Network access in plan mode"),
    key(
        "security.sandbox.network.yolo",
        Flag,
        "true",
        "Allow network access for commands in `yolo` mode (Parallax only)",
    ).with_label_after_restart("Network access in YOLO mode"),
    key(
        "security.sandbox.hostLoopback",
        Flag,
        "false",
        "Allow commands to reach servers on this machine; default in `yolo` mode: as the network setting (Parallax only)",
    ).with_label_after_restart("Access to local servers"),
    key(
        "security.sandbox.caches",
        Flag,
        "",
        "Allow commands to write package caches (Parallax only)",
    ),
    key(
        "security.sandbox.writable",
        Texts,
        "[]",
        "Additional paths that commands can write (Parallax only)",
    ),
    key(
        "security.sandbox.hidden",
        Texts,
        "[]",
        "Additional paths that are hidden from commands (Parallax only)",
    ),
    key(
        "security.sandbox.readable",
        Texts,
        "[]",
        "Hidden paths that commands can read anyway (Parallax only)",
    ),
    key(
        "security.checkpoints.enabled",
        Flag,
        "true",
        "Record file changes so that they can be undone (Parallax only)",
    ).with_label_after_restart("Undo"),
    key(
        "security.checkpoints.maxBytes",
        Num,
        "",
        "Maximum bytes of stored checkpoints (Parallax only)",
    ),
    key(
        "security.allowedExtensions",
        Texts,
        "[]",
        "Patterns of sources from which extensions may be installed; empty: all",
    ),
    key("security.blockGitExtensions", Flag, "false", "Block extensions from URLs"),
    key("security.disableYoloMode", Flag, "false", "Disable the mode that auto-approves all actions").with_label_after_restart("Disable YOLO mode"),
    key(
        "security.disableAlwaysAllow",
        Flag,
        "false",
        "Do not offer \"always allow\" answers in approval requests",
    ).with_label_after_restart("Disable \"always allow\""),
    key(
        "security.enablePermanentToolApproval",
        Flag,
        "false",
        "Offer \"always allow\" answers that save a rule for later sessions",
    ).with_label_after_restart("Save \"always allow\" rules"),
    key(
        "security.autoAddToPolicyByDefault",
        Flag,
        "false",
        "In approval requests, preselect the answer that saves the rule",
    ),
    key(
        "security.buildFileGuard",
        Choice(&["ask", "off"]),
        "\"ask\"",
        "Require approval for edits to build files (Parallax only)",
    ).with_label_after_restart("Build file guard"),
    key("security.folderTrust.enabled", Flag, "true", "Ask whether to trust a folder before its settings, commands, and instructions are used").with_label_after_restart("Folder trust"),
    key(
        "security.secretStorage",
        Choice(&["auto", "file"]),
        "\"auto\"",
        "Where keys and tokens are stored: the system keychain if available, or files (Parallax only)",
    ),
    key(
        "security.environmentVariableRedaction.enabled",
        Flag,
        "true",
        "Remove variables with keys and tokens from the environment of child processes",
    ).with_label_after_restart("Withhold secrets from commands"),
    key(
        "security.environmentVariableRedaction.allowed",
        Texts,
        "[]",
        "Variables that are always passed to child processes",
    ),
    key(
        "security.environmentVariableRedaction.blocked",
        Texts,
        "[]",
        "Variables that are never passed to child processes",
    ),
    key("security.auth.selectedType", Text, "", "Authentication method"),
    key("security.auth.enforcedType", Text, "", "The only allowed authentication method"),
    key(
        "security.auth.useExternal",
        Flag,
        "false",
        "A gateway authenticates requests; no key is required",
    ),
];
