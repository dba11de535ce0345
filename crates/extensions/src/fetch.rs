//! Fetches an extension for review.

use std::path::{Path, PathBuf};

use parallax_config::extensions::{
    InstallKind, InstallMetadata, MANIFEST, MAX_BYTES, MAX_FILES, Manifest, OWN_MANIFEST,
};
use parallax_files::archive::{ArchiveLimits, unpack};
use parallax_protocol::event::Failure;
use serde_json::Value;

use crate::ExtensionManager;
use crate::github::{GithubClient, ReleaseQuery};
use crate::review::{Review, review};
use crate::source::{ExtensionSource, source_of};
use crate::staging::{FETCHED, StagingDirectory};
use crate::{forbidden_failure, input_failure, unreachable_failure};

/// Options for fetching an extension.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FetchOptions {
    /// A branch, tag, or commit.
    pub reference: Option<String>,
    /// Whether pre-releases are considered.
    pub pre_release: bool,
    /// Whether to update the extension automatically later.
    pub auto_update: bool,
}

/// A fetched and reviewed extension that is not installed yet. Dropping it removes fetched files.
#[derive(Debug)]
pub struct FetchedExtension {
    /// The manifest as written.
    pub manifest: Manifest,
    /// What the extension may do.
    pub review: Review,
    /// Where the extension comes from.
    pub metadata: InstallMetadata,
    pub(crate) folder: PathBuf,
    pub(crate) commit: Option<String>,
    _temporary: Option<StagingDirectory>,
}

/// The files of an extension and their origin.
pub(crate) struct ExtensionFiles {
    folder: PathBuf,
    kind: InstallKind,
    source: String,
    commit: Option<String>,
    release_tag: Option<String>,
    temporary: Option<StagingDirectory>,
}

impl ExtensionManager<'_> {
    /// Returns the network options for GitHub.
    pub(crate) fn github_client(&self) -> GithubClient {
        let variable = |name: &str| self.config.user_variable(name).map(str::to_owned);
        GithubClient {
            options: self.client.clone(),
            token: variable("GITHUB_TOKEN").filter(|token| !token.is_empty()),
            service: variable("GITHUB_API_URL").filter(|address| !address.is_empty()),
        }
    }

    /// Fetches an extension from a directory, an archive, or a URL, and reviews it. Blocking; must
    /// not be called on a runtime thread.
    ///
    /// # Errors
    /// Returns an error if the source is invalid or forbidden, or if the extension contains
    /// something that is not allowed.
    pub fn fetch_extension(
        &self,
        source: &str,
        options: &FetchOptions,
    ) -> Result<FetchedExtension, Failure> {
        self.fetch(source, options)
    }

    pub(crate) fn fetch(
        &self,
        text: &str,
        options: &FetchOptions,
    ) -> Result<FetchedExtension, Failure> {
        let home = self.config.expand_home(Path::new(text));
        let text = home.to_str().unwrap_or(text);
        let source = source_of(text, &self.config.cwd).map_err(input_failure)?;
        self.check_allowed(text, &source).map_err(forbidden_failure)?;
        let is_local =
            matches!(source, ExtensionSource::Folder(_) | ExtensionSource::ArchiveFile(_));
        if is_local && (options.reference.is_some() || options.auto_update) {
            return Err(input_failure("`--ref` and `--auto-update` require a URL".to_owned()));
        }
        let files = match source {
            ExtensionSource::Folder(folder) => ExtensionFiles {
                source: folder.to_string_lossy().into_owned(),
                folder,
                kind: InstallKind::Local,
                commit: None,
                release_tag: None,
                temporary: None,
            },
            ExtensionSource::ArchiveFile(file) => {
                let display_path = file.to_string_lossy().into_owned();
                self.archive(display_path, |_| Ok(file))?
            }
            ExtensionSource::ArchiveAddress(address) => {
                let net = self.github_client();
                self.archive(address.clone(), |directory| {
                    let file = directory.join("archive");
                    net.download(&address, &file).map_err(unreachable_failure)?;
                    Ok(file)
                })?
            }
            ExtensionSource::Git(address) => self.repository(address.clone(), address, options)?,
            ExtensionSource::Github { owner, name } => self.github(&owner, &name, options)?,
        };
        review_files(files, options)
    }

    /// Checks a source against `security.allowedExtensions` and `security.blockGitExtensions`.
    fn check_allowed(&self, text: &str, source: &ExtensionSource) -> Result<(), String> {
        let settings = &self.config.settings;
        let allowed = settings.list("security.allowedExtensions");
        if !allowed.is_empty() {
            let fits = |pattern: &String| {
                regex::RegexBuilder::new(pattern)
                    .size_limit(1 << 20)
                    .build()
                    .is_ok_and(|pattern| pattern.is_match(text))
            };
            return match allowed.iter().any(fits) {
                true => Ok(()),
                false => Err(format!("`security.allowedExtensions` does not allow `{text}`")),
            };
        }
        let is_remote =
            !matches!(source, ExtensionSource::Folder(_) | ExtensionSource::ArchiveFile(_));
        let blocks = settings.get("security.blockGitExtensions") == Some(&Value::Bool(true));
        match blocks && is_remote {
            true => Err("`security.blockGitExtensions` blocks extensions from URLs".to_owned()),
            false => Ok(()),
        }
    }

    fn archive(
        &self,
        source: String,
        get: impl FnOnce(&Path) -> Result<PathBuf, Failure>,
    ) -> Result<ExtensionFiles, Failure> {
        let temporary = staging_directory().map_err(input_failure)?;
        let file = get(temporary.path())?;
        let directory = temporary.path().join("unpacked");
        std::fs::create_dir(&directory).map_err(|error| input_failure(error.to_string()))?;
        let limits = ArchiveLimits { entries: MAX_FILES, bytes: MAX_BYTES };
        unpack(&file, &directory, limits).map_err(|error| forbidden_failure(error.to_string()))?;
        Ok(ExtensionFiles {
            folder: unpacked_root(directory),
            kind: InstallKind::Archive,
            source,
            commit: None,
            release_tag: None,
            temporary: Some(temporary),
        })
    }

    fn repository(
        &self,
        source: String,
        address: String,
        options: &FetchOptions,
    ) -> Result<ExtensionFiles, Failure> {
        let temporary = staging_directory().map_err(input_failure)?;
        let token = self.github_client().token;
        let commit = crate::clone::clone(
            &address,
            options.reference.as_deref(),
            temporary.path(),
            self.git_options(token.as_deref()),
        )
        .map_err(unreachable_failure)?;
        let directory = temporary.path().join("repository");
        // The repository data is not needed, and its Git settings are untrusted.
        parallax_files::remove_tree(&directory.join(".git"))
            .map_err(|error| input_failure(error.to_string()))?;
        Ok(ExtensionFiles {
            folder: directory,
            kind: InstallKind::Git,
            source,
            commit: Some(commit),
            release_tag: None,
            temporary: Some(temporary),
        })
    }

    /// Fetches a release, or clones the repository if there is none.
    fn github(
        &self,
        owner: &str,
        name: &str,
        options: &FetchOptions,
    ) -> Result<ExtensionFiles, Failure> {
        let net = self.github_client();
        let source = format!("https://github.com/{owner}/{name}");
        let query = ReleaseQuery {
            owner,
            name,
            tag: options.reference.as_deref(),
            pre_release: options.pre_release,
        };
        match net.release(&query) {
            Ok(Some(release)) => {
                let mut files = self.archive(source, |directory| {
                    let file = directory.join("archive");
                    net.download(&release.archive, &file).map_err(unreachable_failure)?;
                    Ok(file)
                })?;
                files.kind = InstallKind::GithubRelease;
                files.release_tag = Some(release.tag);
                Ok(files)
            }
            // A reference that is not a release may be a branch or a commit.
            other => {
                if let Err(reason) = other {
                    tracing::info!(reason, "no release found: cloning the repository");
                }
                let address = format!("https://github.com/{owner}/{name}.git");
                self.repository(source, address, options)
            }
        }
    }
}

fn review_files(
    files: ExtensionFiles,
    options: &FetchOptions,
) -> Result<FetchedExtension, Failure> {
    let ExtensionFiles { folder, kind, source, commit, release_tag, temporary } = files;
    let of = |reason: String| input_failure(format!("`{source}` cannot be installed: {reason}"));
    let manifest = Manifest::read(&folder).map_err(of)?;
    let named = |reason: String| {
        forbidden_failure(format!("the extension `{}` was rejected: {reason}", manifest.name))
    };
    let review = review(&folder, &manifest).map_err(named)?;
    let metadata = InstallMetadata {
        kind,
        reference: options.reference.clone(),
        release_tag,
        auto_update: options.auto_update,
        pre_release: options.pre_release,
        source,
    };
    Ok(FetchedExtension { manifest, review, metadata, folder, commit, _temporary: temporary })
}

fn staging_directory() -> Result<StagingDirectory, String> {
    StagingDirectory::new(&std::env::temp_dir(), FETCHED).map_err(|error| error.to_string())
}

/// Returns the top directory of unpacked files. Many archives contain a single directory with all
/// files.
fn unpacked_root(directory: PathBuf) -> PathBuf {
    let has_manifest = |directory: &Path| {
        [OWN_MANIFEST, MANIFEST].iter().any(|name| directory.join(name).is_file())
    };
    if has_manifest(&directory) {
        return directory;
    }
    let entries: Vec<_> =
        std::fs::read_dir(&directory).into_iter().flatten().flatten().take(2).collect();
    match entries.as_slice() {
        [only] if has_manifest(&only.path()) => only.path(),
        _ => directory,
    }
}
