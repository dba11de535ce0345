//! Lists agent definitions and changes their settings.

use std::path::PathBuf;
use std::sync::Arc;

use parallax_config::Config;
use parallax_config::SettingScope;
use parallax_config::agents::{
    AcceptedAgents, Agent, AgentFolder, AgentSet, AgentTier, acknowledge, agent_files,
    agent_folders, find_agents,
};
use parallax_config::extensions::{ExtensionVariables, Extensions};
use parallax_policy::RuleFile;
use parallax_protocol::event::{Failure, FailureKind};
use serde_json::Value;

use crate::changes::{FolderStamp, stamp};
use crate::{AgentSetting, ReloadFn, built_in};

/// The setting with overrides for single agents.
const OVERRIDES: &str = "agents.overrides";

/// Lists the agents that files define, and changes their settings. Cheap to clone.
#[derive(Clone)]
pub struct AgentLibrary {
    /// The configuration of the user and the project.
    pub config: Arc<Config>,
    /// The extensions, which may provide agents.
    pub extensions: Arc<Extensions>,
    /// The model of the session, with aliases resolved.
    pub main_model: String,
    /// Reads the settings again.
    pub reload: ReloadFn<AgentLibrary>,
}

impl AgentLibrary {
    /// Returns the agents of the current definition files, including disabled ones. Blocking.
    pub fn agents(&self) -> AgentSet {
        let config = &self.config;
        if !config.settings.flag("experimental.enableAgents") {
            return AgentSet::default();
        }
        let directories = self.directories();
        let mut warnings = Vec::new();
        let known = AcceptedAgents::read(&config.dirs, &config.project, &mut warnings);
        let built_in = built_in::agents(&self.main_model);
        let mut set = find_agents(built_in, &directories, &config.settings, &known);
        warnings.into_iter().for_each(|warning| set.warnings.push(warning));
        for agent in set.agents.iter_mut().chain(&mut set.unacknowledged) {
            if let AgentTier::Extension(name) = &agent.tier
                && let Some(extension) = self.extensions.find(name)
            {
                fill_in(agent, &extension.variables);
            }
        }
        for auth in set.agents.iter().filter_map(|agent| agent.remote.as_ref()?.auth.as_ref()) {
            auth.register_variables(config.environment.secrets());
        }
        set
    }

    /// Returns the directories of definitions, lowest precedence first.
    fn directories(&self) -> Vec<AgentFolder> {
        let config = &self.config;
        let extension_folders = self.extensions.agent_folders().into_iter();
        let mut directories: Vec<AgentFolder> = extension_folders
            .map(|(name, folder)| AgentFolder { tier: AgentTier::Extension(name), folder })
            .collect();
        directories.extend(agent_folders(&config.dirs, &config.cwd, config.trust.trusted));
        directories
    }

    /// Returns the state of the definition files, for detecting changes. Blocking: checks each
    /// file.
    pub(crate) fn stamp(&self) -> FolderStamp {
        let locations = self.directories();
        stamp(locations.iter().flat_map(|location| agent_files(&location.folder)))
    }

    /// Approves a project agent in its current form. Blocking.
    ///
    /// # Errors
    /// Returns an error if the file of approvals cannot be read or written.
    pub fn acknowledge(&self, agent: &Agent) -> Result<(), Failure> {
        acknowledge(&self.config.dirs, &self.config.project, agent)
            .map_err(|error| Failure::new(FailureKind::Config, error.to_string()))
    }

    /// Changes or resets an agent's setting (`agents.overrides`). Returns the settings file.
    /// Blocking.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn set(
        &self,
        name: &str,
        setting: AgentSetting,
        value: Option<Value>,
        scope: SettingScope,
    ) -> Result<PathBuf, Failure> {
        let mut overrides = parallax_config::setting_of(&self.config, scope, OVERRIDES)
            .map_err(|error| Failure::new(FailureKind::Config, error.to_string()))?
            .as_ref()
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default();
        let mut changes =
            overrides.get(name).and_then(Value::as_object).cloned().unwrap_or_default();
        setting.apply(&mut changes, value);
        if changes.is_empty() {
            overrides.shift_remove(name);
        } else {
            overrides.insert(name.to_owned(), Value::Object(changes));
        }
        parallax_config::set_setting(
            &self.config,
            scope,
            OVERRIDES,
            Some(&Value::Object(overrides)),
        )
        .map_err(|error| Failure::new(FailureKind::Config, error.to_string()))
    }
}

/// Returns the agents and their MCP servers whose tools need no approval. Agents of projects and
/// extensions cannot claim this.
pub fn trusted_servers(set: &AgentSet) -> Vec<(String, String)> {
    let user_agents = set.agents.iter().filter(|agent| agent.tier == AgentTier::User);
    user_agents
        .flat_map(|agent| {
            let trusted = agent
                .mcp_servers
                .iter()
                .filter(|(_, server)| server.get("trust").and_then(Value::as_bool) == Some(true));
            trusted.map(|(server, _)| (agent.name.clone(), server.clone()))
        })
        .collect()
}

/// Returns the policy rules of agents.
pub fn rules(set: &AgentSet) -> Vec<RuleFile> {
    set.agents.iter().filter_map(Agent::rule_file).collect()
}

/// Fills in the variables of the agent's extension: all of them where programs are started, no
/// secrets in what the model reads.
fn fill_in(agent: &mut Agent, variables: &ExtensionVariables) {
    agent.description = variables.expand_for_model(&agent.description);
    agent.prompt = variables.expand_for_model(&agent.prompt);
    agent.mcp_servers.values_mut().for_each(|server| variables.fill_value(server));
}
