//! The extensions of a launch: read once, when the first thing wants to know;
//! installed, updated and taken away here.

mod doctor;
mod fetch;
mod github;
mod install;
mod review;
mod source;
mod staging;
mod sync;
mod templates;
mod temporary_tree;
mod trial;
mod update;

use std::sync::Arc;

use parallax_config::extensions::ExtensionChoice;
use parallax_config::skills::{Skill, SkillTier, read_skill, skill_files};
use parallax_protocol::event::{Failure, FailureKind};

use crate::launch::{Launch, failure};
use crate::near::near;

/// Where extensions are shown to people.
pub const GALLERY: &str = "https://geminicli.com/extensions/";

pub use doctor::ExtensionTrouble;
pub use fetch::{FetchOptions, FetchedExtension};
pub use install::Uninstalled;
pub use parallax_config::extensions::{
    Extension, ExtensionHome, ExtensionSetting, Extensions, InstallKind, InstallMetadata, Locked,
    Manifest, SettingValue, read_values,
};
pub use review::Review;
pub use templates::TEMPLATES;
pub use trial::ExtensionTrial;
pub use update::ExtensionUpdate;

/// Bytes of an archive that is downloaded.
const MOST_DOWNLOADED: u64 = 512 * 1024 * 1024;

/// Agents of one extension.
const MOST_AGENTS: usize = 1_000;

impl Launch {
    /// The extensions, also those that do not count here. Read when they are
    /// asked for first. Blocking then.
    pub fn extensions(&self) -> Arc<Extensions> {
        let read = || {
            let choice = ExtensionChoice { only: self.options.extensions.clone() };
            Arc::new(self.config.extensions(&choice))
        };
        Arc::clone(self.extensions.get_or_init(read))
    }

    /// Names given with `--extensions` that no extension has: a slip there switches
    /// all of them off. One sentence each.
    pub(crate) fn extensions_of_no_name(&self) -> Vec<String> {
        let wanted = &self.options.extensions;
        if wanted.is_empty() {
            return Vec::new();
        }
        let known = self.extensions();
        let names = || known.all.iter().map(|extension| extension.name());
        let is_known = |name: &&String| {
            name.is_empty() || *name == "none" || names().any(|it| it.eq_ignore_ascii_case(name))
        };
        let unknown = wanted.iter().filter(|name| !is_known(name));
        unknown
            .map(|name| {
                let near: Vec<String> =
                    near(name, names()).iter().map(|it| format!("`{it}`")).collect();
                let meant = match near.is_empty() {
                    true => String::new(),
                    false => format!("; did you mean {}?", near.join(" or ")),
                };
                format!("There is no extension `{name}`{meant}")
            })
            .collect()
    }

    /// The skills of an extension, its variables filled into what they say of
    /// themselves. Blocking.
    pub fn skills_of(&self, extension: &Extension) -> Vec<Skill> {
        let tier = SkillTier::Extension(extension.name().to_owned());
        let files = skill_files(&extension.folder.join("skills"));
        let skills = files.iter().filter_map(|file| read_skill(file, &tier).ok());
        skills
            .map(|mut skill| {
                skill.description = extension.variables.fill_shown(&skill.description);
                skill
            })
            .collect()
    }

    /// The names of an extension's files of agents. Blocking.
    pub fn agents_of(&self, extension: &Extension) -> Vec<String> {
        let entries = std::fs::read_dir(extension.folder.join("agents"));
        let names = entries.into_iter().flatten().flatten().take(MOST_AGENTS);
        let mut names: Vec<String> = names
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| !name.starts_with('_'))
            .filter_map(|name| name.strip_suffix(".md").map(str::to_owned))
            .collect();
        names.sort();
        names
    }

    /// Whether the files of an extension are those that were installed; `None`
    /// for those of which nothing was noted. Blocking: it reads all of them.
    pub fn extension_is_intact(&self, extension: &Extension) -> Option<bool> {
        if extension.home != ExtensionHome::Parallax || extension.folder != extension.installed {
            return None;
        }
        let locked = parallax_config::extensions::locked(&self.config.homes, extension.name())?;
        let now = parallax_config::extensions::content_hash(&extension.folder);
        Some(now.is_ok_and(|now| now == locked.hash))
    }
}

fn refused(message: String) -> Failure {
    failure(FailureKind::Input, message)
}

/// It brings what none may bring, is not what it was, or comes from where none may
/// come from.
fn forbidden(message: String) -> Failure {
    failure(FailureKind::Blocked, message)
}

/// Where it comes from cannot be reached, or does not have it.
fn unreachable(message: String) -> Failure {
    failure(FailureKind::Api, message)
}
