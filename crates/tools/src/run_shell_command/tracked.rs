//! Hidden files that git tracks. A file that the history shows anyway need not be hidden from git.
//! If such a file stays hidden, git fails without mentioning the sandbox, or reports the file as
//! changed.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use parallax_policy::bash::{self, RedirectionKind, ShellLine};
use parallax_sandbox::Plan;

use super::secrets::is_secret_name;

/// Limits on listing an index: time and size.
pub(super) const TIME: Duration = Duration::from_secs(5);
pub(super) const LIST: u64 = 4 * 1024 * 1024;
/// If a directory has more entries, it is hidden as a whole.
const MAX_COUNT: usize = 256;
const MAX_SEEN: usize = 10_000;
/// Limits on comparing files with what git tracks: size and number.
const MAX_BYTES: u64 = 4 * 1024 * 1024;
const MAX_HASHED: usize = 2000;
/// Disables programs of the repository and quoting of names.
pub(super) const QUIET: &[&str] = &[
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.ignoreCase=false",
];

/// Whether the line runs only git, with subcommands that start no other program.
pub(super) fn runs_only_git(line: &ShellLine) -> bool {
    let only_git = |command: &bash::Command| {
        bash::git_subcommand(command).is_some_and(|call| !call.configured)
            && bash::danger_reason(command).is_none()
    };
    line.unanalyzable_reason.is_none()
        && !line.commands.is_empty()
        && line.commands.iter().all(only_git)
        && line.redirections.iter().all(|found| found.kind != RedirectionKind::Read)
}

/// Whether the line only removes working trees, which reveals no file contents.
pub(super) fn removes_worktrees(line: &ShellLine) -> bool {
    let removes = |command: &bash::Command| {
        let words = command.arguments().iter().map(|word| word.text.as_deref());
        let mut words = words.skip_while(|word| *word != Some("worktree")).skip(1);
        bash::git_subcommand(command).is_some_and(|call| call.name == "worktree")
            && words.next().flatten() == Some("remove")
    };
    runs_only_git(line) && line.commands.iter().all(removes)
}

/// Returns the paths of `hidden` that stay hidden from git: files that are not in its history, and
/// files with project secrets. Blocking.
pub(super) fn still_hidden(hidden: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut left = Vec::new();
    let mut repositories: Vec<(PathBuf, Vec<PathBuf>)> = Vec::new();
    for path in hidden {
        match repository_of(&path) {
            None => left.push(path),
            Some(top) => match repositories.iter_mut().find(|(other, _)| *other == top) {
                Some((_, paths)) => paths.push(path),
                None => repositories.push((top, vec![path])),
            },
        }
    }
    for (top, paths) in repositories {
        let open = unchanged_files(&top, &paths).unwrap_or_default();
        for path in paths {
            if open.contains(&path) {
                continue;
            }
            match open.iter().any(|file| file.starts_with(&path)) {
                true => left.extend(remaining_hidden(path, &open)),
                false => left.push(path),
            }
        }
    }
    left
}

/// Returns the tracked files among `paths`, and in directories among them, whose contents match the
/// index. An index entry could be forged, but its hash proves that the author knew the contents.
fn unchanged_files(top: &Path, paths: &[PathBuf]) -> Option<BTreeSet<PathBuf>> {
    let tracked = staged_files(top, paths)?;
    let files: Vec<&(String, PathBuf)> = tracked
        .iter()
        .filter(|(_, path)| !path.file_name().is_some_and(is_secret_name))
        .filter(|(_, path)| {
            path.symlink_metadata().is_ok_and(|data| data.is_file() && data.len() <= MAX_BYTES)
        })
        .take(MAX_HASHED)
        .collect();
    if files.is_empty() {
        return Some(BTreeSet::new());
    }
    // Writes nothing and runs no filter of the repository.
    let words = QUIET.iter().chain(&["hash-object", "--no-filters", "--"]).map(OsString::from);
    let arguments = words.chain(files.iter().map(|(_, path)| path.clone().into_os_string()));
    let hashes = parallax_exec::program::output("git", arguments, top, &[], LIST, TIME)?;
    let hashes = String::from_utf8(hashes).ok()?;
    if hashes.lines().count() != files.len() {
        return None;
    }
    let same = files.iter().zip(hashes.lines()).filter(|((blob, _), hash)| blob == hash);
    Some(same.map(|((_, path), _)| path.clone()).collect())
}

/// Returns what stays hidden of a directory that contains visible files: its other entries, or the
/// whole directory if there are too many.
pub(super) fn remaining_hidden(directory: PathBuf, open: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
    let mut rest = Vec::new();
    let mut directories = vec![directory.clone()];
    let mut seen = 0;
    while let Some(inner) = directories.pop() {
        let Ok(entries) = std::fs::read_dir(&inner) else { return vec![directory] };
        for entry in entries {
            let Ok(entry) = entry else { return vec![directory] };
            seen += 1;
            let path = entry.path();
            if open.contains(&path) {
                // Visible.
            } else if entry.file_type().is_ok_and(|kind| kind.is_dir())
                && open.iter().any(|file| file.starts_with(&path))
            {
                directories.push(path);
            } else {
                rest.push(path);
            }
            if seen > MAX_SEEN || rest.len() > MAX_COUNT {
                return vec![directory];
            }
        }
    }
    rest
}

/// Returns the hidden tracked files at which git failed or that it reports as changed, as git names
/// them. `is_shown`: the files are covered by placeholders, which git takes for changes. Blocking.
pub(super) fn encountered_hidden_files(
    plan: &Plan,
    line: &ShellLine,
    directory: &Path,
    output: &str,
    is_shown: bool,
) -> Vec<PathBuf> {
    const CHANGE_WORDS: [&str; 5] = [
        "unsupported file type",
        "cannot hash ",
        "can only add regular files",
        "unable to process path ",
        "unable to index file ",
    ];
    if !plan.confine || !bash::uses_git(line) {
        return Vec::new();
    }
    let Some(top) = directory.ancestors().find(|directory| is_repository_top(directory)) else {
        return Vec::new();
    };
    let inside: Vec<PathBuf> = plan
        .hidden
        .iter()
        .filter(|path| {
            path.starts_with(top)
                && path.symlink_metadata().is_ok_and(|it| it.is_file())
                && !plan.placeholders.iter().any(|it| it.path == **path)
        })
        .cloned()
        .collect();
    let compares = is_shown && line.commands.iter().any(compares_working_tree);
    let names = |path: &Path| {
        let from = |directory: &Path| path.strip_prefix(directory).ok().map(Path::to_path_buf);
        let names: Vec<String> = [from(top), from(directory)]
            .into_iter()
            .flatten()
            .map(|name| name.display().to_string())
            .collect();
        output.lines().any(|said| {
            let lower = said.to_lowercase();
            let mentions_change = CHANGE_WORDS.iter().any(|words| lower.contains(words));
            let changed = compares.then(|| parse_changed_file(said)).flatten();
            names.iter().any(|name| {
                changed == Some(name)
                    || mentions_change && said.split([' ', ':', '\'']).any(|word| word == name)
            })
        })
    };
    let named: Vec<PathBuf> = inside.into_iter().filter(|path| names(path)).collect();
    if named.is_empty() {
        return named;
    }
    let tracked = tracked_files(top, &named).unwrap_or_default();
    named.into_iter().filter(|path| tracked.contains(path)).collect()
}

/// Whether the git command compares the working tree with the index.
fn compares_working_tree(command: &bash::Command) -> bool {
    bash::git_subcommand(command).is_some_and(|call| {
        let comparing =
            ["status", "diff", "diff-files", "diff-index", "commit", "checkout", "switch"];
        comparing.contains(&call.name)
    })
}

/// Returns the file that a line of `git status` or `git diff --name-status` reports as changed.
fn parse_changed_file(line: &str) -> Option<&str> {
    let line = line.trim_end();
    for mark in ["modified:", "typechange:"] {
        if let Some(name) = line.trim_start().strip_prefix(mark) {
            return Some(name.trim_start());
        }
    }
    for mark in [" M ", " T ", "MM ", "AM ", "M\t", "T\t"] {
        if let Some(name) = line.strip_prefix(mark) {
            return Some(name);
        }
    }
    // `git diff --name-only`.
    Some(line)
}

/// Returns the note for the model about such files.
pub(super) fn note(files: &[PathBuf], directory: &Path) -> String {
    let shown = |path: &PathBuf| path.strip_prefix(directory).unwrap_or(path).display().to_string();
    let names: Vec<String> = files.iter().map(shown).collect();
    format!(
        "\n[The sandbox hid {}, which git tracks: git cannot read it here and may report it as \
         changed]",
        names.join(", ")
    )
}

/// Returns the root of the working tree that contains the path.
pub(super) fn repository_of(path: &Path) -> Option<PathBuf> {
    path.ancestors().skip(1).find(|directory| is_repository_top(directory)).map(Path::to_path_buf)
}

fn is_repository_top(directory: &Path) -> bool {
    directory.join(".git").symlink_metadata().is_ok()
}

/// Returns the tracked files among the paths, as absolute paths; `None` if git fails.
fn tracked_files(top: &Path, paths: &[PathBuf]) -> Option<BTreeSet<PathBuf>> {
    Some(staged_files(top, paths)?.into_iter().map(|(_, path)| path).collect())
}

/// Like `tracked_files`, with the blob of each file in the index. A file with a conflict has
/// several.
fn staged_files(top: &Path, paths: &[PathBuf]) -> Option<Vec<(String, PathBuf)>> {
    let list = ["--literal-pathspecs", "ls-files", "--stage", "-z", "--"];
    let words = QUIET.iter().chain(&list).map(OsString::from);
    let arguments = words.chain(paths.iter().map(|path| path.clone().into_os_string()));
    let variables = [("GIT_OPTIONAL_LOCKS", "0")];
    let listed = parallax_exec::program::output("git", arguments, top, &variables, LIST, TIME)?;
    let lines = listed.split(|byte| *byte == 0).filter(|line| !line.is_empty());
    // `MODE BLOB STAGE`, a tab, and the name.
    let parsed = lines.map(|line| {
        let tab = line.iter().position(|byte| *byte == b'\t')?;
        let (fields, name) = (line.get(..tab)?, line.get(tab + 1..)?);
        let blob = std::str::from_utf8(fields).ok()?.split(' ').nth(1)?.to_owned();
        Some((blob, top.join(OsStr::from_bytes(name))))
    });
    parsed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct TestProject(tempfile::TempDir);

    impl TestProject {
        fn new(files: &[&str]) -> Self {
            let directory = Self(tempfile::tempdir().expect("a directory"));
            directory.git(&["init", "-q"]);
            files.iter().for_each(|file| directory.write(file));
            directory.git(&["add", "-f", "-A"]);
            directory
        }

        fn root(&self) -> PathBuf {
            self.0.path().canonicalize().expect("a path")
        }

        fn write(&self, name: &str) {
            let path = self.root().join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
            std::fs::write(path, "x").expect("a file");
        }

        fn git(&self, line: &[&str]) {
            let output = parallax_exec::program::output("git", line, &self.root(), &[], LIST, TIME);
            assert!(output.is_some(), "{line:?}");
        }
    }

    #[test]
    fn git_sees_tracked_hidden_files_only() {
        let project = TestProject::new(&["a.lock", "conf/f", "conf/.env", "conf/deep/g"]);
        for name in ["conf/new", "conf/deep/other/h", "notes/n", "b.lock"] {
            project.write(name);
        }
        let root = project.root();
        let hidden = ["a.lock", "b.lock", "conf", "notes"].map(|name| root.join(name)).to_vec();
        let mut left = still_hidden(hidden);
        left.sort();
        let expected = ["b.lock", "conf/.env", "conf/deep/other", "conf/new", "notes"];
        assert_eq!(left, expected.map(|name| root.join(name)));
        // Changed, or only claimed to be tracked: the index may be forged.
        std::fs::write(root.join("a.lock"), "changed").expect("a file");
        std::fs::write(root.join("b.lock"), "hidden").expect("a file");
        let blob = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391";
        let output = |name: &str| {
            project.git(&["update-index", "--add", "--cacheinfo", "100644", blob, name])
        };
        output("b.lock");
        output("conf/new");
        let hidden = ["a.lock", "b.lock", "conf"].map(|name| root.join(name)).to_vec();
        let mut left = still_hidden(hidden);
        left.sort();
        let expected = ["a.lock", "b.lock", "conf/.env", "conf/deep/other", "conf/new"];
        assert_eq!(left, expected.map(|name| root.join(name)));
        // Without a repository, nothing is known.
        let alone = tempfile::tempdir().expect("a directory");
        let path = alone.path().join("a");
        assert_eq!(still_hidden(vec![path.clone()]), [path]);
    }

    #[test]
    fn git_only_lines_are_distinguished_from_others() {
        for line in ["git diff", "git stash && git pull", "git commit -am x > log"] {
            assert!(runs_only_git(&bash::analyze(line)), "{line}");
        }
        for (line, removes) in [
            ("git worktree remove --force x && git worktree remove y", true),
            ("git worktree list", false),
            ("git worktree remove x; git diff", false),
            ("git worktree remove x; cat x/.env", false),
        ] {
            assert_eq!(removes_worktrees(&bash::analyze(line)), removes, "{line}");
        }
        for line in [
            "git diff; cat a",
            "git log | head",
            "git -c alias.x=!cat x",
            "git hash-object --stdin < a",
            "git bisect run cat a",
            "git submodule foreach cat a",
            "git rebase -x 'cat a'",
            "git $X",
            "sh -c 'git diff'",
            "ls",
            "",
        ] {
            assert!(!runs_only_git(&bash::analyze(line)), "{line}");
        }
    }

    #[test]
    fn git_failure_on_a_hidden_file_is_recognized() {
        let project = TestProject::new(&[".env", "sub/.env.local", "a"]);
        project.write(".env.other");
        let root = project.root();
        let mut plan = Plan::new(root.join("tmp"));
        plan.confine = true;
        plan.hidden = [".env", "sub/.env.local", ".env.other"].map(|name| root.join(name)).to_vec();
        let found = |line: &str, output: &str, shown: bool| {
            let found = encountered_hidden_files(&plan, &bash::analyze(line), &root, output, shown);
            let names = found.iter().filter_map(|path| path.strip_prefix(&root).ok());
            names.map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ")
        };
        for (line, output, expected) in [
            ("git diff", "error: .env: unsupported file type\nfatal: cannot hash .env", ".env"),
            ("git stash", "fatal: Unable to process path .env", ".env"),
            ("git status -s", " M .env\n M a\n?? x", ".env"),
            ("git status", "\tmodified:   sub/.env.local\n", "sub/.env.local"),
            ("git diff --name-only", "sub/.env.local\n.env", ".env sub/.env.local"),
            // Not tracked, not compared, or not git.
            ("git add -A", "error: .env.other: can only add regular files", ""),
            ("git log --name-only", ".env", ""),
            ("make", "error: .env: unsupported file type", ""),
        ] {
            assert_eq!(found(line, output, true), expected, "{line}");
        }
        assert_eq!(found("git status -s", " M .env", false), "");
    }
}
