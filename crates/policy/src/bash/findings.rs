//! What the reader collects while it reads a line.

use std::collections::BTreeSet;
use std::ops::Range;

use super::line::{Command, Redirection, Word};

/// The reason why the reader gives up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnparsedReason(pub(super) String);

impl UnparsedReason {
    pub(super) fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

pub(super) type Reading<T> = Result<T, UnparsedReason>;

/// A word with information that only the reader has.
#[derive(Debug, Clone, Default)]
pub(super) struct ShellToken {
    pub(super) word: Word,
    /// Whether the word has no quotes, escapes, or expansions, so that it may be a reserved word.
    pub(super) plain: bool,
    /// Whether an unquoted expansion may turn it into several words or none.
    pub(super) splits: bool,
    /// Whether it contains an unquoted command substitution.
    pub(super) has_substitution: bool,
    /// The variables that are expanded outside quotes.
    pub(super) variables: Vec<String>,
    /// The assignment, if it has the form `NAME=…`.
    pub(super) assignment: Option<super::line::Assignment>,
    pub(super) start: usize,
}

/// A simple command as read.
#[derive(Debug, Clone, Default)]
pub(super) struct SimpleCommand {
    pub(super) command: Command,
    pub(super) tokens: Vec<ShellToken>,
    pub(super) redirections: Vec<Redirection>,
    /// Byte offset of its first word in the whole text, if known.
    pub(super) start: Option<usize>,
}

/// Everything found in one text.
#[derive(Debug, Default)]
pub(super) struct ShellFindings {
    pub(super) commands: Vec<SimpleCommand>,
    pub(super) redirections: Vec<Redirection>,
    pub(super) features: Vec<&'static str>,
    pub(super) unanalyzable_reason: Option<String>,
    /// Whether the text uses syntax that other shells interpret differently.
    pub(super) is_bash_only: bool,
    pub(super) values: VariableValues,
    /// Ranges of the text that cannot be compared with the grammar parse.
    pub(super) uncompared_ranges: Vec<Range<usize>>,
    /// Positions of reserved words (`time`, `coproc`) before a command, each with the index of the
    /// command after it.
    pub(super) prefixed: Vec<(usize, usize)>,
    pub(super) here_documents: usize,
    /// The commands of each pipeline with several stages, as ranges in `commands`.
    pub(super) pipelines: Vec<Vec<Range<usize>>>,
    /// Variables of `for` loops with the words they iterate over.
    pub(super) loops: Vec<(String, Vec<Word>)>,
    /// Names of the functions that the text defines.
    pub(super) functions: Vec<String>,
}

impl ShellFindings {
    /// Records why the line cannot be analyzed; the first reason is kept.
    pub(super) fn mark_unanalyzable(&mut self, reason: impl Into<String>) {
        if self.unanalyzable_reason.is_none() {
            self.unanalyzable_reason = Some(reason.into());
        }
    }

    pub(super) fn record_feature(&mut self, feature: &'static str) {
        if !self.features.contains(&feature) {
            self.features.push(feature);
        }
    }
}

/// Information about variables. It is passed on to text that the line passes to other shells, and
/// passed back from text that the same shell reads.
#[derive(Debug, Default)]
pub(super) struct VariableValues {
    /// Variables that are set to a value other than a number.
    pub(super) assigned: BTreeSet<String>,
    /// Variables whose value is evaluated as arithmetic, so that `a[$(x)]` in the value would run
    /// `x`.
    pub(super) evaluated: BTreeSet<String>,
    /// Whether variables may be arrays.
    pub(super) arrays: bool,
    /// Whether a builtin declares a variable with a value known only at run time; the value of an
    /// array would be expanded.
    pub(super) declared: bool,
}

impl VariableValues {
    pub(super) fn extend(&mut self, other: &Self) {
        self.assigned.extend(other.assigned.iter().cloned());
        self.evaluated.extend(other.evaluated.iter().cloned());
        self.arrays |= other.arrays;
        self.declared |= other.declared;
    }

    /// Returns a variable that is evaluated as arithmetic although its value may contain commands.
    pub(super) fn evaluated_text(&self) -> Option<&str> {
        // Values assigned to these variables are evaluated immediately.
        const INTEGERS: [&str; 7] =
            ["RANDOM", "SRANDOM", "HISTCMD", "OPTIND", "SECONDS", "LINENO", "EPOCHSECONDS"];
        // The shell sets these variables to text of the line.
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

/// Returns a word of a wrapped command as if it had been read directly.
pub(super) fn token(word: &Word) -> ShellToken {
    let assignment = None;
    ShellToken {
        plain: !word.quoted,
        splits: word.text.is_none(),
        has_substitution: word.text.is_none(),
        word: word.clone(),
        assignment,
        ..ShellToken::default()
    }
}
