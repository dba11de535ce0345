//! The paths that permissions for commands name, with links resolved.

use std::path::{Path, PathBuf};

use parallax_protocol::permissions::Permissions;

/// Returns the path to grant, whether it exists or not, with links in its existing part resolved.
/// Never the root directory or a whole home directory.
pub(super) fn path_to_grant(path: &Path, home: &Path) -> Option<PathBuf> {
    let exists = path.ancestors().find(|path| path.symlink_metadata().is_ok())?;
    let rest = path.strip_prefix(exists).ok()?;
    let full = match rest.as_os_str().is_empty() {
        true => resolve_links(exists),
        false => resolve_links(exists).join(rest),
    };
    (!is_too_broad(&full, home)).then_some(full)
}

/// Returns the parent directories of the writable files of `requested`, for a command that must
/// create, rename, or remove files there. Returns nothing if that is not broader, or too broad.
/// Blocking.
pub(super) fn broader_permissions(requested: &Permissions, home: &Path) -> Permissions {
    let mut wide = requested.clone();
    for path in &mut wide.file_system.write {
        let directory = match path.is_dir() {
            true => None,
            false => path.ancestors().skip(1).find(|directory| directory.is_dir()),
        };
        if let Some(directory) = directory.filter(|directory| !is_too_broad(directory, home)) {
            *path = directory.to_owned();
        }
    }
    wide.file_system.write.dedup();
    match wide == *requested {
        true => Permissions::default(),
        false => wide,
    }
}

/// Whether the path is too broad to be granted.
pub(super) fn is_too_broad(path: &Path, home: &Path) -> bool {
    path.parent().is_none() || resolve_links(home).starts_with(path)
}

/// Resolves the links of the existing part of the path.
pub(super) fn resolve_links(path: &Path) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    match (path.parent().and_then(|directory| directory.canonicalize().ok()), path.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broader_permissions_offer_the_parent_directory_separately() {
        use parallax_protocol::permissions::FilePermissions;

        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        let (home, tmp) = (top.join("home"), top.join("tmp"));
        std::fs::create_dir_all(&home).unwrap();
        std::fs::create_dir_all(&tmp).unwrap();
        let file = tmp.join("aa/bb/c.txt");
        assert_eq!(path_to_grant(&file, &home), Some(file.clone()));
        assert_eq!(path_to_grant(Path::new("/"), &home), None);
        assert_eq!(path_to_grant(&top, &home), None);
        let write = |path: &Path| Permissions {
            file_system: FilePermissions { read: Vec::new(), write: vec![path.to_owned()] },
            ..Permissions::default()
        };
        assert_eq!(broader_permissions(&write(&file), &home), write(&tmp));
        // The parent of a directory is not granted, and a home directory is too broad.
        assert!(broader_permissions(&write(&tmp), &home).is_empty());
        assert!(broader_permissions(&write(&home.join("x")), &home).is_empty());
    }
}
