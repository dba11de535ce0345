//! Options of build tools that name a program to run, or the file or setting that names it.

use super::super::arguments::{has_letter, words_before_dashes};
use super::super::line::Command;

/// Whether the arguments make a build tool run a program that they name.
pub(super) fn runs_named_program(name: &str, command: &Command) -> bool {
    let options: &[&str] = match name {
        "go" => &["exec", "toolexec", "vettool"],
        "make" | "gmake" => {
            return has_letter(command, &['E'])
                || own_arguments(command).any(|text| long_name(text) == Some("eval"))
                || own_arguments(command).filter_map(assigned_name).any(|variable| {
                    variable == ".SHELLFLAGS" || super::control_reason(variable).is_some()
                });
        }
        "npm" | "pnpm" | "yarn" => &[
            "script-shell",
            "node-options",
            "userconfig",
            "globalconfig",
            "node-gyp",
            "git",
            "shell",
        ],
        "cargo" => &["config"],
        "gradle" | "gradlew" => &["init-script"],
        _ => return false,
    };
    // `go` takes long options with one dash, too.
    own_arguments(command).filter_map(long_name).any(|name| options.contains(&name))
        || matches!(name, "gradle" | "gradlew") && has_letter(command, &['I'])
}

/// Returns the words before `--`, after which the arguments are another program's.
fn own_arguments(command: &Command) -> impl Iterator<Item = &str> {
    words_before_dashes(command.arguments()).filter_map(|word| word.text.as_deref())
}

/// Returns the name of a long option, without its dashes and its value.
fn long_name(text: &str) -> Option<&str> {
    let name = text.strip_prefix('-')?;
    let name = name.strip_prefix('-').unwrap_or(name);
    name.split('=').next()
}

/// Returns the variable that a word such as `CC=x`, `CC:=x`, or `CC+=x` sets.
fn assigned_name(text: &str) -> Option<&str> {
    let (name, _) = text.split_once('=')?;
    Some(name.trim_end_matches([':', '+', '?', '!']))
}
