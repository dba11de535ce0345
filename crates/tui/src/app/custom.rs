//! Custom commands.

use parallax_protocol::CancellationToken;
use parallax_protocol::event::Failure;
use parallax_protocol::op::Op;
use parallax_screen::{Line, wrap};
use parallax_sdk::custom_commands::{Expanded, Prepared};

use super::App;
use crate::components::dialog_stack::{Overlay, Purpose};
use crate::dialog::{ListDialog, ListItem};
use crate::effect::Effect;
use crate::layout::explained;

/// A custom command that waits for approval of its shell commands.
pub(crate) struct Waiting(pub(super) Prepared);

impl App {
    /// Returns the names of the custom commands loaded so far.
    pub(super) fn custom_names(&self) -> Vec<String> {
        let own = self.custom.iter().map(|(name, _)| name.clone());
        own.chain(self.prompts.iter().map(|prompt| prompt.name.clone())).collect()
    }

    pub(super) fn custom_help(&self) -> Vec<Line> {
        if self.custom.is_empty() {
            return Vec::new();
        }
        let mut rows = vec![Line::EMPTY, Line::styled("Custom commands", self.theme.accent.bold())];
        for (name, description) in &self.custom {
            let name = Line::styled(format!("  /{name}"), self.theme.accent);
            let what = Line::styled(crate::clean::clean(description), self.theme.text);
            rows.extend(explained(name, what, super::telling::NAMES, self.width()));
        }
        rows
    }

    /// Reloads the custom commands on a thread.
    pub(crate) fn read_commands(&mut self) {
        self.read_commands_for(None);
    }

    /// Reloads the custom commands, then runs the command that was typed.
    pub(super) fn read_commands_for(&mut self, typed: Option<String>) {
        let Some(commands) = self.commands.clone() else { return };
        self.effect(Effect::Run(Box::new(move || {
            let catalog = commands.reload();
            let notices = commands.warnings();
            let mut names: Vec<(String, String)> = catalog
                .commands()
                .iter()
                .map(|command| (command.name.clone(), command.description.clone()))
                .collect();
            names.extend(
                catalog
                    .all_broken()
                    .map(|(name, problem)| (name.to_owned(), format!("Invalid: {problem}"))),
            );
            let skills = commands.skills().into_iter();
            names.extend(skills.map(|skill| (skill.name, skill.description)));
            Box::new(move |app| {
                app.custom = names;
                app.custom_known = true;
                if app.custom_notices != notices && !notices.is_empty() {
                    app.info(notices.join("\n"));
                }
                app.custom_notices = notices;
                app.set_commands();
                if let Some(typed) = typed {
                    app.submit_typed(typed);
                }
            })
        })));
    }

    /// Runs a custom command. Its shell commands are checked by the policy engine and need approval
    /// where it says so.
    pub(super) fn run_custom(&mut self, line: &str) {
        let Some(commands) = self.commands.clone() else { return self.too_early() };
        let (line, mode) = (line.to_owned(), self.facts.mode);
        self.effect(Effect::Run(Box::new(move || {
            let typed = line.strip_prefix('/').unwrap_or(&line);
            let (name, arguments) = typed.split_once(char::is_whitespace).unwrap_or((typed, ""));
            if let Some(help) = commands.prompt_help(name, arguments) {
                return Box::new(move |app| app.info(help));
            }
            let prepared = commands.prepare(&line, mode);
            Box::new(move |app| match prepared {
                Ok(prepared) => app.prepared_custom(prepared),
                Err(failure) => app.error(failure.message),
            })
        })));
    }

    fn prepared_custom(&mut self, prepared: Prepared) {
        let questions: Vec<String> =
            prepared.questions().iter().map(|text| (*text).to_owned()).collect();
        if questions.is_empty() {
            return self.expand_custom(prepared);
        }
        let width = usize::from(self.size.0).saturating_sub(1).max(20);
        let rows = questions
            .iter()
            .flat_map(|text| {
                wrap(&Line::styled(format!("  $ {text}"), self.theme.text.bold()), width, &[])
            })
            .collect();
        let items = vec![
            ListItem::new("once", "Yes, once", ""),
            ListItem::new(
                "session",
                "Yes, and don't ask again for these commands this session",
                "",
            ),
            ListItem::new("no", "No", ""),
        ];
        let title = format!("/{} wants to run shell commands", prepared.name());
        self.waiting_command = Some(Waiting(prepared));
        let list = ListDialog::new(title, items).intro(rows);
        self.open(Overlay::list(Purpose::CustomShell, list));
    }

    /// Handles the answer to the approval request.
    pub(super) fn custom_answer(&mut self, id: &str) {
        let Some(Waiting(mut prepared)) = self.waiting_command.take() else { return };
        if id == "no" {
            return self.info("Not run.");
        }
        prepared.agree(id == "session");
        self.expand_custom(prepared);
    }

    /// Runs the shell commands of a custom command. Cancels one that is still being expanded.
    fn expand_custom(&mut self, prepared: Prepared) {
        self.stop_custom();
        let cancel = CancellationToken::new();
        if prepared.runs_commands() {
            self.toast(format!("/{} is running its commands (Esc to stop)", prepared.name()));
        }
        self.expanding = Some(cancel.clone());
        self.effect(Effect::Expand(Box::new(prepared), cancel));
    }

    /// Cancels the custom command being expanded. Returns whether there was one.
    pub(super) fn stop_custom(&mut self) -> bool {
        self.expanding.take().map(|cancel| cancel.cancel()).is_some()
    }

    /// Sends the expanded prompt.
    pub(crate) fn expanded(&mut self, expanded: Result<Expanded, Failure>) {
        self.expanding = None;
        match expanded {
            Ok(Expanded { prompt, notices }) => {
                for notice in notices {
                    self.info(notice);
                }
                if let Some(typed) = &prompt.typed {
                    self.note_expanded(typed, &prompt.text);
                }
                self.effect(Effect::Send(Op::Prompt(prompt)));
            }
            Err(failure) => self.error(failure.message),
        }
    }
}
