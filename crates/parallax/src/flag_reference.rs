//! Keeps `docs/reference/flags.md` in agreement with the definition of the arguments.

use std::fmt::Write as _;

use clap::builder::PossibleValue;
use clap::{Arg, ArgAction, Command, CommandFactory as _};

use crate::arguments::Arguments;
use crate::mcp_arguments::AddArguments;

const INTRO: &str =
    "# Flags reference

For everyone who calls `parallax`: all commands with their arguments and flags. [Command line](../cli-reference.md)
explains them and links the page of each command. This page is generated from the definitions in `crates/parallax/src/`;
`parallax --help` and `parallax COMMAND --help` print the same. `-h` and `--help` work with every command.
";

/// Writes a command and its subcommands.
fn write_command(text: &mut String, name: &str, command: &Command) {
    // Its own parser reads the arguments of the server.
    let add = AddArguments::command();
    let command = if name == "parallax mcp add" { &add } else { command };
    let _ = write!(text, "\n## {name}\n");
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string);
    if let Some(about) = about {
        let _ = write!(text, "\n{}.\n", one_line(&about).trim_end_matches('.'));
    }
    let aliases: Vec<String> =
        command.get_visible_aliases().map(|alias| format!("`{alias}`")).collect();
    if !aliases.is_empty() {
        let _ = write!(text, "\nAlso called {}.\n", aliases.join(", "));
    }
    let rows: Vec<String> = command
        .get_arguments()
        .filter(|it| !it.is_hide_set() && it.get_id() != "help")
        .map(row)
        .collect();
    if !rows.is_empty() {
        let _ = write!(text, "\n| Flag | Meaning |\n| --- | --- |\n{}", rows.concat());
    }
    for inner in command.get_subcommands() {
        if !inner.is_hide_set() && inner.get_name() != "help" {
            self::write_command(text, &format!("{name} {}", inner.get_name()), inner);
        }
    }
}

/// Returns the row of an argument.
fn row(argument: &Arg) -> String {
    let help = argument.get_long_help().or(argument.get_help()).map(ToString::to_string);
    let mut description = one_line(&help.unwrap_or_default());
    let values: Vec<String> = argument
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set() && takes_value(argument))
        .map(possible_value)
        .collect();
    if !values.is_empty() {
        let _ = write!(description, "; one of {}", values.join(", "));
    }
    let defaults: Vec<String> = argument
        .get_default_values()
        .iter()
        .map(|value| format!("`{}`", value.to_string_lossy()))
        .collect();
    if !defaults.is_empty() && takes_value(argument) && !argument.is_hide_default_value_set() {
        let _ = write!(description, " [default: {}]", defaults.join(", "));
    }
    format!("| {} | {} |\n", names(argument), description.replace('|', "\\|"))
}

/// Returns the names of a flag, or of an argument without a flag.
fn names(argument: &Arg) -> String {
    let values: Vec<String> =
        argument.get_value_names().unwrap_or_default().iter().map(ToString::to_string).collect();
    let value = match values.as_slice() {
        [] => argument.get_id().as_str().to_uppercase(),
        names => names.join(" "),
    };
    let optional = argument.get_num_args().is_some_and(|range| range.min_values() == 0);
    let value = match (takes_value(argument), optional && argument.is_require_equals_set()) {
        (false, _) => String::new(),
        (true, true) => format!("[={value}]"),
        (true, false) if optional => format!(" [{value}]"),
        (true, false) => format!(" {value}"),
    };
    let short = argument.get_short().map(|short| format!("`-{short}`"));
    let long = argument.get_long().map(|long| format!("`--{long}{value}`"));
    match (short, long) {
        (Some(short), Some(long)) => format!("{short}, {long}"),
        (None, Some(long)) => long,
        (Some(short), None) => short,
        (None, None) => {
            let repeated = argument.get_num_args().is_some_and(|range| range.max_values() > 1)
                || matches!(argument.get_action(), ArgAction::Append);
            format!("`{}{}`", value.trim(), if repeated { "…" } else { "" })
        }
    }
}

fn takes_value(argument: &Arg) -> bool {
    matches!(argument.get_action(), ArgAction::Set | ArgAction::Append)
}

fn possible_value(value: &PossibleValue) -> String {
    match value.get_help() {
        Some(help) => format!("`{}` ({})", value.get_name(), one_line(&help.to_string())),
        None => format!("`{}`", value.get_name()),
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn page() -> String {
    let mut program = Arguments::command();
    program.build();
    let mut text = INTRO.to_owned();
    write_command(&mut text, "parallax", &program);
    text.push_str(
        "\nNext: [Command line](../cli-reference.md) and [Headless runs](../headless.md).\n",
    );
    text
}

#[test]
fn reference_page_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/flags.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, page()).expect("written");
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(written == page(), "docs/reference/flags.md is out of date: run with UPDATE_DOCS=1");
}
