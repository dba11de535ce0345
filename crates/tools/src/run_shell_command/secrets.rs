//! What commands do not get to see, and what they may not change: names in the
//! user's home and in the workspace.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use parallax_protocol::protected_names;

use super::left_alone::LeftAlone;

/// Files and folders of the home that hold keys, tokens or conversations.
const OF_HOME: &[&str] = &[
    ".ssh",
    ".aws",
    ".azure",
    ".gnupg",
    ".kube",
    ".netrc",
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".docker/config.json",
    ".git-credentials",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".m2/settings.xml",
    ".terraform.d/credentials.tfrc.json",
    ".vault-token",
    ".password-store",
    ".config/gcloud",
    ".config/gh",
    ".config/glab-cli",
    ".config/git/credentials",
    ".config/hub",
    ".config/op",
    ".config/rclone",
    ".config/google-chrome",
    ".config/chromium",
    ".mozilla",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    "Library/Keychains",
    ".gemini/.env",
    ".gemini/oauth_creds.json",
    ".gemini/google_accounts.json",
    ".gemini/gemini-credentials.json",
    ".gemini/mcp-oauth-tokens.json",
    ".gemini/mcp-oauth-tokens-v2.json",
    ".gemini/a2a-oauth-tokens.json",
    ".gemini/settings.json",
    ".gemini/tmp",
    ".terraformrc",
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".psql_history",
    ".node_repl_history",
    ".env",
];

/// What of our own home is no secret; `tmp` holds the files of the session.
const OPEN_OF_OURS: &[&str] =
    &["tmp", "policies", "commands", "skills", "agents", "extensions", "GEMINI.md", "AGENTS.md"];

/// Of a home, also when it is writable: what shells and sessions read when they
/// start, beside the names that are protected everywhere.
const START_UP: &[&str] = &[
    ".config/fish",
    ".config/git",
    ".config/autostart",
    ".config/systemd",
    ".pam_environment",
    ".ssh",
];

/// Of a workspace: what other programs run or take their orders from.
pub(super) fn protected() -> impl Iterator<Item = &'static str> {
    protected_names::SETTINGS.iter().chain(protected_names::START_UP).copied()
}

/// Of a `.git`: what runs or redirects.
pub(super) const OF_GIT: &[&str] =
    &["hooks", "config", "config.worktree", "info", "commondir", "gitdir"];

/// Folders, levels and time spent looking through a workspace. What lies deeper
/// is found and put back after the command.
const FOLDERS: usize = 400;
const LEVELS: usize = 3;
const TIME: Duration = Duration::from_millis(50);
/// More places are not hidden for an ignore file: each costs a mount.
const MOST_LEFT_ALONE: usize = 256;

/// The files and folders of the homes that are hidden.
pub(super) fn of_homes(home: &Path, ours: &Path) -> Vec<PathBuf> {
    let mut hidden: Vec<PathBuf> = OF_HOME.iter().map(|name| home.join(name)).collect();
    let names = |folder: &Path| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.take(10_000).map(|entry| entry.file_name()).collect::<Vec<_>>()
    };
    hidden
        .extend(names(home).iter().filter(|name| is_secret_name(name)).map(|name| home.join(name)));
    let is_open = |name: &OsStr| OPEN_OF_OURS.iter().any(|open| name == *open);
    hidden.extend(names(ours).iter().filter(|name| !is_open(name)).map(|name| ours.join(name)));
    hidden
}

/// The start-up files of a home.
pub(super) fn start_up(home: &Path) -> Vec<PathBuf> {
    START_UP.iter().chain(protected_names::START_UP).map(|name| home.join(name)).collect()
}

/// Whether a file of this name holds secrets of a project.
pub(super) fn is_secret_name(name: &OsStr) -> bool {
    let name = name.to_string_lossy().to_lowercase();
    protected_names::is_secret_environment(&name) || name.starts_with("gha-creds-")
}

/// What is found in a workspace.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Files with secrets.
    pub(super) secrets: Vec<PathBuf>,
    /// What the user's ignore file names.
    pub(super) left_alone: Vec<PathBuf>,
    /// Protected files and folders, `.git` aside.
    pub(super) protected: Vec<PathBuf>,
    /// Repositories: each `.git`, folder or file.
    pub(super) repositories: Vec<PathBuf>,
}

/// Looks through the upper levels of the workspace. Links are not followed.
pub(super) fn find(roots: &[PathBuf], rules: Option<&LeftAlone>) -> Found {
    let end = Instant::now() + TIME;
    let mut found = Found::default();
    let mut folders: VecDeque<(PathBuf, usize)> =
        roots.iter().map(|root| (root.clone(), 0)).collect();
    let mut seen = 0;
    while let Some((folder, level)) = folders.pop_front() {
        seen += 1;
        if seen > FOLDERS || (seen > roots.len() && Instant::now() > end) {
            break;
        }
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries.flatten().take(10_000) {
            let name = entry.file_name();
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let lower = protected_names::fold(&name.to_string_lossy());
            if lower == ".git" {
                found.repositories.push(entry.path());
            } else if protected_names::is_protected(&lower) {
                found.protected.push(entry.path());
            } else if found.left_alone.len() < MOST_LEFT_ALONE
                && rules.is_some_and(|rules| rules.names(&entry.path(), is_folder))
            {
                found.left_alone.push(entry.path());
            } else if !is_folder {
                if is_secret_name(&name) {
                    found.secrets.push(entry.path());
                }
            } else if level < LEVELS && !matches!(lower.as_str(), "node_modules" | "target") {
                folders.push_back((entry.path(), level + 1));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_with_secrets_are_told_from_their_samples() {
        for name in [".env", ".env.local", ".ENV", ".env.production.local", "gha-creds-1.json"] {
            assert!(is_secret_name(OsStr::new(name)), "{name}");
        }
        for name in
            [".env.example", ".env.sample", ".env.template", ".envrc", "env", ".environment"]
        {
            assert!(!is_secret_name(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn the_upper_levels_are_looked_through_and_links_are_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        for name in
            ["a/b/.env", ".git/config", "sub/.git", "x/.vscode/settings.json", "node_modules/.env"]
        {
            let path = root.join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
            std::fs::write(path, "").expect("a file");
        }
        std::os::unix::fs::symlink(root, root.join("again")).expect("a link");
        let mut found = find(&[root.to_owned()], None);
        found.repositories.sort();
        assert!(found.left_alone.is_empty());
        std::fs::write(root.join(".geminiignore"), "a/\n").expect("a file");
        let rules = LeftAlone::of(&[root.to_owned()]);
        let kept = find(&[root.to_owned()], rules.as_ref());
        assert_eq!((kept.left_alone, kept.secrets), (vec![root.join("a")], vec![]));
        assert_eq!(found.secrets, [root.join("a/b/.env")]);
        assert_eq!(found.protected, [root.join("x/.vscode")]);
        assert_eq!(found.repositories, [root.join(".git"), root.join("sub/.git")]);
    }
}
