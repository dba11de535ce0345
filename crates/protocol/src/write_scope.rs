//! What a program could have written.

use std::path::{Path, PathBuf};

/// What a program could have written. A change that it could not have made is attributed to another
/// program. Without closed paths, it could have written anything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WriteScope {
    /// Files and directories that were read-only for it and could not be replaced.
    pub read_only: Vec<PathBuf>,
    /// Files and directories that were writable, including inside the closed ones.
    pub open: Vec<PathBuf>,
}

impl WriteScope {
    /// Whether the program could have written, created, or removed this path. The deepest enclosing
    /// path decides.
    pub fn contains(&self, path: &Path) -> bool {
        let depth = |paths: &[PathBuf]| {
            let containing = paths.iter().filter(|containing| path.starts_with(containing));
            containing.map(|around| around.components().count()).max()
        };
        match depth(&self.read_only) {
            Some(closed) => depth(&self.open).is_some_and(|open| open > closed),
            None => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deepest_path_decides_the_write_scope() {
        let write_scope = WriteScope {
            read_only: vec!["/".into(), "/w/.git".into(), "/w/open".into()],
            open: vec!["/w".into(), "/w/.git/objects".into(), "/w/open".into()],
        };
        for (path, holds) in [
            ("/w/a", true),
            ("/w/.git/config", false),
            ("/w/.git", false),
            ("/w/.git/objects/1", true),
            ("/w/.gitignore", true),
            ("/w/open/a", false),
            ("/etc/a", false),
        ] {
            assert_eq!(write_scope.contains(Path::new(path)), holds, "{path}");
        }
        assert!(WriteScope::default().contains(Path::new("/etc/a")));
    }
}
