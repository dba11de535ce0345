//! The configuration of a container.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::program_sandbox::{Engine, ProgramSandboxError};

/// Everything that the command line depends on.
#[derive(Debug, Clone)]
pub struct ContainerRequest {
    /// The container engine.
    pub engine: Engine,
    /// The Parallax binary.
    pub binary: PathBuf,
    /// The arguments of Parallax.
    pub arguments: Vec<OsString>,
    /// The working directory.
    pub directory: PathBuf,
    /// The home directory.
    pub home: PathBuf,
    /// `~/.gemini`.
    pub gemini: PathBuf,
    /// `~/.parallax`, which must exist with the directories in [`super::WRITABLE_DIRECTORIES`].
    pub parallax: PathBuf,
    /// The directory for temporary files.
    pub temporary: PathBuf,
    /// The variables of the process, but never those of a `.env` file, because a project must not
    /// configure its own sandbox.
    pub variables: Vec<(String, String)>,
    /// The paths of [`ContainerRequest::candidates`] that exist.
    pub existing: Vec<PathBuf>,
    /// `tools.sandbox.image`.
    pub image: Option<String>,
    /// `tools.sandbox.allowedPaths`, absolute.
    pub allowed_paths: Vec<PathBuf>,
    /// Whether the network is enabled; `None` means not configured, which enables it.
    pub network: Option<bool>,
    /// The user and group inside; `None` uses those of the image.
    pub user: Option<(u32, u32)>,
    /// Whether stdin is a terminal.
    pub terminal: bool,
    /// The container's name.
    pub name: String,
}

/// An entry of `SANDBOX_MOUNTS`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The path outside.
    pub from: PathBuf,
    /// The path inside.
    pub to: PathBuf,
    /// `ro`, `rw`, …
    pub options: String,
}

impl ContainerRequest {
    /// Returns paths whose existence affects the command line.
    pub fn candidates(&self) -> Vec<PathBuf> {
        let mut paths = vec![self.gemini.clone(), self.home.join(".config/gcloud")];
        paths.extend(self.variable("GOOGLE_APPLICATION_CREDENTIALS").map(PathBuf::from));
        paths.extend(self.sandbox_mounts().into_iter().flatten().map(|mount| mount.from));
        paths.extend(self.allowed_paths.iter().cloned());
        paths
    }

    /// Returns the value of a variable that is set and not empty.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        let found = self.variables.iter().find(|(other, _)| other == name)?;
        Some(found.1.as_str()).filter(|value| !value.trim().is_empty())
    }

    /// Returns the comma-separated entries of a variable.
    pub(super) fn list(&self, name: &str) -> Vec<&str> {
        let entries = self.variable(name).unwrap_or_default().split(',');
        entries.map(str::trim).filter(|entry| !entry.is_empty()).collect()
    }

    /// Returns the image. A name that starts like a flag is not accepted, because the engine would
    /// parse it as one.
    pub(super) fn image(&self) -> Option<&str> {
        self.variable("GEMINI_SANDBOX_IMAGE")
            .or_else(|| self.variable("GEMINI_SANDBOX_IMAGE_DEFAULT"))
            .or(self.image.as_deref())
            .map(str::trim)
            .filter(|image| !image.is_empty() && !image.starts_with('-'))
    }

    /// Parses `SANDBOX_MOUNTS`: entries `from[:to[:options]]`, separated by commas.
    pub(super) fn sandbox_mounts(&self) -> Result<Vec<Mount>, ProgramSandboxError> {
        let entries = self.list("SANDBOX_MOUNTS");
        let read = |entry: &&str| {
            let mount_error = |why: &str| ProgramSandboxError::Setting {
                name: "SANDBOX_MOUNTS",
                reason: format!("`{entry}`: {why}"),
            };
            let mut parts = entry.split(':');
            let from = Path::new(parts.next().unwrap_or_default());
            let to = parts.next().map_or(from, Path::new);
            let options = parts.next().unwrap_or("ro");
            if parts.next().is_some() {
                return Err(mount_error("it must be `from`, `from:to` or `from:to:options`"));
            }
            if !from.is_absolute() || !to.is_absolute() {
                return Err(mount_error("paths must be absolute"));
            }
            Ok(Mount { from: from.to_owned(), to: to.to_owned(), options: options.to_owned() })
        };
        entries.iter().map(read).collect()
    }
}
