//! The skills of a session, checked before each prompt and reloaded when their files change.

use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use parallax_config::DefinitionWarnings;
use parallax_config::skills::{Skill, Skills};
use parallax_files::Workspace;
use parallax_protocol::event::{Failure, Level};
use parallax_protocol::tool::Tool;
use parallax_tools::activate_skill::{ActivateSkill, SkillEntry};

use super::SkillLibrary;
use super::{built_in_names, commands, entries, section};
use crate::changes::{FileStamp, FolderStamp, NameChanges, read_stamp};

/// The skills that a session can use.
pub struct SessionSkills {
    library: SkillLibrary,
    workspace: Arc<Workspace>,
    /// Built-in skills, which the session's policy allows without approval.
    built_in: Vec<String>,
    /// State of the skill files at the last reload.
    stamp: Mutex<FolderStamp>,
    state: RwLock<SkillState>,
}

struct SkillState {
    /// Incremented with each reload.
    version: u64,
    /// The enabled skills by name, with the state of their files.
    enabled: Vec<(String, (Skill, FileStamp))>,
    warnings: DefinitionWarnings,
    commands: Vec<(String, SkillEntry)>,
    section: Arc<str>,
    /// `None` if there are no skills.
    tool: Option<Arc<dyn Tool>>,
}

impl SkillState {
    fn new(
        library: &SkillLibrary,
        workspace: &Arc<Workspace>,
        skills: Skills,
        version: u64,
    ) -> Self {
        let extensions = &library.extensions;
        let entries = entries(&skills, extensions);
        let commands = commands(&skills, extensions);
        let section = section(&skills).into();
        let tool = (!entries.is_empty())
            .then(|| Arc::new(ActivateSkill::new(entries, Arc::clone(workspace))) as Arc<dyn Tool>);
        let Skills { skills, warnings } = skills;
        let enabled = skills.into_iter().filter(|skill| !skill.disabled);
        let enabled = enabled
            .map(|skill| (skill.name.clone(), (skill.clone(), read_stamp(&skill.file))))
            .collect();
        Self { version, enabled, warnings, commands, section, tool }
    }
}

impl SessionSkills {
    /// Returns the skills of a session with warnings for the user. Blocking.
    pub fn open(library: SkillLibrary, workspace: &Arc<Workspace>) -> (Arc<Self>, Vec<String>) {
        let skills = library.skills();
        let warnings = skills.warnings.summary("parallax skills list");
        let session = Self {
            workspace: Arc::clone(workspace),
            built_in: built_in_names(&skills),
            stamp: Mutex::new(library.stamp()),
            state: RwLock::new(SkillState::new(&library, workspace, skills, 0)),
            library,
        };
        (Arc::new(session), warnings)
    }

    fn state(&self) -> RwLockReadGuard<'_, SkillState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a number that changes when the skills are reloaded.
    pub fn version(&self) -> u64 {
        self.state().version
    }

    /// Returns the number of enabled skills.
    pub fn count(&self) -> usize {
        self.state().enabled.len()
    }

    /// Returns the tool that activates skills, if there are any.
    pub fn tool(&self) -> Option<Arc<dyn Tool>> {
        self.state().tool.clone()
    }

    /// Returns the enabled skills with their names as slash commands.
    pub fn commands(&self) -> Vec<(String, SkillEntry)> {
        self.state().commands.clone()
    }

    /// Returns the section of the system prompt about skills; empty if there are none.
    pub fn section(&self) -> Arc<str> {
        Arc::clone(&self.state().section)
    }

    /// Returns the built-in skills that the session's policy allows without approval.
    pub fn built_in(&self) -> &[String] {
        &self.built_in
    }

    /// Reloads the skills if a file changed, and returns notices for the user. Blocking.
    pub fn refresh(&self) -> Vec<(Level, String)> {
        let current = self.library.stamp();
        if *self.stamp.lock().unwrap_or_else(PoisonError::into_inner) == current {
            return Vec::new();
        }
        self.reload().unwrap_or_else(|failure| {
            tracing::warn!(why = failure.message, "the skills were not changed");
            Vec::new()
        })
    }

    /// Reloads settings and skill files. Returns what changed and new problems. Blocking.
    ///
    /// # Errors
    /// Returns an error if settings are invalid.
    pub fn reload(&self) -> Result<Vec<(Level, String)>, Failure> {
        let library = (self.library.reload)()?;
        *self.stamp.lock().unwrap_or_else(PoisonError::into_inner) = library.stamp();
        let mut skills = library.skills();
        self.remove_conflicting(&mut skills);
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let current = SkillState::new(&library, &self.workspace, skills, state.version + 1);
        let changes = NameChanges::compare(&state.enabled, &current.enabled);
        let known: Vec<&String> = state.warnings.all().collect();
        let line = changes.line("Skills").map(|line| (Level::Info, line));
        let new_warnings =
            current.warnings.all().filter(|warning| !known.contains(warning)).cloned();
        let notices =
            line.into_iter().chain(new_warnings.map(|text| (Level::Warning, text))).collect();
        *state = current;
        Ok(notices)
    }

    /// Removes skills that use the name of a skill that is activated without approval.
    fn remove_conflicting(&self, found: &mut Skills) {
        let Skills { skills, warnings } = found;
        skills.retain(|skill| {
            let is_asked = skill.text.is_some() || !self.built_in.contains(&skill.name);
            if !is_asked {
                warnings.push(format!(
                    "the skill `{}` ({}) has the name of a built-in skill: it can be used in the \
                     next session",
                    skill.name,
                    skill.location()
                ));
            }
            is_asked
        });
    }
}
