//! Recognizes directories that a line deletes after it created them itself.

use super::line::{Command, CommandPosition, ShellLine, Word};

/// Commands that place existing files elsewhere, or change what a name or a relative path means. A
/// line with one of them may delete more than it created.
const UNSAFE: [&str; 24] = [
    ".",
    "alias",
    "bind",
    "bindfs",
    "builtin",
    "cd",
    "chroot",
    "enable",
    "eval",
    "fusermount",
    "git",
    "hash",
    "hg",
    "link",
    "ln",
    "mount",
    "mv",
    "popd",
    "pushd",
    "rename",
    "rsync",
    "shopt",
    "source",
    "svn",
];

/// Whether the operand of the command at `index` is a directory that the line created. `mkdir`
/// without options fails if the path exists, so what follows it after `&&` runs only if the
/// directory is new. `mkdir -p`, or another separator than `&&`, proves nothing.
pub fn is_created_by_line(line: &ShellLine, index: usize, operand: &Word) -> bool {
    let (Some(before), Some(command)) = (line.commands.get(..index), line.commands.get(index))
    else {
        return false;
    };
    let Some(directory) = literal_path(operand).filter(|_| is_plain(command)) else {
        return false;
    };
    let makes = |earlier: &Command| {
        earlier.words.first().and_then(|word| word.text.as_deref()) == Some("mkdir")
            && earlier.and_chain.is_some()
            && earlier.and_chain == command.and_chain
            && is_plain(earlier)
            && earlier.arguments().iter().all(|word| literal_path(word).is_some())
            && earlier.arguments().iter().any(|word| literal_path(word) == Some(directory))
    };
    let is_clear = line.unanalyzable_reason.is_none()
        && line.hidden.is_none()
        // Functions, loops, subshells, substitutions, and background jobs.
        && line.features.is_empty();
    let Some(made_at) = before.iter().rposition(makes).filter(|_| is_clear) else {
        return false;
    };
    line.commands.iter().enumerate().all(|(at, other)| match other.name() {
        // What changes the directory for the whole chain does no harm.
        Some("cd") => at < made_at && other.and_chain == command.and_chain,
        Some(name) => !UNSAFE.contains(&name),
        None => false,
    })
}

/// Whether the shell itself starts the command, in the line.
fn is_plain(command: &Command) -> bool {
    command.position == CommandPosition::Line
        && command.wrappers.is_empty()
        && command.assignments.is_empty()
        && !command.background
}

/// Returns the path of a word that the shell does not expand and that is not an option.
fn literal_path(word: &Word) -> Option<&str> {
    let text = word.text.as_deref().filter(|text| !word.glob && !text.starts_with('-'))?;
    let text = text.strip_prefix("./").unwrap_or(text);
    Some(text.trim_end_matches('/')).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bash::{analyze, destruction};

    /// Whether everything that the line deletes recursively was created by it.
    fn deletes_own(text: &str) -> bool {
        let line = analyze(text);
        let mut operands = line.commands.iter().enumerate().flat_map(|(index, command)| {
            let found = destruction(command).map(|found| found.operands).unwrap_or_default();
            found.into_iter().map(move |operand| (index, operand))
        });
        operands.all(|(index, operand)| is_created_by_line(&line, index, &operand))
    }

    #[test]
    fn directory_created_earlier_in_the_chain_is_the_lines_own() {
        for line in [
            "mkdir made && touch made/a && rm -rf made",
            "mkdir ./made && rm -r made/",
            "cd packages/x && mkdir made && echo a > made/a && rm -rf made",
            "mkdir a b && cp -r src a && rm -rf a b",
            "mkdir a a/b && rm -rf a/b && ls a",
            "echo start; mkdir made && rm -rf made/* || echo failed",
            "mkdir made &&\n  rm -rf made\nls",
            "mkdir 'my dir' && rm -rf my\\ dir",
            "mkdir made 2>/dev/null && python3 build.py made && rm -rf made",
        ] {
            assert!(deletes_own(line), "{line}");
        }
    }

    #[test]
    fn deletion_without_proof_of_creation_is_not_the_lines_own() {
        for line in [
            "mkdir -p src && rm -rf src",
            "mkdir --parents src && rm -rf src",
            "mkdir -m 700 src && rm -rf src",
            "mkdir src; rm -rf src",
            "mkdir src\nrm -rf src",
            "mkdir src || rm -rf src",
            "mkdir src || true && rm -rf src",
            "! mkdir src && rm -rf src",
            "mkdir src | cat && rm -rf src",
            "mkdir src | > x && rm -rf src",
            "mkdir src & rm -rf src",
            "mkdir src && cat src/x; rm -rf src",
            "(mkdir src || true) && rm -rf src",
            "{ mkdir src; true; } && rm -rf src",
            "if mkdir src; then :; fi && rm -rf src",
            "mkdir made && cd .. && rm -rf made",
            "cd x; mkdir made && rm -rf made",
            "mkdir made && rm -rf made src",
            "mkdir made && rm -rf made/../src",
            "mkdir made && rm -rf made/link/x",
            "mkdir made && rm -rf made*",
            "mkdir made && rm -rf \"$X\"",
            "mkdir $X && rm -rf made",
            "mkdir {made,b} && rm -rf made",
            "mkdir ~/made && rm -rf ~/made",
            "mkdir made && mv src made && rm -rf made",
            "mkdir made && git mv src made && rm -rf made",
            "mkdir made && find . -name '*.rs' -exec mv {} made \\; && rm -rf made",
            "mkdir made && rmdir made && ln -s src made && rm -rf made/*",
            "mkdir() { true; }; mkdir src && rm -rf src",
            "alias mkdir=true; mkdir src && rm -rf src",
            "sudo mkdir src && rm -rf src",
            "PATH=. mkdir src && rm -rf src",
            "mkdir made && bash -c 'rm -rf made src'",
            "rm -rf made && mkdir made",
            "sh -c 'mkdir src; true' && rm -rf src",
            "for d in a; do mkdir src; done && rm -rf src",
        ] {
            assert!(!deletes_own(line), "{line}");
        }
    }
}
