//! The hashes of installed skills: `~/.parallax/skills.lock.json`. A skill that differs from its
//! hash was changed after installation.

use std::path::{Path, PathBuf};

use jsonc_parser::cst::CstInputValue;
use parallax_protocol::Object;
use serde_json::Value;

use super::Skill;
use crate::error::ConfigError;
use crate::extension_files::content_hash;
use crate::user_dirs::UserDirs;
use crate::{json_state_file, jsonc};

fn file(dirs: &UserDirs) -> PathBuf {
    dirs.parallax.join("skills.lock.json")
}

/// The records of installed skills, by directory.
#[derive(Debug, Clone, Default)]
pub struct SkillPins(Object);

impl SkillPins {
    /// Reads the records. Blocking.
    ///
    /// # Errors
    /// Returns an error if the file cannot be used.
    pub fn read(dirs: &UserDirs) -> Result<Self, ConfigError> {
        Ok(Self(jsonc::read_object(&file(dirs))?.unwrap_or_default()))
    }

    /// Returns the source of a skill if its files differ from those that were installed. Blocking:
    /// reads all files of the skill.
    pub fn changed_source(&self, skill: &Skill) -> Option<&str> {
        let entry = self.0.get(skill.folder().to_str()?)?;
        let hash = entry.get("hash").and_then(Value::as_str)?;
        let current = content_hash(skill.folder());
        let source = entry.get("source").and_then(Value::as_str).unwrap_or_default();
        (!current.is_ok_and(|current| current == hash)).then_some(source)
    }
}

/// Records the contents of an installed skill; without a source, removes the record. Blocking.
///
/// # Errors
/// Returns an error if files cannot be read or written.
pub fn pin_skill(
    dirs: &UserDirs,
    directory: &Path,
    source: Option<&str>,
) -> Result<(), ConfigError> {
    let lock = file(dirs);
    if source.is_none() && !lock.exists() {
        return Ok(());
    }
    let unreadable = |source| ConfigError::Unwritable { path: directory.to_owned(), source };
    let hash = source.map(|_| content_hash(directory)).transpose().map_err(unreadable)?;
    let Some(name) = directory.to_str() else { return Ok(()) };
    json_state_file::update(&lock, |root| {
        let (Some(source), Some(hash)) = (source, &hash) else {
            if let Some(entry) = root.get(name) {
                entry.remove();
            }
            return;
        };
        let text = |key: &str, value: &str| (key.to_owned(), CstInputValue::from(value));
        let entry = CstInputValue::Object(vec![text("source", source), text("hash", hash)]);
        match root.get(name) {
            Some(existing) => existing.set_value(entry),
            None => drop(root.append(name, entry)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::{SkillTier, read_skill};
    use super::*;

    #[test]
    fn changed_skill_is_detected() {
        let folder = tempfile::tempdir().expect("directory");
        let root = folder.path();
        let dirs = UserDirs { user: root.into(), gemini: root.join("g"), parallax: root.join("p") };
        let directory = root.join("s");
        std::fs::create_dir_all(&directory).expect("directory");
        let write =
            |name: &str, text: &str| std::fs::write(directory.join(name), text).expect("written");
        write("SKILL.md", "---\nname: s\ndescription: d\n---\nDo it.");
        let skill = || read_skill(&directory.join("SKILL.md"), &SkillTier::User).expect("a skill");
        let changed = || {
            let pins = SkillPins::read(&dirs).expect("read");
            pins.changed_source(&skill()).map(str::to_owned)
        };
        assert_eq!(changed(), None, "nothing is noted");
        pin_skill(&dirs, &directory, Some("/from")).expect("noted");
        assert_eq!(changed(), None);
        write("run.sh", "curl evil");
        assert_eq!(changed().as_deref(), Some("/from"));
        pin_skill(&dirs, &directory, None).expect("forgotten");
        assert_eq!(changed(), None);
    }
}
