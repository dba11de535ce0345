//! Installs, links, and removes skills.

use std::io;
use std::path::{Path, PathBuf};

use parallax_config::skills::{
    SKILL_FILE, Skill, SkillTier, Skills, pin_skill, read_skill, skill_files,
};
use parallax_files::archive::{ArchiveLimits, unpack};
use parallax_protocol::event::{Failure, FailureKind};

use crate::clone::{GitOptions, clone, is_git_address};
use parallax_config::{Config, SettingScope};

/// Maximum number of files in a skill.
const MAX_FILES: usize = 5_000;
/// Maximum bytes of a skill.
const MAX_BYTES: u64 = 256 * 1024 * 1024;

/// Fetched skills that are not installed yet. Dropping this removes temporary files.
#[derive(Debug)]
pub struct FetchedSkills {
    /// The skills.
    pub skills: Vec<Skill>,
    /// Where they come from.
    source: String,
    _folder: Option<tempfile::TempDir>,
}

fn input_failure(message: String) -> Failure {
    Failure::new(FailureKind::Input, message)
}

/// Returns the failure of a skill that contains something that is not allowed.
fn forbidden_failure(message: String) -> Failure {
    Failure::new(FailureKind::Blocked, message)
}

fn pin_failure(error: parallax_config::ConfigError) -> Failure {
    Failure::new(FailureKind::Config, error.to_string())
}

/// An installed skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstalledSkill {
    /// The directory.
    pub folder: PathBuf,
    /// Whether it replaced another skill.
    pub was_replaced: bool,
}

/// Returns the skill directory of a scope.
fn skill_directory(config: &Config, scope: SettingScope) -> Result<PathBuf, Failure> {
    match scope {
        SettingScope::User => Ok(config.dirs.parallax.join("skills")),
        SettingScope::Workspace if config.trust.trusted => Ok(config.cwd.join(".parallax/skills")),
        SettingScope::Workspace => Err(input_failure(
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
    config: &Config,
    source: &str,
    path: Option<&Path>,
) -> Result<FetchedSkills, Failure> {
    let (folder, kept) = match is_git_address(source) {
        true => {
            let directory = tempfile::Builder::new().prefix("parallax-skills-").tempdir();
            let directory = directory.map_err(|error| input_failure(error.to_string()))?;
            clone(source, None, directory.path(), GitOptions::default()).map_err(input_failure)?;
            (directory.path().join("repository"), Some(directory))
        }
        false => (config.cwd.join(config.expand_home(Path::new(source))), None),
    };
    let (folder, kept) = match folder.is_file() {
        true => {
            let unpacked = unpack_skill(&folder, source)?;
            (unpacked.path().to_owned(), Some(unpacked))
        }
        false => (folder, kept),
    };
    let root = real_path(&folder, source)?;
    let subdirectory = match path {
        None => root.clone(),
        Some(path) => real_path(&root.join(path), source)?,
    };
    if !subdirectory.starts_with(&root) {
        return Err(input_failure(format!("`--path` is outside `{source}`")));
    }
    // An absolute path, so that the source is valid in any directory.
    let named = match is_git_address(source) {
        true => source.to_owned(),
        false => real_path(&config.cwd.join(config.expand_home(Path::new(source))), source)?
            .to_string_lossy()
            .into_owned(),
    };
    Ok(FetchedSkills { skills: skills_in(&subdirectory, source)?, source: named, _folder: kept })
}

/// Copies skills into the directory of the scope, replacing skills with the same names. Returns
/// the installed skills. Blocking.
///
/// # Errors
/// Returns an error if a skill contains links or other special files, or the directory cannot
/// be written.
pub fn install_skills(
    config: &Config,
    fetched: &FetchedSkills,
    scope: SettingScope,
) -> Result<Vec<InstalledSkill>, Failure> {
    let directory = skill_directory(config, scope)?;
    let to_error = |skill: &Skill, error: io::Error| {
        let reason = format!("failed to install the skill `{}`: {error}", skill.name);
        // An error without an OS error code is about the contents of the skill.
        if error.raw_os_error().is_some() {
            input_failure(reason)
        } else {
            forbidden_failure(reason)
        }
    };
    let mut installed = Vec::new();
    for skill in &fetched.skills {
        let target = directory.join(directory_name(skill)?);
        let was_replaced = target.symlink_metadata().is_ok();
        create(scope, &directory).map_err(|error| to_error(skill, error))?;
        install(skill.folder(), &directory, &target).map_err(|error| to_error(skill, error))?;
        pin_skill(&config.dirs, &target, Some(&fetched.source)).map_err(pin_failure)?;
        installed.push(InstalledSkill { folder: target, was_replaced });
    }
    Ok(installed)
}

/// Links skills into the directory of the scope, so that changes at their original place apply
/// immediately. Blocking.
///
/// # Errors
/// Returns an error if there is no skill, a name is taken, or the directory cannot be written.
pub fn link_skills(
    config: &Config,
    skills: &FetchedSkills,
    scope: SettingScope,
) -> Result<Vec<PathBuf>, Failure> {
    let directory = skill_directory(config, scope)?;
    let mut linked = Vec::new();
    for skill in &skills.skills {
        let link = directory.join(directory_name(skill)?);
        let failed = |error: io::Error| input_failure(format!("`{}`: {error}", link.display()));
        if link.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink()) {
            std::fs::remove_file(&link).map_err(failed)?;
        } else if link.exists() {
            let name = &skill.name;
            return Err(input_failure(format!(
                "a skill `{name}` is already installed (`{}`): remove it with `parallax skills \
                     uninstall {name}` first",
                link.display()
            )));
        }
        create(scope, &directory).map_err(failed)?;
        std::os::unix::fs::symlink(skill.folder(), &link).map_err(failed)?;
        pin_skill(&config.dirs, &link, None).map_err(pin_failure)?;
        linked.push(link);
    }
    Ok(linked)
}

/// Removes an installed or linked skill and returns its directory. `known` returns all skills, for
/// the message about a skill that is elsewhere. Blocking.
///
/// # Errors
/// Returns an error if the skill is not found or belongs to another program.
pub fn uninstall_skill(
    config: &Config,
    name: &str,
    scope: SettingScope,
    known: impl FnOnce() -> Skills,
) -> Result<PathBuf, Failure> {
    let directory = skill_directory(config, scope)?;
    let entries = std::fs::read_dir(&directory).into_iter().flatten().flatten();
    let is_it = |path: &PathBuf| {
        read_skill(&path.join(SKILL_FILE), &SkillTier::User)
            .is_ok_and(|skill| skill.name.eq_ignore_ascii_case(name))
            || path.file_name().is_some_and(|file| file.eq_ignore_ascii_case(name))
    };
    let Some(path) = entries.map(|entry| entry.path()).find(is_it) else {
        let elsewhere = known().skills.into_iter().find(|skill| skill.name == name);
        return Err(input_failure(match elsewhere {
            Some(skill) => format!(
                "the skill `{name}` is not in `{}` but in `{}`: remove it there, or disable it \
                     with `parallax skills disable {name}`",
                directory.display(),
                skill.folder().display()
            ),
            None => format!("unknown skill `{name}` in `{}`", directory.display()),
        }));
    };
    let is_link = path.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
    let removed =
        if is_link { std::fs::remove_file(&path) } else { parallax_files::remove_tree(&path) };
    removed.map_err(|error| input_failure(format!("`{}`: {error}", path.display())))?;
    pin_skill(&config.dirs, &path, None).map_err(pin_failure)?;
    Ok(path)
}

fn real_path(path: &Path, source: &str) -> Result<PathBuf, Failure> {
    std::fs::canonicalize(path)
        .map_err(|error| input_failure(format!("`{source}` ({}): {error}", path.display())))
}

/// Unpacks a `.skill` file, which is an archive.
fn unpack_skill(file: &Path, source: &str) -> Result<tempfile::TempDir, Failure> {
    let directory = tempfile::Builder::new().prefix("parallax-skills-").tempdir();
    let directory = directory.map_err(|error| input_failure(error.to_string()))?;
    let limits = ArchiveLimits { entries: MAX_FILES, bytes: MAX_BYTES };
    unpack(file, directory.path(), limits)
        .map_err(|error| forbidden_failure(format!("`{source}`: {error}")))?;
    Ok(directory)
}

/// Returns the skills of a directory or of its `skills` subdirectory.
fn skills_in(directory: &Path, source: &str) -> Result<Vec<Skill>, Failure> {
    let mut files = skill_files(directory);
    if files.is_empty() {
        files = skill_files(&directory.join("skills"));
    }
    if files.is_empty() {
        return Err(input_failure(format!(
            "`{SKILL_FILE}` not found in `{source}` or its subdirectories; specify the directory \
             with `--path`"
        )));
    }
    files
        .iter()
        .map(|file| {
            read_skill(file, &SkillTier::User).map_err(|reason| {
                input_failure(format!("invalid skill `{}`: {reason}", file.display()))
            })
        })
        .collect()
}

fn directory_name(skill: &Skill) -> Result<&str, Failure> {
    let name = skill.name.trim();
    if name.is_empty() || name.starts_with('.') {
        return Err(forbidden_failure(format!("`{name}` is not a valid directory name")));
    }
    Ok(name)
}

/// Creates the skill directory of a scope. The user's is private.
fn create(scope: SettingScope, directory: &Path) -> io::Result<()> {
    match scope {
        SettingScope::User => parallax_exec::create_private_folder(directory),
        SettingScope::Workspace => std::fs::create_dir_all(directory),
    }
}

/// Copies a skill next to its target and renames it into place.
fn install(from: &Path, subdirectory: &Path, target: &Path) -> io::Result<()> {
    let fresh = tempfile::Builder::new().prefix(".installing-").tempdir_in(subdirectory)?;
    let copy = fresh.path().join("skill");
    let mut budget = (MAX_FILES, MAX_BYTES);
    copy_directory(from, &copy, &mut budget, 0)?;
    if target.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink()) {
        std::fs::remove_file(target)?;
    } else if target.exists() {
        // Removed together with the temporary directory.
        std::fs::rename(target, fresh.path().join("old"))?;
    }
    std::fs::rename(&copy, target)
}

fn copy_directory(
    from: &Path,
    to: &Path,
    budget: &mut (usize, u64),
    depth: usize,
) -> io::Result<()> {
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
            copy_directory(&shown, &to.join(name), budget, depth + 1)?;
            continue;
        }
        // A link could point anywhere, now or later.
        if !kind.is_file() {
            let reason = format!("`{}` is a link or not a regular file", shown.display());
            return Err(io::Error::other(reason));
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
