//! Installs the extensions of a lock file with the recorded source, commit, and files.

use std::path::Path;

use parallax_config::extensions::{
    InstallKind, InstallMetadata, LockEntry, content_hash, forget_extension_switches, read_lock,
};
use parallax_protocol::event::Failure;

use crate::ExtensionManager;
use crate::fetch::{FetchOptions, FetchedExtension};
use crate::install::config_failure;
use crate::{forbidden_failure, input_failure};

impl ExtensionManager<'_> {
    /// Returns the entries of a lock file, or of the lock file of this home directory if `file` is
    /// `None`. An entry that cannot be parsed has no value. Blocking.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn locked_extensions(
        &self,
        file: Option<&Path>,
    ) -> Result<Vec<(String, Option<LockEntry>)>, Failure> {
        let file = file.map(|file| self.config.cwd.join(self.config.expand_home(file)));
        if let Some(file) = file.as_ref().filter(|file| !file.is_file()) {
            return Err(input_failure(format!("file `{}` not found", file.display())));
        }
        read_lock(&self.config.dirs, file.as_deref()).map_err(config_failure)
    }

    /// Returns whether an extension is installed with exactly the locked files. Blocking: reads all
    /// files.
    pub fn matches_lock(&self, name: &str, locked: &LockEntry) -> bool {
        let extensions = self.extensions();
        let installed = extensions.all.iter().find(|extension| extension.name() == name);
        installed.is_some_and(|installed| {
            content_hash(&installed.folder).is_ok_and(|hash| hash == locked.hash)
        })
    }

    /// Fetches exactly what was locked. Blocking; must not be called on a runtime thread.
    ///
    /// # Errors
    /// Returns an error if the source is invalid or has different files, or if the extension
    /// contains something that is not allowed.
    pub fn fetch_locked(
        &self,
        name: &str,
        locked: &LockEntry,
    ) -> Result<FetchedExtension, Failure> {
        let install = &locked.install;
        let is_fixed = matches!(install.kind, InstallKind::Git | InstallKind::GithubRelease);
        let known = [&locked.commit, &install.release_tag, &install.reference];
        let options = FetchOptions {
            reference: known.into_iter().flatten().next().filter(|_| is_fixed).cloned(),
            pre_release: install.pre_release,
            auto_update: false,
        };
        let mut fetched = self.fetch(&install.source, &options)?;
        let hash =
            content_hash(&fetched.folder).map_err(|error| forbidden_failure(error.to_string()))?;
        if fetched.manifest.name != name || hash != locked.hash {
            return Err(forbidden_failure(format!(
                "`{}` does not contain the locked version {} of the extension `{name}`: its files \
                 changed",
                install.source, locked.version
            )));
        }
        fetched.metadata = InstallMetadata { source: fetched.metadata.source, ..install.clone() };
        Ok(fetched)
    }

    /// Installs a fetched extension, replacing another version of it. Blocking.
    ///
    /// # Errors
    /// Returns an error if the disk cannot be written.
    pub fn install_locked(&self, fetched: &FetchedExtension) -> Result<(), Failure> {
        let name = &fetched.manifest.name;
        let _alone = self.lock()?;
        let is_new = self.extensions().find(name).is_none();
        self.replace_extension(fetched).map_err(input_failure)?;
        if is_new {
            // Switches of a previous extension with this name must not apply to the new one.
            forget_extension_switches(&self.config.dirs, name).map_err(config_failure)?;
        }
        Ok(())
    }
}
