//! The home directories of a session, and the protected names in them and in the workspace.

use std::path::{Path, PathBuf};

use parallax_config::Config;
use parallax_files::SensitivePathIndex;
use parallax_policy_sources::home_folder;

/// Returns the protected names of workspaces, and what the protected links of the home directories
/// point to.
pub(crate) fn build_path_index(config: &Config, directory: &Path) -> SensitivePathIndex {
    let home = home_folder(config).and_then(|home| std::fs::canonicalize(home).ok());
    let mut dirs: Vec<PathBuf> = home.iter().cloned().collect();
    dirs.extend(other_homes(config, directory, &home.unwrap_or_default()));
    SensitivePathIndex::new(dirs, config.settings.respect_gemini_ignore())
}

/// Returns other home directories in which Parallax or other programs store secrets.
pub(crate) fn other_homes(config: &Config, directory: &Path, home: &Path) -> Vec<PathBuf> {
    let dirs = &config.dirs;
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    let named = ["HOME", "GEMINI_CLI_HOME"].map(|name| config.environment.process_variable(name));
    let named = named.into_iter().flatten().map(|path| directory.join(path));
    let mut others: Vec<PathBuf> =
        named.chain([dirs.user.clone()]).filter_map(|path| real(&path)).collect();
    let ours_is_elsewhere = real(&dirs.parallax) != real(&home.join(".parallax"));
    others.retain(|other| other != home);
    others.extend(ours_is_elsewhere.then(|| home.to_owned()));
    others.sort();
    others.dedup();
    others
}
