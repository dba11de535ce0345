//! The forms of git that only look.

use super::plain::Word;

/// Options that write files or run programs. Git takes any unambiguous
/// beginning of a long option, so those count as well.
const REFUSED: &[&str] = &[
    "--output",
    "--ext-diff",
    "--textconv",
    "--exec",
    "--exec-path",
    "--paginate",
    "--no-index",
    "--config-env",
    "--help",
];

/// `git branch` without these words changes branches.
const BRANCH_FLAGS: &[&str] = &[
    "-a",
    "--all",
    "-r",
    "--remotes",
    "-v",
    "-vv",
    "--verbose",
    "--show-current",
    "-l",
    "--list",
    "--no-color",
    "--column",
    "--no-column",
    "-i",
    "--ignore-case",
];
const BRANCH_WITH_COMMIT: &[&str] =
    &["--contains", "--no-contains", "--merged", "--no-merged", "--points-at"];
const BRANCH_WITH_VALUE: &[&str] = &["--sort=", "--format=", "--color=", "--abbrev="];

/// Whether the words behind `git` only read the repository.
pub(crate) fn only_looks(arguments: &[Word]) -> bool {
    let mut words = arguments.iter().map(|word| word.text.as_str()).peekable();
    while words.next_if(|word| matches!(*word, "--no-pager" | "--no-optional-locks")).is_some() {}
    let Some(subcommand) = words.next() else { return false };
    let rest: Vec<&str> = words.collect();
    if rest.iter().any(|word| is_refused(word)) {
        return false;
    }
    match subcommand {
        "status" | "log" | "diff" | "show" => true,
        "branch" => branch_only_looks(&rest),
        _ => false,
    }
}

fn is_refused(word: &str) -> bool {
    let name = word.split('=').next().unwrap_or(word);
    word == "-c"
        || (name.len() > 2
            && name.starts_with("--")
            && REFUSED.iter().any(|refused| refused.starts_with(name) || name == *refused))
}

fn branch_only_looks(words: &[&str]) -> bool {
    let lists = words.iter().any(|word| matches!(*word, "-l" | "--list"));
    let mut takes_commit = false;
    for word in words {
        let known = BRANCH_FLAGS.contains(word)
            || BRANCH_WITH_VALUE.iter().any(|flag| word.starts_with(flag));
        let commit_flag =
            BRANCH_WITH_COMMIT.contains(word.split('=').next().as_ref().unwrap_or(word));
        let operand = !word.starts_with('-') && (lists || takes_commit);
        if !(known || commit_flag || operand) {
            return false;
        }
        takes_commit = commit_flag && !word.contains('=');
    }
    true
}
