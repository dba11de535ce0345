//! Commands, skills, hooks, and rules.

use crate::setting_spec::SettingType::{Flag, List, Object as Obj, Texts};
use crate::setting_spec::{SettingSpec, key};

pub(super) const SETTINGS: &[SettingSpec] = &[
    key(
        "commands.includeOtherAgents",
        Flag,
        "false",
        "Also load Claude Code's slash commands (Parallax only)",
    ),
    key("skills.enabled", Flag, "true", "Enable skills"),
    key("skills.disabled", Texts, "[]", "Disabled skills"),
    key("hooksConfig.enabled", Flag, "true", "Enable hooks"),
    key("hooksConfig.disabled", Texts, "[]", "Disabled hooks"),
    key("hooksConfig.notifications", Flag, "true", "Show hooks that run for a long time"),
    key(
        "hooksConfig.moreEvents",
        Flag,
        "false",
        "Enable additional hook events for plans, agents, and files (Parallax only)",
    ),
    key("hooks", Obj, "{}", "Hooks, by event"),
    key("policyPaths", Texts, "[]", "User policy files"),
    key("adminPolicyPaths", Texts, "[]", "Policy files of the administrator"),
    key("hooks.BeforeTool", List, "[]", "Hooks that run before a tool"),
    key("hooks.AfterTool", List, "[]", "Hooks that run after a tool"),
];
