//! The files of extensions: manifests, the sources and hashes of installations, and the values of
//! their settings.

mod enablement;
mod integrity;
mod lock;
mod manifest;
mod metadata;
mod theme_keys;
mod values;
mod variables;

use std::path::{Path, PathBuf};

use crate::user_dirs::UserDirs;

pub(crate) use enablement::Enablement;
pub use enablement::{ExtensionScope, forget_extension_switches, switch_extension};
pub(crate) use integrity::ExtensionChanges;
pub use integrity::{fingerprint, is_executable_name};
pub use lock::{
    LockEntry, MAX_BYTES, MAX_FILES, content_hash, files_of, find_entry, is_program, lock,
    lock_kept, read_kept_lock, read_lock, stays_below,
};
pub use manifest::{ExtensionSetting, MANIFEST, Manifest, OWN_MANIFEST, is_name};
pub use metadata::{
    INSTALL_METADATA, InstallKind, InstallMetadata, extension_id, github_repository,
};
pub(crate) use values::ValueFile;
pub use values::{read_values, retain_extension_values, set_extension_value};
pub use variables::ExtensionVariables;

/// Maximum number of directories read from one extension directory.
const MAX_COUNT: usize = 500;

/// Returns the valid manifests of all installed extensions, those in `~/.parallax` last. Blocking.
pub(crate) fn installed_manifests(dirs: &UserDirs) -> Vec<Manifest> {
    let dirs = [dirs.gemini.join("extensions"), dirs.parallax.join("extensions")];
    let directories = dirs.iter().flat_map(|home| directories_in(home));
    let manifest = |installed: PathBuf| {
        let directory = match InstallMetadata::read(&installed) {
            Some(InstallMetadata { kind: InstallKind::Link, source, .. }) => PathBuf::from(source),
            _ => installed,
        };
        Manifest::read(&directory).ok()
    };
    directories.filter_map(manifest).collect()
}

/// Returns the directories of an extension directory by name, without those that start with a dot,
/// which Parallax reserves.
pub(crate) fn directories_in(home: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(home).into_iter().flatten().flatten();
    let mut directories: Vec<PathBuf> = entries
        .filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."))
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .take(MAX_COUNT)
        .collect();
    directories.sort();
    directories
}
