//! Completion of slash commands: a tree of names, and the matches of the typed part.

use std::ops::Range;
use std::sync::Arc;

use parallax_commands::{equivalent_command, other_agent_hint};

use super::fuzzy::FuzzyMatcher;
use super::list::Candidate;

/// Returns the possible values of an argument for the arguments typed so far. Called for each key,
/// so it must not block.
pub type Completer = Arc<dyn Fn(&str) -> Vec<ArgumentValue> + Send + Sync>;

/// A possible value of an argument.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ArgumentValue {
    /// The complete arguments to insert.
    pub value: String,
    /// A description; may be empty.
    pub description: String,
}

/// A command as shown in the list.
#[derive(Clone, Default)]
pub struct CommandInfo {
    /// The name without the slash.
    pub name: String,
    /// The aliases.
    pub aliases: Vec<String>,
    /// The description.
    pub description: String,
    /// Whether the command is hidden from the list.
    pub hidden: bool,
    /// Whether Enter in the list runs the command at once instead of inserting it.
    pub auto_execute: bool,
    /// The heading of the command in the list.
    pub section: Option<String>,
    /// Whether a setting turns the command off; it is then offered last.
    pub disabled: bool,
    /// The subcommands.
    pub subcommands: Vec<CommandInfo>,
    /// Completes the arguments.
    pub completer: Option<Completer>,
}

impl std::fmt::Debug for CommandInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CommandInfo").field("name", &self.name).finish_non_exhaustive()
    }
}

impl CommandInfo {
    fn has_name(&self, word: &str) -> bool {
        self.name == word || self.aliases.iter().any(|alias| alias == word)
    }
}

/// The matches of the command being typed.
#[derive(Debug)]
pub struct CommandMatches {
    /// The byte range of the line that a candidate replaces.
    pub range: Range<usize>,
    /// The candidates, best first.
    pub candidates: Vec<Candidate>,
}

/// Returns the matches at `cursor` in a line that starts with `/`, or `None` if it is not a
/// command.
pub fn matching_commands(
    commands: &[CommandInfo],
    line: &str,
    cursor: usize,
    fuzzy: &mut FuzzyMatcher,
) -> Option<CommandMatches> {
    let rest = line.strip_prefix('/')?;
    if rest.starts_with(['/', '*']) || cursor == 0 {
        return None;
    }
    let mut level = commands;
    let mut completer: Option<&Completer> = None;
    let mut start = 1;
    // Complete words select subcommands.
    loop {
        let typed = line.get(start..cursor)?;
        let Some((word, _)) = typed.split_once(char::is_whitespace) else { break };
        let Some(command) = level.iter().find(|command| command.has_name(word)) else {
            // The arguments begin here, if the command has any.
            level = &[];
            break;
        };
        level = &command.subcommands;
        completer = command.completer.as_ref();
        start += word.len();
        let typed = line.get(start..cursor)?;
        start += typed.len() - typed.trim_start().len();
    }
    let typed = line.get(start..cursor)?;
    let word_end =
        line.get(cursor..)?.find(char::is_whitespace).map_or(line.len(), |offset| cursor + offset);
    let mut candidates = rank_commands(level, typed, start == 1, fuzzy);
    let mut end = word_end;
    if let Some(completer) = completer {
        let arguments = completer(typed);
        if !arguments.is_empty() {
            end = if candidates.is_empty() { line.len() } else { word_end };
        }
        candidates.extend(arguments.into_iter().map(|argument| Candidate {
            exact: argument.value == typed,
            optional: is_optional(typed, &argument.value),
            label: argument.value.clone(),
            insert: argument.value,
            description: argument.description,
            is_complete: true,
            ..Candidate::default()
        }));
    }
    Some(CommandMatches { range: (if start == 1 { 0 } else { start })..end, candidates })
}

/// Whether a value adds an option that the user has not begun to type.
fn is_optional(input: &str, value: &str) -> bool {
    let is_between = input.is_empty() || input.ends_with(char::is_whitespace);
    is_between && value.strip_prefix(input).is_some_and(|rest| rest.starts_with('-'))
}

/// Frequently used commands; among equal matches they come first, in this order.
const USUAL: [&str; 9] =
    ["help", "model", "memory", "mcp", "chat", "clear", "settings", "stats", "resume"];

/// The ranks of commands whose name, or only an alias, contains the typed letters.
const FUZZY_NAME: u8 = 4;
const FUZZY_ALIAS: u8 = 5;

/// Ranks matching commands: exact names, exact aliases, name prefixes (usual commands first), alias
/// prefixes, then by score. Commands that are turned off follow what begins alike.
fn rank_commands(
    commands: &[CommandInfo],
    input: &str,
    slash: bool,
    fuzzy: &mut FuzzyMatcher,
) -> Vec<Candidate> {
    // A command of another agent is taken as typed, not completed to what begins alike.
    let is_foreign = equivalent_command(input).is_some() || other_agent_hint(input).is_some();
    let is_ours =
        |command: &CommandInfo| command.name.starts_with(input) || command.has_name(input);
    if slash && is_foreign && !commands.iter().any(is_ours) {
        return Vec::new();
    }
    let mut matches: Vec<(u8, u16, &CommandInfo)> = Vec::new();
    for command in commands.iter().filter(|command| !command.hidden) {
        let alias = |fits: &dyn Fn(&str) -> bool| command.aliases.iter().any(|alias| fits(alias));
        let rank = if input.is_empty() || command.name == input {
            Some((0, 0))
        } else if alias(&|alias| alias == input) {
            Some((1, 0))
        } else if command.name.starts_with(input) {
            let usual = USUAL.iter().position(|name| slash && *name == command.name);
            Some((2, usual.map_or(u16::MAX, |at| u16::try_from(at).unwrap_or(u16::MAX))))
        } else if alias(&|alias| alias.starts_with(input)) {
            Some((3, 0))
        } else {
            let name_score = fuzzy.score(&command.name, input);
            let alias_scores = command.aliases.iter().filter_map(|name| fuzzy.score(name, input));
            name_score.max(alias_scores.max()).map(|score| {
                if name_score.is_none() {
                    (FUZZY_ALIAS, u16::MAX - score)
                } else {
                    (FUZZY_NAME, u16::MAX - score)
                }
            })
        };
        let rank = match rank {
            Some((0..=3, _)) if command.disabled && command.name != input => Some((3, u16::MAX)),
            rank => rank,
        };
        matches.extend(rank.map(|(rank, score)| (rank, score, command)));
    }
    matches.sort_by_key(|(rank, score, _)| ((*rank).min(FUZZY_NAME), *score));
    let prefix = if slash { "/" } else { "" };
    matches
        .into_iter()
        .map(|(rank, _, command)| Candidate {
            insert: format!("{prefix}{}", command.name),
            // An alias that was typed is part of the name in every row.
            label: match matches_alias(rank) {
                true => format!("{} {}", command.name, list_aliases(command)),
                false => command.name.clone(),
            },
            aliases: match matches_alias(rank) {
                true => String::new(),
                false => list_aliases(command),
            },
            description: command.description.clone(),
            section: command.section.clone().filter(|_| input.is_empty()),
            is_complete: true,
            runs: command.auto_execute && command.completer.is_none(),
            exact: !input.is_empty() && command.has_name(input),
            optional: false,
        })
        .collect()
}

/// Whether a command of this rank matches only by an alias.
fn matches_alias(rank: u8) -> bool {
    matches!(rank, 1 | 3 | FUZZY_ALIAS)
}

fn list_aliases(command: &CommandInfo) -> String {
    match command.aliases.as_slice() {
        [] => String::new(),
        aliases => format!("({})", aliases.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(name: &str, aliases: &[&str]) -> CommandInfo {
        CommandInfo {
            name: name.to_owned(),
            aliases: aliases.iter().map(|alias| (*alias).to_owned()).collect(),
            ..CommandInfo::default()
        }
    }

    fn tree() -> Vec<CommandInfo> {
        let argument =
            |value: &str| ArgumentValue { value: value.to_owned(), ..ArgumentValue::default() };
        vec![
            command("memory", &[]),
            CommandInfo {
                subcommands: vec![
                    command("list", &["ls"]),
                    CommandInfo {
                        completer: Some(Arc::new(move |typed: &str| {
                            ["tag one", "two"]
                                .into_iter()
                                .filter(|value| value.starts_with(typed))
                                .map(argument)
                                .collect()
                        })),
                        ..command("resume", &["load"])
                    },
                ],
                ..command("chat", &[])
            },
            command("mcp", &[]),
            command("help", &["?"]),
            CommandInfo { hidden: true, ..command("corgi", &[]) },
            CommandInfo { auto_execute: true, ..command("compress", &["summarize", "compact"]) },
            command("copy", &[]),
            command("me", &[]),
        ]
    }

    fn inserts(line: &str) -> Option<Vec<String>> {
        let cursor = line.find('|').unwrap();
        let line = line.replacen('|', "", 1);
        let matches = matching_commands(&tree(), &line, cursor, &mut FuzzyMatcher::for_words())?;
        let replaced = &line[matches.range.clone()];
        Some(
            matches
                .candidates
                .into_iter()
                .map(|candidate| format!("{replaced}→{}", candidate.insert))
                .collect(),
        )
    }

    #[test]
    fn command_names_are_ranked_and_subcommands_are_completed() {
        for (line, expected) in [
            ("/me|", vec!["/me→/me", "/me→/memory", "/me→/compress"]),
            ("/mem|", vec!["/mem→/memory"]),
            ("/?|", vec!["/?→/help"]),
            ("/comp|", vec!["/comp→/compress"]),
            ("/sum|", vec!["/sum→/compress"]),
            ("/cpy|", vec!["/cpy→/copy"]),
            ("/corgi|", vec![]),
            ("/chat l|", vec!["l→list", "l→resume"]),
            ("/chat |", vec!["→list", "→resume"]),
            ("/chat resume |", vec!["→tag one", "→two"]),
            ("/chat load ta|", vec!["ta→tag one"]),
            ("/chat resume tag o|", vec!["tag o→tag one"]),
            ("/nothing x|", vec![]),
            ("/c|hat", vec!["/chat→/chat", "/chat→/compress", "/chat→/copy", "/chat→/mcp"]),
        ] {
            assert_eq!(inserts(line).unwrap(), expected, "{line}");
        }
        for line in ["//x|", "/*|", "x|", "|/me"] {
            assert_eq!(inserts(line), None, "{line}");
        }
    }

    #[test]
    fn most_used_of_equal_prefixes_is_first() {
        let commands = [command("mode", &[]), command("model", &[]), command("mop", &[])];
        let first = |line: &str| {
            let matches =
                matching_commands(&commands, line, line.len(), &mut FuzzyMatcher::for_words())
                    .unwrap();
            matches.candidates[0].insert.clone()
        };
        assert_eq!([first("/mo"), first("/mod"), first("/model")], ["/model"; 3]);
        assert_eq!([first("/mode"), first("/mop")], ["/mode", "/mop"]);
        assert_eq!(first("/"), "/mode");
    }

    #[test]
    fn disabled_commands_come_last() {
        let off = CommandInfo { disabled: true, ..command("restore", &[]) };
        let commands = [off, command("rewind", &[]), command("resume", &[]), command("reset", &[])];
        let first = |line: &str| {
            let matches =
                matching_commands(&commands, line, line.len(), &mut FuzzyMatcher::for_words())
                    .unwrap();
            matches.candidates[0].insert.clone()
        };
        assert_eq!(
            [first("/re"), first("/res"), first("/rest")],
            ["/resume", "/resume", "/restore"]
        );
    }

    #[test]
    fn options_are_distinguished_from_values() {
        assert!(is_optional("", "--force") && is_optional("3 ", "3 --force"));
        assert!(!is_optional("--f", "--force") && !is_optional("", "3"));
    }

    #[test]
    fn exactly_typed_command_is_recognized() {
        let matches =
            matching_commands(&tree(), "/compact", 8, &mut FuzzyMatcher::for_words()).unwrap();
        assert!(matches.candidates[0].exact && matches.candidates[0].runs);
    }

    #[test]
    fn command_of_another_agent_is_not_completed_to_another_one() {
        let commands = [command("footer", &["statusline"]), command("quit", &[])];
        let labels = |typed: &str| {
            let candidates = rank_commands(&commands, typed, true, &mut FuzzyMatcher::for_words());
            candidates.into_iter().map(|it| it.insert).collect::<Vec<_>>()
        };
        assert_eq!(labels("status"), Vec::<String>::new());
        assert_eq!(labels("stat"), ["/footer"]);
        assert_eq!(labels("q"), ["/quit"]);
    }
}
