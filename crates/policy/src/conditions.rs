//! Conditions that determine whether a rule or safety checker applies to a call.

use std::path::PathBuf;

use parallax_protocol::policy::{ApprovalMode, Decision};
use regex::Regex;
use serde_json::Value;

use crate::bash::Command;
use crate::call::{CallQuery, ShellCall};
use crate::command_prefix::{CommandPrefix, is_settled};
use crate::path_condition::{PathGlob, PathScope};
use crate::subject::Subject;
use crate::tool_pattern::ToolPattern;

/// Conditions of a rule or safety checker; all of them must hold.
#[derive(Debug, Clone, Default)]
pub struct Conditions {
    /// The tools, of which one must match.
    pub tools: Vec<ToolPattern>,
    /// The MCP server, if the caller provides it.
    pub server: Option<String>,
    /// The subagent that makes the call.
    pub agent: Option<String>,
    /// The shell commands.
    pub commands: Commands,
    /// A pattern for the arguments.
    pub arguments: Option<Regex>,
    /// A glob for the files of the call.
    pub path_glob: Option<PathGlob>,
    /// The location of the files of the call.
    pub path_inside: Option<PathScope>,
    /// Annotations that the tool must have.
    pub annotations: Vec<(String, Value)>,
    /// The approval modes; empty means all.
    pub modes: Vec<ApprovalMode>,
    /// Whether a user must be available (`true`) or unavailable (`false`) for approval; `None`
    /// means either.
    pub interactive: Option<bool>,
}

/// The shell commands that a rule applies to.
#[derive(Debug, Clone, Default)]
pub enum Commands {
    /// All commands.
    #[default]
    Any,
    /// Commands that begin with one of these prefixes.
    Prefixes(Vec<CommandPrefix>),
    /// Commands that match the pattern from their first character.
    Pattern(Box<CommandPattern>),
}

/// The pattern of `commandRegex`.
#[derive(Debug, Clone)]
pub struct CommandPattern {
    /// The pattern as written in the rule.
    pub text: String,
    /// The pattern anchored at the start.
    pub from_start: Regex,
    /// The unanchored pattern, for lines that cannot be parsed.
    pub unanchored: Regex,
}

/// The first condition that does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mismatch {
    Mode,
    Interactive,
    Tool,
    Server,
    Agent,
    Annotations,
    Arguments,
    PathGlob,
    PathInside,
    Commands,
    NotSettled,
}

impl Mismatch {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Mode => "it applies to other modes",
            Self::Interactive => "it applies only with, or only without, a user present",
            Self::Tool => "it applies to other tools",
            Self::Server => "it applies to another MCP server",
            Self::Agent => "it applies to another agent",
            Self::Annotations => "the tool does not have the required annotations",
            Self::Arguments => "`argsPattern` does not match the arguments",
            Self::PathGlob => "`pathGlob` does not match the paths of the call",
            Self::PathInside => "the paths of the call are outside `pathInside`",
            Self::Commands => "the command does not match",
            Self::NotSettled => {
                "the prefix matches, but variables, globs, or assignments may change the command"
            }
        }
    }
}

impl Conditions {
    /// Whether the conditions can apply to such calls, regardless of their arguments.
    pub(crate) fn static_mismatch(
        &self,
        names: &[&str],
        mode: ApprovalMode,
        interactive: bool,
    ) -> Option<Mismatch> {
        if !self.modes.is_empty() && !self.modes.contains(&mode) {
            Some(Mismatch::Mode)
        } else if self.interactive.is_some_and(|expected| expected != interactive) {
            Some(Mismatch::Interactive)
        } else if !self.tools.iter().any(|pattern| pattern.matches(names)) {
            Some(Mismatch::Tool)
        } else {
            None
        }
    }

    /// Whether only the tool, the approval mode, and the availability of a user matter.
    pub(crate) fn ignore_arguments(&self) -> bool {
        matches!(self.commands, Commands::Any)
            && self.arguments.is_none()
            && self.path_glob.is_none()
            && self.path_inside.is_none()
            && self.annotations.is_empty()
            && self.agent.is_none()
    }

    /// Whether the conditions restrict the paths that a call may access.
    pub(crate) fn name_paths(&self) -> bool {
        self.path_glob.is_some()
            || matches!(self.path_inside, Some(scope) if scope != PathScope::Workspace)
    }

    /// Returns why the conditions do not match. For an allowing rule they must cover the whole
    /// subject; for other rules a part, or a possible match, is enough.
    pub(crate) fn mismatch(
        &self,
        call: &CallQuery<'_>,
        subject: Subject,
        decision: Decision,
    ) -> Option<Mismatch> {
        self.static_mismatch(&call.names, call.mode, call.query.interactive)
            .or_else(|| self.origin_differs(call, decision))
            .or_else(|| self.commands_differ(call, subject, decision))
            .or_else(|| self.arguments_differ(call, subject))
            .or_else(|| self.paths_differ(call, decision))
    }

    fn origin_differs(&self, call: &CallQuery<'_>, decision: Decision) -> Option<Mismatch> {
        let origin = &call.query.origin;
        // Deny and ask rules may match more broadly.
        if let (None, Some(server), Decision::Allow) = (&self.server, origin.server, decision) {
            let mut covering = self.tools.iter().filter(|tool| tool.matches(&call.names));
            if !covering.any(|tool| tool.may_allow_server(server)) {
                return Some(Mismatch::Server);
            }
        }
        if let (Some(wanted), Some(server)) = (self.server.as_deref(), origin.server)
            && wanted != "*"
            && wanted != server
        {
            return Some(Mismatch::Server);
        }
        if self.agent.is_some() && self.agent.as_deref() != origin.agent {
            return Some(Mismatch::Agent);
        }
        let annotated = self.annotations.iter().all(|(key, value)| {
            origin.annotations.and_then(|annotations| annotations.get(key)) == Some(value)
        });
        (!annotated).then_some(Mismatch::Annotations)
    }

    fn arguments_differ(&self, call: &CallQuery<'_>, subject: Subject) -> Option<Mismatch> {
        let pattern = self.arguments.as_ref()?;
        (!pattern.is_match(call.arguments(subject))).then_some(Mismatch::Arguments)
    }

    fn paths_differ(&self, call: &CallQuery<'_>, decision: Decision) -> Option<Mismatch> {
        if self.path_glob.is_none() && self.path_inside.is_none() {
            return None;
        }
        let strictly = decision == Decision::Allow;
        let paths = call.paths();
        let directories = &call.folders;
        let all_or_any = |holds: &dyn Fn(&PathBuf) -> bool| {
            if strictly {
                !paths.is_empty() && paths.iter().all(holds)
            } else {
                paths.iter().any(holds)
            }
        };
        let glob = self
            .path_glob
            .as_ref()
            .is_none_or(|glob| all_or_any(&|path| glob.matches(path, directories.workspace)));
        if !glob {
            return Some(Mismatch::PathGlob);
        }
        let inside = self
            .path_inside
            .is_none_or(|scope| all_or_any(&|path| directories.contains(scope, path, strictly)));
        (!inside).then_some(Mismatch::PathInside)
    }

    fn commands_differ(
        &self,
        call: &CallQuery<'_>,
        subject: Subject,
        decision: Decision,
    ) -> Option<Mismatch> {
        if matches!(self.commands, Commands::Any) {
            return None;
        }
        let Some(shell) = &call.shell else { return Some(Mismatch::Commands) };
        if decision == Decision::Allow {
            return self.uncovered_reason(shell, subject);
        }
        (!self.may_apply(shell, subject)).then_some(Mismatch::Commands)
    }

    /// Returns why an allowing rule does not cover the subject.
    fn uncovered_reason(&self, shell: &ShellCall<'_>, subject: Subject) -> Option<Mismatch> {
        let part_mismatch = |command: &Command| {
            if self.commands.cover(command) {
                None
            } else if is_settled(command) || !self.commands.may_cover(command) {
                Some(Mismatch::Commands)
            } else {
                Some(Mismatch::NotSettled)
            }
        };
        let commands = &shell.line.commands;
        match subject {
            Subject::Part(index) => match commands.get(index) {
                Some(command) => part_mismatch(command),
                None => Some(Mismatch::Commands),
            },
            Subject::Whole if shell.unanalyzable_reason().is_some() => Some(Mismatch::Commands),
            Subject::Whole => {
                let mut own = commands.iter().filter(|command| !command.is_passed_on).peekable();
                match own.peek() {
                    Some(_) => own.find_map(part_mismatch),
                    // The line names no command.
                    None => Some(Mismatch::Commands),
                }
            }
        }
    }

    /// Whether a denying or asking rule may apply to the subject.
    fn may_apply(&self, shell: &ShellCall<'_>, subject: Subject) -> bool {
        let commands = &shell.line.commands;
        match subject {
            Subject::Part(index) => {
                commands.get(index).is_some_and(|command| self.commands.may_cover(command))
            }
            Subject::Whole => {
                commands.iter().any(|command| self.commands.may_cover(command))
                    || self.commands.may_match(shell)
            }
        }
    }
}

impl Commands {
    /// Whether the command is certain to be one of these and does nothing beyond what it shows.
    pub(crate) fn cover(&self, command: &Command) -> bool {
        match self {
            Self::Any => true,
            Self::Prefixes(prefixes) => prefixes.iter().any(|prefix| prefix.covers(command)),
            Self::Pattern(pattern) => is_settled(command) && pattern.covers(&text_of(command)),
        }
    }

    fn may_cover(&self, command: &Command) -> bool {
        match self {
            Self::Any => true,
            Self::Prefixes(prefixes) => prefixes.iter().any(|prefix| prefix.may_cover(command)),
            Self::Pattern(pattern) => {
                let text = text_of(command);
                // `/bin/rm a` is also `rm a`.
                let base = text.split_once(' ').map_or(text.as_str(), |(program, _)| program);
                let directory = base.rfind('/').map_or(0, |slash| slash + 1);
                pattern.from_start.is_match(&text)
                    || pattern.from_start.is_match(text.get(directory..).unwrap_or_default())
                    || pattern.from_start.is_match(&command.source)
            }
        }
    }

    /// Whether the text as a whole may contain such a command.
    pub(crate) fn may_match(&self, shell: &ShellCall<'_>) -> bool {
        match self {
            Self::Any => true,
            Self::Prefixes(prefixes) => {
                shell.unanalyzable_reason().is_some() && {
                    let loose = shell.permissive_scan();
                    loose.too_much
                        || loose.programs().any(|(program, arguments)| {
                            prefixes.iter().any(|prefix| prefix.may_cover_words(program, arguments))
                        })
                }
            }
            Self::Pattern(pattern) => {
                pattern.from_start.is_match(shell.text.trim_start())
                    || (shell.unanalyzable_reason().is_some()
                        && pattern.unanchored.is_match(&shell.text))
            }
        }
    }
}

impl CommandPattern {
    /// Whether the command begins with a match that ends at the end of a word.
    fn covers(&self, text: &str) -> bool {
        let Some(found) = self.from_start.find(text) else { return false };
        let behind = text.get(found.end()..).unwrap_or_default();
        let ends_in_blank = found.as_str().ends_with(char::is_whitespace);
        behind.is_empty() || behind.starts_with(char::is_whitespace) || ends_in_blank
    }
}

/// Returns the words of a command on one line. A word known only at run time appears as written.
pub(crate) fn text_of(command: &Command) -> String {
    let words: Vec<&str> =
        command.words.iter().map(|word| word.text.as_deref().unwrap_or(&word.source)).collect();
    words.join(" ")
}
