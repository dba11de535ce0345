//! What the reader of a line gathers on its way.

use std::collections::BTreeSet;
use std::ops::Range;

use super::line::{Command, Redirection, Word};

/// Why the reader gives up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal(pub(super) String);

impl Refusal {
    pub(super) fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

pub(super) type Reading<T> = Result<T, Refusal>;

/// A word with what only the reader knows of it.
#[derive(Debug, Clone, Default)]
pub(super) struct Token {
    pub(super) word: Word,
    /// No quotes, escapes or expansions: it may be a reserved word.
    pub(super) plain: bool,
    /// An unquoted expansion may make many words of it, or none.
    pub(super) splits: bool,
    /// An unquoted command substitution is part of it.
    pub(super) substitutes: bool,
    /// The variables that are expanded outside quotes.
    pub(super) variables: Vec<String>,
    /// It has the form `NAME=…`.
    pub(super) assignment: Option<super::line::Assignment>,
    pub(super) start: usize,
}

/// A simple command as it was read.
#[derive(Debug, Clone, Default)]
pub(super) struct Simple {
    pub(super) command: Command,
    pub(super) tokens: Vec<Token>,
    pub(super) redirections: Vec<Redirection>,
    /// Where its first word starts in the whole text, when that can be told.
    pub(super) start: Option<usize>,
}

/// Everything found in one text.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) commands: Vec<Simple>,
    pub(super) redirections: Vec<Redirection>,
    pub(super) features: Vec<&'static str>,
    pub(super) trouble: Option<String>,
    /// Syntax that other shells read otherwise.
    pub(super) only_bash: bool,
    pub(super) values: Values,
    /// Parts of the text that another reading cannot be compared with.
    pub(super) apart: Vec<Range<usize>>,
    /// Reserved words (`time`, `coproc`) in front of a command, and the number
    /// of the command behind each.
    pub(super) prefixed: Vec<(usize, usize)>,
    pub(super) here_documents: usize,
    /// The commands of each pipeline that has several stages, as ranges in `commands`.
    pub(super) pipelines: Vec<Vec<Range<usize>>>,
    /// Variables of `for` loops with the words that they go through.
    pub(super) loops: Vec<(String, Vec<Word>)>,
    /// Names of the functions that are defined.
    pub(super) functions: Vec<String>,
}

impl Found {
    /// Notes why the line cannot be judged; the first reason stays.
    pub(super) fn trouble(&mut self, why: impl Into<String>) {
        if self.trouble.is_none() {
            self.trouble = Some(why.into());
        }
    }

    pub(super) fn feature(&mut self, feature: &'static str) {
        if !self.features.contains(&feature) {
            self.features.push(feature);
        }
    }
}

/// What is known of variables. It goes from a text to the texts that it hands
/// to other shells, and back from those that the same shell reads.
#[derive(Debug, Default)]
pub(super) struct Values {
    /// Variables that get a value other than a number.
    pub(super) assigned: BTreeSet<String>,
    /// Variables whose value is evaluated as arithmetic, so that `a[$(x)]` in
    /// it would run `x`.
    pub(super) evaluated: BTreeSet<String>,
    /// Variables may be arrays.
    pub(super) arrays: bool,
    /// A builtin declares a variable with a value that only the run tells; that
    /// of an array would be expanded.
    pub(super) declared: bool,
}

impl Values {
    pub(super) fn extend(&mut self, other: &Self) {
        self.assigned.extend(other.assigned.iter().cloned());
        self.evaluated.extend(other.evaluated.iter().cloned());
        self.arrays |= other.arrays;
        self.declared |= other.declared;
    }

    /// A variable that is evaluated although its value may hold commands.
    pub(super) fn evaluated_text(&self) -> Option<&str> {
        // What these are given is evaluated at once.
        const INTEGERS: [&str; 7] =
            ["RANDOM", "SRANDOM", "HISTCMD", "OPTIND", "SECONDS", "LINENO", "EPOCHSECONDS"];
        // The shell fills these with text of the line.
        const FILLED: [&str; 10] = [
            "_",
            "FUNCNAME",
            "DIRSTACK",
            "PWD",
            "OLDPWD",
            "REPLY",
            "OPTARG",
            "MAPFILE",
            "COPROC",
            "READLINE_LINE",
        ];
        let filled = |name: &str| FILLED.contains(&name) || name.starts_with("BASH_");
        let evaluated = self.evaluated.iter().map(String::as_str);
        evaluated
            .filter(|name| self.assigned.contains(*name) || filled(name))
            .chain(INTEGERS.into_iter().filter(|name| self.assigned.contains(*name)))
            .next()
    }
}
