//! Resolves paths.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// The number of links that Linux follows.
const MAX_LINKS: usize = 40;

/// Resolves every symbolic link of an absolute path, even if its last components do not exist.
/// Returns `None` if the links form a cycle.
pub fn real_path(path: &Path) -> Option<PathBuf> {
    resolve(path, |_| {})
}

/// Returns where the symbolic links in an absolute path point: each further link on the way, and
/// the resolved path, even if it does not exist. Empty without links; without the resolved path if
/// the links form a cycle.
pub fn link_targets(path: &Path) -> Vec<PathBuf> {
    let mut links = Vec::new();
    let real = resolve(path, |link| links.push(link.to_owned()));
    if links.is_empty() {
        return links;
    }
    links.retain(|link| link != path);
    links.extend(real.filter(|real| real != path));
    links
}

/// Whether no component of the path is a symbolic link, up to where it exists. `false` may also
/// mean that the kernel does not tell.
#[cfg(target_os = "linux")]
fn is_without_links(path: &Path) -> bool {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
    let is_plain = path
        .components()
        .all(|component| matches!(component, Component::RootDir | Component::Normal(_)));
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    is_plain
        && matches!(
            openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS),
            Ok(_) | Err(rustix::io::Errno::NOENT)
        )
}

#[cfg(not(target_os = "linux"))]
fn is_without_links(_: &Path) -> bool {
    false
}

/// Resolves a path, and reports each symbolic link with its parent directory resolved.
fn resolve(path: &Path, mut found: impl FnMut(&Path)) -> Option<PathBuf> {
    // One call instead of one for each component: a plan of a sandbox resolves hundreds of paths.
    if path.is_absolute() && is_without_links(path) {
        return Some(path.components().collect());
    }
    let mut real = PathBuf::from("/");
    let mut rest: VecDeque<OsString> = names(path).collect();
    let mut links = 0;
    while let Some(name) = rest.pop_front() {
        if name == ".." {
            real.pop();
            continue;
        }
        let next = real.join(&name);
        let is_link = std::fs::symlink_metadata(&next).is_ok_and(|metadata| metadata.is_symlink());
        // A link that cannot be read fails when the path is opened.
        let target = if is_link { std::fs::read_link(&next).ok() } else { None };
        let Some(target) = target else {
            real = next;
            continue;
        };
        found(&next);
        links += 1;
        if links > MAX_LINKS {
            return None;
        }
        if target.is_absolute() {
            real = PathBuf::from("/");
        }
        for name in names(&target).rev() {
            rest.push_front(name);
        }
    }
    Some(real)
}

/// Returns the components of a path, including `..`, without the root and `.`.
fn names(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn dangling_links_are_followed_to_where_they_point() {
        let directory = tempfile::tempdir().expect("a directory");
        let base = directory.path().canonicalize().expect("real");
        symlink("/nowhere/at/all", base.join("out")).expect("link");
        symlink("inner/../deep", base.join("in")).expect("link");
        symlink("loop", base.join("loop")).expect("link");
        assert_eq!(real_path(&base.join("out/x")), Some(PathBuf::from("/nowhere/at/all/x")));
        assert_eq!(real_path(&base.join("in/new")), Some(base.join("deep/new")));
        assert_eq!(real_path(&base.join("loop")), None);
        let plain = base.join("not/./there/");
        assert_eq!(real_path(&plain), Some(base.join("not/there")));
        std::fs::write(base.join("file"), "").expect("file");
        assert_eq!(real_path(&base.join("file/below")), Some(base.join("file/below")));
        assert_eq!(real_path(&base.join("out/../x")), Some(PathBuf::from("/nowhere/at/x")));
    }

    #[test]
    fn link_targets_include_every_link_and_the_final_target() {
        let directory = tempfile::tempdir().expect("a directory");
        let base = directory.path().canonicalize().expect("real");
        symlink("between/file", base.join("first")).expect("link");
        symlink("deep", base.join("between")).expect("link");
        symlink("loop", base.join("loop")).expect("link");
        let found = link_targets(&base.join("first"));
        assert_eq!(found, [base.join("between"), base.join("deep/file")]);
        assert_eq!(link_targets(&base.join("deep/file")), Vec::<PathBuf>::new());
        assert_eq!(link_targets(&base.join("loop")), Vec::<PathBuf>::new());
    }
}
