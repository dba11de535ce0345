//! Rewinds to a prompt, restores the state before a single change, and continues an interrupted
//! turn.

use parallax_protocol::event::PromptEntry;
use parallax_protocol::op::{Op, Rewind};
use parallax_sdk::rewind_preview::{FileRestore, RestorePoint};

use crate::app::App;
use crate::app::effect::Effect;
use crate::components::dialog_stack::{DialogPurpose, Overlay};
use crate::components::rewind_view::FileOptions;
use crate::dialog::{ListDialog, ListItem};
use crate::sanitize::sanitize;

/// Requests the prompts to rewind to from the engine.
pub(crate) fn request(app: &mut App) {
    if app.is_busy() {
        return app.toast("Not available while the agent is running (esc to stop)");
    }
    app.rewind.request();
    app.queue_effect(Effect::Send(Op::ListPrompts));
}

pub(crate) fn show(app: &mut App, prompts: &[PromptEntry]) {
    let directory = app.launch.as_ref().map(|launch| launch.options().directory.clone());
    match app.rewind.list(prompts, directory.as_deref(), &app.theme) {
        Ok(Some(overlay)) => app.open(overlay),
        Ok(None) => {}
        Err(reason) => app.info(reason),
    }
}

/// Asks what to rewind and previews the resulting file changes.
pub(crate) fn ask_for_rewind_scope(app: &mut App, turn: u64) {
    app.dialogs.close();
    if app.session.is_attached() {
        // Without the checkpoints, only the names are known.
        let files = app.rewind.changed_files(turn);
        return show_choices(app, turn, Ok(files));
    }
    app.queue_effect(Effect::RunWithSession(Box::new(move |session| {
        let back = session.rewind_preview();
        Box::new(move |app| {
            app.queue_effect(Effect::Run(Box::new(move || {
                let files = back.files(turn);
                Box::new(move |app| show_choices(app, turn, files))
            })));
        })
    })));
}

fn show_choices(app: &mut App, turn: u64, files: Result<Vec<FileRestore>, String>) {
    let directory = app.launch.as_ref().map(|launch| launch.options().directory.clone());
    let width = app.window.columns().saturating_sub(4).max(20);
    let options = FileOptions { directory: directory.as_deref(), width, theme: &app.theme };
    let overlay = app.rewind.choices(turn, files, options);
    app.open(overlay);
}

/// Lists the single changes that can be undone, or restores one by name.
pub(crate) fn restore(app: &mut App, name: &str) {
    if app.is_busy() {
        return app.toast("Not available while the agent is running (esc to stop)");
    }
    let name = name.to_owned();
    app.queue_effect(Effect::RunWithSession(Box::new(move |session| {
        let back = session.rewind_preview();
        Box::new(move |app| {
            if !back.checkpointing {
                return app.info(
                    "To restore single changes, enable `general.checkpointing.enabled`. \
                     `/rewind` and `/undo` go back by prompts.",
                );
            }
            app.queue_effect(Effect::Run(Box::new(move || {
                let points = back.restore_points();
                Box::new(move |app| match points {
                    Ok(points) => restore_points(app, points, &name),
                    Err(reason) => app.error(reason),
                })
            })));
        })
    })));
}

fn restore_points(app: &mut App, points: Vec<RestorePoint>, name: &str) {
    if points.is_empty() {
        return app.info("No changes to restore yet.");
    }
    if name.is_empty() {
        let items = points.iter().rev().map(|point| {
            let files: Vec<String> =
                point.files.iter().map(|file| sanitize(&file.to_string_lossy())).collect();
            ListItem::new(point.name.clone(), sanitize(&point.name), files.join(", "))
        });
        let list = ListDialog::new("Restore the state before which change?", items.collect())
            .with_search()
            .hint("enter restore and review again · esc back");
        return app.open(Overlay::list(DialogPurpose::Restore, list));
    }
    let found = points.iter().find(|point| point.name == name);
    match found {
        Some(point) => app.queue_effect(Effect::Send(Op::Restore(point.restore_request))),
        None => app.error(format!("Unknown change `{name}`; `/restore` lists the changes.")),
    }
}

/// Offers to continue an interrupted turn of the resumed session.
pub(crate) fn offer_to_continue(app: &mut App) {
    let items = vec![
        ListItem::new("yes", "Continue the turn", "finished steps are kept"),
        ListItem::new("no", "Not now", "`/continue` continues it later"),
    ];
    let list = ListDialog::new("The last turn was interrupted. Continue it?", items);
    app.open(Overlay::list(DialogPurpose::ContinueTurn, list));
}

pub(crate) fn handle_choice(app: &mut App, turn: u64, id: &str) {
    app.dialogs.close();
    let (chat, files) = (id.contains("chat"), id.contains("files"));
    if chat || files {
        let rewind = Rewind { turn, chat, files, force: id.ends_with("force") };
        app.queue_effect(Effect::Send(Op::Rewind(rewind)));
    }
}
