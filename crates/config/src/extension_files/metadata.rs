//! The installation source of an extension, stored in a small file in its directory.

use std::path::Path;

use parallax_protocol::Object;
use serde_json::Value;

use super::variables::ExtensionVariables;
use crate::hook_definitions::{HOOKS, hooks_of_folder};
use crate::json_state_file::digest;
use crate::jsonc;

/// The metadata file in the directory of an installed extension.
pub const INSTALL_METADATA: &str = ".gemini-extension-install.json";

/// How an extension was installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstallKind {
    /// Cloned from a Git repository.
    Git,
    /// Copied from a directory.
    Local,
    /// Linked to a directory.
    Link,
    /// Extracted from the archive of a GitHub release.
    GithubRelease,
    /// Extracted from an archive, either a file or a URL.
    Archive,
}

impl InstallKind {
    const ALL: [Self; 5] = [Self::Git, Self::Local, Self::Link, Self::GithubRelease, Self::Archive];

    /// Returns the value used in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Git => "git",
            Self::Local => "local",
            Self::Link => "link",
            Self::GithubRelease => "github-release",
            Self::Archive => "archive",
        }
    }
}

/// The contents of the metadata file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstallMetadata {
    /// The URL or directory.
    pub source: String,
    /// How it was installed.
    pub kind: InstallKind,
    /// The requested branch, tag, or commit.
    pub reference: Option<String>,
    /// The tag of the installed release.
    pub release_tag: Option<String>,
    /// Whether it is updated automatically at the start of a session.
    pub auto_update: bool,
    /// Whether prereleases are installed.
    pub pre_release: bool,
}

impl InstallMetadata {
    /// Reads the file in a directory; `None` if it does not exist or is invalid. Blocking.
    pub fn read(directory: &Path) -> Option<Self> {
        Self::from_json(&jsonc::read_object(&directory.join(INSTALL_METADATA)).ok()??)
    }

    /// Parses an object; `None` if it is invalid.
    pub(super) fn from_json(object: &Object) -> Option<Self> {
        let text = |key: &str| {
            let text = object.get(key).and_then(Value::as_str);
            text.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let flag = |key: &str| object.get(key).and_then(Value::as_bool).unwrap_or(false);
        let word = text("type")?;
        Some(Self {
            source: text("source")?,
            kind: InstallKind::ALL.into_iter().find(|kind| kind.as_str() == word)?,
            reference: text("ref"),
            release_tag: text("releaseTag"),
            auto_update: flag("autoUpdate"),
            pre_release: flag("allowPreRelease"),
        })
    }

    /// Whether both install the same thing from the same place.
    pub fn is_same_source(&self, other: &Self) -> bool {
        let of = |it: &Self| (it.source.clone(), it.kind, it.reference.clone(), it.pre_release);
        of(self) == of(other)
    }

    /// Describes the source for messages.
    pub fn described_source(&self) -> String {
        let reference = self.reference.as_ref().map(|it| format!(" at `{it}`"));
        let pre_release = if self.pre_release { ", prereleases included" } else { "" };
        let reference = reference.unwrap_or_default();
        format!("`{}`{reference} (type `{}`{pre_release})", self.source, self.kind.as_str())
    }

    /// Returns the text of the file.
    pub fn to_json(&self) -> String {
        format!("{:#}\n", Value::Object(self.to_object()))
    }

    /// Returns the contents as an object.
    pub(super) fn to_object(&self) -> Object {
        let mut object = Object::new();
        object.insert("source".to_owned(), self.source.clone().into());
        object.insert("type".to_owned(), self.kind.as_str().into());
        let texts = [("ref", &self.reference), ("releaseTag", &self.release_tag)];
        for (key, value) in texts {
            if let Some(value) = value {
                object.insert(key.to_owned(), value.clone().into());
            }
        }
        for (key, flag) in [("autoUpdate", self.auto_update), ("allowPreRelease", self.pre_release)]
        {
            if flag {
                object.insert(key.to_owned(), true.into());
            }
        }
        object
    }
}

/// Returns the unique ID of an extension: the SHA-256 of its source, or of its name.
pub fn extension_id(name: &str, install: Option<&InstallMetadata>) -> String {
    let text = match install {
        None => name.to_owned(),
        Some(install) => github_repository(&install.source)
            .filter(|_| matches!(install.kind, InstallKind::Git | InstallKind::GithubRelease))
            .map_or_else(
                || install.source.clone(),
                |(owner, name)| format!("https://github.com/{owner}/{name}"),
            ),
    };
    crate::json_state_file::sha256(text.as_bytes())
}

/// Returns the owner and name of the repository that a GitHub URL refers to.
pub fn github_repository(source: &str) -> Option<(String, String)> {
    let path = ["https://github.com/", "http://github.com/", "git@github.com:", "github:"]
        .into_iter()
        .chain(["ssh://git@github.com/"])
        .find_map(|prefix| source.strip_prefix(prefix))?;
    let path = path.trim_end_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    let (owner, name) = path.split_once('/')?;
    let is_part = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    (is_part(owner) && is_part(name)).then(|| (owner.to_owned(), name.to_owned()))
}

/// Returns the hash of the files with the capabilities of an extension: its manifest, its hooks
/// with the scripts that they run, its rules, and its agents. Blocking; reads a few small files.
pub(super) fn capability_hash(directory: &Path) -> String {
    let mut pieces: Vec<Vec<u8>> = Vec::new();
    let mut take = |path: &Path| {
        if let Ok(Some(read)) = crate::read::read_at_most(path, 2 * 1024 * 1024) {
            let name = path.strip_prefix(directory).unwrap_or(path);
            pieces.push(name.as_os_str().as_encoded_bytes().to_vec());
            pieces.push(read.bytes);
        }
    };
    for file in [super::OWN_MANIFEST, super::MANIFEST, HOOKS] {
        take(&directory.join(file));
    }
    for part in ["policies", "agents"] {
        let entries = std::fs::read_dir(directory.join(part)).into_iter().flatten().flatten();
        let mut files: Vec<_> = entries.map(|entry| entry.path()).take(1_000).collect();
        files.sort();
        files.iter().for_each(|path| take(path));
    }
    let variables = ExtensionVariables::new(directory, Path::new(""), &[], &[]);
    for mut hook in hooks_of_folder(directory, &mut Vec::new()) {
        hook.command = variables.fill_command(&hook.command);
        // Programs of the system, outside of the directory, change with system updates.
        let scripts =
            hook.scripts(directory).into_iter().filter(|path| path.starts_with(directory));
        scripts.for_each(|path| take(&path));
    }
    digest(pieces.iter().map(Vec::as_slice))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branch_or_prerelease_changes_the_source() {
        let git = InstallMetadata {
            source: "https://example.org/x".to_owned(),
            kind: InstallKind::Git,
            reference: None,
            release_tag: Some("v1".to_owned()),
            auto_update: false,
            pre_release: false,
        };
        assert!(git.is_same_source(&InstallMetadata { release_tag: None, ..git.clone() }));
        for other in [
            InstallMetadata { reference: Some("evil".to_owned()), ..git.clone() },
            InstallMetadata { pre_release: true, ..git.clone() },
            InstallMetadata { kind: InstallKind::Archive, ..git.clone() },
            InstallMetadata { source: "https://example.org/y".to_owned(), ..git.clone() },
        ] {
            assert!(!git.is_same_source(&other), "{}", other.described_source());
        }
        let branch = InstallMetadata { reference: Some("next".to_owned()), ..git };
        assert_eq!(branch.described_source(), "`https://example.org/x` at `next` (type `git`)");
    }

    #[test]
    fn metadata_round_trip() {
        let directory = tempfile::tempdir().expect("directory");
        let metadata = InstallMetadata {
            source: "https://github.com/a/b.git".to_owned(),
            kind: InstallKind::GithubRelease,
            reference: Some("v1".to_owned()),
            release_tag: Some("v1".to_owned()),
            auto_update: true,
            pre_release: false,
        };
        std::fs::write(directory.path().join(INSTALL_METADATA), metadata.to_json())
            .expect("written");
        assert_eq!(InstallMetadata::read(directory.path()), Some(metadata.clone()));
        // The same repository, written differently.
        let other = InstallMetadata { source: "git@github.com:a/b".to_owned(), ..metadata.clone() };
        assert_eq!(extension_id("x", Some(&metadata)), extension_id("x", Some(&other)));
        assert_ne!(extension_id("x", None), extension_id("y", None));
    }

    #[test]
    fn only_github_urls_are_recognized_as_github() {
        for (source, repository) in [
            ("https://github.com/a/b", Some(("a", "b"))),
            ("github:a/b.git", Some(("a", "b"))),
            ("https://github.com/a/b/c", None),
            ("https://github.com/a/..", None),
            ("https://github.com.evil.example/a/b", None),
            ("https://example.org/a/b", None),
        ] {
            let found = github_repository(source);
            let found = found.as_ref().map(|(owner, name)| (owner.as_str(), name.as_str()));
            assert_eq!(found, repository, "{source}");
        }
    }
}
