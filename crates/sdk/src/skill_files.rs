//! Installs, links, and removes skills.

use std::io;
use std::path::{Path, PathBuf};

use parallax_config::skills::{SKILL_FILE, Skill, SkillTier, pin_skill, read_skill, skill_files};
use parallax_files::archive::{ArchiveLimits, unpack};
use parallax_protocol::event::{Failure, FailureKind};
use serde_json::Value;

use crate::clone::{clone, is_git_address};
use crate::launch::{Launch, failure};
use crate::settings::SettingScope;

/// Maximum number of files in a skill.
const MOST_FILES: usize = 5_000;
/// Maximum bytes of a skill.
const MOST_BYTES: u64 = 256 * 1024 * 1024;

/// Fetched skills that are not installed yet. Dropping this removes temporary files.
#[derive(Debug)]
pub struct FetchedSkills {
    /// The skills.
    pub skills: Vec<Skill>,
    /// Where they come from.
    source: String,
    _folder: Option<tempfile::TempDir>,
}

fn refused(message: String) -> Failure {
    failure(FailureKind::Input, message)
}

/// The skill contains something that is not allowed.
fn forbidden(message: String) -> Failure {
    failure(FailureKind::Blocked, message)
}

fn unpinned(error: parallax_config::ConfigError) -> Failure {
    failure(FailureKind::Config, error.to_string())
}

/// An installed skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstalledSkill {
    /// Its directory.
    pub folder: PathBuf,
    /// Whether it replaced another skill.
    pub replaced: bool,
}

impl Launch {
    /// Returns the skill directory of a scope.
    fn skill_place(&self, scope: SettingScope) -> Result<PathBuf, Failure> {
        match scope {
            SettingScope::User => Ok(self.config.homes.parallax.join("skills")),
            SettingScope::Workspace if self.config.trust.trusted => {
                Ok(self.config.cwd.join(".parallax/skills"))
            }
            SettingScope::Workspace => Err(refused(
                "the folder is not trusted, so its skills would be ignored: see `parallax trust`"
                    .to_owned(),
            )),
        }
    }

    /// Fetches skills from a directory or a Git URL, optionally from `path` within it. Blocking.
    ///
    /// # Errors
    /// Returns an error if the source cannot be fetched or contains no skill.
    pub fn fetch_skills(
        &self,
        source: &str,
        path: Option<&Path>,
    ) -> Result<FetchedSkills, Failure> {
        let (folder, kept) = match is_git_address(source) {
            true => {
                let folder = tempfile::Builder::new().prefix("parallax-skills-").tempdir();
                let folder = folder.map_err(|error| refused(error.to_string()))?;
                clone(source, None, folder.path(), None).map_err(refused)?;
                (folder.path().join("repository"), Some(folder))
            }
            false => (self.config.cwd.join(self.expand_home(Path::new(source))), None),
        };
        let (folder, kept) = match folder.is_file() {
            true => {
                let unpacked = unpacked(&folder, source)?;
                (unpacked.path().to_owned(), Some(unpacked))
            }
            false => (folder, kept),
        };
        let root = real(&folder, source)?;
        let place = match path {
            None => root.clone(),
            Some(path) => real(&root.join(path), source)?,
        };
        if !place.starts_with(&root) {
            return Err(refused(format!("`--path` is outside `{source}`")));
        }
        // An absolute path, so that the source is valid in any directory.
        let named = match is_git_address(source) {
            true => source.to_owned(),
            false => real(&self.config.cwd.join(self.expand_home(Path::new(source))), source)?
                .to_string_lossy()
                .into_owned(),
        };
        Ok(FetchedSkills { skills: skills_in(&place, source)?, source: named, _folder: kept })
    }

    /// Copies skills into the directory of the scope, replacing skills with the same names. Returns
    /// the installed skills. Blocking.
    ///
    /// # Errors
    /// Returns an error if a skill contains links or other special files, or the directory cannot
    /// be written.
    pub fn install_skills(
        &self,
        fetched: &FetchedSkills,
        scope: SettingScope,
    ) -> Result<Vec<InstalledSkill>, Failure> {
        let place = self.skill_place(scope)?;
        let wrong = |skill: &Skill, error: io::Error| {
            let why = format!("failed to install the skill `{}`: {error}", skill.name);
            // An error without an OS error code is about the contents of the skill.
            if error.raw_os_error().is_some() { refused(why) } else { forbidden(why) }
        };
        let mut installed = Vec::new();
        for skill in &fetched.skills {
            let target = place.join(folder_name(skill)?);
            let replaced = target.symlink_metadata().is_ok();
            make(scope, &place).map_err(|error| wrong(skill, error))?;
            install(skill.folder(), &place, &target).map_err(|error| wrong(skill, error))?;
            pin_skill(&self.config.homes, &target, Some(&fetched.source)).map_err(unpinned)?;
            installed.push(InstalledSkill { folder: target, replaced });
        }
        Ok(installed)
    }

    /// Links skills into the directory of the scope, so that changes at their original place apply
    /// immediately. Blocking.
    ///
    /// # Errors
    /// Returns an error if there is no skill, a name is taken, or the directory cannot be written.
    pub fn link_skills(
        &self,
        skills: &FetchedSkills,
        scope: SettingScope,
    ) -> Result<Vec<PathBuf>, Failure> {
        let place = self.skill_place(scope)?;
        let mut linked = Vec::new();
        for skill in &skills.skills {
            let link = place.join(folder_name(skill)?);
            let failed = |error: io::Error| refused(format!("`{}`: {error}", link.display()));
            if link.symlink_metadata().is_ok_and(|facts| facts.is_symlink()) {
                std::fs::remove_file(&link).map_err(failed)?;
            } else if link.exists() {
                let name = &skill.name;
                return Err(refused(format!(
                    "a skill `{name}` is already installed (`{}`): remove it with `parallax skills \
                     uninstall {name}` first",
                    link.display()
                )));
            }
            make(scope, &place).map_err(failed)?;
            std::os::unix::fs::symlink(skill.folder(), &link).map_err(failed)?;
            pin_skill(&self.config.homes, &link, None).map_err(unpinned)?;
            linked.push(link);
        }
        Ok(linked)
    }

    /// Removes an installed or linked skill and returns its directory. Blocking.
    ///
    /// # Errors
    /// Returns an error if the skill is not found or belongs to another program.
    pub fn uninstall_skill(&self, name: &str, scope: SettingScope) -> Result<PathBuf, Failure> {
        let place = self.skill_place(scope)?;
        let entries = std::fs::read_dir(&place).into_iter().flatten().flatten();
        let is_it = |path: &PathBuf| {
            read_skill(&path.join(SKILL_FILE), &SkillTier::User)
                .is_ok_and(|skill| skill.name.eq_ignore_ascii_case(name))
                || path.file_name().is_some_and(|file| file.eq_ignore_ascii_case(name))
        };
        let Some(path) = entries.map(|entry| entry.path()).find(is_it) else {
            let elsewhere = self.skills().skills.into_iter().find(|skill| skill.name == name);
            return Err(refused(match elsewhere {
                Some(skill) => format!(
                    "the skill `{name}` is not in `{}` but in `{}`: remove it there, or disable it \
                     with `parallax skills disable {name}`",
                    place.display(),
                    skill.folder().display()
                ),
                None => format!("unknown skill `{name}` in `{}`", place.display()),
            }));
        };
        let is_link = path.symlink_metadata().is_ok_and(|facts| facts.is_symlink());
        let removed =
            if is_link { std::fs::remove_file(&path) } else { parallax_files::remove_tree(&path) };
        removed.map_err(|error| refused(format!("`{}`: {error}", path.display())))?;
        pin_skill(&self.config.homes, &path, None).map_err(unpinned)?;
        Ok(path)
    }

    /// Enables or disables a skill (`skills.disabled`). Returns the settings file. Blocking.
    ///
    /// # Errors
    /// Returns an error if the skill is not found, the file cannot be written, or another file
    /// disables the skill.
    pub fn switch_skill(
        &self,
        name: &str,
        on: bool,
        scope: SettingScope,
    ) -> Result<PathBuf, Failure> {
        let same = |known: &str| known.eq_ignore_ascii_case(name);
        let (skills, _) = self.skill_infos();
        // A removed skill can still be taken off the list.
        let listed = || self.config.settings.list("skills.disabled").iter().any(|it| same(it));
        let known = skills.iter().any(|skill| same(&skill.name)) || (on && listed());
        if !known {
            let names: Vec<&str> = skills.iter().map(|skill| skill.name.as_str()).collect();
            let there = match names.as_slice() {
                [] => "there are none".to_owned(),
                names => format!("there are: {}", names.join(", ")),
            };
            return Err(failure(FailureKind::Input, format!("unknown skill `{name}`; {there}")));
        }
        self.switch("skills.disabled", name, on, scope)
    }

    /// Enables a skill in both the user's and the project's settings. Returns the last file that
    /// was written. Blocking.
    ///
    /// # Errors
    /// Returns the errors of [`switch_skill`](Self::switch_skill).
    pub fn enable_skill(&self, name: &str) -> Result<PathBuf, Failure> {
        let key = "skills.disabled";
        let mut off = Vec::new();
        for scope in [SettingScope::Workspace, SettingScope::User] {
            let names = self.switched_off(key, scope)?;
            if names.iter().filter_map(Value::as_str).any(|it| it.eq_ignore_ascii_case(name)) {
                off.push(scope);
            }
        }
        // The last change also reports whether another file still disables the skill.
        let last = off.pop().unwrap_or(SettingScope::Workspace);
        for scope in off {
            self.list_off(key, name, true, scope)?;
        }
        self.switch_skill(name, true, last)
    }

    fn switched_off(&self, key: &str, scope: SettingScope) -> Result<Vec<Value>, Failure> {
        let list = parallax_config::setting_of(&self.config, scope, key)
            .map_err(|error| failure(FailureKind::Config, error.to_string()))?;
        Ok(list.as_ref().and_then(Value::as_array).cloned().unwrap_or_default())
    }

    /// Writes the list with or without the name.
    fn list_off(
        &self,
        key: &str,
        name: &str,
        on: bool,
        scope: SettingScope,
    ) -> Result<PathBuf, Failure> {
        let mut names = self.switched_off(key, scope)?;
        names.retain(|known| known.as_str().is_none_or(|known| !known.eq_ignore_ascii_case(name)));
        if !on {
            names.push(Value::String(name.to_owned()));
        }
        self.set_setting(scope, key, Some(&Value::Array(names)))
    }

    /// Adds a name to a list of disabled names, or removes it.
    pub(crate) fn switch(
        &self,
        key: &str,
        name: &str,
        on: bool,
        scope: SettingScope,
    ) -> Result<PathBuf, Failure> {
        let file = self.list_off(key, name, on, scope)?;
        let again = self.reread()?;
        let still = again.config.settings.list(key);
        if on && still.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            let files: Vec<String> = again
                .config
                .settings
                .origins(key)
                .iter()
                .map(|origin| format!("`{}`", origin.file.display()))
                .collect();
            return Err(refused(format!(
                "`{name}` stays disabled: it is listed in `{key}` in one of {}",
                files.join(", ")
            )));
        }
        Ok(file)
    }
}

fn real(path: &Path, source: &str) -> Result<PathBuf, Failure> {
    std::fs::canonicalize(path)
        .map_err(|error| refused(format!("`{source}` ({}): {error}", path.display())))
}

/// Unpacks a `.skill` file, which is an archive.
fn unpacked(file: &Path, source: &str) -> Result<tempfile::TempDir, Failure> {
    let folder = tempfile::Builder::new().prefix("parallax-skills-").tempdir();
    let folder = folder.map_err(|error| refused(error.to_string()))?;
    let limits = ArchiveLimits { entries: MOST_FILES, bytes: MOST_BYTES };
    unpack(file, folder.path(), limits)
        .map_err(|error| forbidden(format!("`{source}`: {error}")))?;
    Ok(folder)
}

/// Returns the skills of a directory or of its `skills` subdirectory.
fn skills_in(folder: &Path, source: &str) -> Result<Vec<Skill>, Failure> {
    let mut files = skill_files(folder);
    if files.is_empty() {
        files = skill_files(&folder.join("skills"));
    }
    if files.is_empty() {
        return Err(refused(format!(
            "`{SKILL_FILE}` not found in `{source}` or its subdirectories; specify the directory \
             with `--path`"
        )));
    }
    files
        .iter()
        .map(|file| {
            read_skill(file, &SkillTier::User)
                .map_err(|why| refused(format!("invalid skill `{}`: {why}", file.display())))
        })
        .collect()
}

fn folder_name(skill: &Skill) -> Result<&str, Failure> {
    let name = skill.name.trim();
    if name.is_empty() || name.starts_with('.') {
        return Err(forbidden(format!("`{name}` is not a valid directory name")));
    }
    Ok(name)
}

/// Creates the skill directory of a scope. The user's is private.
fn make(scope: SettingScope, place: &Path) -> io::Result<()> {
    match scope {
        SettingScope::User => parallax_exec::create_private_folder(place),
        SettingScope::Workspace => std::fs::create_dir_all(place),
    }
}

/// Copies a skill next to its target and renames it into place.
fn install(from: &Path, place: &Path, target: &Path) -> io::Result<()> {
    let fresh = tempfile::Builder::new().prefix(".installing-").tempdir_in(place)?;
    let copy = fresh.path().join("skill");
    let mut budget = (MOST_FILES, MOST_BYTES);
    copy_folder(from, &copy, &mut budget, 0)?;
    if target.symlink_metadata().is_ok_and(|facts| facts.is_symlink()) {
        std::fs::remove_file(target)?;
    } else if target.exists() {
        // Removed together with the temporary directory.
        std::fs::rename(target, fresh.path().join("old"))?;
    }
    std::fs::rename(&copy, target)
}

fn copy_folder(from: &Path, to: &Path, budget: &mut (usize, u64), depth: usize) -> io::Result<()> {
    if depth > 32 {
        return Err(io::Error::other("its directories are nested too deeply"));
    }
    std::fs::create_dir(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (kind, name) = (entry.file_type()?, entry.file_name());
        if name == ".git" {
            continue;
        }
        let shown = entry.path();
        if kind.is_dir() {
            copy_folder(&shown, &to.join(name), budget, depth + 1)?;
            continue;
        }
        // A link could lead anywhere, now or later.
        if !kind.is_file() {
            let why = format!("`{}` is a link or not a regular file", shown.display());
            return Err(io::Error::other(why));
        }
        let size = entry.metadata()?.len();
        let (files, bytes) = budget;
        match (files.checked_sub(1), bytes.checked_sub(size)) {
            (Some(left), Some(room)) => (*files, *bytes) = (left, room),
            _ => return Err(io::Error::other("it is too large")),
        }
        std::fs::copy(&shown, to.join(name))?;
    }
    Ok(())
}
