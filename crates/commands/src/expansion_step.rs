//! What a command's template is made of once its arguments are filled in.

use parallax_tools::activate_skill::SkillEntry;

use crate::shell::CheckedCommand;

/// A piece of the template that is expanded when the command runs.
pub(crate) enum ExpansionStep {
    Text(String),
    File(String),
    Shell(CheckedCommand),
    /// The messages of an MCP server's prompt.
    Prompt {
        server: String,
        prompt: String,
        values: Vec<(String, String)>,
    },
    /// The instructions of a skill.
    Skill(SkillEntry),
}
