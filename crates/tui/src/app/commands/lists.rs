//! The lists opened by commands.

use parallax_protocol::op::Op;
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::shell::BackgroundProcess;

use crate::app::App;
use crate::app::effect::Effect;
use crate::components::dialog_stack::{DialogPurpose, Overlay};
use crate::dialog::{ListDialog, ListItem};
use crate::status_line::mode_name;

/// Number of output lines shown of a background process.
const LOG_LINES: usize = 15;

pub(crate) fn open_mode_dialog(app: &mut App) {
    let items = [
        (ApprovalMode::Default, "asks before edits and commands"),
        (ApprovalMode::AutoEdit, "auto-approves edits in the workspace"),
        (ApprovalMode::Plan, "reads and plans without making changes"),
        (ApprovalMode::Yolo, "auto-approves all actions"),
    ]
    .map(|(mode, what)| ListItem::new(mode.as_str(), mode_name(mode), what));
    let list = ListDialog::new("Select an approval mode", items.into());
    app.open(Overlay::list(DialogPurpose::Mode, list.at(app.status_data.mode.as_str())));
}

/// Opens the list of background processes.
pub(crate) fn open_tasks_dialog(app: &mut App) {
    app.queue_effect(Effect::Send(Op::ListBackground { lines: LOG_LINES }));
    let items = app.shell.background.items(&app.theme);
    let list = ListDialog::new("Background commands", items)
        .with_search()
        .with_empty_text("no background commands")
        .hint("ctrl+k stop · enter print the output · esc back");
    app.open(Overlay::list(DialogPurpose::Tasks, list));
}

/// Updates the number of running background processes and reports those that ended.
pub(crate) fn background_changed(app: &mut App, processes: &[BackgroundProcess]) {
    let mut lines = app.shell.background.update(processes);
    if !app.settings.reports_background {
        // The session reports it.
        lines.clear();
    }
    app.status_data.background = app.shell.background.running();
    for line in lines {
        app.info(line);
    }
    tasks_changed(app);
}

/// Refreshes the open list of background processes.
fn tasks_changed(app: &mut App) {
    let items = app.shell.background.items(&app.theme);
    if let Some(list) = app.dialogs.list_for(&DialogPurpose::Tasks) {
        list.replace(items);
    }
}

pub(crate) fn show_task(app: &mut App, id: &str) {
    app.dialogs.close();
    if let Some(rows) = app.shell.background.output(id, &app.theme) {
        app.show_rows(rows);
    }
}

/// Opens the list of queued and steering messages.
pub(crate) fn open_queue_dialog(app: &mut App) {
    let items = queue_items(app);
    if items.is_empty() {
        app.dialogs.close();
        return;
    }
    let list = ListDialog::new("Queued messages", items)
        .hint("enter edit · shift+↑↓ move · x remove · esc back");
    app.open(Overlay::list(DialogPurpose::Queue, list));
}

fn queue_items(app: &App) -> Vec<ListItem> {
    let first = |text: &str| text.lines().next().unwrap_or_default().replace('\t', " ");
    let waiting = app.prompt_queue.waiting_messages().into_iter();
    waiting.map(|one| ListItem::new(one.id, first(one.text), one.delivery)).collect()
}

/// Moves a queued message into the composer.
pub(crate) fn take_queued(app: &mut App, id: &str) {
    app.dialogs.close();
    if let Some(text) = remove_from_queue(app, id) {
        app.composer.insert_before(&text);
    }
}

pub(crate) fn drop_queued(app: &mut App, id: &str) {
    let ids: Vec<String> = queue_items(app).into_iter().map(|item| item.id).collect();
    let index = ids.iter().position(|one| one == id).unwrap_or_default();
    remove_from_queue(app, id);
    open_queue_dialog(app);
    // Keep the cursor position, or move it to the last message.
    let ids: Vec<String> = queue_items(app).into_iter().map(|item| item.id).collect();
    if let Some(id) = ids.get(index).or(ids.last()) {
        mark_queued(app, id);
    }
}

fn mark_queued(app: &mut App, id: &str) {
    if let Some(list) = app.dialogs.list_mut() {
        *list = list.clone().at(id);
    }
}

/// Moves a queued message up or down.
pub(crate) fn move_queued(app: &mut App, id: &str, up: bool) {
    match app.prompt_queue.move_message(id, up) {
        Ok(Some(id)) => {
            open_queue_dialog(app);
            mark_queued(app, &id);
        }
        Ok(None) => {}
        Err(reason) => app.toast(reason),
    }
}

fn remove_from_queue(app: &mut App, id: &str) -> Option<String> {
    let removed = app.prompt_queue.remove(id)?;
    if let Some(id) = removed.steer_id {
        app.queue_effect(Effect::Send(Op::Withdraw(id)));
    }
    Some(removed.text)
}
