//! Tips and news at the start of a session.

use std::path::Path;

use parallax_files::git_files;
use parallax_sdk::SessionConfig;

/// Maximum number of tips.
const MAX_COUNT: usize = 3;
/// Maximum number of lines about a new version.
const NEWS: usize = 3;
/// The file with the last version that ran.
const LAST_VERSION: &str = "last-version";
const CHANGELOG: &str = include_str!("../../../CHANGELOG.md");

/// Returns up to three tips for this project. Checks a few file names.
pub(crate) fn tips(launch: &SessionConfig) -> Vec<String> {
    let directory = &launch.options().directory;
    let mut tips = Vec::new();
    if !launch.is_trusted() {
        let tip = "Not trusted: nothing in this directory is read as instructions. \
                   Run /permissions trust to trust it";
        tips.push(tip.to_owned());
    } else if !context_file_names(launch).iter().any(|name| directory.join(name).is_file()) {
        tips.push("/init writes a GEMINI.md, which tells the agent about this project".to_owned());
    }
    tips.extend(git_tip(directory).map(str::to_owned));
    tips.truncate(MAX_COUNT);
    tips
}

/// Returns a tip about the state of the repository, read from the names in its git directory.
fn git_tip(directory: &Path) -> Option<&'static str> {
    let Some(top) = directory.ancestors().find(|directory| directory.join(".git").exists()) else {
        return Some("Not a git repository: /undo reverts the agent's changes");
    };
    let git = git_files::git_directory(top)?;
    let unfinished = [
        ("rebase-merge", "A git rebase is unfinished: ask the agent to continue or abort it"),
        ("rebase-apply", "A git rebase is unfinished: ask the agent to continue or abort it"),
        ("MERGE_HEAD", "A git merge is unfinished: ask the agent to resolve its conflicts"),
        ("CHERRY_PICK_HEAD", "A git cherry-pick is unfinished: ask the agent to continue it"),
        ("REVERT_HEAD", "A git revert is unfinished: ask the agent to continue it"),
        ("BISECT_LOG", "A git bisect is unfinished: `git bisect reset` ends it"),
    ];
    let found = unfinished.iter().find(|(name, _)| git.join(name).exists());
    found.map(|(_, tip)| *tip).or_else(|| {
        let head = git_files::read_git_file(&git.join("HEAD"))?;
        (!head.starts_with("ref:"))
            .then_some("Detached HEAD: create a branch before the agent commits")
    })
}

/// Returns the names of context files, such as `GEMINI.md`.
fn context_file_names(launch: &SessionConfig) -> Vec<String> {
    let names = launch.config().settings.list("context.fileName");
    if names.is_empty() { vec!["GEMINI.md".to_owned(), "AGENTS.md".to_owned()] } else { names }
}

/// After an update, returns a title and a few lines about what is new. Saves the running
/// version. Blocking.
pub(crate) fn update_notes(launch: &SessionConfig) -> Option<(String, Vec<String>)> {
    let version = launch.options().version;
    let file = launch.config().dirs.parallax.join(LAST_VERSION);
    let before = std::fs::read_to_string(&file).unwrap_or_default();
    let before = before.trim();
    if before == version {
        return None;
    }
    remember(&file, version);
    // There is no news at the very first start.
    let is_update = numbers(before).is_some_and(|before| Some(before) < numbers(version));
    is_update
        .then(|| (format!("Updated from {before} to {version}"), release_notes(CHANGELOG, version)))
}

/// Returns the numbers of a version such as `1.2.3-rc.1`, the end of which is ignored.
fn numbers(version: &str) -> Option<[u64; 3]> {
    let core = version.split(['-', '+']).next()?;
    let numbers: Vec<u64> = core.split('.').map(str::parse).collect::<Result<_, _>>().ok()?;
    numbers.try_into().ok()
}

/// Saves the running version. If this fails, the news is shown again.
fn remember(file: &Path, version: &str) {
    let _ = parallax_config::rewrite_file(file, |_| Ok(format!("{version}\n")));
}

/// Returns the first lines about a version, or about unreleased changes.
fn release_notes(changelog: &str, version: &str) -> Vec<String> {
    let section = |title: &str| {
        let start = changelog.find(&format!("## [{title}]"))?;
        let text = changelog.get(start..)?.split_once('\n')?.1;
        Some(text.split("\n## ").next().unwrap_or(text))
    };
    let text = section(version).or_else(|| section("Unreleased")).unwrap_or_default();
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("- "), lines.last_mut()) {
            (Some(item), _) => lines.push(item.replace("**", "")),
            (None, Some(item)) if line.starts_with("  ") => {
                item.push(' ');
                item.push_str(line.trim());
            }
            _ => {}
        }
    }
    lines.truncate(NEWS);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_newer_versions_are_updates() {
        let is_update = |before: &str, now: &str| {
            numbers(before).is_some_and(|before| Some(before) < numbers(now))
        };
        assert!(is_update("0.1.0", "0.2.0") && is_update("0.9.9", "0.10.0-rc.1"));
        for before in ["0.2.0", "9.9.9", "", "\u{1b}[31m", "1.2", "x.y.z"] {
            assert!(!is_update(before, "0.2.0"), "{before}");
        }
    }

    #[test]
    fn unfinished_git_work_is_a_tip() {
        let directory = tempfile::tempdir().expect("a directory");
        let git = directory.path().join(".git");
        let tip = || git_tip(directory.path()).unwrap_or_default();
        assert!(tip().starts_with("Not a git repository"));
        std::fs::create_dir(&git).expect("a directory");
        std::fs::write(git.join("HEAD"), "ref: refs/heads/main\n").expect("a file");
        assert_eq!(tip(), "");
        std::fs::write(git.join("HEAD"), "0123456789\n").expect("a file");
        assert!(tip().starts_with("Detached HEAD"), "{}", tip());
        std::fs::write(git.join("MERGE_HEAD"), "").expect("a file");
        assert!(tip().starts_with("A git merge"), "{}", tip());
    }

    #[test]
    fn release_notes_are_the_first_lines_of_the_version() {
        let changelog = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- Not yet.\n\n## [1.2.0] - \
                         2026-01-01\n\n### Added\n\n- **One**: of\n  two lines.\n- Two.\n- Three.\n- \
                         Four.\n\n## [1.1.0]\n\n- Old.\n";
        assert_eq!(release_notes(changelog, "1.2.0"), ["One: of two lines.", "Two.", "Three."]);
        assert_eq!(release_notes(changelog, "1.3.0"), ["Not yet."]);
        assert_eq!(release_notes("", "1.3.0"), Vec::<String>::new());
        assert!(!release_notes(CHANGELOG, env!("CARGO_PKG_VERSION")).is_empty());
    }
}
