//! Paths by their text alone. No disk: where links lead is for `files` to say.

use std::path::{Component, Path, PathBuf};

/// `path` below `base` (or `path` itself when it is absolute), with `.` and `..`
/// worked out. A `..` at the root stays there, as it does on a disk.
pub fn lexical(base: &Path, path: &Path) -> PathBuf {
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
    fn dots_are_worked_out_by_text() {
        for (path, expected) in [
            ("a/./b", "/w/a/b"),
            ("a/../b", "/w/b"),
            ("../../../x", "/x"),
            ("/y/..", "/"),
            ("", "/w"),
        ] {
            assert_eq!(lexical(Path::new("/w"), Path::new(path)), Path::new(expected), "{path}");
        }
    }
}
