//! Union and difference of permissions.

use parallax_protocol::permissions::{FilePermissions, Permissions};

use crate::path_condition::PathRoots;
use crate::paths;

/// Returns the union of both.
pub(crate) fn union(one: &Permissions, other: &Permissions) -> Permissions {
    let contained = |paths: &[std::path::PathBuf], directories: &[std::path::PathBuf]| {
        paths.iter().filter(|path| paths::is_inside(path, directories)).cloned().collect::<Vec<_>>()
    };
    let common = |one: &[std::path::PathBuf], other: &[std::path::PathBuf]| {
        let mut paths = contained(one, other);
        for path in contained(other, one) {
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        paths
    };
    let readable = |files: &FilePermissions| [files.read.as_slice(), &files.write].concat();
    let write = common(&one.file_system.write, &other.file_system.write);
    let mut read = common(&readable(&one.file_system), &readable(&other.file_system));
    read.retain(|path| !paths::is_inside(path, &write));
    Permissions {
        network: one.network && other.network,
        host_loopback: one.host_loopback && other.host_loopback,
        file_system: FilePermissions { read, write },
        agents: one.agents && other.agents,
        repository_programs: one.repository_programs && other.repository_programs,
        caches: one.caches && other.caches,
        outside: one.outside && other.outside,
    }
}

/// Returns the wanted permissions that are neither granted nor available to every command. With
/// `readonly`, commands cannot write to the workspace.
pub(crate) fn missing_permissions(
    requested: &Permissions,
    granted: &Permissions,
    directories: &PathRoots<'_>,
    readonly: bool,
) -> Permissions {
    let mut beyond = requested.difference(granted);
    let roots = directories.workspace;
    beyond.file_system.write.retain(|path| {
        readonly
            || !paths::is_inside(path, roots)
            || directories.protected.contains(path)
            || paths::defines_hidden_files(path)
    });
    // Files that every command may read need no permission; a read permission in the result means a
    // hidden file.
    beyond
}

#[cfg(test)]
mod tests {
    use super::union;
    use parallax_protocol::permissions::{FilePermissions, Permissions};

    #[test]
    fn only_permissions_granted_by_both_apply() {
        let one = Permissions {
            network: true,
            caches: true,
            file_system: FilePermissions { read: vec!["/r".into()], write: vec!["/a".into()] },
            ..Permissions::default()
        };
        let other = Permissions {
            network: true,
            file_system: FilePermissions {
                read: vec!["/a/x".into()],
                write: vec!["/a/b".into(), "/r".into()],
            },
            ..Permissions::default()
        };
        let both = union(&one, &other);
        assert_eq!(both.descriptions().len(), union(&other, &one).descriptions().len());
        assert_eq!(both.descriptions(), ["network", "to write /a/b", "to read /r", "to read /a/x"]);
    }
}
