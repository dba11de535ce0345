//! Finds and installs newer versions of extensions.

use std::path::Path;

use parallax_config::SettingScope;
use parallax_config::extensions::{
    Extension, ExtensionHome, ExtensionScope, INSTALL_METADATA, InstallKind, InstallMetadata,
    LockEntry, Manifest, content_hash, find_entry, retain_extension_values, set_extension_value,
};
use parallax_protocol::event::Failure;

use crate::ExtensionManager;
use crate::fetch::{FetchOptions, FetchedExtension};
use crate::github::ReleaseQuery;
use crate::install::config_failure;
use crate::review::Review;
use crate::source::{ExtensionSource, source_of};
use crate::{input_failure, unreachable_failure};

/// A newer version, fetched and reviewed.
#[derive(Debug)]
pub struct ExtensionUpdate {
    /// The installed version.
    pub installed: String,
    /// The newer version.
    pub fetched: FetchedExtension,
    /// What the newer version may do that the installed one may not. Requires consent.
    pub added_permissions: Vec<String>,
    /// The previous source, if the extension has moved.
    pub previous_source: Option<String>,
}

impl ExtensionManager<'_> {
    /// Looks for a newer version and returns `None` if the extension is up to date. Blocking; must
    /// not be called on a runtime thread.
    ///
    /// # Errors
    /// Returns an error if the source cannot be reached, the extension is linked, or its source is
    /// unknown.
    pub fn check_for_update(
        &self,
        extension: &Extension,
    ) -> Result<Option<ExtensionUpdate>, Failure> {
        let name = extension.name();
        self.find_update(extension).map_err(|failure| Failure {
            message: format!("extension `{name}`: {}", failure.message),
            ..failure
        })
    }

    fn find_update(&self, extension: &Extension) -> Result<Option<ExtensionUpdate>, Failure> {
        let Some(install) = &extension.install else {
            return Err(input_failure("its source is unknown: install it again".to_owned()));
        };
        if install.kind == InstallKind::Link {
            return Err(input_failure(
                "it is linked: changes in its directory take effect immediately".to_owned(),
            ));
        }
        // The metadata file is in the extension's directory, where its own programs can change it.
        if let Some(known) = find_entry(&self.config.dirs, extension.name())
            && !known.install.is_same_source(install)
        {
            return Err(input_failure(format!(
                "`{INSTALL_METADATA}` says that it came from {}, but it was installed from {}: \
                 reinstall it from there",
                install.described_source(),
                known.install.described_source()
            )));
        }
        let options = FetchOptions {
            reference: install.reference.clone(),
            pre_release: install.pre_release,
            auto_update: install.auto_update,
        };
        if let Some(home) = &extension.manifest.migrated_to
            && *home != install.source
            && let Ok(fetched) =
                self.fetch(home, &FetchOptions { reference: None, ..options.clone() })
        {
            return self
                .compare_versions(extension, fetched, Some(install.source.clone()))
                .map(Some);
        }
        if !extension.is_modified && self.is_current(extension, install)? {
            return Ok(None);
        }
        let fetched = self.fetch(&install.source, &options)?;
        let same = fetched.manifest.version == extension.manifest.version;
        // An archive can be compared only by its version.
        if same && install.kind == InstallKind::Archive && !extension.is_modified {
            return Ok(None);
        }
        self.compare_versions(extension, fetched, None).map(Some)
    }

    /// Returns whether the source has no newer version, without fetching it completely.
    fn is_current(
        &self,
        extension: &Extension,
        install: &InstallMetadata,
    ) -> Result<bool, Failure> {
        match install.kind {
            InstallKind::Link | InstallKind::Archive => Ok(false),
            InstallKind::Local => {
                let source_manifest = Manifest::read(Path::new(&install.source))
                    .map_err(|reason| input_failure(format!("`{}`: {reason}", install.source)))?;
                Ok(source_manifest.version == extension.manifest.version)
            }
            InstallKind::GithubRelease => {
                let source = source_of(&install.source, &self.config.cwd).map_err(input_failure)?;
                let ExtensionSource::Github { owner, name } = source else {
                    let source = &install.source;
                    return Err(input_failure(format!("`{source}` is not a GitHub repository")));
                };
                let query = ReleaseQuery {
                    owner: &owner,
                    name: &name,
                    tag: install.reference.as_deref(),
                    pre_release: install.pre_release,
                };
                let release = self.github_client().release(&query).map_err(unreachable_failure)?;
                Ok(release.map(|release| release.tag) == install.release_tag)
            }
            InstallKind::Git => {
                let source = source_of(&install.source, &self.config.cwd).map_err(input_failure)?;
                let address = match source {
                    ExtensionSource::Github { owner, name } => {
                        format!("https://github.com/{owner}/{name}.git")
                    }
                    _ => install.source.clone(),
                };
                let token = self.github_client().token;
                let reference = install.reference.as_deref();
                let git = self.git_options(token.as_deref());
                let remote_commit = crate::clone::remote_commit(&address, reference, git)
                    .map_err(unreachable_failure)?;
                let installed_commit = match extension.home {
                    ExtensionHome::Parallax => find_entry(&self.config.dirs, extension.name())
                        .and_then(|locked| locked.commit),
                    ExtensionHome::Gemini => parallax_files::git_head::commit(&extension.installed),
                };
                Ok(installed_commit
                    .is_some_and(|installed_commit| installed_commit == remote_commit))
            }
        }
    }

    fn compare_versions(
        &self,
        extension: &Extension,
        fetched: FetchedExtension,
        previous_source: Option<String>,
    ) -> Result<ExtensionUpdate, Failure> {
        let name = extension.name();
        if fetched.manifest.name != name {
            return Err(input_failure(format!(
                "it was renamed to `{}`: install that, and uninstall `{name}`",
                fetched.manifest.name
            )));
        }
        // An installed version that is no longer allowed or was altered has no capabilities that
        // the user has consented to.
        let before = match extension.is_modified {
            true => Review::default(),
            false => Manifest::read(&extension.folder)
                .and_then(|manifest| super::review::review(&extension.folder, &manifest))
                .unwrap_or_default(),
        };
        Ok(ExtensionUpdate {
            installed: extension.manifest.version.clone(),
            added_permissions: fetched.review.added_since(&before),
            fetched,
            previous_source,
        })
    }

    /// Replaces the installed version, which is kept for `rollback`. A Gemini CLI extension is
    /// copied to Parallax's directory. If the update fails, the installed version stays unchanged.
    /// Settings are kept. Returns `false` if another process has installed that version meanwhile.
    /// Blocking.
    ///
    /// # Errors
    /// Returns an error if the disk cannot be written or another process has changed the extension.
    pub fn update_extension(
        &self,
        extension: &Extension,
        update: &ExtensionUpdate,
    ) -> Result<bool, Failure> {
        let (dirs, name) = (&self.config.dirs, extension.name());
        let keychain = &self.config.keychain;
        let _alone = self.lock()?;
        // The extension looks altered if it was read while another process had replaced its files
        // but not yet recorded their hash.
        let fetched = &update.fetched;
        let same = |noted: LockEntry| {
            noted.install == fetched.metadata
                && noted.commit == fetched.commit
                && [&extension.installed, &fetched.folder]
                    .iter()
                    .all(|directory| content_hash(directory).is_ok_and(|hash| hash == noted.hash))
        };
        if find_entry(dirs, name).is_some_and(same) {
            return Ok(false);
        }
        let current = Manifest::read(&extension.installed).map(|manifest| manifest.version);
        match current {
            Ok(current) if current == update.installed => {}
            Ok(current) if current == update.fetched.manifest.version => return Ok(false),
            _ => {
                let reason = "another process changed it in the meantime: try again";
                return Err(input_failure(format!("extension `{name}`: {reason}")));
            }
        }
        self.replace_extension(&update.fetched).map_err(|reason| {
            input_failure(format!("the extension `{name}` was not changed: {reason}"))
        })?;
        let variables: Vec<String> =
            update.fetched.manifest.settings.iter().map(|it| it.variable.clone()).collect();
        if extension.home == ExtensionHome::Gemini {
            // The settings in Gemini CLI's directory are no longer read.
            for value in &extension.values {
                if let Some(text) = &value.value {
                    let variable = &value.setting.variable;
                    let setting = (variable.as_str(), value.setting.sensitive);
                    let scope = ExtensionScope::User;
                    set_extension_value(dirs, keychain, name, scope, setting, Some(text))
                        .map_err(config_failure)?;
                }
            }
        }
        retain_extension_values(dirs, keychain, name, &variables).map_err(config_failure)?;
        Ok(true)
    }

    /// Updates extensions with automatic updates, if the newer version has no additional
    /// capabilities. Returns notices for the user. Blocking; must not be called on a runtime
    /// thread.
    pub fn update_automatically(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for extension in &self.extensions().all {
            let wants = extension.install.as_ref().is_some_and(|install| install.auto_update);
            if !wants || !extension.active {
                continue;
            }
            let name = extension.name();
            let update = match self.check_for_update(extension) {
                Ok(Some(update)) => update,
                Ok(None) => continue,
                Err(failure) => {
                    tracing::info!(name, why = failure.message, "not checked for updates");
                    continue;
                }
            };
            if !update.added_permissions.is_empty() || update.previous_source.is_some() {
                lines.push(format!(
                    "A newer version of the extension `{name}` requires more permissions: run \
                     `/extensions update {name}`"
                ));
                continue;
            }
            lines.push(match self.update_extension(extension, &update) {
                Ok(false) => continue,
                Ok(true) => format!(
                    "The extension `{name}` was updated to {}; the update takes effect in the next \
                     session",
                    update.fetched.manifest.version.trim()
                ),
                Err(failure) => failure.message,
            });
        }
        lines
    }

    /// Sets or removes the value of an extension's setting. Blocking.
    ///
    /// # Errors
    /// Returns an error if the setting is unknown, the value contains a line break, or the file
    /// cannot be written.
    pub fn set_extension_value(
        &self,
        extension: &Extension,
        setting: &str,
        scope: SettingScope,
        value: Option<&str>,
    ) -> Result<(), Failure> {
        let known =
            extension.manifest.settings.iter().find(|known| {
                known.variable == setting || known.name.eq_ignore_ascii_case(setting)
            });
        let Some(known) = known else {
            let names: Vec<String> = extension
                .manifest
                .settings
                .iter()
                .map(|known| format!("`{}`", known.variable))
                .collect();
            let installed = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            return Err(input_failure(format!(
                "unknown setting `{setting}` of the extension `{}`; its settings: {installed}",
                extension.name()
            )));
        };
        if value.is_some_and(|value| value.contains(['\n', '\r', '\0'])) {
            return Err(input_failure(format!(
                "the value of `{}` must be a single line",
                known.variable
            )));
        }
        let scope = match scope {
            SettingScope::User => ExtensionScope::User,
            SettingScope::Workspace => ExtensionScope::Workspace(&self.config.cwd),
        };
        let value = value.filter(|value| !value.is_empty());
        let (dirs, keychain) = (&self.config.dirs, &self.config.keychain);
        let setting = (known.variable.as_str(), known.sensitive);
        set_extension_value(dirs, keychain, extension.name(), scope, setting, value)
            .map_err(config_failure)
    }
}
