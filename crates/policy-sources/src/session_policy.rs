//! Builds the policy of a session from rule files, settings, and flags.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parallax_config::{
    CommandSubstitution, RuleFiles, RulesChange, save_accepted_rules, workspace_rules_may_allow,
};
use parallax_policy::{BuildFileGuard, Policy, PolicyOptions, ProblemKind, RuleFile, Tier};
use parallax_protocol::event::{Failure, FailureKind};

use crate::{PolicySources, RuleFileStore, home_folder};

/// What a session allows without approval besides its rules.
#[derive(Debug, Default)]
pub struct ImplicitAllows {
    /// The directory for plans.
    pub plans: Option<PathBuf>,
    /// Built-in skills.
    pub skills: Vec<String>,
    /// MCP servers that are trusted.
    pub trusted_servers: Vec<String>,
    /// MCP servers that are allowed by name.
    pub allowed_servers: Vec<String>,
    /// Agents with their trusted MCP servers.
    pub agent_servers: Vec<(String, String)>,
    /// Rules that agents provide.
    pub agent_rules: Vec<RuleFile>,
}

/// Project rules that are new or changed since the last time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyUpdate {
    /// Whether the project had no rules before.
    pub is_new: bool,
    /// The rule files.
    pub files: Vec<PathBuf>,
    /// The rules as written in the files, one line each.
    pub rules: Vec<String>,
}

impl PolicySources {
    /// Returns the policy of a session that also allows these things.
    pub fn policy(&self, allows: ImplicitAllows) -> (Policy, Vec<String>) {
        let settings = &self.config.settings;
        let mut allowed = settings.allowed_tools();
        allowed.extend(self.allowed_tools.iter().cloned());
        let RuleFiles { mut files, mut warnings } = self.rule_files();
        // The user accepted only the project's own files.
        let workspace_may_allow = self.is_accepted(&files);
        files.extend(allows.agent_rules);
        let policy = Policy::new(&PolicyOptions {
            core: settings.core_tools(),
            core_tools_need_approval: self.config.core_tools_need_approval,
            allowed,
            exclude: settings.excluded_tools(),
            excluded_in_session: self.exclude_tools.clone(),
            excluded_by: self.extensions.excluded_tools(),
            confirmation_required: settings.confirmation_required(),
            trusted_servers: allows.trusted_servers,
            allowed_servers: allows.allowed_servers,
            allow_servers_headless: settings.flag("mcp.autoAllowInHeadless"),
            built_in_skills: allows.skills,
            agent_servers: allows.agent_servers,
            build_file_guard: match settings.build_file_guard() {
                true => BuildFileGuard::Ask,
                false => BuildFileGuard::Off,
            },
            plans_directory: allows.plans,
            home: home_folder(&self.config),
            workspace_may_allow,
            disable_always_allow: settings.flag("security.disableAlwaysAllow"),
            files,
            sandbox: self.sandbox_table().0,
            links: Some(Arc::clone(&self.links)),
            free_substitutions: settings.command_substitution() == CommandSubstitution::Allow,
            ..PolicyOptions::default()
        });
        warnings.extend(policy.notices().iter().cloned());
        (policy, warnings)
    }

    /// Fails if required rules are unusable: those of a file given for this session, and in a
    /// non-interactive session an entire file of the user or administrator.
    pub fn require_rules(&self, policy: &Policy) -> Result<(), Failure> {
        let named = |path: &Path| {
            let mut named = self.policy_paths.iter().chain(&self.admin_policy_paths);
            named.any(|given| path.starts_with(self.directory.join(self.config.expand_home(given))))
        };
        let lost = policy.problems().iter().find(|problem| {
            matches!(problem.kind, ProblemKind::FileRead | ProblemKind::TomlParse)
                && matches!(problem.tier, Tier::User | Tier::Admin)
                && (!self.interactive || named(&problem.path))
        });
        lost.map_or(Ok(()), |lost| {
            let lint = "fix it (`parallax policy lint FILE` checks it) or remove it";
            Err(Failure::new(
                FailureKind::Config,
                format!("{lost}: what they deny would be allowed; {lint}"),
            ))
        })
    }

    /// Returns whether the user accepted the project's current rules.
    fn is_accepted(&self, files: &[RuleFile]) -> bool {
        let (dirs, project) = (&self.config.dirs, &self.config.project);
        files.iter().any(|file| file.tier == Tier::Workspace)
            && workspace_rules_may_allow(dirs, project, files)
    }

    /// Returns the storage for new rules.
    pub fn rule_store(&self) -> RuleFileStore {
        RuleFileStore { dirs: self.config.dirs.clone(), project: self.config.project.clone() }
    }

    /// Accepts the project's current rules, so that they may also allow. Returns the number of
    /// files.
    ///
    /// # Errors
    /// Returns why this could not be saved.
    pub fn accept_project_rules(&self) -> Result<usize, String> {
        let files = self.rule_files().files;
        let (dirs, project) = (&self.config.dirs, &self.config.project);
        let saved = save_accepted_rules(dirs, project, &files);
        saved.map_err(|error| error.to_string())?;
        Ok(files.iter().filter(|file| file.tier == Tier::Workspace).count())
    }

    /// Returns project rules that the user should see because they are new or have changed. They
    /// may only restrict until [`Self::accept_project_rules`] is called. Call this before
    /// a session opens, which records the rules as known. Blocking.
    pub fn update(&self) -> Option<PolicyUpdate> {
        let cwd = &self.config.project;
        let mut files = self.discover_rule_files().files;
        files.retain(|file| file.tier == Tier::Workspace);
        let change = parallax_config::workspace_rules_changed(&self.config.dirs, cwd, &files);
        let is_new = match change.ok()? {
            RulesChange::New => true,
            RulesChange::Changed => false,
            RulesChange::None | RulesChange::Same => return None,
        };
        let paths = files.iter().map(|file| file.path.clone()).collect();
        let policy = Policy::new(&PolicyOptions {
            home: home_folder(&self.config),
            workspace_may_allow: true,
            files,
            ..PolicyOptions::default()
        });
        let saved_rules = policy.list().into_iter().filter(|rule| rule.file.is_some());
        let rules = saved_rules.map(|rule| rule.rule).collect();
        Some(PolicyUpdate { is_new, files: paths, rules })
    }
}
