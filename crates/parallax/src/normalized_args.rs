//! Normalizes command lines written for Gemini CLI, whose parser accepts more spellings of flags,
//! and flags before a subcommand.

use std::ffi::OsString;

use clap::{Arg, Command};
use parallax_config::worktrees::is_valid_name;

use crate::command_line;

/// A normalized command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NormalizedArgs {
    /// The words, starting with the program name.
    pub(crate) argv: Vec<OsString>,
    /// The subcommand that follows flags, and those flags that it does not support; they are
    /// removed from `argv`.
    pub(crate) before_subcommand: Option<(String, Vec<String>)>,
}

/// Normalizes a command line: `--outputFormat json` becomes `--output-format json`,
/// `--yolo=true` becomes `--yolo`, `--yolo=false` and `--no-yolo` are removed, and
/// `--no-sandbox` becomes `--sandbox=false`, and `-w NAME` becomes `--worktree=NAME`. A space may replace the `=`, and `-y` may
/// replace `--yolo`. Stops at `--` and at a subcommand, which parses its own words; flags
/// before the subcommand that it supports are moved after it.
pub(crate) fn normalize(typed: &[OsString]) -> NormalizedArgs {
    let command = command_line::parser(typed);
    let named = |name: &str| {
        command.get_arguments().find(|flag| flag.get_long() == Some(name) || is_alias(flag, name))
    };
    let lettered =
        |letter: char| command.get_arguments().find(|flag| flag.get_short() == Some(letter));
    // Beside `--prompt`, a word after `-w` can only be a name.
    let has_prompt_flag = typed
        .iter()
        .any(|word| word.to_str().is_some_and(|word| matches!(word, "-p" | "--prompt")));
    let mut words = typed.iter();
    let mut argv: Vec<OsString> = words.next().cloned().into_iter().collect();
    let (mut flags, mut is_prompt) = (Vec::<Flag>::new(), false);
    while let Some(word) = words.next() {
        let at = argv.len();
        let Some(text) = word.to_str().filter(|text| *text != "--") else {
            argv.push(word.clone());
            break;
        };
        // Other agents use this name.
        if matches!(text, "-c" | "--continue") {
            argv.push("--resume=latest".into());
            continue;
        }
        if matches!(text, "-w" | "--worktree")
            && let Some(name) = words.clone().next().and_then(|word| word.to_str())
            && (is_valid_name(name) || has_prompt_flag && !name.starts_with('-'))
            && command.find_subcommand(name).is_none()
        {
            words.next();
            flags.push(Flag { typed_flag: "--worktree".to_owned(), at });
            argv.push(format!("--worktree={name}").into());
            continue;
        }
        if let Some(long) = text.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (kebab(name), Some(value)),
                None => (kebab(long), None),
            };
            let denied =
                name.strip_prefix("no-").and_then(named).filter(|_| named(&name).is_none());
            let Some(flag) = denied.or_else(|| named(&name)) else {
                argv.push(word.clone());
                continue;
            };
            flags.push(Flag { typed_flag: format!("--{name}"), at });
            let long = flag.get_long().unwrap_or(&name).to_owned();
            let value = match value {
                None if denied.is_none() && is_boolean_flag(flag) => take_boolean(flag, &mut words),
                value => value,
            };
            match (is_switch(flag), denied.is_some(), value) {
                (false, true, None) if long == "sandbox" => argv.push("--sandbox=false".into()),
                (true, true, None | Some("true")) | (true, false, Some("false")) => {}
                (true, _, None | Some("true")) | (true, true, Some("false")) => {
                    argv.push(format!("--{long}").into());
                }
                (false, false, None) => {
                    argv.push(format!("--{long}").into());
                    take_value(flag, &mut words, &mut argv);
                }
                (false, false, Some(value)) => argv.push(format!("--{long}={value}").into()),
                _ => argv.push(word.clone()),
            }
        } else if let Some(letters) = text.strip_prefix('-').filter(|rest| !rest.is_empty()) {
            flags.push(Flag { typed_flag: text.to_owned(), at });
            let last = letters.chars().next_back().and_then(lettered);
            let before = letters.char_indices().rev().skip(1);
            let mut before = before.filter_map(|(_, letter)| lettered(letter));
            // Unless the last letter is a value.
            let truth = match last.filter(|flag| is_boolean_flag(flag) && before.all(is_switch)) {
                Some(flag) => take_boolean(flag, &mut words).map(|truth| (flag, truth)),
                None => None,
            };
            match truth {
                Some((flag, truth)) if !is_switch(flag) => {
                    argv.push(format!("{text}={truth}").into());
                    continue;
                }
                Some((_, "false")) => {
                    let others: String = text.chars().take(text.chars().count() - 1).collect();
                    argv.extend((others != "-").then(|| others.into()));
                    continue;
                }
                Some(_) | None => argv.push(word.clone()),
            }
            // The first flag that takes a value takes the rest of the word or the next word.
            let valued = letters.char_indices().find_map(|(offset, letter)| {
                let flag = lettered(letter).filter(|flag| !is_switch(flag))?;
                Some((flag, offset + letter.len_utf8() == letters.len()))
            });
            if let Some((flag, true)) = valued {
                take_value(flag, &mut words, &mut argv);
            }
        } else {
            let subcommand = command.find_subcommand(text).filter(|_| !is_prompt);
            let Some(subcommand) = subcommand.filter(|_| text != "demo") else {
                // Flags may also follow the words of a prompt.
                is_prompt = true;
                argv.push(word.clone());
                continue;
            };
            let rest = std::iter::once(word).chain(words.clone());
            let mut alone: Vec<OsString> = argv.first().into_iter().chain(rest).cloned().collect();
            if flags.is_empty() {
                return NormalizedArgs { argv: alone, before_subcommand: None };
            }
            let unknown = move_flags(subcommand, &flags, &argv, &mut alone);
            // Anything that does not parse as a subcommand is a prompt, as in `-y undo the last
            // change`.
            if is_accepted(&alone) {
                let name = subcommand.get_name().to_owned();
                let before_subcommand = (!unknown.is_empty()).then_some((name, unknown));
                return NormalizedArgs { argv: alone, before_subcommand };
            }
            is_prompt = true;
            argv.push(word.clone());
        }
    }
    argv.extend(words.cloned());
    NormalizedArgs { argv, before_subcommand: None }
}

/// A flag before a subcommand.
struct Flag {
    /// The flag as typed, without its value.
    typed_flag: String,
    /// The index of its first word in the normalized command line.
    at: usize,
}

/// Moves the flags of `before` that the subcommand supports after its name in `alone`, and returns
/// the others.
fn move_flags(
    subcommand: &Command,
    flags: &[Flag],
    before: &[OsString],
    alone: &mut Vec<OsString>,
) -> Vec<String> {
    let action = alone.get(2).and_then(|word| subcommand.find_subcommand(word));
    let (command, mut place) = action.map_or((subcommand, 2), |action| (action, 3));
    let mut unknown = Vec::new();
    for (number, flag) in flags.iter().enumerate() {
        let name = flag.typed_flag.strip_prefix("--").unwrap_or_default();
        if !command.get_arguments().any(|known| known.get_long() == Some(name)) {
            unknown.push(flag.typed_flag.clone());
            continue;
        }
        let end = flags.get(number + 1).map_or(before.len(), |next| next.at);
        let words = before.get(flag.at..end).unwrap_or_default();
        alone.splice(place..place, words.iter().cloned());
        place += words.len();
    }
    unknown
}

/// Whether our parser accepts the command line or would show its help.
fn is_accepted(argv: &[OsString]) -> bool {
    use clap::error::ErrorKind;
    match command_line::parse(argv) {
        Ok(_) => true,
        Err(error) => matches!(
            error.kind(),
            ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        ),
    }
}

fn is_alias(flag: &Arg, name: &str) -> bool {
    flag.get_all_aliases().is_some_and(|aliases| aliases.contains(&name))
}

/// Whether the flag takes no value.
fn is_switch(flag: &Arg) -> bool {
    !flag.get_action().takes_values()
}

/// Whether the flag is boolean, so that `true` or `false` may follow it.
fn is_boolean_flag(flag: &Arg) -> bool {
    is_switch(flag) || flag.is_require_equals_set()
}

/// Consumes the next word if it is the value of a boolean flag or of the sandbox flag.
fn take_boolean<'a>(
    flag: &Arg,
    words: &mut (impl Iterator<Item = &'a OsString> + Clone),
) -> Option<&'static str> {
    const SANDBOXES: [&str; 4] = ["docker", "podman", "runsc", "sandbox-exec"];
    let next = words.clone().next()?;
    let sandboxes = SANDBOXES.into_iter().filter(|_| flag.get_long() == Some("sandbox"));
    let truth = ["true", "false"].into_iter().chain(sandboxes).find(|truth| next == truth)?;
    words.next();
    Some(truth)
}

/// Moves the value of a flag to `argv`, if it is the next word.
fn take_value<'a>(
    flag: &Arg,
    words: &mut (impl Iterator<Item = &'a OsString> + Clone),
    argv: &mut Vec<OsString>,
) {
    if flag.is_require_equals_set() {
        return;
    }
    let optional = flag.get_num_args().is_some_and(|range| range.min_values() == 0);
    let is_flag = |word: &&OsString| word.to_string_lossy().starts_with('-');
    if optional && words.clone().next().is_none_or(|word| is_flag(&word)) {
        return;
    }
    argv.extend(words.next().cloned());
}

/// Converts `outputFormat` to `output-format`.
fn kebab(name: &str) -> String {
    let mut kebab = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            kebab.push('-');
        }
        kebab.push(letter.to_ascii_lowercase());
    }
    kebab
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::arguments::Arguments;

    fn to_os_strings(line: &[&str]) -> Vec<OsString> {
        std::iter::once("parallax").chain(line.iter().copied()).map(OsString::from).collect()
    }

    fn argv(line: &[&str]) -> Vec<String> {
        let spelled = normalize(&to_os_strings(line));
        spelled.argv.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn flags_are_normalized() {
        for (input, ours) in [
            (&["--outputFormat", "json", "x"][..], &["--output-format", "json", "x"][..]),
            (&["--approvalMode=yolo", "x"], &["--approval-mode=yolo", "x"]),
            (&["--yolo=true", "x"], &["--yolo", "x"]),
            (&["x", "--debug=false", "-y"], &["x", "-y"]),
            (&["--no-yolo", "--no-sandbox", "x"], &["--sandbox=false", "x"]),
            (&["-p", "--no-yolo"], &["-p", "--no-yolo"]),
            (&["--yolo", "false", "-p", "x"], &["-p", "x"]),
            (&["-y", "false", "-p", "x"], &["-p", "x"]),
            (&["-dy", "false", "--debug", "true", "x"], &["-d", "--debug", "x"]),
            (&["-y", "true", "x"], &["-y", "x"]),
            (&["--sandbox", "docker", "x"], &["--sandbox=docker", "x"]),
            (&["-s", "podman", "-p", "x"], &["-s=podman", "-p", "x"]),
            (&["--yolo", "docker"], &["--yolo", "docker"]),
            (&["--sandbox", "false", "-s", "true", "x"], &["--sandbox=false", "-s=true", "x"]),
            (&["--no-yolo", "false"], &["false"]),
            (&["-m", "false", "-p", "true"], &["-m", "false", "-p", "true"]),
            (&["-y", "falsehoods"], &["-y", "falsehoods"]),
            (&["-p", "a --yolo=true b"], &["-p", "a --yolo=true b"]),
            (&["--resume", "--debug=false"], &["--resume"]),
            (&["x", "--", "--yolo=true"], &["x", "--", "--yolo=true"]),
            (&["-w", "fix", "-p", "x"], &["--worktree=fix", "-p", "x"]),
            (&["--worktree", "fix", "x"], &["--worktree=fix", "x"]),
            (&["-w", "fix the bug"], &["-w", "fix the bug"]),
            (&["-w", "a/b", "-p", "x"], &["--worktree=a/b", "-p", "x"]),
            (&["-w", "-p", "x"], &["-w", "-p", "x"]),
            (&["-c", "go on"], &["--resume=latest", "go on"]),
            (&["--continue", "-p", "x"], &["--resume=latest", "-p", "x"]),
            (&["--add-dir", "/d", "x"], &["--include-directories", "/d", "x"]),
            (&["--bogus=true"], &["--bogus=true"]),
            (&["mcp", "add", "--trust=false"], &["mcp", "add", "--trust=false"]),
            (&["a", "b", "-ojson", "c"], &["a", "b", "-ojson", "c"]),
        ] {
            assert_eq!(argv(input), ours, "{input:?}");
        }
    }

    #[test]
    fn flags_are_accepted_before_a_subcommand() {
        let before = |line: &[&str]| normalize(&to_os_strings(line)).before_subcommand;
        for (input, rest, flags) in [
            (&["-d", "mcp", "list"][..], &["mcp", "list"][..], &["-d"][..]),
            (
                &["--skip-trust", "-m", "x", "sessions", "list"],
                &["sessions", "list"],
                &["--skip-trust", "-m"],
            ),
            (&["-e", "none", "extensions", "list"], &["extensions", "list"], &["-e"]),
            (&["--skip-trust", "mcp"], &["mcp"], &["--skip-trust"]),
            (
                &["-d", "--policy", "a", "--adminPolicy=b", "policy", "list", "--json"],
                &["policy", "list", "--policy", "a", "--admin-policy=b", "--json"],
                &["-d"],
            ),
        ] {
            assert_eq!(argv(input), rest);
            let (_, found) = before(input).expect("a subcommand");
            assert_eq!(found, flags, "{input:?}");
        }
        for prompt in [
            &["-y", "undo", "the", "last", "change"][..],
            &["-m", "mcp", "list"],
            &["-r", "mcp", "list"],
            &["-o", "json", "demo"],
            &["-y", "fix", "mcp", "list"],
        ] {
            assert_eq!(before(prompt), None, "{prompt:?}");
            assert_eq!(argv(prompt), prompt);
        }
        let known = &["--policy", "a", "policy", "explain", "--command", "ls"][..];
        assert_eq!(before(known), None);
    }

    #[test]
    fn shared_subcommand_flags_have_the_same_meaning() {
        let command = Arguments::command();
        let own: Vec<&str> = command.get_arguments().filter_map(Arg::get_long).collect();
        let mut shared = Vec::new();
        let mut inner: Vec<&Command> = command.get_subcommands().collect();
        while let Some(next) = inner.pop() {
            inner.extend(next.get_subcommands());
            let flags = next.get_arguments().filter_map(Arg::get_long);
            let both = flags.filter(|flag| own.contains(flag));
            shared.extend(both.map(|flag| format!("{} --{flag}", next.get_name())));
        }
        shared.sort_unstable();
        let groups = ["agents", "commands", "extensions", "hooks", "mcp", "skills"];
        let mut known: Vec<String> =
            groups.iter().map(|group| format!("{group} --debug")).collect();
        known.extend(
            [
                "batch --max-cost",
                "batch --output-format",
                "batch --skip-trust",
                "doctor --model",
                "eval --model",
                "eval --record",
                "eval --replay",
                "eval --replay-non-strict",
                "explain --admin-policy",
                "explain --policy",
                "fork --at",
                "list --admin-policy",
                "list --output-format",
                "list --policy",
                "move --from",
                "plan --approval-mode",
                "plan --max-cost",
                "plan --model",
                "plan --prompt",
                "plan --setup",
                "plan --timeout",
                "review --max-cost",
                "review --model",
                "review --skip-trust",
                "run-task --max-cost",
                "run-task --skip-trust",
                "serve --model",
            ]
            .map(str::to_owned),
        );
        known.sort_unstable();
        assert_eq!(shared, known);
    }

    proptest::proptest! {
        #[test]
        fn normalization_is_idempotent(line in proptest::collection::vec("(--?)?[a-zA-Z=]{0,8}|mcp|list|--|-y", 0..6)) {
            let line: Vec<&str> = line.iter().map(String::as_str).collect();
            let once = normalize(&to_os_strings(&line));
            proptest::prop_assert_eq!(normalize(&once.argv).argv, once.argv);
        }
    }
}
