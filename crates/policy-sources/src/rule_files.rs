//! Finds the policy rule files and the sandbox permissions from flags, settings, and configuration
//! directories.

use std::fmt::Write as _;
use std::path::PathBuf;

use parallax_config::{Config, RuleFileSources, RuleFiles, RulesChange, Settings};
use parallax_policy::{RuleFile, SandboxTable, Tier};

use crate::PolicySources;

impl PolicySources {
    /// Returns the rule files of all tiers, without recording those of the project as known.
    pub(crate) fn discover_rule_files(&self) -> RuleFiles {
        let settings = &self.config.settings;
        let chosen = |flag: &[PathBuf], setting: Vec<PathBuf>| -> Vec<PathBuf> {
            let paths = if flag.is_empty() { setting } else { flag.to_vec() };
            let absolute = |path: &PathBuf| self.directory.join(self.config.expand_home(path));
            paths.iter().map(absolute).collect()
        };
        let user = chosen(&self.policy_paths, settings.policy_paths());
        let admin = chosen(&self.admin_policy_paths, settings.admin_policy_paths());
        let cwd = &self.config.project;
        parallax_config::find_policy_files(&RuleFileSources {
            dirs: &self.config.dirs,
            cwd,
            trusted: self.config.trust.trusted,
            extensions: &self.extensions.policy_folders(),
            user_replacement: &user,
            admin: &admin,
        })
    }

    /// Returns the rule files of all tiers, with warnings for the user. Blocking, but fast if there
    /// are none.
    pub fn rule_files(&self) -> RuleFiles {
        let (cwd, dirs) = (&self.config.project, &self.config.dirs);
        let mut found = self.discover_rule_files();
        match parallax_config::workspace_rules_changed(dirs, cwd, &found.files) {
            Ok(RulesChange::None | RulesChange::Same) => {}
            // Unaccepted rules may only restrict, so they apply, and the user is notified once.
            Ok(change) => {
                let what = match change {
                    RulesChange::New => "has policy rules",
                    _ => "changed its policy rules",
                };
                found.warnings.push(format!(
                    "The project {what}; they can only restrict, and `parallax policy list` shows \
                     them"
                ));
                if let Err(error) = parallax_config::accept_workspace_rules(dirs, cwd, &found.files)
                {
                    found.warnings.push(error.to_string());
                }
            }
            Err(error) => found.warnings.push(error.to_string()),
        }
        found
    }

    /// Returns the permissions of commands in the sandbox by mode: the built-in table, overridden
    /// by the user's `sandbox.toml`, overridden by settings. Also returns notices for the user.
    pub fn sandbox_table(&self) -> (SandboxTable, Vec<String>) {
        sandbox_table(&self.config)
    }
}

/// Returns the permissions of commands in the sandbox by mode, and notices for the user.
fn sandbox_table(config: &Config) -> (SandboxTable, Vec<String>) {
    let home = config.environment.get("HOME").map(PathBuf::from);
    let mut files = parallax_config::sandbox_files(&config.dirs);
    files.extend(settings_file(&config.settings));
    let mut table = SandboxTable::default();
    let mut notices = Vec::new();
    for file in &files {
        let problems = table.merge_file(file, home.as_deref());
        notices.extend(problems.iter().map(ToString::to_string));
    }
    (table, notices)
}

/// Converts the settings about modes to the format of `sandbox.toml`, leaving out unset values.
fn settings_file(settings: &Settings) -> Option<RuleFile> {
    let flag = |key: &str| settings.get(key).and_then(serde_json::Value::as_bool);
    let output = settings.sandbox().network;
    let modes = [
        ("plan", "plan", output.plan),
        ("default", "default", output.default),
        ("accepting_edits", "auto_edit", output.auto_edit),
        ("yolo", "yolo", output.yolo),
    ];
    let everywhere = flag("tools.sandboxNetworkAccess") == Some(true);
    let others = [
        ("caches", flag("security.sandbox.caches")),
        ("hostLoopback", flag("security.sandbox.hostLoopback")),
    ];
    let mut text = String::new();
    for (section, mode, network) in modes {
        let mut rows = String::new();
        // A value for all modes only enables the network; disabling it would restrict modes that
        // allow it.
        if flag(&format!("security.sandbox.network.{mode}")).is_some() || (everywhere && network) {
            let _ = writeln!(rows, "network = {network}");
        }
        for (name, value) in others {
            if let Some(value) = value {
                let _ = writeln!(rows, "{name} = {value}");
            }
        }
        if !rows.is_empty() {
            let _ = write!(text, "[modes.{section}]\n{rows}");
        }
    }
    let file = RuleFile { tier: Tier::User, path: "settings.json".into(), text: Ok(text.clone()) };
    (!text.is_empty()).then_some(file)
}

#[cfg(test)]
mod tests {
    use parallax_protocol::policy::ApprovalMode::{AutoEdit, Default, Plan, Yolo};

    use parallax_config::LoadOptions;

    use super::sandbox_table;

    #[test]
    fn settings_override_the_sandbox_table_field_by_field() {
        let home = tempfile::tempdir().expect("folder");
        let write = |path: &str, text: &str| {
            let path = home.path().join(path);
            std::fs::create_dir_all(path.parent().expect("parent")).expect("folder");
            std::fs::write(path, text).expect("write");
        };
        write(".gemini/policies/sandbox.toml", "[modes.plan]\nnetwork = true\nreadonly = false\n");
        write(".parallax/policies/sandbox.toml", "[modes.default]\nnetwork = true\n");
        write(
            ".parallax/settings.json",
            r#"{"security": {"sandbox": {"network": {"default": false, "auto_edit": true}, "hostLoopback": true}}}"#,
        );
        let options = LoadOptions {
            cwd: home.path().to_owned(),
            variables: vec![("HOME".into(), home.path().into())],
            skip_trust: true,
            ignore_env: false,
        };
        let config = parallax_config::load(options.clone()).expect("loaded");
        let (table, notices) = sandbox_table(&config);
        let network = [Plan, Default, AutoEdit, Yolo].map(|mode| table.mode(mode).network);
        assert_eq!(network, [true, false, true, true]);
        assert!(!table.mode(Plan).readonly && table.mode(Plan).reaches_this_machine());
        assert!(table.mode(Yolo).caches && !table.mode(Default).caches);
        assert!(notices.is_empty(), "{notices:?}");
        // Closing yolo mode's network also closes access to this machine.
        let yolo_reaches = |sandbox: &str| {
            write(
                ".parallax/settings.json",
                &format!(r#"{{"security": {{"sandbox": {sandbox}}}}}"#),
            );
            let config = parallax_config::load(options.clone()).expect("loaded");
            sandbox_table(&config).0.mode(Yolo).reaches_this_machine()
        };
        assert!(yolo_reaches("{}"));
        assert!(!yolo_reaches(r#"{"network": {"yolo": false}}"#));
        assert!(yolo_reaches(r#"{"network": {"yolo": false}, "hostLoopback": true}"#));
    }
}
