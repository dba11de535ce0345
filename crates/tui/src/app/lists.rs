//! The lists opened by commands.

use parallax_protocol::op::Op;
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::shell::BackgroundProcess;

use super::App;
use crate::components::dialog_stack::{Overlay, Purpose};
use crate::dialog::{ListDialog, ListItem};
use crate::effect::Effect;

/// Number of output lines shown of a background process.
const LOG_LINES: usize = 15;

impl App {
    pub(super) fn mode_dialog(&mut self) {
        let items = [
            (ApprovalMode::Default, "asks before edits and commands"),
            (ApprovalMode::AutoEdit, "auto-approves edits in the workspace"),
            (ApprovalMode::Plan, "reads and plans without making changes"),
            (ApprovalMode::Yolo, "auto-approves all actions"),
        ]
        .map(|(mode, what)| ListItem::new(mode.as_str(), mode.as_str(), what));
        let list = ListDialog::new("Select an approval mode", items.into());
        self.open(Overlay::list(Purpose::Mode, list.at(self.facts.mode.as_str())));
    }

    /// Opens the list of background processes.
    pub(super) fn tasks_dialog(&mut self) {
        self.effect(Effect::Send(Op::ListBackground { lines: LOG_LINES }));
        let items = self.shell.background.items(&self.theme);
        let list = ListDialog::new("Background commands", items)
            .searched()
            .when_empty("no background commands")
            .hint("ctrl+k stop · enter print the output · esc back");
        self.open(Overlay::list(Purpose::Tasks, list));
    }

    /// Updates the number of running background processes and reports those that ended.
    pub(super) fn background_changed(&mut self, processes: &[BackgroundProcess]) {
        let mut told = self.shell.background.update(processes);
        if !self.settings.tells_background {
            // The session reports it.
            told.clear();
        }
        self.facts.background = self.shell.background.running();
        for line in told {
            self.info(line);
        }
        self.tasks_changed();
    }

    /// Refreshes the open list of background processes.
    fn tasks_changed(&mut self) {
        let items = self.shell.background.items(&self.theme);
        if let Some(list) = self.dialogs.list_for(&Purpose::Tasks) {
            list.replace(items);
        }
    }

    pub(super) fn show_task(&mut self, id: &str) {
        self.dialogs.close();
        if let Some(rows) = self.shell.background.output(id, &self.theme) {
            self.say(rows);
        }
    }

    /// Opens the list of queued and steering messages.
    pub(super) fn queue_dialog(&mut self) {
        let items = self.queue_items();
        if items.is_empty() {
            self.dialogs.close();
            return;
        }
        let list = ListDialog::new("Queued messages", items)
            .hint("enter edit · shift+↑↓ move · x remove · esc back");
        self.open(Overlay::list(Purpose::Queue, list));
    }

    fn queue_items(&self) -> Vec<ListItem> {
        let first = |text: &str| text.lines().next().unwrap_or_default().replace('\t', " ");
        let waiting = self.prompt_queue.waiting().into_iter();
        waiting.map(|one| ListItem::new(one.id, first(one.text), one.when)).collect()
    }

    /// Moves a queued message into the composer.
    pub(super) fn take_queued(&mut self, id: &str) {
        self.dialogs.close();
        if let Some(text) = self.unqueue(id) {
            self.composer.insert_before(&text);
        }
    }

    pub(super) fn drop_queued(&mut self, id: &str) {
        let ids: Vec<String> = self.queue_items().into_iter().map(|item| item.id).collect();
        let at = ids.iter().position(|one| one == id).unwrap_or_default();
        self.unqueue(id);
        self.queue_dialog();
        // Keep the cursor position, or move it to the last message.
        let ids: Vec<String> = self.queue_items().into_iter().map(|item| item.id).collect();
        if let Some(id) = ids.get(at).or(ids.last()) {
            self.mark_queued(id);
        }
    }

    fn mark_queued(&mut self, id: &str) {
        if let Some(list) = self.dialogs.list_mut() {
            *list = list.clone().at(id);
        }
    }

    /// Moves a queued message up or down.
    pub(super) fn move_queued(&mut self, id: &str, up: bool) {
        match self.prompt_queue.shift(id, up) {
            Ok(Some(id)) => {
                self.queue_dialog();
                self.mark_queued(&id);
            }
            Ok(None) => {}
            Err(why) => self.toast(why),
        }
    }

    fn unqueue(&mut self, id: &str) -> Option<String> {
        let removed = self.prompt_queue.remove(id)?;
        if let Some(id) = removed.withdraw {
            self.effect(Effect::Send(Op::Withdraw(id)));
        }
        Some(removed.text)
    }

    pub(super) fn too_early(&mut self) {
        self.toast("not available before the session is open");
    }
}
