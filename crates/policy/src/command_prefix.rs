//! Command prefixes: the first words of commands, as used in rules and settings.

use crate::bash::{Command, Word};

/// Directories whose programs are matched by their base names.
const SYSTEM_FOLDERS: &[&str] = &["/usr/bin/", "/bin/", "/usr/sbin/", "/sbin/", "/usr/local/bin/"];

/// Variables that change the output of a program but not what it does. A command with any other
/// variable assignment does more than its words show.
const HARMLESS_VARIABLES: &[&str] = &[
    "CARGO_TERM_COLOR",
    "CI",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLUMNS",
    "DEBIAN_FRONTEND",
    "FORCE_COLOR",
    "GIT_TERMINAL_PROMPT",
    "LANG",
    "LC_ALL",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LINES",
    "NODE_ENV",
    "NO_COLOR",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONUNBUFFERED",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "TERM",
    "TZ",
];

/// Options whose value is free text that may be known only at run time.
const TEXT_OPTIONS: &[&str] = &["-m", "--message", "-b", "--body", "-t", "--title"];

/// The first words of a command, compared word by word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandPrefix {
    words: Vec<String>,
    /// Whether no further word may follow.
    is_exact: bool,
}

/// The suffix of a prefix that allows no further words.
const END: &str = " $";

impl CommandPrefix {
    /// Parses a prefix such as `git status`. A trailing `*` or `:*` is dropped, and quotes group
    /// words. An empty prefix matches every command. A trailing `$` means that no further words may
    /// follow.
    pub fn parse(text: &str) -> Self {
        let text = text.trim();
        let (text, is_exact) = match text.strip_suffix(END) {
            Some(text) => (text.trim_end(), true),
            None => (text, false),
        };
        let text = text.strip_suffix(":*").or_else(|| text.strip_suffix(" *")).unwrap_or(text);
        let text = if text == "*" { "" } else { text };
        let words = split_words(text);
        let words = words.unwrap_or_else(|| text.split_whitespace().map(str::to_owned).collect());
        Self { words, is_exact }
    }

    /// Returns why no command can begin with this text, or `None` if one can.
    pub(crate) fn impossible_reason(text: &str) -> Option<&'static str> {
        let text = text.trim();
        if text == "$" {
            return Some("`$` alone is not a command");
        }
        if split_words(text.strip_suffix(END).unwrap_or(text)).is_none() {
            return Some("it has an unclosed quote");
        }
        let mut quote = None;
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            match (quote, character) {
                (None, '\'' | '"') => quote = Some(character),
                (Some(open), _) if open == character => quote = None,
                (None | Some('"'), '\\') => drop(characters.next()),
                (None, ';' | '&' | '|' | '<' | '>' | '\n') => {
                    return Some(
                        "it contains more than one command: each command of a line is evaluated \
                         separately",
                    );
                }
                _ => {}
            }
        }
        let first = text.split_whitespace().next().unwrap_or_default();
        let name = first.split_once('=').map(|(name, _)| name).unwrap_or_default();
        let is_name = !name.is_empty()
            && !name.starts_with(|first: char| first.is_ascii_digit())
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        is_name.then_some("it begins with an assignment, which is not part of a command")
    }

    /// Returns the words of the prefix.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Returns the prefix in rule syntax.
    pub fn text(&self) -> String {
        let words: Vec<String> = self.words.iter().map(|word| quote_word(word)).collect();
        format!("{}{}", words.join(" "), if self.is_exact { END } else { "" })
    }

    /// Whether the command is certain to begin with these words and does nothing beyond what they
    /// show.
    pub(crate) fn covers(&self, command: &Command) -> bool {
        let mut words = command.words.iter();
        let starts = self.words.iter().enumerate().all(|(index, want)| {
            let Some(word) = words.next().filter(|word| !word.glob) else { return false };
            let Some(text) = word.text.as_deref() else { return false };
            text == want || (index == 0 && is_system_program(text, want))
        });
        let fits = !self.is_exact || self.words.len() == command.words.len();
        starts && fits && is_settled(command)
    }

    /// Whether the command consists of exactly these words.
    pub(crate) fn is_exactly(&self, command: &Command) -> bool {
        self.words.len() == command.words.len() && self.covers(command)
    }

    /// Whether the command might begin with these words, ignoring options between them.
    pub(crate) fn may_cover(&self, command: &Command) -> bool {
        let Some((program, rest)) = self.words.split_first() else { return true };
        let Some((word, arguments)) = command.words.split_first() else { return false };
        let words: Vec<Option<&str>> = arguments
            .iter()
            .map(|word| if word.glob { None } else { word.text.as_deref() })
            .collect();
        may_be_program(word, program) && may_follow(rest, &words)
    }

    /// Like [`may_cover`](Self::may_cover), for words found by the permissive scan.
    pub(crate) fn may_cover_words(&self, program: &str, arguments: &[String]) -> bool {
        let Some((want, rest)) = self.words.split_first() else { return true };
        let words: Vec<Option<&str>> = arguments
            .iter()
            .map(|word| Some(word.as_str()).filter(|word| !is_open(word)))
            .collect();
        (base_name(program) == base_name(want) || is_open(program)) && may_follow(rest, &words)
    }
}

/// Whether no word known only at run time can add an option to the command, and nothing before the
/// command changes what its program does.
pub(crate) fn is_settled(command: &Command) -> bool {
    let harmless = command.assignments.iter().all(|assignment| {
        HARMLESS_VARIABLES.contains(&assignment.name.as_str()) && assignment.value.text.is_some()
    });
    let is_program = command.words.first().is_some_and(|word| {
        !word.glob && word.text.as_deref().is_some_and(|text| !text.is_empty())
    });
    let mut before: Option<&str> = None;
    harmless
        && is_program
        && command.words.iter().all(|word| {
            let is_text = before.is_some_and(|before| TEXT_OPTIONS.contains(&before));
            before = word.text.as_deref();
            word_is_settled(word, is_text)
        })
}

fn word_is_settled(word: &Word, is_text: bool) -> bool {
    let source = word.source.as_str();
    let begins_plain = |text: &str| {
        text.starts_with(|first: char| first.is_alphanumeric() || matches!(first, '_' | '.' | '/'))
    };
    match (&word.text, word.glob) {
        (Some(_), false) => true,
        // A glob may match a file of any name, including one that begins with a dash.
        (Some(_), true) => begins_plain(source),
        (None, _) => {
            let quoted = source.strip_prefix('"').filter(|rest| rest.ends_with('"'));
            !word.glob && quoted.is_some_and(|rest| is_text || begins_plain(rest))
        }
    }
}

fn may_be_program(word: &Word, want: &str) -> bool {
    match word.text.as_deref() {
        Some(text) if !word.glob => base_name(text) == base_name(want),
        _ => true,
    }
}

/// Whether the wanted words may occur in `words` in this order, with only options (and their
/// values) between them.
fn may_follow(want: &[String], words: &[Option<&str>]) -> bool {
    // Positions where the next wanted word may be.
    let mut marked = vec![false; words.len() + 2];
    if let Some(first) = marked.first_mut() {
        *first = true;
    }
    for want in want {
        // An option counts at any position.
        if want.starts_with('-') {
            if !words.iter().any(|word| word.is_none_or(|word| word == want)) {
                return false;
            }
            continue;
        }
        let mut next = vec![false; marked.len()];
        for (index, word) in words.iter().enumerate() {
            if marked.get(index) != Some(&true) {
                continue;
            }
            // This word may expand to any number of words.
            let Some(word) = word else { return true };
            if word == want {
                mark(&mut next, index + 1);
            }
            if word.starts_with('-') {
                mark(&mut marked, index + 1);
                if !word.contains('=') {
                    mark(&mut marked, index + 2);
                }
            }
        }
        if !next.contains(&true) {
            return false;
        }
        marked = next;
    }
    true
}

fn mark(marked: &mut [bool], at: usize) {
    if let Some(place) = marked.get_mut(at) {
        *place = true;
    }
}

fn is_system_program(text: &str, want: &str) -> bool {
    SYSTEM_FOLDERS.iter().any(|directory| text.strip_prefix(directory) == Some(want))
}

pub(crate) fn base_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Whether the word is known only at run time.
fn is_open(word: &str) -> bool {
    word.contains(['$', '`', '*', '?', '['])
}

/// Splits the text into words after removing quotes and backslashes. Returns `None` if a quote is
/// not closed.
fn split_words(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next()? {
                        '\'' => break,
                        inner => word.push(inner),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next()? {
                        '"' => break,
                        '\\' => match characters.next()? {
                            escaped @ ('"' | '\\' | '$' | '`') => word.push(escaped),
                            other => word.extend(['\\', other]),
                        },
                        inner => word.push(inner),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(characters.next()?),
            blank if blank.is_whitespace() => words.extend(word.take()),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Some(words)
}

/// Returns the word as written in a prefix, quoted if necessary.
pub(crate) fn quote_word(word: &str) -> String {
    let plain = |character: char| character.is_alphanumeric() || "_-./:,+=@%^".contains(character);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    shell_words::quote(word).into_owned()
}

#[cfg(test)]
mod tests {
    use super::{CommandPrefix, may_follow, quote_word};

    #[test]
    fn command_prefix_round_trips() {
        for words in [vec!["git", "log"], vec!["echo", "a 'b' c"], vec!["x", ""], vec!["a", "b*"]] {
            let text = words.iter().map(|word| quote_word(word)).collect::<Vec<_>>().join(" ");
            assert_eq!(CommandPrefix::parse(&text).words(), words, "{text}");
            assert_eq!(CommandPrefix::parse(&text).text(), text);
        }
        for text in ["npm run", "npm run *", " npm  run:*"] {
            assert_eq!(CommandPrefix::parse(text).words(), ["npm", "run"]);
        }
        assert!(CommandPrefix::parse("*").words().is_empty());
        let exact = CommandPrefix::parse("rm 'a $' b $");
        assert_eq!(
            (exact.words(), exact.text().as_str()),
            (&["rm", "a $", "b"].map(str::to_owned)[..], "rm 'a $' b $")
        );
    }

    #[test]
    fn options_do_not_hide_the_subcommand() {
        let want = ["push".to_owned()];
        let found = |words: &[&str]| {
            let words: Vec<Option<&str>> = words.iter().map(|word| Some(*word)).collect();
            may_follow(&want, &words)
        };
        for words in
            [&["push"][..], &["-C", "x", "push"], &["--no-pager", "-c", "a=b", "push", "f"]]
        {
            assert!(found(words), "{words:?}");
        }
        for words in [&["log", "push"][..], &["pull"], &[], &["-C", "push"]] {
            assert!(found(words) == (words == ["-C", "push"]), "{words:?}");
        }
        let force = ["push".to_owned(), "--force".to_owned()];
        assert!(may_follow(&force, &[Some("push"), Some("origin"), Some("--force")]));
        assert!(may_follow(&want, &[None]));
    }
}
