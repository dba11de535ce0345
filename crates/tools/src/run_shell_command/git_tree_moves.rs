//! Recognizes git commands that may change files anywhere in the working tree without saying which.

use parallax_policy::bash::{self, Command, Word};

/// Subcommands that change no file of the working tree, or only those that their operands name.
const STATIONARY: [&str; 73] = [
    "add",
    "annotate",
    "archive",
    "blame",
    "branch",
    "bundle",
    "cat-file",
    "check-attr",
    "check-ignore",
    "cherry",
    "clean",
    "clone",
    "commit",
    "commit-tree",
    "config",
    "count-objects",
    "credential",
    "describe",
    "diff",
    "diff-files",
    "diff-index",
    "diff-tree",
    "difftool",
    "fetch",
    "for-each-ref",
    "format-patch",
    "fsck",
    "gc",
    "grep",
    "hash-object",
    "help",
    "init",
    "interpret-trailers",
    "lfs",
    "log",
    "ls-files",
    "ls-remote",
    "ls-tree",
    "maintenance",
    "merge-base",
    "merge-file",
    "merge-tree",
    "mktree",
    "mv",
    "name-rev",
    "notes",
    "pack-refs",
    "prune",
    "push",
    "range-diff",
    "reflog",
    "remote",
    "repack",
    "replace",
    "request-pull",
    "rev-list",
    "rev-parse",
    "rm",
    "shortlog",
    "show",
    "show-branch",
    "show-ref",
    "status",
    "submodule",
    "symbolic-ref",
    "tag",
    "update-index",
    "update-ref",
    "var",
    "verify-commit",
    "verify-tag",
    "version",
    "worktree",
];
/// Subcommands whose effect depends on what they fetch, read, or did before.
const UNKNOWN_EFFECT: [&str; 5] = ["am", "bisect", "checkout-index", "pull", "sparse-checkout"];
/// Subcommands that move the working tree to the revisions that their operands name.
const MOVING: [&str; 9] = [
    "checkout",
    "switch",
    "reset",
    "restore",
    "read-tree",
    "merge",
    "rebase",
    "cherry-pick",
    "revert",
];

/// Whether the command may change files of the working tree that its words do not determine: its
/// operands are known only at run time, it works from another directory, or it continues earlier
/// work.
pub(super) fn moves_tree_unpredictably(command: &Command) -> bool {
    if command.name() != Some("git") {
        return starts_tree_move(command.arguments());
    }
    // The subcommand is known only at run time.
    let Some(call) = bash::git_subcommand(command) else { return true };
    let words = || call.words.iter();
    let is_plain = |word: &Word| word.text.is_some() && !word.glob;
    match call.name {
        name if STATIONARY.contains(&name) => false,
        // An alias or a program of the user moves whatever it likes.
        name if UNKNOWN_EFFECT.contains(&name) || !(MOVING.contains(&name) || name == "stash") => {
            !words().any(|word| matches!(word.text.as_deref(), Some("list" | "log" | "--help")))
        }
        "stash"
            if !words().next().is_some_and(|word| {
                matches!(word.text.as_deref(), Some("pop" | "apply" | "branch"))
            }) =>
        {
            false
        }
        _ => {
            call.selects_other_repository
                || !words().all(is_plain)
                || words().filter_map(|word| word.text.as_deref()).any(|word| {
                    word.contains("..")
                        || matches!(word, "--continue" | "--abort" | "--skip" | "--quit")
                })
        }
    }
}

/// Whether the words of another program, such as `xargs`, start git with such a subcommand.
fn starts_tree_move(words: &[Word]) -> bool {
    words.windows(2).any(|pair| {
        let [program, name] = pair else { return false };
        let name = name.text.as_deref().unwrap_or_default();
        program.text.as_deref() == Some("git")
            && (MOVING.contains(&name) || UNKNOWN_EFFECT.contains(&name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_with_undetermined_words_are_recognized() {
        for (line, expected) in [
            ("git checkout other", false),
            ("git checkout -b new", false),
            ("git checkout -- a b", false),
            ("git add -A && git commit -m 'a..b'", false),
            ("git log a..b; git diff $X", false),
            ("git stash; git stash list", false),
            ("git push origin $B", false),
            ("git -C ../.. status", false),
            ("git bisect log", false),
            ("git -C ../.. checkout other", true),
            ("git --work-tree=../.. --git-dir=../../.git checkout other", true),
            ("B=other; git checkout $B", true),
            ("git checkout \"$(git rev-parse x)\"", true),
            ("for b in other; do git checkout $b; done", true),
            ("echo other | xargs git checkout", true),
            ("git co other", true),
            ("git $X", true),
            ("git cherry-pick main..other", true),
            ("git rebase --continue", true),
            ("git am p", true),
            ("git pull", true),
            ("git sparse-checkout set a", true),
            ("git stash pop $N", true),
        ] {
            let line = &bash::analyze(line);
            let found = line.commands.iter().any(moves_tree_unpredictably);
            assert_eq!(
                found,
                expected,
                "{:?}",
                line.commands.iter().map(|it| &it.source).collect::<Vec<_>>()
            );
        }
    }
}
