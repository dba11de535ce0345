//! Selects the files that a search reads.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};

use crate::literal_names;

/// Directories that are skipped unless `no_ignore` is set or they are named: dependencies and
/// internal files of programs.
pub(super) const EXCLUDED_FOLDERS: [&str; 5] =
    ["node_modules", "bower_components", ".svn", ".hg", "__pycache__"];

/// A glob with the semantics of ripgrep's `--glob`: without a slash it matches names in any
/// directory, with one it matches paths from the root, and a leading `!` inverts it.
#[derive(Debug)]
pub(super) struct IncludeGlob {
    matcher: GlobMatcher,
    negated: bool,
    by_name: bool,
}

impl IncludeGlob {
    /// Parses a glob for searches of a root.
    ///
    /// # Errors
    /// Returns what is wrong with the glob.
    pub(super) fn new(root: &Path, text: &str) -> Result<Self, String> {
        let (negated, glob) = match text.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let glob = glob.trim_start_matches("./");
        let by_name = !glob.contains('/');
        let mut glob = literal_names::escape_existing(root, glob.trim_start_matches('/'));
        if glob.ends_with('/') {
            glob.push_str("**");
        }
        let matcher = GlobBuilder::new(&glob)
            .literal_separator(true)
            .backslash_escape(true)
            .build()
            .map_err(|error| {
                format!("`include_pattern` `{text}` is not a glob pattern: {}", error.kind())
            })?
            .compile_matcher();
        Ok(Self { matcher, negated, by_name })
    }

    /// Whether a file is searched. `relative` is its path relative to the root.
    pub(super) fn includes(&self, relative: &Path) -> bool {
        let matches = if self.by_name {
            relative.file_name().is_some_and(|name| self.matcher.is_match(Path::new(name)))
        } else {
            self.matcher.is_match(relative)
        };
        matches != self.negated
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_like_ripgrep() {
        let admits = |glob: &str, path: &str| {
            IncludeGlob::new(Path::new("/nonexistent"), glob)
                .expect("a glob")
                .includes(Path::new(path))
        };
        assert!(admits("*.{rs,toml}", "a/b/c.toml"));
        assert!(!admits("*.rs", "a/b.rs.bak"));
        assert!(admits("src/**", "src/a/b.rs") && !admits("src/*", "src/a/b.rs"));
        assert!(admits("/src/", "src/a/b.rs") && !admits("src/**", "x/src/a.rs"));
        assert!(!admits("!*.rs", "a/b.rs") && admits("!*.rs", "a/b.c"));
        assert!(IncludeGlob::new(Path::new("/nonexistent"), "[a").is_err());
    }
}
