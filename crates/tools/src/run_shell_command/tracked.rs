//! Hidden files that git tracks. What its history shows anyhow need not be hidden
//! from git; where such a file stays hidden, git fails in words that name no
//! sandbox, or says that the file changed.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use parallax_policy::bash::{self, Line, RedirectionKind};
use parallax_sandbox::Plan;

use super::secrets::is_secret_name;

/// How long git may take to list an index, and how large the list may be.
const TIME: Duration = Duration::from_secs(5);
const LIST: u64 = 4 * 1024 * 1024;
/// More of a folder is not hidden one by one: the folder is.
const MOST: usize = 256;

/// Whether the line starts nothing but git, by calls that run no other program.
pub(super) fn is_git_alone(line: &Line) -> bool {
    let only_git = |command: &bash::Command| {
        bash::git_subcommand(command).is_some_and(|call| !call.configured)
            && bash::dangerous(command).is_none()
    };
    line.trouble.is_none()
        && !line.commands.is_empty()
        && line.commands.iter().all(only_git)
        && line.redirections.iter().all(|found| found.kind != RedirectionKind::Read)
}

/// What stays hidden from git of `hidden`, files and folders: not what it tracks,
/// but for files with a project's secrets. Blocking.
pub(super) fn left_hidden(hidden: Vec<PathBuf>) -> Vec<PathBuf> {
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
        let Some(tracked) = listed(&top, &[], &paths) else {
            left.extend(paths);
            continue;
        };
        for path in paths {
            if tracked.contains(&path) {
                // A submodule is a repository of its own.
                left.extend(Some(path).filter(|path| path.is_dir()));
            } else if tracked.iter().any(|file| file.starts_with(&path)) {
                left.extend(untracked_in(&top, path, &tracked));
            } else {
                left.push(path);
            }
        }
    }
    left
}

/// What stays hidden of a folder with tracked files: the rest of what is in it.
fn untracked_in(top: &Path, folder: PathBuf, tracked: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
    let others = listed(top, &["--others", "--directory"], std::slice::from_ref(&folder));
    let Some(others) = others.filter(|others| others.len() <= MOST) else { return vec![folder] };
    let secret =
        |path: &&PathBuf| path.starts_with(&folder) && path.file_name().is_some_and(is_secret_name);
    others.into_iter().chain(tracked.iter().filter(secret).cloned()).collect()
}

/// The hidden files that git tracks and stumbled over, or that it says changed;
/// as git names them. `shown`: the files are hidden behind others in their place,
/// which git takes for changes. Blocking.
pub(super) fn stumbled_over(
    plan: &Plan,
    line: &Line,
    directory: &Path,
    output: &str,
    shown: bool,
) -> Vec<PathBuf> {
    const TOLD: [&str; 5] = [
        "unsupported file type",
        "cannot hash ",
        "can only add regular files",
        "unable to process path ",
        "unable to index file ",
    ];
    if !plan.confine || !bash::uses_git(line) {
        return Vec::new();
    }
    let Some(top) = directory.ancestors().find(|folder| is_top(folder)) else { return Vec::new() };
    let inside: Vec<PathBuf> = plan
        .hidden
        .iter()
        .filter(|path| {
            path.starts_with(top) && path.symlink_metadata().is_ok_and(|it| it.is_file())
        })
        .cloned()
        .collect();
    let compares = shown && line.commands.iter().any(compares);
    let names = |path: &Path| {
        let from = |folder: &Path| path.strip_prefix(folder).ok().map(Path::to_path_buf);
        let names: Vec<String> = [from(top), from(directory)]
            .into_iter()
            .flatten()
            .map(|name| name.display().to_string())
            .collect();
        output.lines().any(|said| {
            let lower = said.to_lowercase();
            let told = TOLD.iter().any(|words| lower.contains(words));
            let changed = compares.then(|| changed(said)).flatten();
            names.iter().any(|name| {
                changed == Some(name)
                    || told && said.split([' ', ':', '\'']).any(|word| word == name)
            })
        })
    };
    let named: Vec<PathBuf> = inside.into_iter().filter(|path| names(path)).collect();
    if named.is_empty() {
        return named;
    }
    let tracked = listed(top, &[], &named).unwrap_or_default();
    named.into_iter().filter(|path| tracked.contains(path)).collect()
}

/// Whether the call of git compares the working folder with what it tracks.
fn compares(command: &bash::Command) -> bool {
    bash::git_subcommand(command).is_some_and(|call| {
        let comparing =
            ["status", "diff", "diff-files", "diff-index", "commit", "checkout", "switch"];
        comparing.contains(&call.name)
    })
}

/// The file that a line of `git status` or of `git diff --name-status` calls changed.
fn changed(line: &str) -> Option<&str> {
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

/// Told to the model of such files.
pub(super) fn words(files: &[PathBuf], directory: &Path) -> String {
    let shown = |path: &PathBuf| path.strip_prefix(directory).unwrap_or(path).display().to_string();
    let names: Vec<String> = files.iter().map(shown).collect();
    format!(
        "\n[The sandbox hid {}, which git tracks: git cannot read it here and may call it changed]",
        names.join(", ")
    )
}

/// The top of the working folder that the path is in.
fn repository_of(path: &Path) -> Option<PathBuf> {
    path.ancestors().skip(1).find(|folder| is_top(folder)).map(Path::to_path_buf)
}

fn is_top(folder: &Path) -> bool {
    folder.join(".git").symlink_metadata().is_ok()
}

/// What git lists of the paths, in full; `None` when it cannot.
fn listed(top: &Path, options: &[&str], paths: &[PathBuf]) -> Option<BTreeSet<PathBuf>> {
    let quiet = ["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"];
    let list = ["--literal-pathspecs", "ls-files", "-z"];
    let words = quiet.iter().chain(&list).chain(options).chain(&["--"]).map(OsString::from);
    let arguments = words.chain(paths.iter().map(|path| path.clone().into_os_string()));
    let variables = [("GIT_OPTIONAL_LOCKS", "0")];
    let listed = parallax_exec::program::output("git", arguments, top, &variables, LIST, TIME)?;
    let names = listed.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    // A folder ends in a slash.
    let full = |name: &[u8]| {
        let name = name.strip_suffix(b"/").unwrap_or(name);
        top.join(OsStr::from_bytes(name))
    };
    Some(names.map(full).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place(tempfile::TempDir);

    impl Place {
        fn new(files: &[&str]) -> Self {
            let place = Self(tempfile::tempdir().expect("a folder"));
            place.git(&["init", "-q"]);
            files.iter().for_each(|file| place.write(file));
            place.git(&["add", "-f", "-A"]);
            place
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
            let done = parallax_exec::program::output("git", line, &self.root(), &[], LIST, TIME);
            assert!(done.is_some(), "{line:?}");
        }
    }

    #[test]
    fn git_sees_what_it_tracks_and_nothing_else_that_is_hidden() {
        let place = Place::new(&["a.lock", "conf/f", "conf/.env", "conf/deep/g"]);
        for name in ["conf/new", "conf/deep/other/h", "notes/n", "b.lock"] {
            place.write(name);
        }
        let root = place.root();
        let hidden = ["a.lock", "b.lock", "conf", "notes"].map(|name| root.join(name)).to_vec();
        let mut left = left_hidden(hidden);
        left.sort();
        let expected = ["b.lock", "conf/.env", "conf/deep/other", "conf/new", "notes"];
        assert_eq!(left, expected.map(|name| root.join(name)));
        // Without a repository nothing is known.
        let alone = tempfile::tempdir().expect("a folder");
        let path = alone.path().join("a");
        assert_eq!(left_hidden(vec![path.clone()]), [path]);
    }

    #[test]
    fn lines_of_git_alone_are_told_from_others() {
        for line in ["git diff", "git stash && git pull", "git commit -am x > log"] {
            assert!(is_git_alone(&bash::analyse(line)), "{line}");
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
            assert!(!is_git_alone(&bash::analyse(line)), "{line}");
        }
    }

    #[test]
    fn what_git_stumbled_over_is_known_by_its_words() {
        let place = Place::new(&[".env", "sub/.env.local", "a"]);
        place.write(".env.other");
        let root = place.root();
        let mut plan = Plan::new(root.join("tmp"));
        plan.confine = true;
        plan.hidden = [".env", "sub/.env.local", ".env.other"].map(|name| root.join(name)).to_vec();
        let found = |line: &str, output: &str, shown: bool| {
            let found = stumbled_over(&plan, &bash::analyse(line), &root, output, shown);
            let names = found.iter().filter_map(|path| path.strip_prefix(&root).ok());
            names.map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ")
        };
        for (line, output, expected) in [
            ("git diff", "error: .env: unsupported file type\nfatal: cannot hash .env", ".env"),
            ("git stash", "fatal: Unable to process path .env", ".env"),
            ("git status -s", " M .env\n M a\n?? x", ".env"),
            ("git status", "\tmodified:   sub/.env.local\n", "sub/.env.local"),
            ("git diff --name-only", "sub/.env.local\n.env", ".env sub/.env.local"),
            // Not tracked, not compared, not git.
            ("git add -A", "error: .env.other: can only add regular files", ""),
            ("git log --name-only", ".env", ""),
            ("make", "error: .env: unsupported file type", ""),
        ] {
            assert_eq!(found(line, output, true), expected, "{line}");
        }
        assert_eq!(found("git status -s", " M .env", false), "");
    }
}
