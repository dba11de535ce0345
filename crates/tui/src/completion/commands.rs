//! The commands of `/` as far as completing them goes: a tree of names, and what
//! fits the part that is typed.

use std::ops::Range;
use std::sync::Arc;

use super::fuzzy::Fuzzy;
use super::list::Candidate;

/// Gives the values that an argument may have, from what is typed of the
/// arguments so far. Runs between two keys, so it must not wait for anything.
pub type Completer = Arc<dyn Fn(&str) -> Vec<Argument> + Send + Sync>;

/// A value of an argument.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Argument {
    /// The complete arguments as they will be inserted.
    pub value: String,
    /// More about it.
    pub description: String,
}

/// A command as the list shows it.
#[derive(Clone, Default)]
pub struct CommandInfo {
    /// Its name, without the slash.
    pub name: String,
    /// Its other names.
    pub aliases: Vec<String>,
    /// What it does.
    pub description: String,
    /// Not in the list.
    pub hidden: bool,
    /// Enter in the list runs it at once; otherwise it is put into the input.
    pub auto_execute: bool,
    /// The heading that it stands under.
    pub section: Option<String>,
    /// What can follow its name.
    pub subcommands: Vec<CommandInfo>,
    /// What its arguments can be.
    pub completer: Option<Completer>,
}

impl std::fmt::Debug for CommandInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CommandInfo").field("name", &self.name).finish_non_exhaustive()
    }
}

impl CommandInfo {
    fn is(&self, word: &str) -> bool {
        self.name == word || self.aliases.iter().any(|alias| alias == word)
    }
}

/// What fits the command being typed.
#[derive(Debug)]
pub struct Fitting {
    /// The bytes of the line that a candidate replaces.
    pub range: Range<usize>,
    /// The best first.
    pub candidates: Vec<Candidate>,
}

/// The matches at `cursor` in a line that begins with `/`; `None` if it is not a command.
pub fn fitting(
    commands: &[CommandInfo],
    line: &str,
    cursor: usize,
    fuzzy: &mut Fuzzy,
) -> Option<Fitting> {
    let rest = line.strip_prefix('/')?;
    if rest.starts_with(['/', '*']) || cursor == 0 {
        return None;
    }
    let mut level = commands;
    let mut completer: Option<&Completer> = None;
    let mut start = 1;
    // Whole words lead down the tree.
    loop {
        let typed = line.get(start..cursor)?;
        let Some((word, _)) = typed.split_once(char::is_whitespace) else { break };
        let Some(command) = level.iter().find(|command| command.is(word)) else {
            // The arguments begin here, if the command takes any.
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
        line.get(cursor..)?.find(char::is_whitespace).map_or(line.len(), |at| cursor + at);
    let mut candidates = ranked(level, typed, start == 1, fuzzy);
    let mut end = word_end;
    if let Some(completer) = completer {
        let arguments = completer(typed);
        if !arguments.is_empty() {
            end = if candidates.is_empty() { line.len() } else { word_end };
        }
        candidates.extend(arguments.into_iter().map(|argument| Candidate {
            exact: argument.value == typed,
            label: argument.value.clone(),
            insert: argument.value,
            description: argument.description,
            whole: true,
            ..Candidate::default()
        }));
    }
    Some(Fitting { range: (if start == 1 { 0 } else { start })..end, candidates })
}

/// Of names that begin alike those that are meant most often, the first one first.
const USUAL: [&str; 8] = ["help", "model", "memory", "mcp", "chat", "clear", "settings", "stats"];

/// Commands whose names fit: exact names, exact aliases, names that begin so (usual
/// ones first), aliases that begin so, then by score.
fn ranked(commands: &[CommandInfo], typed: &str, slash: bool, fuzzy: &mut Fuzzy) -> Vec<Candidate> {
    let mut fitting: Vec<(u8, u16, &CommandInfo)> = Vec::new();
    for command in commands.iter().filter(|command| !command.hidden) {
        let alias = |fits: &dyn Fn(&str) -> bool| command.aliases.iter().any(|alias| fits(alias));
        let rank = if typed.is_empty() || command.name == typed {
            Some((0, 0))
        } else if alias(&|alias| alias == typed) {
            Some((1, 0))
        } else if command.name.starts_with(typed) {
            let usual = USUAL.iter().position(|name| slash && *name == command.name);
            Some((2, usual.map_or(u16::MAX, |at| u16::try_from(at).unwrap_or(u16::MAX))))
        } else if alias(&|alias| alias.starts_with(typed)) {
            Some((3, 0))
        } else {
            let names = std::iter::once(&command.name).chain(&command.aliases);
            names
                .filter_map(|name| fuzzy.score(name, typed))
                .max()
                .map(|score| (4, u16::MAX - score))
        };
        fitting.extend(rank.map(|(rank, score)| (rank, score, command)));
    }
    fitting.sort_by_key(|(rank, score, _)| (*rank, *score));
    let prefix = if slash { "/" } else { "" };
    fitting
        .into_iter()
        .map(|(_, _, command)| Candidate {
            insert: format!("{prefix}{}", command.name),
            label: match command.aliases.as_slice() {
                [] => command.name.clone(),
                aliases => format!("{} ({})", command.name, aliases.join(", ")),
            },
            description: command.description.clone(),
            section: command.section.clone().filter(|_| typed.is_empty()),
            whole: true,
            runs: command.auto_execute && command.completer.is_none(),
            exact: !typed.is_empty() && command.is(typed),
        })
        .collect()
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
        let argument = |value: &str| Argument { value: value.to_owned(), ..Argument::default() };
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
        let fitting = fitting(&tree(), &line, cursor, &mut Fuzzy::words())?;
        let replaced = &line[fitting.range.clone()];
        Some(
            fitting
                .candidates
                .into_iter()
                .map(|candidate| format!("{replaced}→{}", candidate.insert))
                .collect(),
        )
    }

    #[test]
    fn names_are_ranked_and_words_lead_down_the_tree() {
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
    fn of_names_that_begin_alike_the_usual_one_is_first() {
        let commands = [command("mode", &[]), command("model", &[]), command("mop", &[])];
        let first = |line: &str| {
            let fitting = fitting(&commands, line, line.len(), &mut Fuzzy::words()).unwrap();
            fitting.candidates[0].insert.clone()
        };
        assert_eq!([first("/mo"), first("/mod"), first("/model")], ["/model"; 3]);
        assert_eq!([first("/mode"), first("/mop")], ["/mode", "/mop"]);
        assert_eq!(first("/"), "/mode");
    }

    #[test]
    fn what_is_typed_in_full_is_told() {
        let fitting = fitting(&tree(), "/compact", 8, &mut Fuzzy::words()).unwrap();
        assert!(fitting.candidates[0].exact && fitting.candidates[0].runs);
    }
}
