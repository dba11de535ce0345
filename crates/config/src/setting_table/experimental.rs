//! Experimental features.

use crate::setting_spec::SettingType::Flag;
use crate::setting_spec::{SettingSpec, key};

pub(super) const SETTINGS: &[SettingSpec] = &[
    key("experimental.taskTracker", Flag, "false", "Use the task tracker instead of to-dos"),
    key("experimental.enableAgents", Flag, "true", "Enable agents"),
    key(
        "experimental.useOSC52Paste",
        Flag,
        "false",
        "Read the clipboard through the terminal (OSC 52)",
    )
    .with_label("Paste through the terminal (OSC 52)"),
    key(
        "experimental.useOSC52Copy",
        Flag,
        "false",
        "Copy through the terminal (OSC 52) instead of a clipboard program",
    )
    .with_label("Copy through the terminal (OSC 52)"),
    key(
        "experimental.directWebFetch",
        Flag,
        "false",
        "Make `web_fetch` download pages directly, not through the model's service",
    ),
    key("experimental.worktrees", Flag, "false", "No effect: use `--worktree`"),
];
