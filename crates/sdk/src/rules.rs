//! The rules of a session: found, read, and kept when a person agrees to more.

use std::path::{Path, PathBuf};

use parallax_config::{
    CommandSubstitution, Homes, RuleFiles, RulePlaces, let_workspace_rules_allow, policy_files,
    save_rule, workspace_rules_may_allow,
};
use parallax_policy::{BuildFileGuard, Policy, PolicyOptions, ProblemKind, RuleFile, Tier};
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::policy::{RuleDraft, RuleKeeper, RuleScope};

use crate::launch::{Launch, failure};
use crate::{agents, skills};

/// The file of rules that were agreed to.
const SAVED: &str = "auto-saved.toml";

/// What of a session needs no question.
pub(crate) struct Unasked {
    /// The folder of plans.
    pub(crate) plans: Option<PathBuf>,
    /// Skills of the program.
    pub(crate) skills: Vec<String>,
    /// Agents, and servers of their own that are trusted.
    pub(crate) agent_servers: Vec<(String, String)>,
    /// Rules that agents bring.
    pub(crate) agent_rules: Vec<RuleFile>,
}

impl Launch {
    /// The policy, and what people should hear about its files.
    pub fn policy(&self) -> (Policy, Vec<String>) {
        // The folder of plans of a session is known to the session only.
        self.policy_for(Unasked {
            plans: self.set_plans_folder().ok().flatten(),
            skills: skills::of_the_program(&self.skills()),
            agent_servers: agents::trusted_servers(&self.agents()),
            agent_rules: agents::rules(&self.agents()),
        })
    }

    /// The policy of a session with these things of its own.
    pub(crate) fn policy_for(&self, unasked: Unasked) -> (Policy, Vec<String>) {
        let settings = &self.config.settings;
        let mut allowed = settings.allowed_tools();
        allowed.extend(self.options.allowed_tools.iter().cloned());
        let mut exclude = settings.excluded_tools();
        exclude.extend(self.options.exclude_tools.iter().cloned());
        let (trusted_servers, allowed_servers) = self.unasked_servers();
        let RuleFiles { mut files, mut warnings } = self.rule_files();
        // What was accepted is the project's own files.
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

    /// Refuses to go on without rules that were counted on: those of a file that was
    /// named for this session, and, where nobody sees a warning, of a whole file of the
    /// user's or the administrator's.
    pub(crate) fn require_rules(&self, policy: &Policy) -> Result<(), Failure> {
        let named = |path: &Path| {
            let options = &self.options;
            let mut named = options.policy_paths.iter().chain(&options.admin_policy_paths);
            named.any(|given| path.starts_with(options.directory.join(self.expand_home(given))))
        };
        let lost = policy.problems().iter().find(|problem| {
            matches!(problem.kind, ProblemKind::FileRead | ProblemKind::TomlParse)
                && matches!(problem.tier, Tier::User | Tier::Admin)
                && (!self.options.interactive || named(&problem.path))
        });
        lost.map_or(Ok(()), |lost| {
            let lint = "mend it (`parallax policy lint FILE` looks at it) or take it away";
            Err(failure(
                FailureKind::Config,
                format!("{lost}: what they forbid would happen; {lint}"),
            ))
        })
    }

    /// Whether the folder is trusted.
    pub fn trusted(&self) -> bool {
        self.config.trust.trusted
    }

    /// Whether the project's rules are those that the user accepted.
    fn accepted(&self, files: &[RuleFile]) -> bool {
        let (homes, project) = (&self.config.homes, &self.config.project);
        files.iter().any(|file| file.tier == Tier::Workspace)
            && workspace_rules_may_allow(homes, project, files)
    }

    pub(crate) fn home_folder(&self) -> Option<PathBuf> {
        let home = self.config.environment.get("HOME").map(PathBuf::from);
        home.filter(|home| home.is_absolute())
    }

    /// Keeps rules that a person agrees to.
    pub(crate) fn rule_keeper(&self) -> SavedRules {
        SavedRules { homes: self.config.homes.clone(), project: self.config.project.clone() }
    }

    /// Takes the project's rules as they are now for the person's own, so that
    /// they may allow too.
    ///
    /// # Errors
    /// Why that could not be kept.
    pub fn accept_project_rules(&self) -> Result<usize, String> {
        let files = self.rule_files().files;
        let (homes, project) = (&self.config.homes, &self.config.project);
        let kept = let_workspace_rules_allow(homes, project, &files);
        kept.map_err(|error| error.to_string())?;
        Ok(files.iter().filter(|file| file.tier == Tier::Workspace).count())
    }
}

/// Writes rules to files: the user's, or the project's. What stands in a project
/// loosens nothing unless the user accepted it; a rule saved here is accepted
/// with that.
pub(crate) struct SavedRules {
    homes: Homes,
    project: PathBuf,
}

impl RuleKeeper for SavedRules {
    fn keep(&self, rule: &RuleDraft, scope: RuleScope) -> Result<PathBuf, String> {
        let said = |error: parallax_config::ConfigError| error.to_string();
        match scope {
            RuleScope::Session => Err("rules of a session are not saved".to_owned()),
            RuleScope::Always => {
                let file = self.homes.parallax.join("policies").join(SAVED);
                save_rule(&file, rule).map_err(said)?;
                Ok(file)
            }
            RuleScope::Project => {
                let files = self.files();
                let any = files.iter().any(|file| file.tier == Tier::Workspace);
                if any && !workspace_rules_may_allow(&self.homes, &self.project, &files) {
                    return Err("the project has rules that you did not accept yet: see \
                                `parallax policy list`, then `parallax policy accept`"
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

impl SavedRules {
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
