//! Rewinds to a prompt, restores the state before a single change, and continues an interrupted
//! turn.

use parallax_protocol::event::PromptEntry;
use parallax_protocol::op::{Op, Rewind};
use parallax_sdk::going_back::{FileBack, RestorePoint};

use super::App;
use crate::clean::clean;
use crate::components::dialog_stack::{Overlay, Purpose};
use crate::components::rewind_view::FileOptions;
use crate::dialog::{ListDialog, ListItem};
use crate::effect::Effect;

impl App {
    /// Requests the prompts to rewind to from the engine.
    pub(super) fn rewind_dialog(&mut self) {
        if self.is_busy() {
            return self.toast("Not available while the agent is running (Esc to stop)");
        }
        self.rewind.request();
        self.effect(Effect::Send(Op::ListPrompts));
    }

    pub(super) fn prompts_are(&mut self, prompts: &[PromptEntry]) {
        match self.rewind.list(prompts, &self.theme) {
            Ok(Some(overlay)) => self.open(overlay),
            Ok(None) => {}
            Err(why) => self.info(why),
        }
    }

    /// Asks what to rewind and previews the resulting file changes.
    pub(super) fn rewind_how(&mut self, turn: u64) {
        self.dialogs.close();
        self.effect(Effect::AskSession(Box::new(move |session| {
            let back = session.going_back();
            Box::new(move |app| {
                app.effect(Effect::Run(Box::new(move || {
                    let files = back.files(turn);
                    Box::new(move |app| app.rewind_picture(turn, files))
                })));
            })
        })));
    }

    fn rewind_picture(&mut self, turn: u64, files: Result<Vec<FileBack>, String>) {
        let directory = self.launch.as_ref().map(|launch| launch.options().directory.clone());
        let width = self.window.columns().saturating_sub(4).max(20);
        let options = FileOptions { directory: directory.as_deref(), width, theme: &self.theme };
        let overlay = self.rewind.choices(turn, files, options);
        self.open(overlay);
    }

    /// Lists the single changes that can be undone, or restores one by name.
    pub(super) fn restore(&mut self, name: &str) {
        if self.is_busy() {
            return self.toast("Not available while the agent is running (Esc to stop)");
        }
        let name = name.to_owned();
        self.effect(Effect::AskSession(Box::new(move |session| {
            let back = session.going_back();
            Box::new(move |app| {
                if !back.checkpointing {
                    return app.info(
                        "To go back to a single change, enable `general.checkpointing.enabled`. \
                         `/rewind` and `/undo` go back by prompts.",
                    );
                }
                app.effect(Effect::Run(Box::new(move || {
                    let points = back.points();
                    Box::new(move |app| match points {
                        Ok(points) => app.restore_points(points, &name),
                        Err(why) => app.error(why),
                    })
                })));
            })
        })));
    }

    fn restore_points(&mut self, points: Vec<RestorePoint>, name: &str) {
        if points.is_empty() {
            return self.info("No changes to restore yet.");
        }
        if name.is_empty() {
            let items = points.iter().rev().map(|point| {
                let files: Vec<String> =
                    point.files.iter().map(|file| clean(&file.to_string_lossy())).collect();
                ListItem::new(point.name.clone(), clean(&point.name), files.join(", "))
            });
            let list = ListDialog::new("Go back to before which change?", items.collect())
                .searched()
                .hint("enter go back and decide about the change again · esc back");
            return self.open(Overlay::list(Purpose::Restore, list));
        }
        let found = points.iter().find(|point| point.name == name);
        match found {
            Some(point) => self.effect(Effect::Send(Op::Restore(point.order))),
            None => self.error(format!("Unknown change `{name}`; `/restore` lists the changes.")),
        }
    }

    /// Offers to continue an interrupted turn of the resumed session.
    pub(super) fn offer_to_go_on(&mut self) {
        let items = vec![
            ListItem::new("yes", "Continue the turn", "finished steps are kept"),
            ListItem::new("no", "Not now", "`/continue` continues it later"),
        ];
        let list = ListDialog::new("The last turn was interrupted. Continue it?", items);
        self.open(Overlay::list(Purpose::CutOff, list));
    }

    pub(super) fn rewind_chosen(&mut self, turn: u64, id: &str) {
        self.dialogs.close();
        let (chat, files) = (id.contains("chat"), id.contains("files"));
        if chat || files {
            let rewind = Rewind { turn, chat, files, force: id.ends_with("force") };
            self.effect(Effect::Send(Op::Rewind(rewind)));
        }
    }
}
