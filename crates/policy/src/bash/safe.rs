//! Commands that only read inside the workspace and therefore need no approval.

mod git;
mod operands;

use std::path::{Path, PathBuf};

use super::analyze::analyze;
use super::danger::rg_runs_programs;
use super::line::{Command, CommandPosition, Redirection, RedirectionKind, ShellLine, Word};
use crate::paths;
use operands::ReadContext;

/// The working directory and the directories that a line may read.
#[derive(Debug, Clone, Copy)]
pub struct SafeReadRoots<'a> {
    /// The working directory, resolved.
    pub directory: &'a Path,
    /// The workspace directories, resolved.
    pub roots: &'a [PathBuf],
}

/// Whether the text only reads files below `roots` when run in `directory`: [`is_safe`] applied
/// to the result of [`analyze`].
pub fn is_safe_text(command: &str, directory: &Path, roots: &[PathBuf]) -> bool {
    is_safe(&analyze(command), &SafeReadRoots { directory, roots })
}

/// Whether the line only reads inside the workspace. Considers only the text and returns `false` in
/// doubt. Symbolic links are not resolved.
pub fn is_safe(line: &ShellLine, safe_roots: &SafeReadRoots<'_>) -> bool {
    let moved = line.commands.iter().any(|command| command.name() == Some("cd"));
    line.unanalyzable_reason.is_none()
        && !line.commands.is_empty()
        // Such a loop may not terminate.
        && !line.features.contains(&"loop")
        && line.redirections.iter().all(is_harmless_redirection)
        && line.commands.iter().all(|command| is_safe_command(command, safe_roots, moved))
}

/// Whether the line may change the repository data of git: it runs git, and not only to read.
pub fn changes_git(line: &ShellLine) -> bool {
    let looks = |command: &Command| {
        command.name() == Some("git")
            && command.assignments.is_empty()
            && Argument::all(command.arguments()).is_some_and(|words| git::is_read_only(&words))
    };
    let may_be_git = |command: &&Command| {
        command.name().is_none_or(|name| name == "git" || name.starts_with("git-"))
    };
    line.commands.iter().filter(may_be_git).any(|command| !looks(command))
}

/// Whether one command only reads inside the workspace, assuming no `cd` before it. Commands that
/// it starts are checked separately.
pub fn command_is_safe(command: &Command, safe_roots: &SafeReadRoots<'_>) -> bool {
    is_safe_command(command, safe_roots, false)
}

/// Whether the redirection joins streams, discards output, or reads literal text.
pub fn is_harmless_redirection(redirection: &Redirection) -> bool {
    let target = redirection.target.text.as_deref();
    match redirection.kind {
        RedirectionKind::Descriptor => true,
        RedirectionKind::Read | RedirectionKind::Write | RedirectionKind::Append => {
            target == Some("/dev/null")
        }
        RedirectionKind::HereDocument | RedirectionKind::HereString => target.is_some(),
    }
}

fn is_safe_command(
    command: &Command,
    safe_roots: &SafeReadRoots<'_>,
    has_changed_directory: bool,
) -> bool {
    let context = ReadContext {
        directory: safe_roots.directory,
        roots: safe_roots.roots,
        has_changed_directory,
    };
    if command.background
        || !command.assignments.is_empty()
        || command.position == CommandPosition::Function
        || !paths::is_inside(safe_roots.directory, safe_roots.roots)
    {
        return false;
    }
    let Some((program, words)) = command.words.split_first() else { return false };
    // A name with a path is a different program.
    let Some(name) = program.text.as_deref() else { return false };
    let Some(arguments) = Argument::all(words) else {
        return name == "echo" && words.iter().all(is_text_or_status);
    };
    program_is_safe(name, &arguments, &context)
}

/// A word whose text is known.
#[derive(Clone, Copy)]
struct Argument<'a> {
    text: &'a str,
    quoted: bool,
}

impl<'a> Argument<'a> {
    fn all(words: &'a [Word]) -> Option<Vec<Self>> {
        words
            .iter()
            // The result of a glob depends on the disk.
            .filter(|word| word.text.as_deref() != Some("[") || word.quoted)
            .map(|word| {
                let tilde = word.glob
                    && word
                        .text
                        .as_deref()
                        .is_some_and(|text| !text.contains(['*', '?', '[', '{']));
                let text = word.text.as_deref().filter(|_| !word.glob || tilde)?;
                Some(Self { text, quoted: word.quoted })
            })
            .collect()
    }

    fn is_option(&self) -> bool {
        self.text.starts_with('-') && self.text.len() > 1
    }

    /// Whether the word is the option, or an abbreviation of at least `shortest` bytes.
    fn is_long(&self, option: &str, shortest: usize) -> bool {
        let name = self.text.split('=').next().unwrap_or(self.text);
        name.len() >= shortest && option.starts_with(name)
    }

    /// Whether the word is a cluster of short options that includes one of the letters.
    fn has_letter(&self, letters: &[char]) -> bool {
        self.text
            .strip_prefix('-')
            .is_some_and(|flags| !flags.starts_with('-') && flags.contains(letters))
    }
}

/// Whether the word is a literal or the status of the last command.
fn is_text_or_status(word: &Word) -> bool {
    !word.glob
        && (word.text.is_some() || {
            let rest = word.source.replace("$?", "");
            !rest.contains(['$', '`', '~', '\\', '(']) && word.source.contains("$?")
        })
}

fn program_is_safe(name: &str, arguments: &[Argument<'_>], context: &ReadContext<'_>) -> bool {
    if arguments.iter().any(|word| follows_links(name, word)) {
        return false;
    }
    let stays = || arguments.iter().all(|word| context.is_inside(word));
    let none = |refused: &dyn Fn(&Argument<'_>) -> bool| !arguments.iter().any(refused);
    let operands = || arguments.iter().filter(|word| !word.is_option()).count();
    match name {
        // Commands without file operands.
        "echo" | "expr" | "true" | "false" | "pwd" | "whoami" | "uname" | "id" | "tr"
        | "numfmt" | ":" | "nproc" | "arch" | "groups" | "type" | "basename" | "dirname"
        | "exit" => arguments
            .iter()
            .all(|word| word.quoted || !word.text.contains('~') || context.is_inside(word)),
        "printf" => {
            // `%n` sets an arbitrary variable.
            none(&|word| word.text.starts_with("-v") || sets_variable(word.text))
                && arguments.first().is_some_and(|first| !first.is_option())
        }
        // Without arguments, `set` prints all variables.
        "set" => {
            !arguments.is_empty()
                && arguments.iter().all(|word| {
                    matches!(word.text, "-e" | "-u" | "-eu" | "-euo" | "-eo" | "-o" | "pipefail")
                })
        }
        "hostname" | "uptime" => arguments.is_empty(),
        "seq" => operands::is_short_sequence(arguments),
        // No option of these commands writes or runs anything.
        "cat" | "head" | "ls" | "nl" | "paste" | "rev" | "stat" | "tac" | "tail" | "which"
        | "od" | "fold" | "expand" | "unexpand" | "cmp" | "comm" | "column" | "df" | "test"
        | "[" | "realpath" | "readlink" | "join" => stays(),
        "diff" => {
            none(&|word| {
                word.is_long("--to-file", 4)
                    || word.is_long("--from-file", 4)
                    || word.is_long("--exclude-from", 10)
                    || word.has_letter(&['X', 'l'])
                    || word.is_long("--paginate", 4)
            }) && stays()
                && (arguments.iter().any(|word| word.text == "--no-dereference")
                    || none(&|word| word.has_letter(&['r']) || word.is_long("--recursive", 5)))
        }
        "date" => arguments.iter().all(|word| {
            word.text.starts_with('+')
                || matches!(word.text, "-u" | "--utc" | "-I" | "-R")
                || word.text.starts_with("-I")
        }),
        // A list of files could name any file.
        "wc" | "du" => {
            none(&|word| {
                word.is_long("--files0-from", 3)
                    || word.is_long("--exclude-from", 10)
                    || (name == "du" && word.has_letter(&['X', 'L', 'D', 'H']))
                    || word.is_long("--dereference", 4)
            }) && stays()
        }
        "md5sum" | "sha1sum" | "sha256sum" | "sha512sum" | "cksum" => {
            none(&|word| word.has_letter(&['c']) || word.is_long("--check", 3)) && stays()
        }
        "sort" => {
            arguments.iter().all(|word| {
                !word.text.starts_with("--")
                    || matches!(
                        word.text,
                        "--numeric-sort"
                            | "--reverse"
                            | "--unique"
                            | "--human-numeric-sort"
                            | "--version-sort"
                            | "--ignore-case"
                    )
            }) && none(&|word| word.has_letter(&['o', 'T', 'S']))
                && stays()
        }
        "file" => {
            none(&|word| {
                word.has_letter(&['C', 'm', 'f', 'z', 'Z', 'L', 'p', 's'])
                    || word.text.starts_with("--")
            }) && stays()
        }
        "tree" => {
            none(&|word| {
                word.has_letter(&['o', 'l', 'R'])
                    || word.text.starts_with("--from")
                    || word.text.starts_with("--gitfile")
                    || word.text.starts_with("--infofile")
                    || word.text.starts_with("--output")
            }) && stays()
        }
        // The second operand is the output file.
        "xxd" => {
            none(&|word| word.has_letter(&['r']) || word.text.starts_with("--"))
                && operands() <= 1
                && stays()
                && arguments
                    .iter()
                    .all(|word| !word.is_option() || matches!(word.text, "-p" | "-u" | "-i"))
        }
        "cut" => {
            arguments.iter().all(|word| word.text.starts_with("-d") || context.is_inside(word))
        }
        "grep" | "egrep" | "fgrep" => {
            none(&takes_patterns_of_file) && operands::pattern_and_paths_stay(arguments, context)
        }
        "cd" => matches!(arguments, [folder] if !folder.text.starts_with('-')) && stays(),
        // The second operand of `uniq` is its output file; `-` counts as an operand.
        "uniq" => operands() <= 1 && stays(),
        "sed" => {
            operands::sed_prints_lines(arguments)
                && arguments.get(2..).unwrap_or_default().iter().all(|word| context.is_inside(word))
        }
        "find" => none(&has_find_action) && stays(),
        "rg" => {
            none(&|word| rg_runs_programs(word.text))
                && none(&takes_patterns_of_file)
                && operands::pattern_and_paths_stay(arguments, context)
        }
        "git" => git::is_read_only(arguments) && stays(),
        "base64" => {
            arguments.iter().all(|word| !word.text.starts_with('-') || base64_reads(word.text))
                && stays()
        }
        "command" => matches!(arguments, [option, _] if matches!(option.text, "-v" | "-V")),
        "node" | "python" | "python3" | "gcc" | "bash" | "make" if arguments.len() == 1 => {
            arguments.iter().all(|word| word.text == "--version")
        }
        // The command that it runs is checked separately.
        "bash" | "sh" => matches!(arguments, [option, _] if option.text == "-c"),
        "timeout" => {
            arguments.len() >= 2
                && none(&|word| word.text.is_empty())
                && arguments.first().is_some_and(|first| !first.is_option())
        }
        _ => false,
    }
}

/// Whether an option makes the program follow links out of the workspace, or follow a file
/// indefinitely.
fn follows_links(program: &str, word: &Argument<'_>) -> bool {
    match program {
        "tail" => {
            word.has_letter(&['f', 'F'])
                || word.text.starts_with('+') && word.text.contains('f')
                || word.is_long("--follow", 3)
                || word.is_long("--retry", 3)
        }
        "ls" => word.has_letter(&['L', 'H']) || word.text.starts_with("--de"),
        "stat" => word.has_letter(&['L']) || word.text.starts_with("--de"),
        "grep" | "egrep" | "fgrep" => word.has_letter(&['R']) || word.text.starts_with("--de"),
        "rg" => word.has_letter(&['L']) || word.text.starts_with("--fo"),
        "find" => matches!(word.text, "-L" | "-H" | "-follow"),
        _ => false,
    }
}

/// Whether the word is a `grep` or `rg` option with an attached pattern file (`-fFILE`).
fn takes_patterns_of_file(word: &Argument<'_>) -> bool {
    word.has_letter(&['f']) || word.is_long("--file", 5)
}

/// Whether the argument makes `find` run programs, delete files, or write files.
fn has_find_action(word: &Argument<'_>) -> bool {
    ["-exec", "-ok", "-delete", "-fprint", "-fls", "-files0-from"]
        .iter()
        .any(|action| word.text.starts_with(action))
}

fn base64_reads(word: &str) -> bool {
    matches!(word, "-" | "-d" | "-D" | "-i" | "-w" | "-w0" | "--decode" | "--ignore-garbage")
        || word.starts_with("--wrap")
}
/// Whether `printf` would set a variable: an `n` is the first letter after a `%`.
fn sets_variable(text: &str) -> bool {
    text.split('%').skip(1).any(|rest| {
        let rest = rest.trim_start_matches(|letter: char| {
            letter.is_ascii_digit() || "#0- +'.*hlqjzt$L".contains(letter)
        });
        rest.starts_with('n')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_only_git_commands_change_nothing() {
        let changes = |line: &str| changes_git(&analyze(line));
        for line in ["git log -1 --format=%H > f", "git status -s > f; git diff > g", "ls > f"] {
            assert!(!changes(line), "{line}");
        }
        for line in
            ["git commit -m x > f", "git log; git add .", "A=1 git log", "$X log", "git-lfs x"]
        {
            assert!(changes(line), "{line}");
        }
    }
}
