//! Files that commands of this user cannot change.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat, statat};

use super::confined_root::ConfinedPath;

/// Whether commands of this user can neither write the file nor replace it. `directories` caches
/// whether the contents of a directory can be replaced.
pub(super) fn is_fixed(location: &ConfinedPath, directories: &mut HashMap<PathBuf, bool>) -> bool {
    let path = location.path();
    let user = rustix::process::geteuid();
    // The owner can make a file writable.
    let can_change = |path: &Path| {
        accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).is_ok()
            || statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|stat| stat.st_uid == user.as_raw())
    };
    let Some(folder) = path.parent() else { return false };
    let open = match directories.get(folder) {
        Some(open) => *open,
        None => {
            // A directory that can be renamed can be replaced by another.
            let open = folder.ancestors().any(can_change);
            directories.insert(folder.to_path_buf(), open);
            open
        }
    };
    !open && !can_change(&path)
}
