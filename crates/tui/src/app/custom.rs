//! Custom commands.

use parallax_protocol::event::Failure;
use parallax_protocol::op::Op;
use parallax_screen::{Line, wrap};
use parallax_sdk::custom_commands::{Expanded, Prepared};

use super::App;
use crate::components::command_catalog::LoadedCommands;
use crate::components::dialog_stack::{Overlay, Purpose};
use crate::dialog::{ListDialog, ListItem};
use crate::effect::Effect;

impl App {
    /// Reloads the custom commands on a thread.
    pub(crate) fn read_commands(&mut self) {
        self.read_commands_for(None);
    }

    /// Reloads the custom commands, then runs the command that was typed.
    pub(super) fn read_commands_for(&mut self, typed: Option<String>) {
        let Some(commands) = self.catalog.commands().cloned() else { return };
        self.effect(Effect::Run(Box::new(move || {
            let loaded = LoadedCommands::read(&commands);
            Box::new(move |app| {
                if let Some(warnings) = app.catalog.loaded(loaded) {
                    app.info(warnings);
                }
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
        let Some(commands) = self.catalog.commands().cloned() else { return self.too_early() };
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
        let width = self.window.width().max(20);
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
        self.catalog.await_approval(prepared);
        let list = ListDialog::new(title, items).intro(rows);
        self.open(Overlay::list(Purpose::CustomShell, list));
    }

    /// Handles the answer to the approval request.
    pub(super) fn custom_answer(&mut self, id: &str) {
        let Some(mut prepared) = self.catalog.take_awaiting() else { return };
        if id == "no" {
            return self.info("Not run.");
        }
        prepared.agree(id == "session");
        self.expand_custom(prepared);
    }

    /// Runs the shell commands of a custom command. Cancels one that is still being expanded.
    fn expand_custom(&mut self, prepared: Prepared) {
        let cancel = self.catalog.begin_expansion();
        if prepared.runs_commands() {
            self.toast(format!("/{} is running its commands (Esc to stop)", prepared.name()));
        }
        self.effect(Effect::Expand(Box::new(prepared), cancel));
    }

    /// Sends the expanded prompt.
    pub(crate) fn expanded(&mut self, expanded: Result<Expanded, Failure>) {
        self.catalog.expansion_ended();
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
