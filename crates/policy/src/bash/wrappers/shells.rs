//! Shells, and programs that pass a string to one.

use super::options::{Operands, Options, is_single_word};
use super::{WrappedCommand, started_command, unclear_command};
use crate::bash::line::Word;

/// Reads `sh -c TEXT` and its variants with other options.
pub(super) fn wrapped_commands(name: &str, arguments: &[Word]) -> Vec<WrappedCommand> {
    let mut words = arguments.iter();
    let mut reads_text = false;
    let mut reads_input = false;
    let mut operand = None;
    while let Some(word) = words.next() {
        let Some(text) = word.text.as_deref() else {
            operand = Some(word);
            break;
        };
        let long = text.strip_prefix("--");
        match long {
            Some("") => {
                operand = words.next();
                break;
            }
            Some(
                "norc" | "noprofile" | "posix" | "login" | "verbose" | "restricted" | "noediting",
            ) => continue,
            Some("version" | "help") => return Vec::new(),
            Some(_) => return unclear_command("unknown shell option"),
            None => {}
        }
        let Some(letters) = text.strip_prefix(['-', '+']).filter(|letters| !letters.is_empty())
        else {
            if text == "-" {
                operand = words.next();
            } else {
                operand = Some(word);
            }
            break;
        };
        for letter in letters.chars() {
            match letter {
                'c' => reads_text = true,
                'o' | 'O' => {
                    let known =
                        words.next().and_then(|word| word.text.as_deref()).is_some_and(|option| {
                            matches!(
                                option,
                                "errexit"
                                    | "nounset"
                                    | "pipefail"
                                    | "xtrace"
                                    | "noglob"
                                    | "noclobber"
                                    | "globstar"
                                    | "nullglob"
                                    | "posix"
                            )
                        });
                    if !known {
                        return unclear_command("unknown shell option");
                    }
                }
                'a' | 'b' | 'e' | 'f' | 'h' | 'l' | 'm' | 'n' | 'u' | 'v' | 'x' | 'B' | 'C'
                | 'E' | 'T' | 's' => {
                    reads_input |= letter == 's';
                }
                _ => return unclear_command("unknown shell option"),
            }
        }
    }
    match (reads_text, operand) {
        // The script comes from standard input; the caller looks for it.
        (_, None) => vec![WrappedCommand::Unclear(READS_INPUT.to_owned())],
        (false, Some(_)) if reads_input => vec![WrappedCommand::Unclear(READS_INPUT.to_owned())],
        (true, Some(word)) => match &word.text {
            Some(text) if is_single_word(word) => text_for(name, text.clone()),
            _ => unclear_command("a shell runs text that is known only at run time"),
        },
        (false, Some(word)) if word.text.is_none() || !is_single_word(word) => {
            unclear_command("a shell runs a file that is known only at run time")
        }
        (false, Some(word))
            if word
                .text
                .as_deref()
                .is_some_and(|file| file.starts_with("/dev/") || file.starts_with("/proc/")) =>
        {
            unclear_command("a shell reads commands from stdin")
        }
        // A bare name may be a program of PATH, read as a script.
        (false, Some(word)) => {
            let bare = word.text.as_deref().is_some_and(|file| !file.contains(['/', '.']));
            let mut script = vec![word.clone()];
            script.extend(words.cloned());
            if bare { vec![super::program_without_assignments(script)] } else { Vec::new() }
        }
    }
}

/// The reason for a shell without a script.
pub(in crate::bash) const READS_INPUT: &str = "a shell runs commands that it reads";

/// Returns the text for the shell `name`.
pub(in crate::bash) fn text_for(name: &str, text: String) -> Vec<WrappedCommand> {
    // Other shells interpret some lines differently; plain text means the same to all of them.
    let plain = |character: char| {
        character.is_ascii_alphanumeric() || " _./,:;&|'\"-+@%\n".contains(character)
    };
    if matches!(name, "zsh" | "ksh") && !text.chars().all(plain) {
        let reason = format!("`{name}` parses some lines differently");
        return vec![
            WrappedCommand::Script { text, plain_sh: true },
            WrappedCommand::Unclear(reason),
        ];
    }
    vec![WrappedCommand::Script { text, plain_sh: !matches!(name, "bash" | "rbash") }]
}

/// Reads `su -c TEXT user`.
pub(super) fn su(arguments: &[Word]) -> Vec<WrappedCommand> {
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let Some(text) = word.text.as_deref().filter(|_| is_single_word(word)) else {
            return unclear_command("`su` has arguments that are known only at run time");
        };
        let script = match text {
            "-c" | "--command" => words.next().and_then(|word| word.text.clone()),
            "-" | "-l" | "--login" | "-m" | "-p" => continue,
            _ => match text.strip_prefix("--command=") {
                Some(script) => Some(script.to_owned()),
                None if text.starts_with('-') => return unclear_command("unknown option of `su`"),
                None => continue,
            },
        };
        return match script {
            Some(text) => vec![WrappedCommand::Script { text, plain_sh: true }],
            None => unclear_command("`su` runs text that is known only at run time"),
        };
    }
    unclear_command("`su` starts a shell")
}

/// Reads `watch COMMAND…`: the words are joined for a shell.
pub(super) fn watch(arguments: &[Word]) -> Vec<WrappedCommand> {
    const OPTIONS: Options = Options {
        flags: "bcdegprtwCx",
        values: "nq",
        long_flags: &[
            "beep",
            "color",
            "no-color",
            "differences",
            "errexit",
            "chgexit",
            "precise",
            "no-rerun",
            "no-title",
            "no-wrap",
            "exec",
        ],
        long_values: &["interval", "equexit"],
    };
    join_words(OPTIONS.operands_after(arguments, 0))
}

/// Returns the words joined as the text of a shell.
pub(super) fn join_words(rest: Operands<'_>) -> Vec<WrappedCommand> {
    let words = match rest {
        Operands::Words([]) => return Vec::new(),
        Operands::Words(words) => words,
        unclear @ Operands::Unclear(_) => return started_command(unclear),
    };
    let texts: Option<Vec<&str>> =
        words.iter().map(|word| word.text.as_deref().filter(|_| is_single_word(word))).collect();
    match texts {
        Some(texts) => vec![WrappedCommand::Script { text: texts.join(" "), plain_sh: true }],
        None => unclear_command("a shell runs text that is known only at run time"),
    }
}

/// Reads `script -c TEXT file`.
pub(super) fn script(arguments: &[Word]) -> Vec<WrappedCommand> {
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let Some(text) = word.text.as_deref().filter(|_| is_single_word(word)) else {
            return unclear_command("`script` has arguments that are known only at run time");
        };
        let found = match text {
            "-c" | "--command" => words.next().and_then(|word| word.text.clone()),
            "-a" | "-e" | "-f" | "-q" | "-qe" | "-eq" | "-qf" => continue,
            _ => match text.strip_prefix("--command=") {
                Some(script) => Some(script.to_owned()),
                None if text.starts_with("-qc")
                    || text.starts_with("-qec")
                    || text.starts_with("-eqc") =>
                {
                    let glued = text.split_once('c').map_or("", |(_, glued)| glued);
                    if glued.is_empty() {
                        words.next().and_then(|word| word.text.clone())
                    } else {
                        Some(glued.to_owned())
                    }
                }
                None if text.starts_with('-') => {
                    return unclear_command("unknown option of `script`");
                }
                None => continue,
            },
        };
        return match found {
            Some(text) => vec![WrappedCommand::Script { text, plain_sh: true }],
            None => unclear_command("`script` runs text that is known only at run time"),
        };
    }
    unclear_command("`script` starts a shell")
}

/// Reads `flock FILE COMMAND…` and `flock FILE -c TEXT`.
pub(super) fn flock(arguments: &[Word]) -> Vec<WrappedCommand> {
    const OPTIONS: Options = Options {
        flags: "senxouvF",
        values: "wE",
        long_flags: &[
            "shared",
            "exclusive",
            "nonblock",
            "nb",
            "unlock",
            "close",
            "no-fork",
            "verbose",
        ],
        long_values: &["timeout", "wait", "conflict-exit-code"],
    };
    let rest = OPTIONS.operands_after(arguments, 1);
    let Operands::Words(words) = rest else { return started_command(rest) };
    match words.split_first() {
        Some((first, behind)) if matches!(first.text.as_deref(), Some("-c" | "--command")) => {
            join_words(Operands::Words(behind))
        }
        Some((first, _)) if first.text.as_deref().is_some_and(|text| text.starts_with('-')) => {
            unclear_command("unknown option of `flock`")
        }
        _ => started_command(Operands::Words(words)),
    }
}

/// Reads `npx -c TEXT`, `npm exec --call TEXT`, and other options whose value is a line. Other forms
/// run a package.
pub(super) fn call(arguments: &[Word], options: &[&str]) -> Vec<WrappedCommand> {
    for (index, word) in arguments.iter().enumerate() {
        let Some(text) = word.text.as_deref() else { continue };
        if text == "--" {
            break;
        }
        let script = match text.split_once('=') {
            _ if options.contains(&text) => {
                arguments.get(index + 1).and_then(|word| word.text.clone())
            }
            Some((option, script)) if option.starts_with("--") && options.contains(&option) => {
                Some(script.to_owned())
            }
            _ => continue,
        };
        return match script {
            Some(text) => vec![WrappedCommand::Script { text, plain_sh: true }],
            None => unclear_command(&format!("`{text}` runs text that is known only at run time")),
        };
    }
    Vec::new()
}
