//! Wrappers that do not affect the command they start, so that a rule for that command is
//! sufficient.

use crate::bash::{Command, ShellLine, Word};
use crate::command_prefix::is_settled;

/// Whether the command only starts a later command of the line.
pub(crate) fn is_transparent(line: &ShellLine, index: usize) -> bool {
    let Some(command) = line.commands.get(index) else { return false };
    let Some(program) = command.words.first().and_then(|word| word.text.as_deref()) else {
        return false;
    };
    let starts_one = line
        .commands
        .get(index + 1..)
        .unwrap_or_default()
        .iter()
        .any(|inner| inner.wrappers.iter().any(|wrapper| wrapper == program));
    starts_one && is_settled(command) && passes_command(program, command)
}

fn passes_command(program: &str, command: &Command) -> bool {
    let text = |word: &Word| word.text.clone().unwrap_or_default();
    let arguments: Vec<String> = command.arguments().iter().map(text).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let plain = |word: &&str| !word.starts_with('-') && !word.contains('=');
    match (program, words.as_slice()) {
        ("sh" | "bash" | "dash", ["-c", _]) => true,
        ("time" | "command" | "env", [first, ..]) => plain(first),
        ("nice", ["-n", number, ..]) => number.bytes().all(|byte| byte.is_ascii_digit()),
        ("nice", [first, ..]) => plain(first),
        ("timeout", [duration, ..]) => {
            let digits = duration.trim_end_matches(['s', 'm', 'h', 'd']);
            !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        }
        _ => false,
    }
}
