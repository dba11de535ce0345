//! Predicts which protected files git would change in the working tree. Git reports a denied file
//! only after writing the others, and a retry then fails because of these.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use parallax_policy::bash::{self, Command, ShellLine};
use parallax_protocol::protected_links::FindLinkTargets;
use parallax_protocol::protected_names::{folded_names, protection};

use super::git_tree_moves::moves_tree_unpredictably;
use super::granted_paths;
use super::tracked::{LIST, QUIET, TIME};

/// Limits: revisions compared, and paths in one approval request.
const MAX_COUNT: usize = 8;

/// The files that the git commands of a line would change in a working tree.
pub(super) struct ChangedFiles {
    /// The top directory of the working tree.
    top: PathBuf,
    files: Vec<PathBuf>,
    /// Whether others may change, too.
    are_more_possible: bool,
}

impl ChangedFiles {
    /// Determines the files for the working tree around `directory`. Blocking.
    pub(super) fn of(line: &ShellLine, directory: &Path) -> Option<Self> {
        let top = directory.ancestors().find(|directory| directory.join(".git").exists())?;
        let mut files = Vec::new();
        let are_more_possible = line.commands.iter().any(moves_tree_unpredictably);
        for command in &line.commands {
            let Some(call) =
                bash::git_subcommand(command).filter(|call| !call.selects_other_repository)
            else {
                continue;
            };
            let words: Vec<&str> =
                call.words.iter().filter_map(|word| word.text.as_deref()).collect();
            match (call.name, words.first().copied()) {
                ("submodule", Some("add" | "set-url" | "set-branch")) => {
                    files.push(top.join(".gitmodules"));
                }
                ("lfs", Some("track" | "untrack")) => files.push(directory.join(".gitattributes")),
                _ => {
                    let changed = pairs(call.name, &words).into_iter().take(MAX_COUNT);
                    files.extend(changed.flat_map(|(old, new)| changed_files(top, &old, &new)));
                }
            }
        }
        (are_more_possible || !files.is_empty()).then(|| Self {
            top: top.to_owned(),
            files,
            are_more_possible,
        })
    }

    /// Returns the protected files and directories below `roots` among them, including what
    /// protected links point to. Blocking.
    pub(super) fn protected(&self, roots: &[PathBuf], links: &dyn FindLinkTargets) -> Vec<PathBuf> {
        let linked = links.link_targets(roots);
        let protected = |path: &PathBuf| {
            protected_part(path, roots).or_else(|| linked.containing_target(path).cloned())
        };
        let mut found: Vec<PathBuf> = Vec::new();
        for path in self.files.iter().filter_map(protected) {
            if !found.contains(&path) && found.len() < MAX_COUNT {
                found.push(path);
            }
        }
        found
    }

    /// Returns the top directory if files outside of `roots` would or may change, as in a session
    /// in a directory of a larger repository. Git would change the others, report success, and the
    /// next commit would undo what could not be written.
    pub(super) fn changed_directory_outside(
        &self,
        roots: &[PathBuf],
        home: &Path,
    ) -> Option<PathBuf> {
        let is_outside = |path: &PathBuf| !roots.iter().any(|root| path.starts_with(root));
        let may_be_outside = self.are_more_possible && is_outside(&self.top);
        (may_be_outside || self.files.iter().any(is_outside))
            .then(|| granted_paths::path_to_grant(&self.top, home))?
    }
}

/// Whether the line runs only git, which creates the files that it may write itself and fails if an
/// empty file is already there.
pub(super) fn creates_own_files(line: &ShellLine) -> bool {
    let is_git = |command: &Command| command.name() == Some("git");
    line.unanalyzable_reason.is_none()
        && !line.commands.is_empty()
        && line.commands.iter().all(is_git)
}

/// Returns the pairs of revisions between which the command moves the working tree.
fn pairs(name: &str, words: &[&str]) -> Vec<(String, String)> {
    let operands: Vec<&str> = words
        .iter()
        .copied()
        .take_while(|word| *word != "--")
        .filter(|word| is_revision(word))
        .collect();
    let from_head = |revision: &str| ("HEAD".to_owned(), revision.to_owned());
    let commit_range = |commit: &str| (format!("{commit}^"), commit.to_owned());
    match name {
        "checkout" | "switch" if words.first() == Some(&"-") => vec![from_head("@{-1}")],
        "checkout" | "switch" | "reset" | "read-tree" | "restore" => {
            let sources = words.iter().filter_map(|word| word.strip_prefix("--source="));
            operands.iter().copied().chain(sources).map(from_head).collect()
        }
        "merge" | "rebase" | "pull" => {
            let tracking = operands.windows(2).map(|pair| pair.join("/"));
            let named = operands.iter().map(|word| (*word).to_owned()).chain(tracking);
            named.chain(["@{u}".to_owned()]).map(|revision| from_head(&revision)).collect()
        }
        "cherry-pick" | "revert" => operands.iter().copied().map(commit_range).collect(),
        "stash" if matches!(words.first(), Some(&("pop" | "apply" | "branch"))) => {
            let entry = operands.get(1).map_or("stash@{0}".to_owned(), |entry| {
                match entry.parse::<u32>() {
                    Ok(number) => format!("stash@{{{number}}}"),
                    Err(_) => (*entry).to_owned(),
                }
            });
            vec![commit_range(&entry), (format!("{entry}^"), format!("{entry}^3"))]
        }
        _ => Vec::new(),
    }
}

fn is_revision(word: &str) -> bool {
    !word.is_empty() && !word.starts_with('-')
}

/// Returns the files that differ between two revisions; empty if one is not a revision. A commit
/// without a parent adds all its files.
fn changed_files(top: &Path, old: &str, new: &str) -> Vec<PathBuf> {
    let has_no_parent = old.strip_suffix('^') == Some(new);
    let listed = differing_names(top, &[], &[old, new]).or_else(|| {
        has_no_parent.then(|| differing_names(top, &["--root", "--no-commit-id"], &[new]))?
    });
    let listed = listed.unwrap_or_default();
    let names = listed.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    names.map(|name| top.join(OsStr::from_bytes(name))).collect()
}

/// Compares trees only: no filter, driver, or helper of the repository runs.
fn differing_names(top: &Path, options: &[&str], revisions: &[&str]) -> Option<Vec<u8>> {
    let compare = ["diff-tree", "-r", "-z", "--name-only", "--no-renames"];
    let words = QUIET.iter().copied().chain(compare).chain(options.iter().copied());
    let words = words.chain(["--end-of-options"]).chain(revisions.iter().copied()).chain(["--"]);
    let variables = [("GIT_OPTIONAL_LOCKS", "0"), ("GIT_NO_LAZY_FETCH", "1")];
    parallax_exec::program::output("git", words, top, &variables, LIST, TIME)
}

/// Returns the first protected file or directory on the path.
pub(super) fn protected_part(path: &Path, roots: &[PathBuf]) -> Option<PathBuf> {
    let root = roots.iter().filter(|root| path.starts_with(root));
    let root = root.max_by_key(|root| root.as_os_str().len())?;
    let relative = path.strip_prefix(root).ok()?;
    let names = folded_names(relative);
    let count = (1..=names.len())
        .find(|count| names.get(..*count).is_some_and(|names| protection(names).is_some()))?;
    Some(root.join(relative.iter().take(count).collect::<PathBuf>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    use parallax_files::SensitivePathIndex;

    #[test]
    fn protected_files_that_git_would_write_are_found_before_it_runs() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().canonicalize().expect("a path");
        let git = |line: &str| {
            let identity = ["-c", "user.name=A", "-c", "user.email=a@b"];
            let words = identity.into_iter().chain(line.split(' '));
            let output = parallax_exec::program::output("git", words, &root, &[], LIST, TIME);
            assert!(output.is_some(), "{line}");
        };
        let write = |name: &str, text: &str| {
            let path = root.join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
            std::fs::write(path, text).expect("a file");
        };
        git("init -q -b main");
        write("sub/.gitattributes", "* text\n");
        write("a", "one");
        write("conf/rc", "one");
        std::os::unix::fs::symlink("conf/rc", root.join(".envrc")).expect("a link");
        git("add .");
        git("commit -qm one");
        git("checkout -qb other");
        write("sub/.gitattributes", "* binary\n");
        write(".github/workflows/ci.yml", "x");
        write(".github/CODEOWNERS", "x");
        write("a", "two");
        git("add .");
        git("commit -qm two");
        git("checkout -qb plain main");
        write("a", "three");
        write("conf/rc", "two");
        git("add .");
        git("commit -qm three");
        git("checkout -q main");
        write("sub/.gitattributes", "* eol=lf\n");
        git("stash -q");
        let found = |line: &str| {
            let links = SensitivePathIndex::default();
            let changed = ChangedFiles::of(&bash::analyze(line), &root);
            let found = changed
                .map(|changed| changed.protected(std::slice::from_ref(&root), &links))
                .unwrap_or_default();
            let mut names: Vec<String> = found
                .iter()
                .filter_map(|path| path.strip_prefix(&root).ok())
                .map(|path| path.display().to_string())
                .collect();
            names.sort();
            names.join(" ")
        };
        let both = ".github/workflows sub/.gitattributes";
        for (line, expected) in [
            ("git checkout other", both),
            ("git fetch && git merge --no-edit other", both),
            ("git switch --detach other", both),
            ("git rebase other", both),
            ("git reset --hard other", both),
            ("git cherry-pick other", both),
            ("git restore --source=other .", both),
            ("git checkout plain", "conf/rc"),
            ("git checkout -b new", ""),
            ("git checkout other-not-there; git status", ""),
            ("git stash pop", "sub/.gitattributes"),
            ("git stash apply 0", "sub/.gitattributes"),
            ("git stash", ""),
            ("git submodule add https://example.com/x x", ".gitmodules"),
            ("git log other", ""),
            ("git merge --output=x", ""),
        ] {
            assert_eq!(found(line), expected, "{line}");
        }
        let package = root.join("sub");
        let outside = |line: &str, home: &Path| {
            let changed = ChangedFiles::of(&bash::analyze(line), &package);
            changed.and_then(|changed| {
                changed.changed_directory_outside(std::slice::from_ref(&package), home)
            })
        };
        let home = Path::new("/nonexistent");
        assert_eq!(outside("git checkout other", home).as_ref(), Some(&root));
        assert_eq!(outside("git stash pop", home), None, "only a file of the package");
        assert_eq!(outside("git checkout -b new", home), None);
        assert_eq!(outside("git revert --no-edit main", home).as_ref(), Some(&root), "the root");
        assert_eq!(outside("git checkout $BRANCH", home).as_ref(), Some(&root));
        assert_eq!(outside("git commit -m \"$MESSAGE\"", home), None);
        assert_eq!(outside("git checkout other", &root), None, "a whole home directory");
    }
}
