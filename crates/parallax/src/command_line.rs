//! The parser of a command line. Most command lines are prompts; for these, the subcommands, which
//! are most of the parser, are not built.

use std::ffi::OsString;

use clap::{Command, CommandFactory as _, Parser};

use crate::arguments::{Arguments, PrintingArguments, ReplayArgs, SessionArguments};

/// The names and aliases of all subcommands.
const SUBCOMMANDS: &[&str] = &[
    "agent",
    "agents",
    "answer",
    "attach",
    "auth",
    "batch",
    "commands",
    "completion",
    "completions",
    "demo",
    "devtools",
    "doctor",
    "eval",
    "extension",
    "extensions",
    "hook",
    "hooks",
    "logs",
    "man",
    "mcp",
    "models",
    "policy",
    "ps",
    "review",
    "sandbox",
    "schema",
    "serve",
    "session",
    "sessions",
    "skill",
    "skills",
    "stats",
    "stop",
    "trust",
    "undo",
    "worktrees",
];

/// [`Arguments`] without subcommands.
#[derive(Debug, Parser)]
#[command(name = "parallax", disable_version_flag = true, args_override_self = true)]
struct TopLevelArguments {
    /// The prompt; words are joined with spaces
    #[arg(value_name = "PROMPT")]
    words: Vec<String>,

    #[command(flatten)]
    session: SessionArguments,

    #[command(flatten)]
    printing: PrintingArguments,

    #[command(flatten)]
    doubles: ReplayArgs,

    /// Print the version
    #[arg(short = 'v', long)]
    version: bool,
}

/// Returns the parser for a command line that starts with the program name. Without subcommands, it
/// is only for parsing: its help is not complete.
pub(crate) fn parser(argv: &[OsString]) -> Command {
    match names_subcommand(argv) {
        true => Arguments::command(),
        false => TopLevelArguments::command(),
    }
}

/// Parses a command line that starts with the program name.
///
/// # Errors
/// Returns the error or the help of the complete parser.
pub(crate) fn parse(argv: &[OsString]) -> Result<Arguments, clap::Error> {
    if !names_subcommand(argv)
        && let Ok(line) = TopLevelArguments::try_parse_from(argv)
    {
        let TopLevelArguments { words, session, printing, doubles, version } = line;
        return Ok(Arguments { words, command: None, session, printing, doubles, version });
    }
    Arguments::try_parse_from(argv)
}

/// Whether any word is the name of a subcommand.
fn names_subcommand(argv: &[OsString]) -> bool {
    let mut words = argv.iter().skip(1).filter_map(|word| word.to_str());
    words.any(|word| SUBCOMMANDS.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_of_subcommands_is_complete() {
        let command = Arguments::command();
        let mut names: Vec<&str> = command
            .get_subcommands()
            .flat_map(|each| std::iter::once(each.get_name()).chain(each.get_all_aliases()))
            .collect();
        names.sort_unstable();
        assert_eq!(names, SUBCOMMANDS);
    }

    #[test]
    fn prompt_line_has_all_arguments() {
        let arguments = |command: Command| -> Vec<String> {
            // Their places in the help differ.
            let placed = command.get_arguments().map(|argument| argument.clone().display_order(0));
            placed.map(|argument| format!("{argument:?}")).collect()
        };
        assert_eq!(arguments(TopLevelArguments::command()), arguments(Arguments::command()));
        let settings = |command: Command| {
            (command.is_args_override_self(), command.is_disable_version_flag_set())
        };
        assert_eq!(settings(TopLevelArguments::command()), settings(Arguments::command()));
    }

    #[test]
    fn prompts_and_subcommands_are_parsed() {
        let parsed = |line: &[&str]| {
            let argv: Vec<OsString> = line.iter().map(OsString::from).collect();
            parse(&argv).map(|typed| (typed.words, typed.command.is_some()))
        };
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        assert_eq!(parsed(&["parallax", "fix", "it"]).unwrap(), (words(&["fix", "it"]), false));
        assert_eq!(parsed(&["parallax", "mcp", "list"]).unwrap(), (words(&[]), true));
        let help = parsed(&["parallax", "--help"]).unwrap_err().to_string();
        assert!(help.contains("Manage MCP servers"), "{help}");
    }
}
