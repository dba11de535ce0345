//! Extensions and skills on disk: fetching, reviewing, installing, updating, rolling back, and
//! removing them.
//!
//! Not in this crate: what an extension contributes to a session (`config_failure` reads it, `sdk`
//! wires it), and finding problems in installed extensions (`doctor`).

mod clone;
mod fetch;
mod github;
mod install;
mod review;
pub mod skill_files;
mod source;
mod staging;
mod sync;
mod templates;
mod temporary_tree;
mod test_run;
mod update;

use std::ffi::OsString;
use std::sync::{Arc, OnceLock};

use parallax_config::extensions::ExtensionChoice;
use parallax_config::skills::{Skill, SkillTier, read_skill, skill_files};
use parallax_config::{Config, similar_names};
use parallax_http::ClientOptions;
use parallax_protocol::CancellationToken;
use parallax_protocol::event::{Failure, FailureKind};

/// Website that lists extensions.
pub const GALLERY: &str = "https://geminicli.com/extensions/";

pub use fetch::{FetchOptions, FetchedExtension};
pub use install::UninstallResult;
pub use parallax_config::extensions::{
    Extension, ExtensionHome, ExtensionSetting, Extensions, InstallKind, InstallMetadata,
    LockEntry, Manifest, SettingValue, read_values,
};
pub use review::{Review, rule_files};
pub use templates::TEMPLATES;
pub use test_run::ExtensionTest;
pub use update::ExtensionUpdate;

/// Maximum size in bytes of a downloaded archive.
const MAX_DOWNLOADED: u64 = 512 * 1024 * 1024;

/// Maximum number of agents in one extension.
const MAX_AGENTS: usize = 1_000;

/// Installs, updates, removes, and lists extensions.
pub struct ExtensionManager<'a> {
    /// The configuration of the user and the project.
    pub config: &'a Config,
    /// The only extensions to load; empty for those that are enabled.
    pub only_extensions: &'a [String],
    /// The extensions as read on first use.
    pub loaded_extensions: &'a OnceLock<Arc<Extensions>>,
    /// Options for connections to the sources of extensions.
    pub client: ClientOptions,
    /// The environment variables of the process.
    pub variables: &'a [(OsString, OsString)],
    /// Ends a running fetch with everything it started.
    pub cancel: Option<&'a CancellationToken>,
}

impl ExtensionManager<'_> {
    /// Returns all extensions, including inactive ones. The first call reads them and blocks.
    pub fn extensions(&self) -> Arc<Extensions> {
        let read = || {
            let choice = ExtensionChoice { only: self.only_extensions.to_vec() };
            Arc::new(self.config.extensions(&choice))
        };
        Arc::clone(self.loaded_extensions.get_or_init(read))
    }

    /// Returns a warning for each name given with `--extensions` that matches no extension, because
    /// a typo there disables all extensions.
    pub fn unmatched_extension_names(&self) -> Vec<String> {
        let only = self.only_extensions;
        if only.is_empty() {
            return Vec::new();
        }
        let known = self.extensions();
        let names = || known.all.iter().map(|extension| extension.name());
        let is_known = |name: &&String| {
            name.is_empty() || *name == "none" || names().any(|it| it.eq_ignore_ascii_case(name))
        };
        let unknown = only.iter().filter(|name| !is_known(name));
        unknown
            .map(|name| {
                let near: Vec<String> =
                    similar_names(name, names()).iter().map(|it| format!("`{it}`")).collect();
                let suggestion = match near.is_empty() {
                    true => String::new(),
                    false => format!("; did you mean {}?", near.join(" or ")),
                };
                format!("Unknown extension `{name}`{suggestion}")
            })
            .collect()
    }

    /// Returns how git runs.
    fn git_options<'b>(&'b self, token: Option<&'b str>) -> clone::GitOptions<'b> {
        clone::GitOptions { token, cancel: self.cancel, variables: self.variables }
    }

    /// Returns whether the files of an extension match the hash recorded at installation, or `None`
    /// if none was recorded. Blocking: reads all files.
    pub fn extension_is_intact(&self, extension: &Extension) -> Option<bool> {
        if extension.home != ExtensionHome::Parallax || extension.folder != extension.installed {
            return None;
        }
        let locked = parallax_config::extensions::find_entry(&self.config.dirs, extension.name())?;
        let current = parallax_config::extensions::content_hash(&extension.folder);
        Some(current.is_ok_and(|current| current == locked.hash))
    }
}

/// Returns the skills of an extension, with its variables filled into their descriptions.
/// Blocking.
pub fn skills_of(extension: &Extension) -> Vec<Skill> {
    let tier = SkillTier::Extension(extension.name().to_owned());
    let files = skill_files(&extension.folder.join("skills"));
    let skills = files.iter().filter_map(|file| read_skill(file, &tier).ok());
    skills
        .map(|mut skill| {
            skill.description = extension.variables.expand_for_model(&skill.description);
            skill
        })
        .collect()
}

/// Returns the names of an extension's agent files. Blocking.
pub fn agents_of(extension: &Extension) -> Vec<String> {
    let entries = std::fs::read_dir(extension.folder.join("agents"));
    let names = entries.into_iter().flatten().flatten().take(MAX_AGENTS);
    let mut names: Vec<String> = names
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| !name.starts_with('_'))
        .filter_map(|name| name.strip_suffix(".md").map(str::to_owned))
        .collect();
    names.sort();
    names
}

fn input_failure(message: String) -> Failure {
    Failure::new(FailureKind::Input, message)
}

/// Returns the failure of an extension that contains something that is not allowed, has changed, or
/// comes from a forbidden source.
fn forbidden_failure(message: String) -> Failure {
    Failure::new(FailureKind::Blocked, message)
}

/// Returns the failure of a source that cannot be reached or does not have the extension.
fn unreachable_failure(message: String) -> Failure {
    Failure::new(FailureKind::Api, message)
}
