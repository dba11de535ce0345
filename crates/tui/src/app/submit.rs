//! Handles submitted input: prompts, commands, and shell lines.

use parallax_protocol::event::RewindResult;
use parallax_protocol::ids::ItemId;
use parallax_protocol::op::{Op, ToolInput};
use parallax_protocol::shell::{ShellCommand, TerminalSize};

use super::App;
use crate::app::commands::attached;
use crate::app::commands::completions;
use crate::app::commands::custom_commands;
use crate::app::effect::Effect;
use crate::app::run_command;
use crate::commands::{ParsedLine, parse};
use crate::composer::{InputMode, Submission};
use crate::copied::CopyTarget;
use crate::debug_console::LogLevel;

/// Returns the error for an invalid word after a command, with suggestions.
fn unexpected_word_error(command: &str, word: &str, near: &[String]) -> String {
    let words: Vec<String> = near.iter().map(|name| format!("`/{command} {name}`")).collect();
    match words.is_empty() {
        true => format!("`/{command}` takes no argument, but got `{word}`; nothing was run"),
        false => {
            format!(
                "Unknown argument of `/{command}`: `{word}`. Did you mean {}?",
                words.join(" or ")
            )
        }
    }
}

/// Whether a string starts like a command, after leading spaces.
pub(super) fn is_slash(text: &str) -> bool {
    text.trim_start().starts_with('/')
}

/// Returns the error for an unknown command, with suggestions.
fn unknown_command_error(name: &str, near: &[String]) -> String {
    let names: Vec<String> = near.iter().map(|name| format!("`/{name}`")).collect();
    match names.is_empty() {
        true => format!("Unknown command `/{name}`; `/help` lists the commands"),
        false => format!("Unknown command `/{name}`. Did you mean {}?", names.join(" or ")),
    }
}

impl App {
    /// Handles Enter while the agent is idle.
    pub(super) fn handle_submission(&mut self, submission: &Submission) {
        completions::update(self);
        self.remember(&submission.text);
        self.transcript.remember_typed(&submission.text, &submission.display_text);
        self.submit_typed(submission.text.clone());
    }

    /// Submits a prompt or a command, as typed or from the command line.
    pub(crate) fn submit_typed(&mut self, text: String) {
        // Command files decide which command this is.
        if is_slash(&text) && self.catalog.needs_loading() {
            return custom_commands::load_for(self, Some(text));
        }
        match parse(&text, &self.catalog.names()) {
            ParsedLine::Text => self.submit(text),
            ParsedLine::Command(spec, arguments) => {
                if !(spec.panel && arguments.is_empty()) {
                    self.echo(&text);
                }
                self.queue_effect(Effect::RecordCommand(spec.name.to_owned()));
                if !attached::run(self, spec.command, &arguments, &text) {
                    run_command::run(self, spec.command, &arguments);
                }
            }
            ParsedLine::Custom => {
                self.echo(&text);
                let name = text.trim_start().trim_start_matches('/').split_whitespace().next();
                self.queue_effect(Effect::RecordCommand(name.unwrap_or_default().to_owned()));
                custom_commands::run(self, text.trim_start());
            }
            ParsedLine::Unknown(..) if attached::run_unknown(self, &text) => {}
            ParsedLine::Unknown(name, near) => self.report_unknown_command(&text, &name, &near),
            ParsedLine::OtherAgent(name, hint) => {
                self.echo(&text);
                self.error(format!("Unknown command `/{name}`: {hint}"));
            }
            ParsedLine::UnknownArgument { command, word, near } => {
                self.echo(&text);
                self.error(unexpected_word_error(&command, &word, &near));
            }
        }
    }

    /// Handles Enter while the agent is running.
    pub(super) fn submit_while_running(&mut self, submission: &Submission) {
        completions::update(self);
        let text = submission.text.clone();
        self.transcript.remember_typed(&text, &submission.display_text);
        match parse(&text, &self.catalog.names()) {
            ParsedLine::Text => {
                self.remember(&text);
                self.steer(text);
            }
            ParsedLine::Command(spec, arguments) if spec.runs_during_turn => {
                self.remember(&text);
                self.queue_effect(Effect::RecordCommand(spec.name.to_owned()));
                if !attached::run(self, spec.command, &arguments, &text) {
                    run_command::run(self, spec.command, &arguments);
                }
            }
            ParsedLine::Command(spec, _) => {
                self.composer.restore_sent();
                self.toast(format!(
                    "/{} is not available while the agent is running (esc to stop)",
                    spec.name
                ));
            }
            ParsedLine::Custom => {
                self.composer.restore_sent();
                self.toast(
                    "Custom commands are not available while the agent is running (esc to stop)",
                );
            }
            ParsedLine::OtherAgent(name, hint) => {
                self.composer.restore_sent();
                self.toast(format!("Unknown command `/{name}`: {hint}"));
            }
            ParsedLine::Unknown(..)
                if text.trim() == "/detach" && attached::run_unknown(self, &text) => {}
            ParsedLine::Unknown(name, near) => {
                self.composer.restore_sent();
                self.toast(unknown_command_error(&name, &near));
            }
            ParsedLine::UnknownArgument { command, word, near } => {
                self.composer.restore_sent();
                self.toast(unexpected_word_error(&command, &word, &near));
            }
        }
    }

    fn report_unknown_command(&mut self, text: &str, name: &str, near: &[String]) {
        self.echo(text);
        self.error(unknown_command_error(name, near));
    }

    /// Adds the typed text to the transcript: no event reports commands.
    fn echo(&mut self, text: &str) {
        self.sent_prompts.echo(text);
        self.transcript.push_user(text);
    }

    /// Sends the prompt behind a built-in command; the transcript shows the command.
    pub(super) fn submit_for_command(&mut self, text: String) {
        self.sent_prompts.note_expanded(&text);
        self.submit(text);
    }

    /// Returns the command that a prompt being sent came from.
    pub(crate) fn command_for(&mut self, text: &str) -> Option<String> {
        let typed = self.sent_prompts.command_for(text)?.to_owned();
        self.note_expanded(&typed, text);
        Some(typed)
    }

    /// Returns a prompt being sent with labels instead of long pastes, if it has any.
    pub(crate) fn labeled_text(&self, text: &str) -> Option<String> {
        self.transcript.typed_form(text).map(str::to_owned)
    }

    /// Logs what the model gets instead of a command.
    pub(super) fn note_expanded(&self, input: &str, text: &str) {
        self.debug.log.add(LogLevel::Info, format!("sent for `{input}`: {text}"));
    }

    /// Adds the input to the project's history.
    pub(crate) fn remember(&mut self, text: &str) {
        let Some(launch) = self.launch.clone() else { return };
        let text = text.to_owned();
        self.session.record_typed(&text);
        self.queue_effect(Effect::Run(Box::new(move || {
            let saved = launch.session_library().remember_input(&text);
            Box::new(move |app| {
                if let Err(failure) = saved {
                    app.toast(failure.message);
                }
            })
        })));
    }

    /// Runs a line in the user's shell. A trailing `&` runs it in the background.
    pub(super) fn run_shell(&mut self, line: String) {
        completions::update(self);
        if let Some(launch) = self.launch.clone() {
            let line = line.clone();
            self.queue_effect(Effect::Run(Box::new(move || {
                launch.shell_history().remember(&line);
                Box::new(|_| {})
            })));
        }
        if !self.session.is_ready() {
            self.composer.restore_sent();
            return self.report_not_ready();
        }
        let trimmed = line.trim_end();
        let background = trimmed.ends_with('&') && !trimmed.ends_with("&&");
        let command = match background {
            true => trimmed.trim_end_matches('&').trim_end().to_owned(),
            false => line,
        };
        let size = Some(self.shell_size());
        let command = ShellCommand { command, background, size };
        self.queue_effect(Effect::Send(Op::RunShell(command)));
    }

    /// Resizes the terminal of a command to the available space.
    pub(super) fn resize_shell(&mut self, item: &ItemId) {
        let input = ToolInput::Resize(self.shell_size());
        self.queue_effect(Effect::Send(Op::ToolInput { item: item.clone(), input }));
    }

    /// Returns the terminal size of commands, which is that of their box.
    pub(super) fn shell_size(&self) -> TerminalSize {
        let (columns, rows) = self.window.size();
        TerminalSize {
            columns: columns.saturating_sub(6).max(20),
            rows: rows.saturating_sub(10).clamp(5, 40),
        }
    }

    /// Handles a completed rewind.
    pub(super) fn handle_rewind(&mut self, rewound: &RewindResult) {
        if rewound.chat {
            self.session.set_has_prompt(rewound.number > 1);
            self.composer.set_mode(InputMode::Prompt);
            self.composer.set_text(&rewound.prompt);
        }
    }

    /// Inserts a path at the cursor as a file reference.
    pub(crate) fn insert_path(&mut self, path: &std::path::Path) {
        let shown = match self.launch.as_ref().map(|launch| &launch.options().directory) {
            Some(folder) => path.strip_prefix(folder).unwrap_or(path),
            None => path,
        };
        // The user added the path, so reading it is allowed.
        self.queue_effect(Effect::AllowReading(vec![path.to_owned()]));
        let escaped = crate::composer::escape_path(&shown.to_string_lossy());
        self.composer.buffer_mut().insert(&format!("@{escaped} "));
    }

    pub(crate) fn report_copy(&mut self, copied: CopyTarget) {
        match copied.describe() {
            Ok(words) => self.toast(words),
            Err(reason) => self.error(reason),
        }
    }
}
