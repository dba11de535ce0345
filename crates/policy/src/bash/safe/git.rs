//! Git commands that only read.

use super::Argument;

/// Options that write files or run programs. Git accepts any unambiguous abbreviation of a long
/// option, so abbreviations match as well.
const REFUSED: &[&str] = &[
    "--output",
    "--ext-diff",
    "--textconv",
    "--filters",
    "--exec",
    "--exec-path",
    "--paginate",
    "--no-index",
    "--config-env",
    "--help",
    "--show-signature",
    "--open-files-in-pager",
    "--upload-pack",
    "--receive-pack",
    "--contents",
    "--stdin",
];

/// Options of `git branch` that only list branches; without one of them it changes branches.
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

/// Whether the words after `git` only read the repository.
pub(super) fn is_read_only(arguments: &[Argument<'_>]) -> bool {
    let mut words = arguments.iter().map(|word| word.text).peekable();
    while words
        .next_if(|word| matches!(*word, "--no-pager" | "-P" | "--no-optional-locks"))
        .is_some()
    {}
    let Some(subcommand) = words.next() else { return false };
    let rest: Vec<&str> = words.collect();
    if subcommand == "--version" {
        return rest.is_empty();
    }
    if rest.iter().any(|word| is_rejected_option(word)) {
        return false;
    }
    let first = rest.first().copied();
    match subcommand {
        // `%G` in a format verifies signatures with the program that the repository configures.
        "log" | "show" | "shortlog" | "rev-list" | "for-each-ref" => {
            !rest.iter().any(|word| word.contains("%G") || word.contains("signature"))
        }
        "status" | "diff" | "rev-parse" | "ls-files" | "ls-tree" | "blame" | "describe"
        | "merge-base" | "show-ref" | "name-rev" | "cat-file" | "count-objects"
        | "check-ignore" | "cherry" => true,
        "grep" => !rest.iter().any(|word| {
            word.starts_with("-O") || word.starts_with("-f") || word.starts_with("--f")
        }),
        "branch" => is_read_only_branch(&rest),
        "tag" => {
            rest.is_empty()
                || matches!(first, Some("-l" | "--list"))
                    && rest
                        .iter()
                        .skip(1)
                        .all(|word| !word.starts_with('-') || word.starts_with("--sort="))
        }
        "remote" => matches!(rest[..], [] | ["-v" | "--verbose"] | ["get-url", _]),
        "stash" => first == Some("list") && rest.len() == 1,
        "reflog" => {
            rest.is_empty()
                || first == Some("show")
                || first.is_some_and(|word| word.starts_with("-n"))
        }
        "worktree" => matches!(rest[..], ["list"] | ["list", "--porcelain"]),
        "config" => {
            matches!(rest[..], ["--get", "user.name" | "user.email" | "init.defaultBranch"])
        }
        _ => false,
    }
}

fn is_rejected_option(word: &str) -> bool {
    let name = word.split('=').next().unwrap_or(word);
    word == "-c"
        || (name.len() > 2
            && name.starts_with("--")
            && REFUSED.iter().any(|refused| refused.starts_with(name)))
}

fn is_read_only_branch(words: &[&str]) -> bool {
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
    !words.iter().any(|word| word.contains("%(signature") || word.contains("%G"))
}
