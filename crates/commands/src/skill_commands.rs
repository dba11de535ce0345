//! Skills as slash commands: `/NAME text` activates a skill and sends the text.

use std::sync::Arc;

use parallax_protocol::event::Failure;
use parallax_tools::activate_skill::SkillEntry;

use crate::{Commands, PreparedCommand, is_reserved};

/// A skill that the user can activate.
#[derive(Debug, Clone)]
pub struct SkillCommand {
    /// Name to type after the slash; `EXTENSION:NAME` for a skill of an extension.
    pub name: String,
    /// When to use the skill.
    pub description: String,
    pub entry: SkillEntry,
}

impl Commands {
    /// Returns the skills whose names no other command has.
    pub fn skills(&self) -> Vec<SkillCommand> {
        let catalog = self.catalog();
        let is_free = |skill: &&SkillCommand| {
            !is_reserved(&skill.name) && catalog.find(&skill.name).is_none()
        };
        let mut skills = self.shared.skills.commands();
        skills.retain(|skill| is_free(&skill));
        skills
    }

    /// Prepares the line of a skill; `None` if no skill has the name.
    pub fn prepare_skill(
        &self,
        name: &str,
        arguments: &str,
    ) -> Option<Result<PreparedCommand, Failure>> {
        let skills = self.shared.skills.commands();
        let skill = skills.iter().find(|skill| skill.name == name)?;
        let text = match arguments {
            "" => format!("Use the skill `{}`.", skill.entry.name),
            text => text.to_owned(),
        };
        let (name, entry) = (skill.name.clone(), skill.entry.clone());
        Some(Ok(PreparedCommand::from_skill(Arc::clone(&self.shared), name, entry, text)))
    }
}
