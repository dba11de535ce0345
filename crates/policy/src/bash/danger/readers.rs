//! Programs that normally only read, and the arguments that make them write a file.

use super::super::arguments::{has_letter, has_long_option, literal_arguments, operands};
use super::super::line::Command;

/// Whether the arguments make the program, which normally only reads, write a file.
pub(super) fn writes(name: &str, command: &Command) -> bool {
    match name {
        // Options such as `-k` take the rest of the word as their value: `-t o` does not count.
        "sort" => {
            has_option_letter(command, 'o', "kStT") || has_long_option(command, "--output", "--o")
        }
        "shuf" => {
            has_option_letter(command, 'o', "in") || has_long_option(command, "--output", "--o")
        }
        "tree" => has_option_letter(command, 'o', "LPIT"),
        "iconv" => {
            has_option_letter(command, 'o', "ft") || has_long_option(command, "--output", "--o")
        }
        "less" => {
            has_letter(command, &['o', 'O'])
                || literal_arguments(command)
                    .any(|text| text.to_ascii_lowercase().starts_with("--log-file"))
        }
        "file" => has_letter(command, &['C']) || has_long_option(command, "--compile", "--c"),
        "yq" => {
            has_option_letter(command, 'i', "") || has_long_option(command, "--inplace", "--in")
        }
        // The second operand is the output file.
        "uniq" => {
            let long = ["--skip-fields", "--skip-chars", "--check-chars"];
            operands(command, "fsw", &long).len() > 1
        }
        "xxd" => operands(command, "clogsnR", &["-cols", "-len", "-seek", "-name"]).len() > 1,
        _ => false,
    }
}

/// Whether the letter is given as an option (`-o x`, `-ox`, `-no x`), but not after a letter in
/// `valued`, whose value it would be.
fn has_option_letter(command: &Command, letter: char, valued: &str) -> bool {
    has_letter(command, &[letter])
        && command.arguments().iter().filter_map(|word| word.text.as_deref()).any(|text| {
            let flags = text.strip_prefix('-').filter(|flags| !flags.starts_with('-'));
            flags.is_some_and(|flags| {
                let end = flags.find(|other| valued.contains(other)).unwrap_or(flags.len());
                flags.get(..end).unwrap_or(flags).contains(letter)
            })
        })
}
