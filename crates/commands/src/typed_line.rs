//! Parses a typed line: which command of the table it names, and with which arguments.

use parallax_config::similar_names;

use crate::names::{
    OWN_PREFIX, equivalent_command, is_alias, is_parallax_only, other_agent_hint,
    strip_parallax_prefix,
};
use crate::table::{CommandSpec, TABLE};

/// Commands that can be abbreviated.
const CUT_SHORT: [&str; 2] = ["chat", "resume"];
/// Minimum length of an abbreviation.
const MIN_LENGTH: usize = 2;

/// The result of parsing an input line.
#[derive(Debug)]
pub enum ParsedLine {
    /// A built-in command with its unchanged arguments.
    Command(&'static CommandSpec, String),
    /// A custom command.
    Custom,
    /// An unknown command, with similar names.
    Unknown(String, Vec<String>),
    /// A command of another agent, with what to use instead.
    OtherAgent(String, &'static str),
    /// An invalid argument word.
    UnknownArgument {
        /// The command up to and including the word.
        command: String,
        /// The word.
        word: String,
        /// Similar subcommands, or all of them.
        near: Vec<String>,
    },
    /// Text for the model: `//`, `/*`, or a path.
    Text,
}

/// Parses a line. Words select subcommands by name or alias; the rest is the argument. `others` are
/// the names of custom commands. They override built-in names that Gemini CLI does not have; such a
/// built-in command is then called `parallax:NAME`.
pub fn parse(line: &str, others: &[String]) -> ParsedLine {
    let Some(rest) = line.trim_start().strip_prefix('/') else { return ParsedLine::Text };
    if rest.starts_with(['/', '*']) {
        return ParsedLine::Text;
    }
    if rest.trim().is_empty() {
        return ParsedLine::Unknown(String::new(), Vec::new());
    }
    let (name, mut rest) = word(rest);
    let is_other = |name: &str| others.iter().any(|other| other == name);
    let resolved = match strip_parallax_prefix(name) {
        Some(_) if is_other(name) => return ParsedLine::Custom,
        Some(plain_name) => plain_name,
        None if (is_parallax_only(name) || is_alias(name)) && is_other(name) => {
            return ParsedLine::Custom;
        }
        None => name,
    };
    let Some(mut spec) = find(resolved, others) else {
        if is_other(name) {
            return ParsedLine::Custom;
        }
        // `/etc/hosts says …` is about a file.
        if name.contains('/') {
            return ParsedLine::Text;
        }
        if let Some(here) = equivalent_command(name) {
            return parse(&format!("/{here} {rest}"), others);
        }
        if let Some(hint) = other_agent_hint(name) {
            return ParsedLine::OtherAgent(name.to_owned(), hint);
        }
        let known = TABLE.iter().map(|spec| spec.name).chain(others.iter().map(String::as_str));
        return ParsedLine::Unknown(name.to_owned(), to_strings(similar_names(name, known)));
    };
    let mut path = name.to_owned();
    loop {
        let (name, after) = word(rest);
        match spec.subcommands.iter().find(|sub| sub.has_name(name)) {
            Some(sub) => {
                path = format!("{path} {name}");
                (spec, rest) = (sub, after);
            }
            None if spec.arguments.is_empty() && !name.is_empty() => {
                return unexpected_word(spec, path, name);
            }
            None => return ParsedLine::Command(spec, rest.to_owned()),
        }
    }
}

/// Returns the name and the remaining aliases of a built-in command next to custom commands: the
/// prefixed name if a custom command has its plain name.
pub fn available_names(
    spec: &CommandSpec,
    is_taken: impl Fn(&str) -> bool,
) -> (String, Vec<String>) {
    let is_gone = |name: &str| (is_parallax_only(name) || is_alias(name)) && is_taken(name);
    let name = match is_gone(spec.name) {
        true => format!("{OWN_PREFIX}{}", spec.name),
        false => spec.name.to_owned(),
    };
    let left = spec.aliases.iter().filter(|alias| !is_gone(alias));
    (name, left.map(|alias| (*alias).to_owned()).collect())
}

/// Finds a command by name. `/resume` and `/chat` may be abbreviated if the abbreviation is
/// unambiguous.
fn find(name: &str, others: &[String]) -> Option<&'static CommandSpec> {
    let exact = TABLE.iter().find(|spec| spec.has_name(name));
    if exact.is_some() || name.len() < MIN_LENGTH || others.iter().any(|other| other == name) {
        return exact;
    }
    let names = TABLE.iter().flat_map(|spec| spec.aliases.iter().copied().chain([spec.name]));
    let mut matching =
        names.chain(others.iter().map(String::as_str)).filter(|it| it.starts_with(name));
    let only = matching.next().filter(|it| CUT_SHORT.contains(it) && matching.next().is_none())?;
    TABLE.iter().find(|spec| spec.name == only)
}

/// Returns the error for a word after a command that does not accept it.
fn unexpected_word(spec: &CommandSpec, command: String, word: &str) -> ParsedLine {
    let listed = || spec.subcommands.iter().filter(|sub| !sub.hidden).map(|sub| sub.name);
    let mut near = similar_names(word, listed());
    if near.is_empty() {
        near = listed().collect();
    }
    ParsedLine::UnknownArgument { command, word: word.to_owned(), near: to_strings(near) }
}

fn to_strings(names: Vec<&str>) -> Vec<String> {
    names.into_iter().map(str::to_owned).collect()
}

/// Splits off the first word.
fn word(text: &str) -> (&str, &str) {
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    (word, rest.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::SlashCommand;

    fn command(line: &str) -> (SlashCommand, String) {
        match parse(line, &[]) {
            ParsedLine::Command(spec, arguments) => (spec.command, arguments),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn subcommand_words_are_resolved_in_the_table() {
        assert_eq!(command("/chat"), (SlashCommand::Chat, String::new()));
        assert_eq!(
            command("/resume save  my tag "),
            (SlashCommand::ChatSave, "my tag ".to_owned())
        );
        assert_eq!(command("/resume load x"), (SlashCommand::ChatResume, "x".to_owned()));
        assert_eq!(command("/chat checkpoint save x"), (SlashCommand::ChatSave, "x".to_owned()));
        assert_eq!(command("/resume checkpoints"), (SlashCommand::ChatList, String::new()));
        assert_eq!(command("/new"), (SlashCommand::Clear, String::new()));
        assert_eq!(command("/model set flash"), (SlashCommand::ModelSet, "flash".to_owned()));
        assert_eq!(command("/?"), (SlashCommand::Help, String::new()));
    }

    #[test]
    fn custom_commands_override_names_unknown_to_gemini_cli() {
        let others = ["commit".to_owned(), "cost".to_owned(), "help".to_owned()];
        assert!(matches!(parse("/commit now", &others), ParsedLine::Custom));
        assert!(matches!(parse("/cost", &others), ParsedLine::Custom));
        for (line, meant) in [
            ("/help", SlashCommand::Help),
            ("/parallax:commit", SlashCommand::Commit),
            ("/parallax:cost", SlashCommand::StatsPanel),
            ("/diff", SlashCommand::Diff),
            ("/parallax:diff", SlashCommand::Diff),
            ("/parallax x", SlashCommand::Parallax),
        ] {
            let ParsedLine::Command(spec, _) = parse(line, &others) else { panic!("{line}") };
            assert_eq!(spec.command, meant, "{line}");
        }
        let stats = TABLE.iter().find(|spec| spec.has_name("stats")).unwrap();
        let called = available_names(stats, |name| others.iter().any(|other| other == name));
        assert_eq!(called, ("stats".to_owned(), vec!["usage".to_owned()]));
    }

    #[test]
    fn chat_and_resume_accept_abbreviations() {
        assert_eq!(command("/resum list"), (SlashCommand::ChatList, String::new()));
        assert_eq!(command("/cha"), (SlashCommand::Chat, String::new()));
        // Ambiguous, or a custom command may be meant.
        assert!(matches!(parse("/re", &[]), ParsedLine::Unknown(..)));
        assert!(matches!(parse("/stat", &[]), ParsedLine::Unknown(..)));
        assert!(matches!(parse("/cha", &["chart".to_owned()]), ParsedLine::Unknown(..)));
    }

    #[test]
    fn unknown_subcommand_is_reported_with_similar_ones() {
        for (line, expected, names) in [
            ("/chat lst", "chat lst", &["list"][..]),
            ("/auth bogus", "auth bogus", &["signin", "signout"]),
            ("/vim x", "vim x", &[]),
            ("/mcp list x y", "mcp list x", &[]),
        ] {
            let ParsedLine::UnknownArgument { command, word, near } = parse(line, &[]) else {
                panic!("{line} runs");
            };
            assert_eq!(format!("{command} {word}"), expected);
            assert_eq!(near, names);
        }
        assert_eq!(
            command("/skills nodesc all"),
            (SlashCommand::SkillsPanel, "nodesc all".to_owned())
        );
    }

    #[test]
    fn commands_of_other_agents_run_the_equivalent() {
        assert_eq!(command("/status"), (SlashCommand::About, String::new()));
        assert_eq!(command("/config"), (SlashCommand::Settings, String::new()));
        assert_eq!(command("/add-dir /x"), (SlashCommand::DirectoryAdd, "/x".to_owned()));
        assert_eq!(command("/logout"), (SlashCommand::AuthSignOut, String::new()));
        assert!(matches!(parse("/status", &["status".to_owned()]), ParsedLine::Custom));
        for name in ["review", "upgrade", "doctor"] {
            let parsed = parse(&format!("/{name} x"), &[]);
            assert!(matches!(parsed, ParsedLine::OtherAgent(..)), "{parsed:?}");
        }
    }

    #[test]
    fn misspelled_command_is_reported_with_a_suggestion() {
        let ParsedLine::Unknown(name, near) = parse("/modle now", &["models:own".to_owned()])
        else {
            panic!("known?");
        };
        assert_eq!(name, "modle");
        assert_eq!(near[0], "mode");
        assert!(near.contains(&"model".to_owned()));
        assert!(matches!(parse("/ ", &[]), ParsedLine::Unknown(name, _) if name.is_empty()));
        assert!(matches!(parse("//x", &[]), ParsedLine::Text));
        assert!(matches!(parse("/etc/hosts is", &[]), ParsedLine::Text));
        assert!(matches!(parse("/* x */", &[]), ParsedLine::Text));
    }
}
