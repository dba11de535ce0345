//! Installs and removes extensions. Each step is a single rename, so a crash leaves either the old
//! or the new version.

use std::path::{Path, PathBuf};

use parallax_config::SettingScope;
use parallax_config::extensions::{
    Extension, ExtensionHome, ExtensionScope, INSTALL_METADATA, InstallKind, InstallMetadata,
    LockEntry, Manifest, content_hash, find_entry, fingerprint, forget_extension_switches, lock,
    lock_kept, read_kept_lock, retain_extension_values, stays_below, switch_extension,
};
use parallax_exec::create_private_folder;
use parallax_protocol::event::{Failure, FailureKind};

use crate::ExtensionManager;
use crate::fetch::FetchedExtension;
use crate::review::{Review, review};
use crate::staging::{InstallLock, REMOVED_PREFIX, STAGING_PREFIX, StagingDirectory, remove_stale};
use crate::{forbidden_failure, input_failure};

/// Directory of previous versions, one per extension.
const PREVIOUS: &str = ".previous";
/// Maximum directory depth.
const DEPTH: usize = 64;

/// Result of uninstalling an extension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UninstallResult {
    /// Its directory was removed.
    Removed(PathBuf),
    /// The extension belongs to Gemini CLI, whose files are not touched; it was disabled in
    /// Parallax.
    SwitchedOff(PathBuf),
}

impl ExtensionManager<'_> {
    fn target_directory(&self, name: &str) -> PathBuf {
        self.config.extension_home().join(name)
    }

    /// Removes leftovers of interrupted installations. Blocking.
    pub fn clean_up_extensions(&self) {
        remove_stale(&self.config.extension_home());
        remove_stale(&std::env::temp_dir());
    }

    /// Installs a fetched extension. Blocking.
    ///
    /// # Errors
    /// Returns an error if an extension of this name is installed or the disk cannot be written.
    pub fn install_extension(&self, fetched: &FetchedExtension) -> Result<PathBuf, Failure> {
        let name = &fetched.manifest.name;
        let _alone = self.lock()?;
        self.require_new_extension(name)?;
        let installed = self.replace_extension(fetched).map_err(input_failure)?;
        // Switches of a previous extension with this name must not apply to the new one.
        forget_extension_switches(&self.config.dirs, name)
            .and_then(|()| switch_extension(&self.config.dirs, name, true, None))
            .map_err(config_failure)?;
        Ok(installed)
    }

    /// Rejects a name that is already taken, before the user is asked anything. Blocking.
    ///
    /// # Errors
    /// Returns an error if an extension of this name is installed.
    pub fn require_new_extension(&self, name: &str) -> Result<(), Failure> {
        match self.find_installed(name) {
            None => Ok(()),
            Some(existing) => Err(input_failure(format!(
                "Extension `{name}` is already installed (`{}`). Run `parallax extensions update \
                 {name}` to update it, or uninstall it first",
                existing.display()
            ))),
        }
    }

    /// Locks the installed extensions against changes by other processes.
    pub(crate) fn lock(&self) -> Result<InstallLock, Failure> {
        let home = self.config.extension_home();
        InstallLock::wait(&home)
            .map_err(|error| input_failure(format!("`{}`: {error}", home.display())))
    }

    /// Returns where an extension of this name is installed, including one that another process
    /// installed meanwhile. A disabled Gemini CLI extension counts as uninstalled.
    fn find_installed(&self, name: &str) -> Option<PathBuf> {
        let known = self.extensions().find(name).cloned();
        let is_gone =
            |known: &Extension| known.home == ExtensionHome::Gemini && !known.enabled_for_user;
        let known = known.filter(|known| !is_gone(known)).map(|known| known.installed);
        let target = self.target_directory(name);
        known.or_else(|| target.symlink_metadata().is_ok().then_some(target))
    }

    /// Copies the extension next to its target and renames it into place. The replaced version is
    /// kept as the previous one. The caller must hold the lock.
    pub(crate) fn replace_extension(&self, fetched: &FetchedExtension) -> Result<PathBuf, String> {
        let home = self.config.extension_home();
        let name = &fetched.manifest.name;
        let error_text = |error: std::io::Error| format!("`{}`: {error}", home.display());
        create_private_folder(&home).map_err(error_text)?;
        remove_stale(&home);
        let staging = StagingDirectory::new(&home, STAGING_PREFIX).map_err(error_text)?;
        let fresh = staging.path().join("fresh");
        copy(&fetched.folder, Path::new(""), &fresh, 0).map_err(error_text)?;
        std::fs::write(fresh.join(INSTALL_METADATA), fetched.metadata.to_json())
            .map_err(error_text)?;
        // Checks the copied files, because the originals may have changed since the review.
        let manifest_again = Manifest::read(&fresh)?;
        let mut review_again = review(&fresh, &manifest_again)?;
        // Notes name files of the copy.
        let (copy, original) = (fresh.display().to_string(), fetched.folder.display().to_string());
        for note in &mut review_again.notes {
            *note = note.replace(&copy, &original);
        }
        if manifest_again != fetched.manifest || review_again != fetched.review {
            return Err(format!("the files of `{name}` changed while they were copied: try again"));
        }
        let before = find_entry(&self.config.dirs, name);
        let locked = LockEntry {
            version: manifest_again.version,
            install: fetched.metadata.clone(),
            commit: fetched.commit.clone(),
            hash: content_hash(&fresh).map_err(error_text)?,
            code_hash: fingerprint(&fresh),
        };
        let target = self.target_directory(name);
        let exists = target.symlink_metadata().is_ok();
        if exists {
            parallax_files::exchange(&fresh, &target).map_err(error_text)?;
        } else {
            std::fs::rename(&fresh, &target).map_err(error_text)?;
        }
        // Done right away, so that a process killed after this line leaves an older version for
        // `rollback`.
        let previous = exists.then(|| self.store_previous(name, &fresh));
        if let Err(error) = lock(&self.config.dirs, name, Some(&locked)) {
            // Restore the previous state.
            match previous {
                Some(previous) => {
                    drop(previous.and_then(|previous| previous.restore(&fresh)));
                    drop(parallax_files::exchange(&fresh, &target));
                }
                None => drop(parallax_files::remove_tree(&target)),
            }
            return Err(error.to_string());
        }
        if let Some(previous) = previous {
            if let Err(error) = previous {
                tracing::warn!(%error, name, "failed to save the previous version");
            }
            self.record_kept_commit(name, before.as_ref());
        }
        Ok(target)
    }

    /// Keeps the replaced version for `rollback`.
    fn store_previous(&self, name: &str, old: &Path) -> std::io::Result<PreviousVersion> {
        let directory = self.config.extension_home().join(PREVIOUS);
        create_private_folder(&directory)?;
        PreviousVersion::set_aside(old, directory.join(name))
    }

    /// Records the commit of the kept version.
    fn record_kept_commit(&self, name: &str, locked: Option<&LockEntry>) {
        let directory = self.config.extension_home().join(PREVIOUS);
        if let Err(error) = lock_kept(&directory, name, locked) {
            tracing::warn!(%error, name, "failed to save the commit of the previous version");
        }
    }

    /// Restores the version before the last update and returns its version number. Blocking.
    ///
    /// # Errors
    /// Returns an error if there is no earlier version or the disk cannot be written.
    pub fn roll_extension_back(&self, name: &str) -> Result<String, Failure> {
        let directory = self.config.extension_home().join(PREVIOUS);
        let previous = directory.join(name);
        let target = self.target_directory(name);
        if !parallax_config::extensions::is_name(name) || !previous.is_dir() || !target.is_dir() {
            return Err(input_failure(format!(
                "no earlier version of the extension `{name}` is stored"
            )));
        }
        let _alone = self.lock()?;
        let to_failure =
            |error: std::io::Error| input_failure(format!("`{}`: {error}", target.display()));
        let manifest = Manifest::read(&previous)
            .map_err(|reason| input_failure(format!("`{}`: {reason}", previous.display())))?;
        let entry =
            InstallMetadata::read(&previous).map(|metadata| -> std::io::Result<LockEntry> {
                let hash = content_hash(&previous)?;
                // Use the recorded commit only if it belongs to these files.
                let noted = read_kept_lock(&directory, name).filter(|noted| noted.hash == hash);
                Ok(LockEntry {
                    version: manifest.version.clone(),
                    install: metadata,
                    commit: noted.and_then(|noted| noted.commit),
                    hash,
                    code_hash: fingerprint(&previous),
                })
            });
        let entry = entry.transpose().map_err(to_failure)?;
        let goes = find_entry(&self.config.dirs, name);
        parallax_files::exchange(&previous, &target).map_err(to_failure)?;
        lock(&self.config.dirs, name, entry.as_ref()).map_err(config_failure)?;
        self.record_kept_commit(name, goes.as_ref());
        Ok(manifest.version)
    }

    /// Reviews the extension in a directory, for `link` and `validate`. Blocking.
    ///
    /// # Errors
    /// Returns an error if the directory contains no extension, or one that is not allowed.
    pub fn review_extension(&self, directory: &Path) -> Result<(Manifest, Review), Failure> {
        let directory = self.config.cwd.join(self.config.expand_home(directory));
        let manifest = Manifest::read(&directory).map_err(|reason| {
            input_failure(format!("invalid extension `{}`: {reason}", directory.display()))
        })?;
        let named = |reason| {
            forbidden_failure(format!("the extension `{}` was rejected: {reason}", manifest.name))
        };
        let review = review(&directory, &manifest).map_err(named)?;
        Ok((manifest, review))
    }

    /// Links an extension, which is then used from its own directory. Blocking.
    ///
    /// # Errors
    /// Returns an error if an extension of this name is installed or the disk cannot be written.
    pub fn link_extension(&self, directory: &Path) -> Result<PathBuf, Failure> {
        let (manifest, _) = self.review_extension(directory)?;
        let directory = self.config.cwd.join(self.config.expand_home(directory));
        let directory = std::fs::canonicalize(&directory)
            .map_err(|error| input_failure(format!("`{}`: {error}", directory.display())))?;
        let name = manifest.name;
        let _alone = self.lock()?;
        self.require_new_extension(&name)?;
        let Some(source) = directory.to_str() else {
            return Err(input_failure("the path of the directory is not valid Unicode".to_owned()));
        };
        let metadata = InstallMetadata {
            source: source.to_owned(),
            kind: InstallKind::Link,
            reference: None,
            release_tag: None,
            auto_update: false,
            pre_release: false,
        };
        let target = self.target_directory(&name);
        let written = create_private_folder(&target)
            .and_then(|()| std::fs::write(target.join(INSTALL_METADATA), metadata.to_json()));
        written.map_err(|error| input_failure(format!("`{}`: {error}", target.display())))?;
        forget_extension_switches(&self.config.dirs, &name).map_err(config_failure)?;
        Ok(target)
    }

    /// Uninstalls an extension, given by name or source, and removes its settings. An extension of
    /// Gemini CLI is disabled instead. Blocking.
    ///
    /// # Errors
    /// Returns an error if the extension is not found or the disk cannot be written.
    pub fn uninstall_extension(&self, name: &str) -> Result<UninstallResult, Failure> {
        let dirs = &self.config.dirs;
        let found = self.find_extension(name);
        let (name, installed) = match &found {
            Ok(extension) if extension.home == ExtensionHome::Gemini => {
                switch_extension(dirs, extension.name(), false, None).map_err(config_failure)?;
                return Ok(UninstallResult::SwitchedOff(extension.installed.clone()));
            }
            Ok(extension) => (extension.name(), extension.installed.clone()),
            // Its manifest may be broken.
            Err(failure) => match self.unreadable_extension(name) {
                Some(installed) => (name, installed),
                None => return Err(failure.clone()),
            },
        };
        let to_failure =
            |error: std::io::Error| input_failure(format!("`{}`: {error}", installed.display()));
        let _alone = self.lock()?;
        // Move everything out of the way first, with one rename each.
        let home = self.config.extension_home();
        let aside = StagingDirectory::new(&home, REMOVED_PREFIX).map_err(to_failure)?;
        drop(std::fs::rename(home.join(PREVIOUS).join(name), aside.path().join("previous")));
        std::fs::rename(&installed, aside.path().join("old")).map_err(to_failure)?;
        self.record_kept_commit(name, None);
        lock(dirs, name, None)
            .and_then(|()| forget_extension_switches(dirs, name))
            .and_then(|()| retain_extension_values(dirs, &self.config.keychain, name, &[]))
            .map_err(config_failure)?;
        // Otherwise the Gemini CLI extension that this one overrode would become active.
        if dirs.gemini.join("extensions").join(name).is_dir() {
            switch_extension(dirs, name, false, None).map_err(config_failure)?;
            return Ok(UninstallResult::SwitchedOff(dirs.gemini.join("extensions").join(name)));
        }
        Ok(UninstallResult::Removed(installed))
    }

    /// Returns the directory or link of an installed extension without a readable manifest.
    fn unreadable_extension(&self, name: &str) -> Option<PathBuf> {
        let is_plain = !name.starts_with('.') && !name.contains(['/', '\\']) && !name.is_empty();
        let path = self.config.extension_home().join(name);
        (is_plain && path.symlink_metadata().is_ok_and(|data| !data.is_file())).then_some(path)
    }

    /// Enables or disables an extension. Without a scope, it is enabled everywhere. Blocking.
    ///
    /// # Errors
    /// Returns an error if the extension is not found or a file cannot be written.
    pub fn switch_extension(
        &self,
        name: &str,
        on: bool,
        scope: Option<SettingScope>,
    ) -> Result<Extension, Failure> {
        let extension = self.find_extension(name)?;
        let scope = scope.map(|scope| match scope {
            SettingScope::User => ExtensionScope::User,
            SettingScope::Workspace => ExtensionScope::Workspace(&self.config.cwd),
        });
        switch_extension(&self.config.dirs, extension.name(), on, scope).map_err(config_failure)?;
        Ok(extension)
    }

    /// Returns the extension with a name or source.
    ///
    /// # Errors
    /// Returns an error with similar names if the extension is not found.
    pub fn find_extension(&self, name: &str) -> Result<Extension, Failure> {
        let extensions = self.extensions();
        extensions.find(name).cloned().ok_or_else(|| {
            let dirs = [self.config.extension_home(), self.config.dirs.gemini.join("extensions")];
            let invalid = dirs.map(|home| format!("`{}` is not", home.join(name).display()));
            let reason = extensions
                .warnings
                .iter()
                .find(|warning| invalid.iter().any(|start| warning.starts_with(start)));
            if let Some(reason) = reason {
                return input_failure(reason.clone());
            }
            let names = extensions.all.iter().map(Extension::name);
            let near = parallax_config::similar_names(name, names);
            let near: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
            let installed = match near.is_empty() {
                true => "see `parallax extensions list`".to_owned(),
                false => format!("did you mean {}?", near.join(", ")),
            };
            input_failure(format!("unknown extension `{name}`: {installed}"))
        })
    }
}

/// The previous version, moved aside by a single rename, so that it is never incomplete.
struct PreviousVersion {
    directory: PathBuf,
    /// Whether there was an even older version, which is now in the place of this one.
    older: bool,
}

impl PreviousVersion {
    fn set_aside(old: &Path, directory: PathBuf) -> std::io::Result<Self> {
        let older = directory.symlink_metadata().is_ok();
        match older {
            true => parallax_files::exchange(old, &directory)?,
            false => std::fs::rename(old, &directory)?,
        }
        Ok(Self { directory, older })
    }

    fn restore(self, old: &Path) -> std::io::Result<()> {
        match self.older {
            true => parallax_files::exchange(&self.directory, old),
            false => std::fs::rename(&self.directory, old),
        }
    }
}

pub(crate) fn config_failure(error: parallax_config::ConfigError) -> Failure {
    Failure::new(FailureKind::Config, error.to_string())
}

/// Copies a reviewed directory. Rejects links that point out of it, as the review does.
fn copy(root: &Path, below: &Path, to: &Path, depth: usize) -> std::io::Result<()> {
    if depth > DEPTH {
        return Err(std::io::Error::other("its directories are nested too deeply"));
    }
    let target = to.join(below);
    std::fs::create_dir(&target)?;
    for entry in std::fs::read_dir(root.join(below))? {
        let entry = entry?;
        let (kind, file) = (entry.file_type()?, entry.file_name());
        let name = below.join(&file);
        // Skip the repository data and the metadata of an earlier installation.
        if depth == 0 && (file == ".git" || file == INSTALL_METADATA) {
            continue;
        }
        if kind.is_dir() {
            copy(root, &name, to, depth + 1)?;
        } else if kind.is_symlink() && stays_below(root, &name) {
            link(&std::fs::read_link(entry.path())?, &to.join(&name))?;
        } else if kind.is_file() {
            std::fs::copy(entry.path(), to.join(&name))?;
        } else {
            let reason = format!("`{}` is outside the extension or not a file", name.display());
            return Err(std::io::Error::other(reason));
        }
    }
    Ok(())
}

#[cfg(unix)]
fn link(target: &Path, at: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(target, at)
}

#[cfg(not(unix))]
fn link(_: &Path, at: &Path) -> std::io::Result<()> {
    let why = format!("`{}` is a link, which cannot be created here", at.display());
    Err(std::io::Error::other(why))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn previous_version_stays_complete_during_installation() {
        let home = tempfile::tempdir().expect("a directory");
        let version = |name: &str| {
            let folder = home.path().join(name);
            std::fs::create_dir(&folder).expect("made");
            for number in 0..500 {
                std::fs::write(folder.join(number.to_string()), name).expect("written");
            }
            folder
        };
        let (directory, first) = (home.path().join("kept"), version("first"));
        PreviousVersion::set_aside(&first, directory.clone()).expect("kept");
        let (second, over) = (version("second"), AtomicBool::new(false));
        let previous = std::thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    for number in [0, 250, 499] {
                        assert!(directory.join(number.to_string()).is_file(), "{number} is gone");
                    }
                }
            });
            let previous = PreviousVersion::set_aside(&second, directory.clone()).expect("kept");
            over.store(true, Ordering::Relaxed);
            watcher.join().expect("always there");
            previous
        });
        let read = |directory: &Path| std::fs::read_to_string(directory.join("0")).expect("a file");
        assert_eq!((read(&directory).as_str(), read(&second).as_str()), ("second", "first"));
        previous.restore(&second).expect("as it was");
        assert_eq!((read(&directory).as_str(), read(&second).as_str()), ("first", "second"));
    }
}
