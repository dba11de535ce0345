//! The project agents that the user approved, with their file hashes: Gemini CLI's
//! `acknowledgments/agents.json`, project → agent → SHA-256 of its file. Reads Gemini CLI's file
//! and writes the one in `~/.parallax`.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use jsonc_parser::cst::CstInputValue;
use parallax_protocol::Object;
use serde_json::Value;

use super::Agent;
use crate::error::ConfigError;
use crate::user_dirs::UserDirs;
use crate::{json_state_file, jsonc};

const FILE: &str = "acknowledgments/agents.json";

/// The approved agents of one project.
#[derive(Debug, Clone, Default)]
pub struct AcceptedAgents {
    agents: HashSet<(String, String)>,
}

impl AcceptedAgents {
    /// Reads both files. An invalid file approves nothing and adds a warning. Blocking.
    pub fn read(dirs: &UserDirs, project: &Path, warnings: &mut Vec<String>) -> Self {
        let mut known = Self::default();
        let project = [real_path(project), project.to_owned()];
        for path in [dirs.gemini.join(FILE), acceptance_file(dirs)] {
            match jsonc::read_object(&path) {
                Ok(file) => file.iter().for_each(|file| known.add(file, &project)),
                Err(error) => warnings.push(format!("{error}; it accepts no agents")),
            }
        }
        known
    }

    fn add(&mut self, file: &Object, project: &[PathBuf]) {
        for directory in project {
            let agents = file.get(&*directory.to_string_lossy()).and_then(Value::as_object);
            for (name, hash) in agents.into_iter().flatten() {
                if let Some(hash) = hash.as_str() {
                    self.agents.insert((name.clone(), hash.to_lowercase()));
                }
            }
        }
    }

    /// Whether the agent is unchanged since the user approved it. Agents of the user, of
    /// extensions, and of Parallax need no approval.
    pub(super) fn has(&self, agent: &Agent) -> bool {
        match &agent.hash {
            Some(hash) => self.agents.contains(&(agent.name.clone(), hash.clone())),
            None => true,
        }
    }
}

/// Stores the approval of a project agent in the version that was read. Blocking.
///
/// # Errors
/// Returns an error if `~/.parallax/acknowledgments/agents.json` cannot be used or written.
pub fn acknowledge(dirs: &UserDirs, project: &Path, agent: &Agent) -> Result<(), ConfigError> {
    let Some(hash) = &agent.hash else { return Ok(()) };
    let project = real_path(project).to_string_lossy().into_owned();
    json_state_file::update(&acceptance_file(dirs), |file| {
        let agents = file.object_value_or_set(&project);
        let hash = CstInputValue::String(hash.clone());
        match agents.get(&agent.name) {
            Some(existing) => existing.set_value(hash),
            None => drop(agents.append(&agent.name, hash)),
        }
    })
}

fn acceptance_file(dirs: &UserDirs) -> PathBuf {
    dirs.parallax.join(FILE)
}

fn real_path(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}
