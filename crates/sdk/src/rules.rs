//! The policy rules of a session: finding and loading them, and saving new ones.

use std::path::{Path, PathBuf};

use parallax_config::{
    CommandSubstitution, Homes, RuleFiles, RulePlaces, let_workspace_rules_allow, policy_files,
    save_rule, workspace_rules_may_allow,
};
use parallax_policy::{BuildFileGuard, Policy, PolicyOptions, ProblemKind, RuleFile, Tier};
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::policy::{RuleDraft, RuleKeeper, RuleScope};

use crate::launch::{Launch, failure};
use parallax_agents as agents;
use parallax_agents::skills;

/// The file of rules saved from approvals.
const SAVED: &str = "auto-saved.toml";

/// Things of a session that are allowed without approval.
pub(crate) struct Unasked {
    /// The directory for plans.
    pub(crate) plans: Option<PathBuf>,
    /// Built-in skills.
    pub(crate) skills: Vec<String>,
    /// Agents with their trusted MCP servers.
    pub(crate) agent_servers: Vec<(String, String)>,
    /// Rules that agents bring.
    pub(crate) agent_rules: Vec<RuleFile>,
}

impl Launch {
    /// Returns the policy, with warnings about its files.
    pub fn policy(&self) -> (Policy, Vec<String>) {
        // Only an open session knows its default directory for plans.
        self.policy_for(Unasked {
            plans: self.set_plans_folder().ok().flatten(),
            skills: skills::of_the_program(&self.skill_library().skills()),
            agent_servers: agents::trusted_servers(&self.agent_library().agents()),
            agent_rules: agents::rules(&self.agent_library().agents()),
        })
    }

    /// Returns the policy of a session that also allows these things.
    pub(crate) fn policy_for(&self, unasked: Unasked) -> (Policy, Vec<String>) {
        let settings = &self.config.settings;
        let mut allowed = settings.allowed_tools();
        allowed.extend(self.options.allowed_tools.iter().cloned());
        let mut exclude = settings.excluded_tools();
        exclude.extend(self.options.exclude_tools.iter().cloned());
        let (trusted_servers, allowed_servers) = self.unasked_servers();
        let RuleFiles { mut files, mut warnings } = self.rule_files();
        // The user accepted only the project's own files.
        let workspace_may_allow = self.accepted(&files);
        files.extend(unasked.agent_rules);
        let policy = Policy::new(&PolicyOptions {
            core: settings.core_tools(),
            core_tools_need_approval: self.config.core_tools_need_approval,
            allowed,
            exclude,
            excluded_by: self.extensions().excluded_tools(),
            confirmation_required: settings.confirmation_required(),
            trusted_servers,
            allowed_servers,
            allow_servers_headless: settings.flag("mcp.autoAllowInHeadless"),
            built_in_skills: unasked.skills,
            agent_servers: unasked.agent_servers,
            build_file_guard: match settings.build_file_guard() {
                true => BuildFileGuard::Ask,
                false => BuildFileGuard::Off,
            },
            plans_directory: unasked.plans,
            home: self.home_folder(),
            workspace_may_allow,
            disable_always_allow: settings.flag("security.disableAlwaysAllow"),
            files,
            sandbox: self.sandbox_table().0,
            free_substitutions: settings.command_substitution() == CommandSubstitution::Allow,
            ..PolicyOptions::default()
        });
        warnings.extend(policy.notices().iter().cloned());
        (policy, warnings)
    }

    /// Fails if required rules are unusable: those of a file given for this session, and in a
    /// non-interactive session an entire file of the user or administrator.
    pub(crate) fn require_rules(&self, policy: &Policy) -> Result<(), Failure> {
        let named = |path: &Path| {
            let options = &self.options;
            let mut named = options.policy_paths.iter().chain(&options.admin_policy_paths);
            named.any(|given| {
                path.starts_with(options.directory.join(self.config.expand_home(given)))
            })
        };
        let lost = policy.problems().iter().find(|problem| {
            matches!(problem.kind, ProblemKind::FileRead | ProblemKind::TomlParse)
                && matches!(problem.tier, Tier::User | Tier::Admin)
                && (!self.options.interactive || named(&problem.path))
        });
        lost.map_or(Ok(()), |lost| {
            let lint = "fix it (`parallax policy lint FILE` checks it) or remove it";
            Err(failure(
                FailureKind::Config,
                format!("{lost}: what they deny would be allowed; {lint}"),
            ))
        })
    }

    /// Returns whether the directory is trusted.
    pub fn trusted(&self) -> bool {
        self.config.trust.trusted
    }

    /// Returns whether the user accepted the project's current rules.
    fn accepted(&self, files: &[RuleFile]) -> bool {
        let (homes, project) = (&self.config.homes, &self.config.project);
        files.iter().any(|file| file.tier == Tier::Workspace)
            && workspace_rules_may_allow(homes, project, files)
    }

    pub(crate) fn home_folder(&self) -> Option<PathBuf> {
        let home = self.config.environment.get("HOME").map(PathBuf::from);
        home.filter(|home| home.is_absolute())
    }

    /// Returns the storage for new rules.
    pub(crate) fn rule_keeper(&self) -> RuleFileStore {
        RuleFileStore { homes: self.config.homes.clone(), project: self.config.project.clone() }
    }

    /// Accepts the project's current rules, so that they may also allow. Returns the number of
    /// files.
    ///
    /// # Errors
    /// Returns why this could not be saved.
    pub fn accept_project_rules(&self) -> Result<usize, String> {
        let files = self.rule_files().files;
        let (homes, project) = (&self.config.homes, &self.config.project);
        let kept = let_workspace_rules_allow(homes, project, &files);
        kept.map_err(|error| error.to_string())?;
        Ok(files.iter().filter(|file| file.tier == Tier::Workspace).count())
    }
}

/// Saves rules to files of the user or the project. Rules of a project may only restrict unless the
/// user accepted them; saving a rule here also accepts it.
pub(crate) struct RuleFileStore {
    homes: Homes,
    project: PathBuf,
}

impl RuleKeeper for RuleFileStore {
    fn keep(&self, rule: &RuleDraft, scope: RuleScope) -> Result<PathBuf, String> {
        let said = |error: parallax_config::ConfigError| error.to_string();
        match scope {
            RuleScope::Session => Err("session rules are not saved".to_owned()),
            RuleScope::Always => {
                let file = self.homes.parallax.join("policies").join(SAVED);
                save_rule(&file, rule).map_err(said)?;
                Ok(file)
            }
            RuleScope::Project => {
                let files = self.files();
                let any = files.iter().any(|file| file.tier == Tier::Workspace);
                if any && !workspace_rules_may_allow(&self.homes, &self.project, &files) {
                    return Err("the project has rules that you have not accepted: run `parallax \
                        policy list`, then `parallax policy accept`"
                        .to_owned());
                }
                let file = self.project.join(".parallax").join("policies").join(SAVED);
                save_rule(&file, rule).map_err(said)?;
                let_workspace_rules_allow(&self.homes, &self.project, &self.files())
                    .map_err(said)?;
                Ok(file)
            }
        }
    }
}

impl RuleFileStore {
    fn files(&self) -> Vec<RuleFile> {
        policy_files(&RulePlaces {
            homes: &self.homes,
            cwd: &self.project,
            trusted: true,
            extensions: &[],
            instead_of_user: &[],
            admin: &[],
        })
        .files
    }
}
