//! The commands of the session besides the built-in ones: custom commands, skills, and prompts of
//! MCP servers; and the custom command that is being run.

use parallax_commands::{Commands, PreparedCommand, PromptCommand};
use parallax_protocol::CancellationToken;
use parallax_protocol::ids::ApprovalId;
use parallax_screen::Line;

use crate::commands::NAME_COLUMNS;
use crate::completion::ArgumentValue;
use crate::layout::two_columns;
use crate::sanitize::sanitize;
use crate::theme::Theme;

/// Commands as read from their files.
#[derive(Debug)]
pub(crate) struct LoadedCommands {
    /// Names and descriptions.
    pub(crate) names: Vec<(String, String)>,
    /// Warnings about the names.
    pub(crate) warnings: Vec<String>,
}

impl LoadedCommands {
    /// Reads the files again. Blocks.
    pub(crate) fn read(commands: &Commands) -> Self {
        let catalog = commands.reload();
        let warnings = commands.warnings();
        let mut names: Vec<(String, String)> = catalog
            .commands()
            .iter()
            .map(|command| (command.name.clone(), command.description.clone()))
            .collect();
        names.extend(
            catalog
                .file_errors_by_name()
                .map(|(name, problem)| (name.to_owned(), format!("Invalid: {problem}"))),
        );
        let skills = commands.skills().into_iter();
        names.extend(skills.map(|skill| (skill.name, skill.description)));
        Self { names, warnings }
    }
}

/// The names collected to complete the arguments of a command.
#[derive(Debug, Default)]
struct ArgumentNames {
    command: &'static str,
    names: Vec<ArgumentValue>,
}

/// The commands of the session besides the built-in ones.
#[derive(Default)]
pub(crate) struct CommandCatalog {
    /// Reads and runs the custom commands of the open session.
    commands: Option<Commands>,
    /// Returns the custom commands and skills: names and descriptions.
    custom: Vec<(String, String)>,
    /// Whether the custom commands were loaded for this session.
    is_loaded: bool,
    /// Warnings about the names of custom commands.
    warnings: Vec<String>,
    /// Prompts of MCP servers, which are offered as commands.
    prompts: Vec<PromptCommand>,
    /// Argument completions for the command being typed.
    arguments: ArgumentNames,
    /// A custom command that waits for approval of its shell commands.
    awaits_approval: Option<(ApprovalId, PreparedCommand)>,
    /// Cancels the shell commands of the custom command being expanded.
    cancel_expansion: Option<CancellationToken>,
}

impl CommandCatalog {
    /// Takes over the commands of a session that was opened. They are not loaded yet.
    pub(crate) fn adopt_session(&mut self, commands: Commands) {
        self.commands = Some(commands);
        self.is_loaded = false;
    }

    /// Returns the commands of the open session.
    pub(crate) fn commands(&self) -> Option<&Commands> {
        self.commands.as_ref()
    }

    /// Whether the names must be loaded before a typed command can be recognized.
    pub(crate) fn needs_loading(&self) -> bool {
        self.commands.is_some() && !self.is_loaded
    }

    /// Takes over loaded commands. Returns new warnings about them.
    pub(crate) fn accept_commands(&mut self, loaded: LoadedCommands) -> Option<String> {
        self.custom = loaded.names;
        self.is_loaded = true;
        let is_new = self.warnings != loaded.warnings && !loaded.warnings.is_empty();
        self.warnings = loaded.warnings;
        is_new.then(|| self.warnings.join("\n"))
    }

    /// Takes over the prompts of MCP servers.
    pub(crate) fn set_prompts(&mut self, prompts: Vec<PromptCommand>) {
        self.prompts = prompts;
    }

    /// Returns the custom commands and skills: names and descriptions.
    pub(crate) fn custom_commands(&self) -> &[(String, String)] {
        &self.custom
    }

    /// Whether a custom command has this name.
    pub(crate) fn has_custom(&self, name: &str) -> bool {
        self.custom.iter().any(|(other, _)| other == name)
    }

    /// Prompts of MCP servers.
    pub(crate) fn prompts(&self) -> &[PromptCommand] {
        &self.prompts
    }

    /// Returns the names of all these commands.
    pub(crate) fn names(&self) -> Vec<String> {
        let own = self.custom.iter().map(|(name, _)| name.clone());
        own.chain(self.prompts.iter().map(|prompt| prompt.name.clone())).collect()
    }

    /// Returns the rows of the help.
    pub(crate) fn help(&self, width: usize, theme: &Theme) -> Vec<Line> {
        if self.custom.is_empty() {
            return Vec::new();
        }
        let mut rows = vec![Line::EMPTY, Line::styled("Custom commands", theme.accent.bold())];
        for (name, description) in &self.custom {
            let name = Line::styled(format!("  /{name}"), theme.accent);
            let what = Line::styled(sanitize(description), theme.text);
            rows.extend(two_columns(name, what, NAME_COLUMNS, width));
        }
        rows
    }

    /// Keeps a custom command until the request about its next shell command is answered.
    pub(crate) fn await_approval(&mut self, request: ApprovalId, prepared: PreparedCommand) {
        self.awaits_approval = Some((request, prepared));
    }

    /// Takes the custom command that waits for the answer to the request.
    pub(crate) fn take_awaiting(&mut self, request: &ApprovalId) -> Option<PreparedCommand> {
        let (_, prepared) = self.awaits_approval.take_if(|(asked, _)| asked == request)?;
        Some(prepared)
    }

    /// Begins to expand a custom command and cancels one that is still being expanded. Returns the
    /// token that cancels it.
    pub(crate) fn begin_expansion(&mut self) -> CancellationToken {
        self.cancel_expansion();
        let cancel = CancellationToken::new();
        self.cancel_expansion = Some(cancel.clone());
        cancel
    }

    /// Records that a custom command was expanded.
    pub(crate) fn expansion_ended(&mut self) {
        self.cancel_expansion = None;
    }

    /// Cancels the custom command being expanded. Returns whether there was one.
    pub(crate) fn cancel_expansion(&mut self) -> bool {
        self.cancel_expansion.take().map(|cancel| cancel.cancel()).is_some()
    }

    /// Records for which command argument names are collected, or `""`. Returns whether it is
    /// another one, so that they must be collected.
    pub(crate) fn collect_arguments(&mut self, command: &'static str) -> bool {
        let is_new = self.arguments.command != command;
        if command.is_empty() {
            self.arguments.command = "";
        } else if is_new {
            self.arguments = ArgumentNames { command, names: Vec::new() };
        }
        is_new && !command.is_empty()
    }

    /// Takes over collected names. Returns whether they are still wanted.
    pub(crate) fn set_arguments(&mut self, command: &str, names: Vec<ArgumentValue>) -> bool {
        let is_wanted = self.arguments.command == command;
        if is_wanted {
            self.arguments.names = names;
        }
        is_wanted
    }

    /// Returns the command whose arguments are completed, and the collected names.
    pub(crate) fn arguments(&self) -> (&'static str, &[ArgumentValue]) {
        (self.arguments.command, &self.arguments.names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_collected_once_per_command() {
        let mut catalog = CommandCatalog::default();
        assert!(catalog.collect_arguments("mcp") && !catalog.collect_arguments("mcp"));
        assert!(!catalog.set_arguments("chat", vec![ArgumentValue::default()]));
        assert!(catalog.set_arguments("mcp", vec![ArgumentValue::default()]));
        assert_eq!(catalog.arguments().1.len(), 1);
        assert!(!catalog.collect_arguments("") && catalog.collect_arguments("mcp"));
        assert!(catalog.arguments().1.is_empty());
    }

    #[test]
    fn same_warnings_are_shown_once() {
        let mut catalog = CommandCatalog::default();
        let loaded = || LoadedCommands { names: Vec::new(), warnings: vec!["taken".to_owned()] };
        assert_eq!(catalog.accept_commands(loaded()).as_deref(), Some("taken"));
        assert_eq!(catalog.accept_commands(loaded()), None);
    }

    #[test]
    fn next_expansion_cancels_the_one_before() {
        let mut catalog = CommandCatalog::default();
        let first = catalog.begin_expansion();
        catalog.begin_expansion();
        assert!(first.is_cancelled() && catalog.cancel_expansion());
        assert!(!catalog.cancel_expansion());
    }
}
