//! Saves policy rules from approvals.

use std::path::PathBuf;

use parallax_config::{
    RuleFileSources, UserDirs, find_policy_files, save_accepted_rules, save_rule,
    workspace_rules_may_allow,
};
use parallax_policy::{RuleFile, Tier};
use parallax_protocol::policy::{RuleScope, RuleStore, SuggestedRule};

/// The file of rules saved from approvals.
const SAVED: &str = "auto-saved.toml";

/// Saves rules to files of the user or the project. Rules of a project may only restrict unless the
/// user accepted them; saving a rule here also accepts it.
pub struct RuleFileStore {
    pub(crate) dirs: UserDirs,
    pub(crate) project: PathBuf,
}

impl RuleStore for RuleFileStore {
    fn save(&self, rule: &SuggestedRule, scope: RuleScope) -> Result<PathBuf, String> {
        let output = |error: parallax_config::ConfigError| error.to_string();
        match scope {
            RuleScope::Session => Err("session rules are not saved".to_owned()),
            RuleScope::Always => {
                let file = self.dirs.parallax.join("policies").join(SAVED);
                save_rule(&file, rule).map_err(output)?;
                Ok(file)
            }
            RuleScope::Project => {
                let files = self.files();
                let any = files.iter().any(|file| file.tier == Tier::Workspace);
                if any && !workspace_rules_may_allow(&self.dirs, &self.project, &files) {
                    return Err("the project has rules that you have not accepted: run `parallax \
                        policy list`, then `parallax policy accept`"
                        .to_owned());
                }
                let file = self.project.join(".parallax").join("policies").join(SAVED);
                save_rule(&file, rule).map_err(output)?;
                save_accepted_rules(&self.dirs, &self.project, &self.files()).map_err(output)?;
                Ok(file)
            }
        }
    }
}

impl RuleFileStore {
    fn files(&self) -> Vec<RuleFile> {
        find_policy_files(&RuleFileSources::for_trusted(&self.dirs, &self.project)).files
    }
}
