//! Finds everything that a shell line may start.

use std::collections::BTreeMap;
use std::path::Path;

use super::builtins;
use super::danger;
use super::expand::{self, LineExpander};
use super::findings::{ShellFindings, SimpleCommand, VariableValues, token};
use super::git_alias::GitAliases;
use super::grammar;
use super::line::{Assignment, Command, CommandPosition, RedirectionKind, ShellLine, Word};
use super::reader;
use super::wrappers::{self, WrappedCommand, shells};

/// Maximum length of an analyzed text in bytes.
const MAX_BYTES: usize = 64 * 1024;
/// Maximum nesting depth of scripts and wrappers.
const MAX_DEPTH: usize = 8;
/// Maximum number of scripts and wrapped commands in one line.
const MAX_COUNT: usize = 64;

/// Analyzes text as a shell would read it. The strictest interpretation applies:
/// [`ShellLine::unanalyzable_reason`] is set if the meaning depends on run-time values, on rarely
/// used syntax, or on a change of how the shell parses its input.
///
/// Two parsers must agree: one that follows bash character by character, and the published grammar.
pub fn analyze(text: &str) -> ShellLine {
    let mut analysis = Analysis::default();
    analysis.analyze_text(text, &AnalysisContext::default());
    if let Some(name) = analysis.values.evaluated_text() {
        let reason = format!("`{name}` is evaluated, and its value may contain commands");
        analysis.mark_unanalyzable(reason);
    }
    if analysis.values.arrays && analysis.values.declared {
        analysis.mark_unanalyzable("the elements of an array may be expanded");
    }
    analysis.line
}

/// Analyzes text after the expansions that the text itself determines: variables that it sets,
/// braces, aliases, and text that `echo` or `printf` passes to a shell. Intended for checks that
/// look for harm; it does not find everything.
pub fn analyze_expanded(
    text: &str,
    home: Option<&Path>,
    directory: &Path,
    git_aliases: &BTreeMap<String, String>,
) -> ShellLine {
    let mut analysis = Analysis {
        expander: Some(LineExpander::new(home, directory)),
        git_aliases: GitAliases::new(git_aliases),
        ..Analysis::default()
    };
    analysis.analyze_text(text, &AnalysisContext::default());
    analysis.line
}

struct Analysis {
    line: ShellLine,
    budget: usize,
    values: VariableValues,
    /// The expander, if the text is to be expanded.
    expander: Option<LineExpander>,
    git_aliases: GitAliases,
}

impl Default for Analysis {
    fn default() -> Self {
        Self {
            line: ShellLine::default(),
            budget: MAX_COUNT,
            values: VariableValues::default(),
            expander: None,
            git_aliases: GitAliases::default(),
        }
    }
}

#[derive(Clone, Default)]
struct AnalysisContext {
    position: CommandPosition,
    wrappers: Vec<String>,
    is_passed_on: bool,
    background: bool,
    depth: usize,
    /// Whether the shell may be something other than bash.
    plain_sh: bool,
    /// The aliases currently being expanded, to prevent recursion.
    aliases: Vec<String>,
}

impl Analysis {
    fn mark_unanalyzable(&mut self, reason: impl Into<String>) {
        if self.line.unanalyzable_reason.is_none() {
            self.line.unanalyzable_reason = Some(reason.into());
        }
    }

    /// Records that a part of what the line runs is not visible in it.
    fn mark_hidden(&mut self, reason: &'static str) {
        if self.expander.is_some() {
            self.line.hidden.get_or_insert(reason);
        }
    }

    fn analyze_text(&mut self, text: &str, context: &AnalysisContext) {
        if text.len() > MAX_BYTES {
            self.mark_unanalyzable("it is too long");
            self.mark_hidden("it is too long to be analyzed");
            return;
        }
        let mut found = ShellFindings::default();
        if let Some(reason) = describe_deceptive_characters(text) {
            found.mark_unanalyzable(reason);
        }
        reader::read(text, context.position, true, 0, &mut found);
        if context.plain_sh && found.is_bash_only {
            found.mark_unanalyzable("a shell other than bash may parse it differently");
        }
        if found.unanalyzable_reason.is_none()
            && self.expander.is_none()
            && let Some(reason) = grammar::disagreement(text, &found)
        {
            found.mark_unanalyzable(reason);
        }
        let commands = match &mut self.expander {
            None => std::mem::take(&mut found.commands),
            Some(expander) => {
                let expanded = expander.expand(&found);
                found.redirections = expanded.redirections;
                expanded.commands
            }
        };
        for simple in commands {
            self.analyze_command(simple, context, &mut found);
        }
        self.values.extend(&found.values);
        self.check_indirect_variables(&mut found);
        if let Some(reason) = found.unanalyzable_reason {
            self.mark_unanalyzable(reason);
        }
        self.line.redirections.extend(found.redirections);
        for feature in found.features {
            if !self.line.features.contains(&feature) {
                self.line.features.push(feature);
            }
        }
    }

    /// Detects a variable that controls programs and is set without an assignment: `for PATH in …`,
    /// `read PATH`.
    fn check_indirect_variables(&self, found: &mut ShellFindings) {
        let steers = found.values.assigned.iter().chain(&found.values.evaluated).find(|name| {
            let mut shown = self.line.commands.iter().flat_map(|command| &command.assignments);
            danger::control_reason(name).is_some() && !shown.any(|shown| shown.name == **name)
        });
        if let Some(name) = steers.cloned() {
            found.mark_unanalyzable(format!(
                "`{name}` controls what programs do and is set without an assignment"
            ));
        }
    }

    fn analyze_command(
        &mut self,
        mut simple: SimpleCommand,
        context: &AnalysisContext,
        found: &mut ShellFindings,
    ) {
        simple.command.wrappers = context.wrappers.clone();
        simple.command.is_passed_on = context.is_passed_on;
        simple.command.background |= context.background;
        for assignment in &simple.command.assignments {
            if matches!(assignment.name.as_str(), "BASH_CMDS" | "BASH_ALIASES") {
                found.mark_unanalyzable(format!(
                    "`{}` changes which programs are run",
                    assignment.name
                ));
            }
            let plain =
                assignment.value.text.as_deref().is_some_and(|text| !text.contains(['$', '`']));
            if assignment.name == "PS4" && !plain {
                found.mark_unanalyzable("`PS4` executes its value");
            }
        }
        let scripts = builtins::check_builtin(&simple, 0, found);
        self.line.commands.push(simple.command.clone());
        self.analyze_started_commands(&simple, context, found);
        self.analyze_alias(&simple.command, context);
        for script in scripts {
            let mut inner = nested_context(&simple.command, context);
            inner.position = CommandPosition::Script;
            self.enter(&inner, |analysis| analysis.analyze_text(&script, &inner));
        }
    }

    /// Analyzes the text of the shell or git alias that the command calls.
    fn analyze_alias(&mut self, command: &Command, context: &AnalysisContext) {
        let Some(expander) = &self.expander else { return };
        self.git_aliases.learn(command);
        let found = expander.expand_alias(command).or_else(|| self.git_aliases.text(command));
        let Some((name, text)) = found.filter(|(name, _)| !context.aliases.contains(name)) else {
            return;
        };
        let mut inner = nested_context(command, context);
        inner.aliases.push(name);
        self.enter(&inner, |analysis| analysis.analyze_text(&text, &inner));
    }

    fn enter(&mut self, inner: &AnalysisContext, run: impl FnOnce(&mut Self)) {
        if inner.depth > MAX_DEPTH || self.budget == 0 {
            self.mark_unanalyzable("it is nested too deeply");
            self.mark_hidden("it is nested too deeply to be analyzed");
            return;
        }
        self.budget -= 1;
        run(self);
    }

    /// Analyzes what the newest command starts.
    fn analyze_started_commands(
        &mut self,
        simple: &SimpleCommand,
        context: &AnalysisContext,
        found: &mut ShellFindings,
    ) {
        let command = &simple.command;
        if let Some(reason) = unclear_program(command) {
            found.mark_unanalyzable(reason);
            if command
                .words
                .first()
                .is_some_and(|program| expand::has_derived_text(&program.source))
            {
                self.mark_hidden(DERIVED);
            }
            return;
        }
        for inside in wrappers::wrapped_commands(&command.words) {
            let mut inner = nested_context(command, context);
            match inside {
                WrappedCommand::Words { words, assignments } => {
                    let names = assignments.iter().map(|assignment| assignment.name.clone());
                    self.values.assigned.extend(names);
                    let wrapped = started_command(simple, words, assignments);
                    self.enter(&inner, |analysis| analysis.analyze_command(wrapped, &inner, found));
                }
                WrappedCommand::PassedOn(words) => {
                    inner.is_passed_on = true;
                    let wrapped = started_command(simple, words, Vec::new());
                    self.enter(&inner, |analysis| analysis.analyze_command(wrapped, &inner, found));
                }
                WrappedCommand::Script { text, plain_sh } => {
                    inner.position = CommandPosition::Script;
                    inner.plain_sh = plain_sh;
                    self.enter(&inner, |analysis| analysis.analyze_text(&text, &inner));
                }
                WrappedCommand::Unclear(reason) => match (reason.as_str(), input(simple)) {
                    (shells::READS_INPUT, Some(text)) => {
                        for inside in shells::text_for(command.name().unwrap_or("sh"), text) {
                            match inside {
                                WrappedCommand::Script { text, plain_sh } => {
                                    inner.position = CommandPosition::Script;
                                    inner.plain_sh = plain_sh;
                                    self.enter(&inner, |analysis| {
                                        analysis.analyze_text(&text, &inner)
                                    });
                                }
                                WrappedCommand::Unclear(reason) => found.mark_unanalyzable(reason),
                                WrappedCommand::Words { .. } | WrappedCommand::PassedOn(_) => {}
                            }
                        }
                    }
                    _ => {
                        if runs_derived_script(simple) {
                            self.mark_hidden(DERIVED);
                        }
                        found.mark_unanalyzable(reason);
                    }
                },
            }
        }
    }
}

/// Why a line is considered to hide what it runs if it decodes that from its own text.
const DERIVED: &str = "it runs a program or script that it creates from text";

/// Whether a shell receives a script that the line derives from its own text.
fn runs_derived_script(simple: &SimpleCommand) -> bool {
    let targets = simple.redirections.iter().map(|redirection| &redirection.target);
    let unknown = |word: &&Word| word.text.is_none();
    simple
        .command
        .words
        .iter()
        .chain(targets)
        .filter(unknown)
        .any(|word| expand::has_derived_text(&word.source))
}

/// Returns a command that another command starts.
fn started_command(
    outer: &SimpleCommand,
    words: Vec<Word>,
    assignments: Vec<Assignment>,
) -> SimpleCommand {
    let source = words.iter().map(|word| word.source.as_str()).collect::<Vec<_>>().join(" ");
    SimpleCommand {
        tokens: words.iter().map(token).collect(),
        command: Command {
            assignments,
            position: outer.command.position,
            background: outer.command.background,
            source,
            words,
            ..Command::default()
        },
        redirections: outer.redirections.clone(),
        start: None,
    }
}

/// Returns the text of a here-document for the command, if it has no other input.
fn input(simple: &SimpleCommand) -> Option<String> {
    let mut inputs = simple.redirections.iter().filter(|redirection| {
        !matches!(redirection.kind, RedirectionKind::Write | RedirectionKind::Append)
    });
    let only = inputs.next()?;
    if inputs.next().is_some() {
        return None;
    }
    matches!(only.kind, RedirectionKind::HereDocument | RedirectionKind::HereString)
        .then(|| only.target.text.clone())?
        .filter(|_| !only.target.glob)
}

fn nested_context(command: &Command, context: &AnalysisContext) -> AnalysisContext {
    let mut inner = context.clone();
    inner.depth += 1;
    inner.background = command.background;
    inner.position = command.position;
    inner.wrappers.push(command.name().unwrap_or_default().to_owned());
    inner
}

/// Returns why the program of the command cannot be determined.
fn unclear_program(command: &Command) -> Option<String> {
    let program = command.words.first()?;
    match &program.text {
        None => Some(format!("the program `{}` is known only at run time", program.source)),
        Some(text) if program.glob && text.contains(['*', '?', '[', '{']) && text != "[" => {
            Some(format!("the program `{}` depends on the file system", program.source))
        }
        Some(_) => None,
    }
}

/// Describes characters that users, terminals, and shells interpret differently.
fn describe_deceptive_characters(text: &str) -> Option<String> {
    let odd = text.chars().find(|character| {
        (character.is_control() && !matches!(character, '\n' | '\t'))
            || (character.is_whitespace() && !matches!(character, ' ' | '\n' | '\t'))
            || matches!(
                character,
                '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
            )
    })?;
    Some(format!("it contains the character U+{:04X}", u32::from(odd)))
}
