//! Where a path leads on this disk, also when what it names is yet to be made.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// As many links as the kernel follows.
const MOST_LINKS: usize = 40;

/// The path with all links on the way resolved, as the kernel would do it that
/// makes the file. `None` in a circle.
pub fn destination(path: &Path) -> Option<PathBuf> {
    let mut real = PathBuf::from("/");
    let mut rest: VecDeque<OsString> = names(path).collect();
    let mut links = 0;
    while let Some(name) = rest.pop_front() {
        if name == ".." {
            real.pop();
            continue;
        }
        let here = real.join(&name);
        let Ok(target) = std::fs::read_link(&here) else {
            real = here;
            continue;
        };
        links += 1;
        if links > MOST_LINKS {
            return None;
        }
        if target.is_absolute() {
            real = PathBuf::from("/");
        }
        for name in names(&target).collect::<Vec<_>>().into_iter().rev() {
            rest.push_front(name);
        }
    }
    Some(real)
}

fn names(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    })
}

/// The path by its text alone, as a judge without a disk reads it.
pub(super) fn by_text(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => drop(out.pop()),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_followed_to_what_is_not_there_yet() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("w/.git/hooks")).unwrap();
        fs::create_dir(root.join("out")).unwrap();
        symlink("../out", root.join("w/lnk")).unwrap();
        symlink(".git/hooks", root.join("w/hk")).unwrap();
        symlink(root.join("out/missing"), root.join("w/dang")).unwrap();
        symlink("round", root.join("w/round")).unwrap();
        for (path, expected) in [
            ("w/lnk/x", "out/x"),
            ("w/hk/pre-commit", "w/.git/hooks/pre-commit"),
            ("w/dang", "out/missing"),
            ("w/lnk/../x", "x"),
            ("w/new/../a", "w/a"),
            ("w/a", "w/a"),
        ] {
            assert_eq!(destination(&root.join(path)), Some(root.join(expected)), "{path}");
        }
        assert_eq!(destination(&root.join("w/round")), None);
        assert_eq!(by_text(&root.join("w/lnk/../x")), root.join("w/x"));
    }
}
