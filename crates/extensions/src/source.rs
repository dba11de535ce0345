//! Parses the source of an extension: a URL, a directory, or an archive.

use std::path::{Path, PathBuf};

use parallax_config::extensions::github_repository;

/// Where an extension comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ExtensionSource {
    /// A Git repository.
    Git(String),
    /// A GitHub repository, which may have releases.
    Github { owner: String, name: String },
    /// A local directory.
    Folder(PathBuf),
    /// A local archive.
    ArchiveFile(PathBuf),
    /// An archive at a URL.
    ArchiveAddress(String),
}

/// Parses a source as typed. Checks the disk once.
///
/// # Errors
/// Returns an error that lists the possible forms.
pub(crate) fn source_of(text: &str, directory: &Path) -> Result<ExtensionSource, String> {
    let text = text.trim();
    if text.is_empty() || text.starts_with('-') || text.chars().any(char::is_control) {
        return Err("the source is missing: specify a directory, an archive, or a URL".to_owned());
    }
    if let Some(rest) = text.strip_prefix("gitlab:") {
        let path = rest.trim_end_matches(".git");
        return Ok(ExtensionSource::Git(format!("https://gitlab.com/{path}.git")));
    }
    if text.starts_with("sso://") {
        return Err("`sso://` URLs require a git helper, which is not supported".to_owned());
    }
    if let Some((owner, name)) = github_repository(text)
        && !text.starts_with("git@")
        && !text.starts_with("ssh://")
    {
        return Ok(ExtensionSource::Github { owner, name });
    }
    let is_web = text.starts_with("https://") || text.starts_with("http://");
    let path = text.split(['?', '#']).next().unwrap_or(text).to_ascii_lowercase();
    let is_archive = [".tar.gz", ".tgz", ".zip", ".tar"].iter().any(|end| path.ends_with(end));
    if is_web && is_archive {
        return Ok(ExtensionSource::ArchiveAddress(text.to_owned()));
    }
    if crate::clone::is_git_address(text) {
        return Ok(ExtensionSource::Git(text.to_owned()));
    }
    let path = directory.join(text);
    match std::fs::metadata(&path) {
        Ok(metadata) if metadata.is_dir() => Ok(ExtensionSource::Folder(real_path(&path))),
        Ok(metadata) if metadata.is_file() => Ok(ExtensionSource::ArchiveFile(real_path(&path))),
        Ok(_) => Err(format!("`{text}` is neither a directory nor an archive")),
        Err(_) => match github_repository(&format!("github:{text}")) {
            Some((owner, name)) => Ok(ExtensionSource::Github { owner, name }),
            None => Err(format!(
                "Install source not found: `{text}` is not a directory, an archive, or a URL"
            )),
        },
    }
}

fn real_path(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_kind_is_inferred_from_its_form() {
        let directory = tempfile::tempdir().expect("directory");
        let root = std::fs::canonicalize(directory.path()).expect("real");
        std::fs::create_dir_all(root.join("a/b")).expect("directory");
        std::fs::write(root.join("x.zip"), "").expect("written");
        let github = || ExtensionSource::Github { owner: "o".to_owned(), name: "r".to_owned() };
        let git = |text: &str| ExtensionSource::Git(text.to_owned());
        for (text, source) in [
            ("https://github.com/o/r", github()),
            ("https://github.com/o/r.git", github()),
            ("github:o/r", github()),
            ("o/r", github()),
            ("a/b", ExtensionSource::Folder(root.join("a/b"))),
            ("x.zip", ExtensionSource::ArchiveFile(root.join("x.zip"))),
            ("git@github.com:o/r.git", git("git@github.com:o/r.git")),
            ("gitlab:o/r", git("https://gitlab.com/o/r.git")),
            ("https://example.org/r", git("https://example.org/r")),
            ("file:///x/y", git("file:///x/y")),
            (
                "https://example.org/r.tar.gz?x=1",
                ExtensionSource::ArchiveAddress("https://example.org/r.tar.gz?x=1".to_owned()),
            ),
        ] {
            assert_eq!(source_of(text, &root), Ok(source), "{text}");
        }
        for text in ["", "-x", "nothing", "a/b/c", "sso://x", "o/../r"] {
            assert!(source_of(text, &root).is_err(), "{text}");
        }
    }
}
