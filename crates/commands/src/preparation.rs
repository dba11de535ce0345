//! Turns a command's template into steps: fills in arguments, evaluates shell commands, and inserts
//! called commands.

use std::sync::Arc;

use parallax_files::Access;
use parallax_protocol::policy::ApprovalMode;

use crate::ExpansionContext;
use crate::arguments::{fill, fill_command, split_words};
use crate::catalog::{Catalog, CommandInfo};
use crate::expansion_step::ExpansionStep;
use crate::shell;
use parallax_config::commands::template::{TemplateSegment, TextPart, parse, takes_arguments};

/// Maximum depth of nested command calls.
const DEPTH: usize = 5;
/// Maximum total number of called commands.
const MAX_COUNT: usize = 50;

/// A command that is being prepared.
pub(crate) struct CommandPreparation<'a> {
    shared: &'a Arc<ExpansionContext>,
    catalog: &'a Catalog,
    mode: ApprovalMode,
    /// The chain of commands that led here, to detect recursion.
    trail: Vec<String>,
    /// Number of inserted commands.
    called: usize,
    /// Notices for the user.
    pub(crate) notices: Vec<String>,
}

impl<'a> CommandPreparation<'a> {
    /// Evaluates shell commands for the approval mode.
    pub(crate) fn new(
        shared: &'a Arc<ExpansionContext>,
        catalog: &'a Catalog,
        mode: ApprovalMode,
    ) -> Self {
        Self { shared, catalog, mode, trail: Vec::new(), called: 0, notices: Vec::new() }
    }

    /// Returns the steps of a command. Blocking.
    ///
    /// # Errors
    /// Returns an error if the template or arguments are invalid, a shell command is denied, or
    /// commands call each other endlessly.
    pub(crate) fn steps(
        &mut self,
        command: &CommandInfo,
        line: &str,
        arguments: &str,
    ) -> Result<Vec<ExpansionStep>, String> {
        let positions = split_words(arguments);
        check(command, &positions)?;
        let pieces = parse(&command.template, command.form)
            .map_err(|reason| format!("invalid file `{}`: {reason}", command.path.display()))?;
        self.trail.push(command.name.clone());
        let mut steps = Vec::new();
        for piece in &pieces {
            match piece {
                TemplateSegment::Text(bits) => {
                    steps.push(ExpansionStep::Text(fill(bits, arguments, &positions)))
                }
                TemplateSegment::File(bits) => {
                    steps.push(ExpansionStep::File(fill(bits, arguments, &positions)))
                }
                TemplateSegment::Command(bits) => {
                    steps.extend(self.expand_call(&fill(bits, arguments, &positions))?);
                }
                TemplateSegment::Shell(bits) => {
                    self.reject_file_references(bits)?;
                    let text = fill_command(bits, arguments, &positions)?;
                    if text.trim().is_empty() {
                        continue;
                    }
                    let evaluated = shell::evaluate(self.shared, text.trim(), self.mode);
                    let evaluated = evaluated.map_err(|reason| {
                        format!("its shell command `{text}` was denied: {reason}")
                    })?;
                    steps.push(ExpansionStep::Shell(evaluated));
                }
            }
        }
        if !takes_arguments(&pieces) && !arguments.is_empty() {
            steps.push(ExpansionStep::Text(format!("\n\n{}", line.trim_end())));
        }
        self.trail.pop();
        Ok(steps)
    }

    /// Rejects `@{path}` in a shell command, because files are not inserted there and the shell
    /// would see it literally. Git's `@{u}` and `HEAD@{1}` are allowed, because they name no file.
    fn reject_file_references(&self, bits: &[TextPart]) -> Result<(), String> {
        for bit in bits {
            let TextPart::Text(text) = bit else { continue };
            for rest in text.split("@{").skip(1) {
                let name = rest.split_once('}').map_or("", |(name, _)| name.trim());
                let named = self.shared.workspace.resolve(name, Access::Read);
                if !name.is_empty() && named.is_ok_and(|named| named.path().exists()) {
                    return Err(format!(
                        "`@{{{name}}}` is in a shell command, where files are not inserted: use \
                         the path alone (`{name}`) there, or `@{{{name}}}` outside `!{{…}}`"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Returns the steps of a called command. A call of an unknown command stays text.
    fn expand_call(&mut self, call: &str) -> Result<Vec<ExpansionStep>, String> {
        let end = call.find(char::is_whitespace).unwrap_or(call.len());
        let (name, arguments) = call.split_at(end);
        let Some(command) = self.catalog.find(name) else {
            let reason = match self.catalog.file_error(name) {
                Some(problem) => format!("the file of `/{name}` is invalid: {problem}"),
                None => format!("unknown command `/{name}`"),
            };
            self.notices.push(format!("{reason}: `/{{{call}}}` is sent as text"));
            return Ok(vec![ExpansionStep::Text(format!("/{{{call}}}"))]);
        };
        if self.trail.contains(&command.name) {
            let trail: Vec<String> = self.trail.iter().map(|name| format!("`/{name}`")).collect();
            return Err(format!(
                "commands call each other in a cycle: {} → `/{}`",
                trail.join(" → "),
                command.name
            ));
        }
        self.called += 1;
        if self.trail.len() > DEPTH || self.called > MAX_COUNT {
            return Err(format!(
                "commands can be nested at most {DEPTH} levels deep, and at most \
                {MAX_COUNT} can be called"
            ));
        }
        self.steps(command, &format!("/{call}"), arguments.trim())
            .map_err(|reason| format!("`/{name}`: {reason}"))
    }
}

/// Checks the arguments against the command's declaration.
fn check(command: &CommandInfo, words: &[String]) -> Result<(), String> {
    for (index, argument) in command.arguments.iter().enumerate() {
        match words.get(index) {
            None if argument.required => {
                let hint = &command.argument_hint;
                let named = &command.name;
                let argument = &argument.name;
                return Err(format!("the argument `{argument}` is missing: `/{named} {hint}`"));
            }
            Some(word) if !argument.choices.is_empty() && !argument.choices.contains(word) => {
                let choices = argument.choices.join("`, `");
                return Err(format!(
                    "invalid value `{word}` for `{}`: use one of `{choices}`",
                    argument.name
                ));
            }
            _ => {}
        }
    }
    Ok(())
}
