//! Lexical path operations. They do not access the disk; `files` resolves links.

use std::path::{Component, Path, PathBuf};

/// Joins `path` to `base` (or uses `path` alone if it is absolute) and resolves `.` and `..`
/// lexically. A `..` at the root stays at the root, as on disk.
pub fn join_lexically(base: &Path, path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for component in base.join(path).components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dot_components_are_resolved_lexically() {
        for (path, expected) in [
            ("a/./b", "/w/a/b"),
            ("a/../b", "/w/b"),
            ("../../../x", "/x"),
            ("/y/..", "/"),
            ("", "/w"),
        ] {
            assert_eq!(
                join_lexically(Path::new("/w"), Path::new(path)),
                Path::new(expected),
                "{path}"
            );
        }
    }
}
