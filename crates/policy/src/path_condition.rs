//! Conditions on the files of a call.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::OnceLock;

use globset::{Glob, GlobBuilder, GlobMatcher};

use crate::paths::{self, ProtectedPaths};

/// Groups of directories that rules can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathScope {
    /// The workspace, except for protected files.
    Workspace,
    /// The plan directory.
    Plans,
    /// The directories for temporary files.
    Temporary,
}

impl PathScope {
    /// Parses the name used in rules.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "workspace" => Some(Self::Workspace),
            "plans" => Some(Self::Plans),
            "tmp" => Some(Self::Temporary),
            _ => None,
        }
    }

    /// Returns the name used in rules.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Workspace => "workspace",
            Self::Plans => "plans",
            Self::Temporary => "tmp",
        }
    }
}

/// The directories that paths are compared with.
#[derive(Debug, Clone)]
pub(crate) struct PathRoots<'a> {
    pub(crate) workspace: &'a [PathBuf],
    pub(crate) plans: Option<&'a Path>,
    pub(crate) temporary: &'a [PathBuf],
    /// Parts of the temporary directories that are not temporary; see [`shared_with_user`].
    pub(crate) not_temporary: Vec<PathBuf>,
    /// The protected files of the workspace.
    pub(crate) protected: Rc<ProtectedPaths<'a>>,
}

impl PathRoots<'_> {
    /// Whether the path is in the scope. If `strictly`, protected files do not count.
    pub(crate) fn contains(&self, scope: PathScope, path: &Path, strictly: bool) -> bool {
        match scope {
            PathScope::Workspace => {
                paths::is_inside(path, self.workspace)
                    && !(strictly && self.protected.restrict(path))
            }
            PathScope::Plans => self.plans.is_some_and(|folder| path.starts_with(folder)),
            PathScope::Temporary => self.is_temporary(path),
        }
    }

    fn is_temporary(&self, path: &Path) -> bool {
        paths::is_inside(path, self.temporary) && !paths::is_inside(path, &self.not_temporary)
    }

    /// Whether a write to the path is a write outside these directories.
    pub(crate) fn are_outside(&self, path: &Path) -> bool {
        !(paths::is_inside(path, self.workspace)
            || self.is_temporary(path)
            || self.plans.is_some_and(|folder| path.starts_with(folder))
            || paths::is_stream(path))
    }
}

/// Returns the entries of temporary directories in which the workspace or the home directory is.
/// What is next to them belongs to the user.
pub(crate) fn shared_with_user<'a>(
    temporary: &[PathBuf],
    owned: impl Iterator<Item = &'a Path>,
) -> Vec<PathBuf> {
    let entry = |path: &Path| {
        temporary.iter().find_map(|folder| {
            let first = path.strip_prefix(folder).ok()?.components().next()?;
            Some(folder.join(first))
        })
    };
    owned.filter_map(entry).collect()
}

/// A glob for resolved paths.
#[derive(Debug, Clone)]
pub struct PathGlob {
    text: String,
    glob: Glob,
    /// Compiled by the first comparison; most sessions make none.
    matcher: OnceLock<GlobMatcher>,
    absolute: bool,
}

impl PathGlob {
    /// Parses a glob that is absolute, below the home directory (`~/…`), or relative to the
    /// workspace directories. `*` does not match across directories; `**` does.
    ///
    /// # Errors
    /// Returns why the glob is invalid, for display.
    pub fn parse(text: &str, home: Option<&Path>) -> Result<Self, String> {
        let whole = match text.strip_prefix("~/") {
            Some(below) => {
                let home = home.and_then(Path::to_str).ok_or("the home directory is unknown")?;
                format!("{}/{below}", globset::escape(home.trim_end_matches('/')))
            }
            None => text.strip_prefix("./").unwrap_or(text).to_owned(),
        };
        if whole.is_empty() {
            return Err("it is empty".to_owned());
        }
        if whole.split('/').any(|part| part == "..") {
            return Err(
                "`..` is not supported: paths are compared after they are resolved".to_owned()
            );
        }
        let absolute = whole.starts_with('/');
        let glob = GlobBuilder::new(&whole)
            .literal_separator(true)
            .backslash_escape(true)
            .build()
            .map_err(|error| error.kind().to_string())?;
        Ok(Self { text: text.to_owned(), glob, matcher: OnceLock::new(), absolute })
    }

    /// Returns the glob as written in the rule.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn matches(&self, path: &Path, roots: &[PathBuf]) -> bool {
        let matcher = self.matcher.get_or_init(|| self.glob.compile_matcher());
        if self.absolute {
            return matcher.is_match(path);
        }
        roots
            .iter()
            .any(|root| path.strip_prefix(root).is_ok_and(|relative| matcher.is_match(relative)))
    }
}

#[cfg(test)]
mod tests {
    use super::PathGlob;
    use std::path::{Path, PathBuf};

    #[test]
    fn globs_match_complete_paths() {
        let roots = [PathBuf::from("/w")];
        let home = Some(Path::new("/home/me [x]"));
        for (glob, path, covered) in [
            ("src/**", "/w/src/a/b.rs", true),
            ("src/**", "/w/srcs/a", false),
            ("src/**", "/v/src/a", false),
            ("./src/*.rs", "/w/src/a.rs", true),
            ("*.md", "/w/a.md", true),
            ("*.md", "/w/docs/a.md", false),
            ("**/*.md", "/w/docs/a.md", true),
            ("/data/**", "/data/x", true),
            ("/**/*.md", "/plans/x.md", true),
            ("~/notes/*", "/home/me [x]/notes/a", true),
            ("~/notes/*", "/home/me x/notes/a", false),
            ("na\u{ef}ve.txt", "/w/na\u{ef}ve.txt", true),
        ] {
            let glob = PathGlob::parse(glob, home).expect(glob);
            assert_eq!(glob.matches(Path::new(path), &roots), covered, "{glob:?} {path}");
        }
        for bad in ["", "../x", "a/../b", "[", "~/x/.."] {
            assert!(PathGlob::parse(bad, home).is_err(), "{bad}");
        }
        assert!(PathGlob::parse("~/x", None).is_err());
    }
}
