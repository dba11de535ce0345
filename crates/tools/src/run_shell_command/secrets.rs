//! The names in the home directory and the workspace that are hidden from commands or protected
//! from changes.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use parallax_files::real_path;
use parallax_protocol::protected_names;

/// Parts of `~/.parallax` that are not secret.
const OPEN_OF_OURS: &[&str] =
    &["policies", "commands", "skills", "agents", "extensions", "GEMINI.md", "AGENTS.md"];

/// Returns the hidden files and directories of the user's home directories.
pub(super) fn hidden_home_paths(home: &Path, ours: &Path) -> Vec<PathBuf> {
    let mut hidden: Vec<PathBuf> =
        protected_names::SECRETS_OF_HOME.iter().map(|name| home.join(name)).collect();
    let names = |directory: &Path| {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        entries.take(10_000).map(|entry| entry.file_name()).collect::<Vec<_>>()
    };
    hidden
        .extend(names(home).iter().filter(|name| is_secret_name(name)).map(|name| home.join(name)));
    let is_open = |name: &OsStr| OPEN_OF_OURS.iter().any(|open| name == *open);
    hidden.extend(names(ours).iter().filter(|name| !is_open(name)).map(|name| ours.join(name)));
    hidden
}

/// Returns the session directory that contains `temporary` (`tmp/<project>/<session>` in
/// `~/.parallax`), the only part of `tmp` that commands see.
pub(super) fn session_directory<'a>(temporary: &'a Path, ours: &Path) -> &'a Path {
    let depth =
        temporary.strip_prefix(ours.join("tmp")).map_or(0, |relative| relative.iter().count());
    temporary.ancestors().nth(depth.saturating_sub(2)).unwrap_or(temporary)
}

/// Returns the directories of a home directory that contain hidden paths: the home directory itself
/// and the directories on the way to them.
pub(super) fn directories_with_hidden<'a>(
    home: &'a Path,
    hidden: &'a [PathBuf],
) -> impl Iterator<Item = PathBuf> + 'a {
    let inside = hidden.iter().filter(move |path| path.starts_with(home) && *path != home);
    let ancestors = inside.flat_map(|path| path.ancestors().skip(1));
    ancestors.filter(move |path| path.starts_with(home)).map(Path::to_path_buf)
}

/// Adds the targets of hidden links and of paths through links, and removes links to what may be
/// read, and to whole workspace directories: a link and its target are one secret.
pub(super) fn add_targets(hidden: &mut Vec<PathBuf>, readable: &[PathBuf], roots: &[PathBuf]) {
    let known: HashSet<PathBuf> = hidden.iter().cloned().collect();
    let mut targets = Vec::new();
    hidden.retain(|path| match real_path(path).filter(|real| real != path) {
        Some(real) if readable.contains(&real) || roots.contains(&real) => false,
        Some(real) => {
            targets.extend((!known.contains(&real)).then_some(real));
            true
        }
        None => true,
    });
    hidden.extend(targets);
}

/// System directories, where only an administrator can replace files.
const OF_SYSTEM: [&str; 12] = [
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/nix", "/proc", "/sbin", "/sys", "/usr",
    "/var",
];

/// Returns the directories of hidden paths outside the home directories.
pub(super) fn parents_outside_homes(hidden: &[PathBuf], dirs: &[&PathBuf]) -> Vec<PathBuf> {
    let is_of_home = |path: &Path| dirs.iter().any(|home| path.starts_with(home));
    let is_of_system = |path: &Path| OF_SYSTEM.iter().any(|top| path.starts_with(top));
    let parents = hidden.iter().filter(|path| !is_of_home(path)).filter_map(|path| path.parent());
    let parents = parents.filter(|path| path.parent().is_some() && !is_of_system(path));
    parents.map(Path::to_path_buf).collect()
}

/// Returns the shell startup files of a home directory.
pub(super) fn start_up(home: &Path) -> Vec<PathBuf> {
    protected_names::START_UP.patterns.iter().map(|name| home.join(name)).collect()
}

/// Whether a file with this name holds secrets of a project.
pub(super) fn is_secret_name(name: &OsStr) -> bool {
    protected_names::is_secret_of_project(&name.to_string_lossy())
}

/// Names of environment files that the user may create while a process left behind by a command
/// still runs: that process must not read them either.
const LATER: &[&str] = &[
    ".env",
    ".env.local",
    ".env.development",
    ".env.development.local",
    ".env.production",
    ".env.production.local",
    ".env.staging",
    ".env.test",
    ".env.test.local",
];

/// Returns the environment files that do not exist yet in these directories.
pub(super) fn possible_environment_files(roots: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
    let paths = roots.iter().flat_map(|root| LATER.iter().map(|name| root.join(name)));
    paths.filter(|path| path.symlink_metadata().is_err())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_directory_is_below_its_project() {
        let ours = Path::new("/h/.parallax");
        for (temporary, folder) in [
            ("/h/.parallax/tmp/p/s/sandbox", "/h/.parallax/tmp/p/s"),
            ("/h/.parallax/tmp/p/s", "/h/.parallax/tmp/p/s"),
            ("/h/.parallax/tmp/p", "/h/.parallax/tmp/p"),
            ("/tmp/parallax-s/sandbox", "/tmp/parallax-s/sandbox"),
        ] {
            assert_eq!(session_directory(Path::new(temporary), ours), Path::new(folder));
        }
    }

    #[test]
    fn targets_of_hidden_links_are_hidden_with_their_directories() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().canonicalize().unwrap().join("home");
        let away = home.with_file_name("away");
        for path in [home.join("dots/docker"), away.clone()] {
            std::fs::create_dir_all(path).unwrap();
        }
        for path in [home.join("dots/npmrc"), away.join("netrc"), home.join("dots/read")] {
            std::fs::write(path, "").unwrap();
        }
        let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, home.join(name)).unwrap();
        link("dots/npmrc", ".npmrc");
        link("dots/docker", ".docker");
        link("../away/netrc", ".netrc");
        link("dots/read", ".pypirc");
        link("dots/none", ".vault-token");
        link("dots/work", ".aws");
        let names =
            [".npmrc", ".docker/config.json", ".netrc", ".pypirc", ".vault-token", ".ssh", ".aws"];
        let mut hidden: Vec<PathBuf> = names.map(|name| home.join(name)).into();
        add_targets(&mut hidden, &[home.join("dots/read")], &[home.join("dots/work")]);
        let added = ["dots/npmrc", "dots/docker/config.json", "../away/netrc", "dots/none"];
        let added: Vec<PathBuf> = added
            .iter()
            .map(|name| match name.strip_prefix("../away/") {
                Some(name) => away.join(name),
                None => home.join(name),
            })
            .collect();
        assert_eq!(hidden.get(5..), Some(added.as_slice()));
        assert!(!hidden.contains(&home.join(".pypirc")) && !hidden.contains(&home.join(".aws")));
        assert_eq!(parents_outside_homes(&hidden, &[&home]), [away]);
        for hidden in ["/key", "/etc/key", "/proc/1/x"] {
            assert!(parents_outside_homes(&[hidden.into()], &[]).is_empty(), "{hidden}");
        }
        let mut filtered: Vec<PathBuf> = directories_with_hidden(&home, &hidden).collect();
        filtered.sort();
        filtered.dedup();
        let expected = ["", ".docker", "dots", "dots/docker"].map(|name| home.join(name));
        assert_eq!(filtered, expected);
    }

    #[test]
    fn secret_files_are_distinguished_from_samples() {
        for name in [
            ".env",
            ".env.local",
            ".ENV",
            ".env.production.local",
            ".env-prod",
            ".envrc",
            "gha-creds-1.json",
        ] {
            assert!(is_secret_name(OsStr::new(name)), "{name}");
        }
        for name in
            [".env.example", ".env-sample", ".envrc.template", ".env.local.dist", "env", "x.env"]
        {
            assert!(!is_secret_name(OsStr::new(name)), "{name}");
        }
    }
}
