//! Expands a line as far as its own text determines the result. Only checks that look for harm use
//! the expanded line; an expansion never allows anything.

mod braces;
mod output;
mod variables;
mod word;

use std::path::Path;

use super::findings::{ShellFindings, SimpleCommand, token};
use super::line::{Assignment, Command, CommandPosition, Redirection, RedirectionKind, Word};
use super::reader;
use super::variable_name::is_name;
use output::PrintedText;
use variables::{ValueSegment, Variables};

/// Maximum nesting depth of substitutions.
const MAX_DEPTH: usize = 6;
/// Maximum number of commands produced from one text.
const MAX_COMMANDS: usize = 512;

/// The state of an expansion.
#[derive(Debug, Default)]
pub(super) struct LineExpander {
    variables: Variables,
    aliases: Vec<(String, String)>,
}

/// The expanded commands and redirections of a string.
#[derive(Debug, Default)]
pub(super) struct ExpandedText {
    pub(super) commands: Vec<SimpleCommand>,
    pub(super) redirections: Vec<Redirection>,
}

impl LineExpander {
    pub(super) fn new(home: Option<&Path>, directory: &Path) -> Self {
        let mut expander = Self::default();
        let known = [("HOME", home), ("PWD", Some(directory))];
        for (name, path) in known.iter().filter_map(|(name, path)| Some((name, (*path)?))) {
            expander.variables.add_text(name, &path.to_string_lossy());
        }
        expander.variables.add_text("IFS", " \t\n");
        expander
    }

    /// Expands the contents of a string, after recording what it sets.
    pub(super) fn expand(&mut self, found: &ShellFindings) -> ExpandedText {
        // The second pass sees what functions and later assignments set.
        for _ in 0..2 {
            self.learn(found);
        }
        let mut all = ExpandedText::default();
        for combination in 0..self.variables.combinations() {
            self.variables.choose(combination);
            let commands = commands(found, &self.variables, 0);
            for simple in commands {
                let known = |other: &SimpleCommand| {
                    other.command == simple.command && other.redirections == simple.redirections
                };
                if all.commands.len() < MAX_COMMANDS && !all.commands.iter().any(known) {
                    all.commands.push(simple);
                }
            }
            for redirection in &found.redirections {
                let expanded = expand_redirection(redirection, &self.variables, 0);
                if !all.redirections.contains(&expanded) {
                    all.redirections.push(expanded);
                }
            }
        }
        for simple in &all.commands {
            self.record_parameters(&simple.command.words);
        }
        all
    }

    /// Returns the alias that the command calls, and the text that the shell reads instead.
    pub(super) fn expand_alias(&self, command: &Command) -> Option<(String, String)> {
        let (program, rest) = command.words.split_first()?;
        let name = program.text.as_deref()?;
        let (_, text) = self.aliases.iter().find(|(alias, _)| alias == name)?;
        Some((name.to_owned(), append_words(text, rest)))
    }

    /// Records the values that the text assigns to variables, and its aliases.
    fn learn(&mut self, found: &ShellFindings) {
        for combination in 0..self.variables.combinations() {
            self.variables.choose(combination);
            let mut learned = self.variables.clone();
            for simple in &found.commands {
                for assignment in &simple.command.assignments {
                    let appends = simple.command.source.contains(&format!("{}+=", assignment.name));
                    assign(assignment, appends, &self.variables, &mut learned);
                }
            }
            for (name, words) in &found.loops {
                for word in words.iter().flat_map(|it| word::expand_word(it, &self.variables, 0)) {
                    learned.add(name, vec![vec![to_value_segment(&word)]]);
                }
            }
            for simple in commands(found, &self.variables, 0) {
                self.record_assignments(&simple, found, &mut learned);
            }
            self.variables = learned;
        }
    }

    fn record_assignments(
        &mut self,
        simple: &SimpleCommand,
        found: &ShellFindings,
        learned: &mut Variables,
    ) {
        let words = &simple.command.words;
        let Some((name, rest)) = words.split_first() else { return };
        let texts = || rest.iter().filter_map(|word| word.text.as_deref());
        match name.text.as_deref() {
            Some("alias") => {
                for (alias, text) in texts().filter_map(|text| text.split_once('=')) {
                    self.aliases.push((alias.to_owned(), text.to_owned()));
                }
                self.aliases.dedup();
            }
            Some("set") => {
                let behind = rest.iter().skip_while(|it| it.text.as_deref() != Some("--")).skip(1);
                learned.add("@", behind.map(|word| vec![to_value_segment(word)]).collect());
            }
            Some("read") => {
                let Some(text) = output::here_text(&simple.redirections) else { return };
                let names: Vec<&str> = texts().filter(|text| is_name(text)).collect();
                let mut fields = text.split_whitespace();
                let Some((last, names)) = names.split_last() else { return };
                for name in names {
                    learned.add_text(name, fields.next().unwrap_or_default());
                }
                learned.add_text(last, &fields.collect::<Vec<_>>().join(" "));
            }
            Some("printf") if texts().next() == Some("-v") => {
                let Some(variable) = rest.get(1).and_then(|word| word.text.as_deref()) else {
                    return;
                };
                let mut command = vec![name.clone()];
                command.extend(rest.iter().skip(2).cloned());
                if let PrintedText::Text(text) =
                    output::command_output(&command, &[], &PrintedText::Unknown)
                {
                    learned.add_text(variable, &text);
                }
            }
            Some(name) if found.functions.iter().any(|function| function == name) => {
                learned.add("@", rest.iter().map(|word| vec![to_value_segment(word)]).collect());
            }
            _ => {}
        }
    }

    /// Records the positional parameters of `sh -c TEXT NAME WORD…`.
    fn record_parameters(&mut self, words: &[Word]) {
        let is_script = |word: &Word| {
            let letters = word.text.as_deref().and_then(|text| text.strip_prefix('-'));
            letters.is_some_and(|letters| !letters.starts_with('-') && letters.contains('c'))
        };
        let Some(index) = words.iter().position(is_script) else { return };
        let Some((zero, rest)) = words.get(index + 2..).and_then(<[Word]>::split_first) else {
            return;
        };
        self.variables.add("0", vec![vec![to_value_segment(zero)]]);
        self.variables.add("@", rest.iter().map(|word| vec![to_value_segment(word)]).collect());
    }
}

/// Returns the text with the words appended, as the shell would read them.
pub(super) fn append_words(text: &str, rest: &[Word]) -> String {
    let words = rest.iter().map(|word| match &word.text {
        Some(text) if word.quoted => format!("'{}'", text.replace('\'', "'\\''")),
        _ => word.source.clone(),
    });
    std::iter::once(text.to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// Whether the text contains a substitution that derives other text from text of the line: `$(echo
/// bXI= | base64 -d)`.
pub(super) fn has_derived_text(source: &str) -> bool {
    let starts = source.match_indices(['(', '`']);
    starts.into_iter().any(|(at, opened)| {
        let behind = source.get(at + 1..).unwrap_or_default();
        let inner = match opened {
            "`" => behind.split('`').next().unwrap_or_default(),
            _ if !source.get(..at).unwrap_or_default().ends_with(['$', '<']) => return false,
            _ => {
                let length =
                    word::find_closing_bracket(source.get(at..).unwrap_or_default(), '(', ')');
                behind.get(..length.saturating_sub(2)).unwrap_or_default()
            }
        };
        printed_text(inner, &Variables::default(), 1) == PrintedText::Derived
    })
}

fn to_value_segment(word: &Word) -> ValueSegment {
    match &word.text {
        Some(text) => ValueSegment::Text(text.clone()),
        None => ValueSegment::Source(word.source.clone()),
    }
}

fn assign(assignment: &Assignment, appends: bool, variables: &Variables, learned: &mut Variables) {
    let source = assignment.value.source.as_str();
    let array = source.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    if let Some(elements) = array {
        let mut found = ShellFindings::default();
        reader::read(&format!(": {elements}"), CommandPosition::Line, false, 0, &mut found);
        let words = found.commands.first().map(|simple| simple.command.arguments().to_vec());
        let words = words.unwrap_or_default();
        let words = words.iter().flat_map(|it| word::expand_word(it, variables, 0));
        learned.add(&assignment.name, words.map(|word| vec![to_value_segment(&word)]).collect());
        return;
    }
    let value = match &assignment.value.text {
        Some(text) => vec![ValueSegment::Text(text.clone())],
        None => word::value(source, variables, 0),
    };
    if appends && let Some(before) = variables.get(&assignment.name).and_then(|it| it.first()) {
        learned.add(&assignment.name, vec![before.iter().chain(&value).cloned().collect()]);
        return;
    }
    learned.add(&assignment.name, vec![value]);
}

/// Returns the commands with expanded words, and with the text that other commands of the line pipe
/// into them.
fn commands(found: &ShellFindings, variables: &Variables, depth: usize) -> Vec<SimpleCommand> {
    let mut commands: Vec<SimpleCommand> =
        found.commands.iter().map(|simple| expand_command(simple, variables, depth)).collect();
    for stages in &found.pipelines {
        let mut input = PrintedText::Unknown;
        let mut source = String::new();
        for stage in stages {
            let position = commands.get(stage.start).map(|simple| simple.command.position);
            let mut output: Option<PrintedText> = None;
            for simple in commands.get_mut(stage.clone()).unwrap_or_default() {
                if Some(simple.command.position) != position {
                    continue;
                }
                let printed =
                    output::command_output(&simple.command.words, &simple.redirections, &input);
                output = Some(match (output, printed) {
                    (Some(PrintedText::Text(before)), PrintedText::Text(text)) => {
                        PrintedText::Text(before + &text)
                    }
                    (Some(_), _) => PrintedText::Unknown,
                    (None, printed) => printed,
                });
                feed(simple, &input, &source);
                if source.is_empty() {
                    source = format!("$({} | …)", simple.command.source);
                }
            }
            input = output.unwrap_or(PrintedText::Unknown);
        }
    }
    commands.iter_mut().for_each(read_substituted_file);
    commands
}

/// Adds piped input to a command as a here-string.
fn feed(simple: &mut SimpleCommand, input: &PrintedText, source: &str) {
    let target = match input {
        PrintedText::Unknown => return,
        PrintedText::Text(text) => {
            append_input(simple, text);
            Word { text: Some(text.clone()), source: text.clone(), quoted: true, glob: false }
        }
        PrintedText::Derived => {
            Word { text: None, source: source.to_owned(), quoted: true, glob: false }
        }
    };
    let kind = RedirectionKind::HereString;
    if output::here_text(&simple.redirections).is_none() {
        simple.redirections.push(Redirection { kind, target, is_standalone: false });
    }
}

/// Appends the input of `xargs` to its words, or substitutes it for the replacement string.
fn append_input(simple: &mut SimpleCommand, text: &str) {
    let words = &mut simple.command.words;
    let Some(index) = words.iter().position(|word| word.text.as_deref() == Some("xargs")) else {
        return;
    };
    let replaces = |word: &Word| {
        let text = word.text.as_deref().unwrap_or_default();
        text.starts_with("-I") || text == "-i" || text.starts_with("--replace")
    };
    if words.iter().skip(index).any(replaces) {
        for word in words.iter_mut().skip(index + 1) {
            word.text = word.text.take().map(|it| {
                if it == "{}" || it.contains(' ') { it.replace("{}", text.trim_end()) } else { it }
            });
        }
    } else {
        let added = text.split_whitespace().map(|part| Word {
            text: Some(part.to_owned()),
            source: part.to_owned(),
            ..Word::default()
        });
        words.extend(added);
    }
    simple.tokens = words.iter().map(token).collect();
}

/// Converts `bash <(echo …)`, `source <(echo …)`, and `source /dev/stdin <<< …` to `bash <<< …`.
fn read_substituted_file(simple: &mut SimpleCommand) {
    let words = &mut simple.command.words;
    let Some(name) = words.first().and_then(|word| word.text.clone()) else { return };
    let sources = matches!(name.as_str(), "." | "source");
    let is_input = |word: &Word| {
        word.source.starts_with("<(")
            || sources
                && matches!(
                    word.text.as_deref(),
                    Some("/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0")
                )
    };
    let Some(index) = words.iter().position(is_input) else { return };
    let removed = words.remove(index);
    if let (true, Some(first)) = (sources, words.first_mut()) {
        *first =
            Word { text: Some("bash".to_owned()), source: "bash".to_owned(), ..Word::default() };
    }
    if let Some(inner) = removed.source.strip_prefix("<(") {
        let inner = inner.strip_suffix(')').unwrap_or(inner);
        let text = match printed_text(inner, &Variables::default(), 1) {
            PrintedText::Text(text) => Some(text),
            PrintedText::Derived | PrintedText::Unknown => None,
        };
        let target = Word { text, source: removed.source.clone(), quoted: true, glob: false };
        let kind = RedirectionKind::HereString;
        simple.redirections.push(Redirection { kind, target, is_standalone: false });
    }
    simple.tokens = simple.command.words.iter().map(token).collect();
}

fn expand_command(simple: &SimpleCommand, variables: &Variables, depth: usize) -> SimpleCommand {
    let mut words: Vec<Word> = simple
        .command
        .words
        .iter()
        .flat_map(|it| word::expand_word(it, variables, depth))
        .collect();
    words.iter_mut().skip(first_script_word(&simple.command.words)).for_each(mark_unresolved);
    let redirections: Vec<Redirection> =
        simple.redirections.iter().map(|it| expand_redirection(it, variables, depth)).collect();
    if words == simple.command.words {
        return SimpleCommand { redirections, ..simple.clone() };
    }
    let source = words.iter().map(|word| word.source.as_str()).collect::<Vec<_>>().join(" ");
    let words = if words.is_empty() { vec![Word::default()] } else { words };
    SimpleCommand {
        tokens: words.iter().map(token).collect(),
        redirections,
        start: None,
        command: Command { words, source, ..simple.command.clone() },
    }
}

/// Returns the index of the first word that a shell reads as a script: after `eval`, or after the
/// `-c` of a shell.
fn first_script_word(words: &[Word]) -> usize {
    const SHELLS: [&str; 8] = ["sh", "bash", "dash", "ash", "zsh", "ksh", "rbash", "su"];
    let mut behind_shell = false;
    for (index, word) in words.iter().enumerate() {
        let Some(text) = word.text.as_deref() else { continue };
        let name = text.rsplit('/').next().unwrap_or(text);
        if name == "eval"
            || behind_shell
                && text.starts_with('-')
                && !text.starts_with("--")
                && text.contains('c')
        {
            return index + 1;
        }
        behind_shell |= SHELLS.contains(&name);
    }
    words.len()
}

/// Treats expansions that are known only at run time as source text of the script, for the shell
/// that reads it.
fn mark_unresolved(word: &mut Word) {
    if word.text.is_none() {
        let pieces = word::value(&word.source, &Variables::default(), 0);
        word.text = Some(word::source(&pieces));
        word.glob = false;
        word.quoted = true;
    }
}

fn expand_redirection(
    redirection: &Redirection,
    variables: &Variables,
    depth: usize,
) -> Redirection {
    let target = &redirection.target;
    let pieces = match redirection.kind {
        RedirectionKind::HereDocument if target.text.is_none() => {
            word::body(&target.source, variables, depth)
        }
        RedirectionKind::HereString if target.text.is_none() => {
            word::value(&target.source, variables, depth)
        }
        _ => {
            let words = word::expand_word(target, variables, depth);
            let [only] = words.as_slice() else { return redirection.clone() };
            return Redirection { target: only.clone(), ..redirection.clone() };
        }
    };
    let text = Some(word::source(&pieces));
    Redirection { target: Word { text, ..target.clone() }, ..redirection.clone() }
}

/// Returns what a string prints when a shell runs it.
fn printed_text(text: &str, variables: &Variables, depth: usize) -> PrintedText {
    if depth > MAX_DEPTH {
        return PrintedText::Unknown;
    }
    let mut found = ShellFindings::default();
    reader::read(text, CommandPosition::Line, false, depth, &mut found);
    let commands = commands(&found, variables, depth);
    let own = |simple: &&SimpleCommand| simple.command.position == CommandPosition::Line;
    let stages = found.pipelines.last();
    let from = stages.and_then(|stages| stages.first()).map(|stage| stage.start);
    let piped = stages.and_then(|stages| stages.last());
    match (commands.iter().filter(own).count(), from, piped) {
        (1, None, _) => {}
        // The text consists of a single pipeline.
        (_, Some(first), Some(last))
            if commands.iter().position(|it| own(&it)) == Some(first)
                && commands
                    .iter()
                    .rposition(|it| own(&it))
                    .is_some_and(|it| last.contains(&it)) =>
        {
            let end = commands.get(last.start);
            return end.map_or(PrintedText::Unknown, |simple| {
                let input = match simple.redirections.last() {
                    Some(Redirection { kind: RedirectionKind::HereString, target, .. }) => {
                        target.text.clone().map_or(PrintedText::Derived, PrintedText::Text)
                    }
                    _ => PrintedText::Unknown,
                };
                output::command_output(&simple.command.words, &simple.redirections, &input)
            });
        }
        _ => return PrintedText::Unknown,
    }
    let only = commands.iter().find(own);
    only.map_or(PrintedText::Unknown, |simple| {
        output::command_output(&simple.command.words, &simple.redirections, &PrintedText::Unknown)
    })
}
