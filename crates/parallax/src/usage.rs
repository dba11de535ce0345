//! Usage errors: one line with the reason and one with a hint.

use std::ffi::OsString;
use std::io::{self, Write as _};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, ValueEnum};
use parallax_headless::{ErrorObject, ExitCode, OutputFormat, one_line};

use parallax_config::similar_names;

use crate::arguments::Arguments;
use crate::completion_shell::CompletionShell;
use crate::other_agents;
use crate::program_name::with_called_name;

/// The reason and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UsageError {
    pub(crate) message: String,
    pub(crate) hint: String,
}

impl UsageError {
    pub(crate) fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into() }
    }

    /// Returns the error as the output formats print it, with the exit code of the program.
    pub(crate) fn error(&self, code: ExitCode) -> ErrorObject {
        ErrorObject {
            r#type: "UsageError",
            message: with_called_name(&format!("{}\n{}", self.message, self.hint)).into_owned(),
            code: u16::from(code.0),
            status: None,
        }
    }
}

/// Whether a flag was given without the value that it needs.
pub(crate) fn is_missing_value(error: &clap::Error, flag: &str) -> bool {
    let text = |kind| error.get(kind).map(describe_value).unwrap_or_default();
    error.kind() == ErrorKind::InvalidValue
        && text(ContextKind::InvalidValue).is_empty()
        && text(ContextKind::InvalidArg).starts_with(flag)
}

const SEE_HELP: &str = "See `parallax --help`.";

/// Converts an error of clap to our wording.
pub(crate) fn from_clap(error: &clap::Error, argv: &[OsString]) -> UsageError {
    if argv.get(1).is_some_and(|word| word == "demo") {
        return UsageError::new(
            "`demo` takes no arguments",
            "To send these words to the model, quote the prompt: parallax -p \"demo …\"",
        );
    }
    let is_trust = argv.get(1).is_some_and(|word| word == "trust");
    if is_trust && error.kind() == ErrorKind::InvalidSubcommand {
        return UsageError::new(
            "Unknown subcommand of `trust`",
            "See `parallax trust --help`. To send these words to the model, quote the prompt: \
             parallax -p \"trust …\"",
        );
    }
    let text = |kind| error.get(kind).map(describe_value).unwrap_or_default();
    let argument = text(ContextKind::InvalidArg);
    let value = text(ContextKind::InvalidValue);
    match error.kind() {
        ErrorKind::UnknownArgument if !argument.starts_with('-') => {
            let command = argv.get(1).map(|word| word.to_string_lossy()).unwrap_or_default();
            UsageError::new(
                format!("Unexpected argument `{argument}`"),
                match command.starts_with('-') {
                    true => SEE_HELP.to_owned(),
                    false => format!(
                        "See `parallax {command} --help`. To send these words to the model, quote \
                         the prompt: parallax -p \"{command} …\""
                    ),
                },
            )
        }
        ErrorKind::UnknownArgument => {
            let hint = match (other_agents::flag(&argument), similar_flag(argv, &argument)) {
                (Some(hint), _) => hint.to_owned(),
                (None, Some(near)) => format!("Did you mean `--{near}`?"),
                (None, None) => SEE_HELP.to_owned(),
            };
            UsageError::new(format!("Unknown option `{argument}`"), hint)
        }
        ErrorKind::InvalidValue if value.is_empty() => {
            UsageError::new(format!("`{argument}` requires a value"), choices(error))
        }
        ErrorKind::InvalidValue => {
            UsageError::new(format!("Invalid value `{value}` for `{argument}`"), choices(error))
        }
        ErrorKind::ValueValidation => {
            let reason =
                std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
            UsageError::new(format!("Invalid value `{value}` for `{argument}`: {reason}"), SEE_HELP)
        }
        ErrorKind::InvalidUtf8 => {
            let word = argv.iter().find(|word| word.to_str().is_none());
            let shown = word.map(|word| word.as_encoded_bytes().escape_ascii().to_string());
            UsageError::new(
                format!("The argument `{}` is not valid UTF-8", shown.unwrap_or_default()),
                "Pass a prompt in another encoding through standard input, and rename directories \
                 or start in them",
            )
        }
        ErrorKind::MissingRequiredArgument => {
            let missing = match error.get(ContextKind::InvalidArg) {
                Some(ContextValue::Strings(list)) => {
                    list.iter().map(|it| format!("`{it}`")).collect::<Vec<_>>().join(" and ")
                }
                _ => argument,
            };
            UsageError::new(format!("Missing {missing}"), usage_line(error))
        }
        _ => {
            let rendered = error.to_string();
            let first = rendered.lines().next().unwrap_or_default();
            UsageError::new(first.strip_prefix("error: ").unwrap_or(first), SEE_HELP)
        }
    }
}

/// Returns the error for a single word that is a command of another agent, or one of ours in
/// another spelling.
pub(crate) fn unknown_word(word: &str) -> Option<String> {
    let hint = match other_agents::word(word) {
        Some(hint) => hint.to_owned(),
        None => format!("did you mean `parallax {}`?", misspelled_command(word)?),
    };
    Some(format!("Unknown command `{word}`: {hint}"))
}

/// Returns the subcommand whose name differs from a word only in case, or by an `s`.
fn misspelled_command(word: &str) -> Option<String> {
    let lower = word.trim().to_lowercase();
    let command = Arguments::command();
    let mut names = command.get_subcommands().map(clap::Command::get_name);
    let found = names.find(|name| lower == *name || lower.strip_suffix('s') == Some(name))?;
    Some(found.to_owned())
}

/// Returns the error for an unknown subcommand of a group, followed by the help of the group.
/// `None` for all other errors.
pub(crate) fn unknown_in_group(error: &clap::Error, argv: &[OsString]) -> Option<String> {
    let text = |kind| error.get(kind).map(describe_value).filter(|text| !text.is_empty());
    let name = text(ContextKind::InvalidSubcommand)?;
    let mut command = Arguments::command();
    command.build();
    let group = command.find_subcommand_mut(argv.get(1)?)?;
    let mut message = format!("error: unknown command `parallax {} {name}`", group.get_name());
    let known: Vec<&str> = group.get_subcommands().map(clap::Command::get_name).collect();
    if let Some(near) = similar_names(&name, known.into_iter()).first() {
        message.push_str(&format!("; did you mean `{near}`?"));
    }
    Some(format!("{}\n\n{}", one_line(&message), group.render_help()))
}

/// Returns the error for an unknown `help WORD`, or for a typo in the second word of a command.
pub(crate) fn unknown_second_word(first: &str, second: &str) -> Option<String> {
    if ["completions", "completion"].iter().any(|name| first.eq_ignore_ascii_case(name)) {
        let shells =
            CompletionShell::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        let shells: Vec<String> = shells.map(|shell| format!("`{}`", shell.get_name())).collect();
        let shells = shells.join(", ");
        return Some(format!("Unknown shell `{second}`; `parallax completions` supports {shells}"));
    }
    let all = Arguments::command();
    let (group, shown) = match all.find_subcommand(first) {
        Some(group) => (group, format!("{first} {second}")),
        None if first.eq_ignore_ascii_case("help") => (&all, second.to_owned()),
        None => return None,
    };
    let names = group.get_subcommands().map(clap::Command::get_name);
    match similar_names(second, names).first() {
        Some(near) => Some(format!("Unknown command `{shown}`; did you mean `{near}`?")),
        // "help me" is a prompt.
        None if std::ptr::eq(group, &all) && !second.eq_ignore_ascii_case("me") => {
            Some(format!("Unknown command `{shown}`"))
        }
        None => None,
    }
}

/// Flags that remove protection: a typo in another name must not suggest one.
const LOOSENING: [&str; 5] =
    ["accept-raw-output-risk", "allowed-tools", "raw-output", "skip-trust", "yolo"];

/// Returns the flag that was probably meant.
fn similar_flag(argv: &[OsString], argument: &str) -> Option<String> {
    let typed = argument.strip_prefix("--")?.split('=').next()?;
    let all = Arguments::command();
    let mut command = &all;
    for word in argv.iter().skip(1) {
        let Some(inner) = command.find_subcommand(word) else { break };
        command = inner;
    }
    let flags = command.get_arguments().filter(|flag| !flag.is_hide_set());
    let names = flags.filter_map(clap::Arg::get_long).filter(|name| !LOOSENING.contains(name));
    similar_names(typed, names).first().map(|name| (*name).to_owned())
}

/// Returns the usage line, which is the last line of clap's message.
fn usage_line(error: &clap::Error) -> String {
    let rendered = error.to_string();
    let line = rendered.lines().find_map(|line| line.trim().strip_prefix("Usage: "));
    line.map_or_else(|| SEE_HELP.to_owned(), |line| format!("Usage: `{}`", line.trim()))
}

fn choices(error: &clap::Error) -> String {
    match error.get(ContextKind::ValidValue) {
        Some(values @ ContextValue::Strings(list)) if !list.is_empty() => {
            format!("Choose one of: {}", describe_value(values))
        }
        _ => SEE_HELP.to_owned(),
    }
}

fn describe_value(value: &ContextValue) -> String {
    match value {
        ContextValue::String(text) => text.clone(),
        ContextValue::Strings(list) => list.join(", "),
        other => other.to_string(),
    }
}

/// Detects a flag that was parsed as the prompt's text: `-p --yolo`.
pub(crate) fn flag_as_prompt(argv: &[OsString]) -> Option<UsageError> {
    let mut words = argv.iter().skip(1).map(|word| word.to_string_lossy()).peekable();
    while let Some(word) = words.next() {
        if word == "--" {
            return None;
        }
        if word != "-p" && word != "--prompt" {
            continue;
        }
        let next = words.peek()?;
        if next.len() > 1 && next.starts_with('-') && !next.contains(char::is_whitespace) {
            return Some(UsageError::new(
                format!("`{word}` requires a value, and `{next}` looks like an option"),
                format!("If it is the prompt, use `--prompt={next}`."),
            ));
        }
        words.next();
    }
    None
}

/// Warns about flags before a subcommand that it does not support.
pub(crate) fn warn_about_flags(subcommand: &str, flags: &[String]) {
    let flags = flags.join("`, `");
    // A failed write to stderr cannot be reported.
    let _ = writeln!(
        io::stderr(),
        "warning: ignored `{}`, which `parallax {subcommand}` does not support",
        one_line(&flags)
    );
}

/// Returns the output format that an invalid command line requests, as far as it can be determined,
/// so that a calling program can parse the error.
pub(crate) fn requested_format(argv: &[OsString]) -> OutputFormat {
    let mut format = OutputFormat::Text;
    let mut before = String::new();
    for word in argv.iter().skip(1).map(|word| word.to_string_lossy()) {
        let value = if before == "-o" || before == "--output-format" {
            Some(word.as_ref())
        } else {
            word.strip_prefix("--output-format=").or_else(|| word.strip_prefix("-o"))
        };
        match value.map(|value| value.trim_start_matches('=')) {
            Some("json") => format = OutputFormat::Json,
            Some("stream-json") => format = OutputFormat::StreamJson,
            Some("text") => format = OutputFormat::Text,
            _ => {}
        }
        before = word.into_owned();
    }
    format
}
