//! The variables with which git tells its hooks which repository they are for.

use std::ffi::OsStr;

/// Whether git reads the repository, its index, or its objects from this variable. Git sets them for
/// hooks and for the commands of `git rebase --exec`.
pub fn is_repository_variable(name: &OsStr) -> bool {
    const NAMES: &[&str] = &[
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_DIR",
        "GIT_GRAFT_FILE",
        "GIT_IMPLICIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_INTERNAL_SUPER_PREFIX",
        "GIT_NAMESPACE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_PREFIX",
        "GIT_QUARANTINE_PATH",
        "GIT_SHALLOW_FILE",
        "GIT_WORK_TREE",
    ];
    NAMES.iter().any(|other| name == *other)
}
