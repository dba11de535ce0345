//! Conversations saved under a tag, and exported sessions.

use parallax_protocol::ids::SessionId;
use parallax_sessions::SessionChoice;

use crate::app::App;
use crate::app::effect::Effect;
use crate::components::dialog_stack::{DialogPurpose, Overlay};
use crate::dialog::{ListDialog, ListItem};
use crate::sanitize::sanitize;
pub(crate) fn open(app: &mut App) {
    app.run_with_config(
        |launch| {
            let chats = launch.session_library().chats();
            let item = |chat: &parallax_sessions::SavedChat| {
                ListItem::new(chat.tag.clone(), sanitize(&chat.tag), chat.age())
            };
            chats.iter().map(item).collect::<Vec<_>>()
        },
        |app, items| {
            if items.is_empty() {
                return app.info("No saved conversations. Use `/chat save TAG` to save this one.");
            }
            let list = ListDialog::new("Saved conversations", items).with_search();
            app.open(Overlay::list(DialogPurpose::Tags, list));
        },
    );
}

pub(crate) fn save(app: &mut App, tag: &str) {
    if tag.is_empty() {
        return app.error("No tag given: use `/chat save TAG`.");
    }
    let (tag, session) = (tag.to_owned(), SessionId::new(app.session.id().to_owned()));
    let replace = app.hints.is_repeated(&format!("save {tag}"));
    let tag_copy = tag.clone();
    app.run_with_config(
        move |launch| match launch.session_library().has_chat(&tag) && !replace {
            true => None,
            false => Some(launch.session_library().save_chat(&session, &tag, replace)),
        },
        move |app, saved| match saved {
            None => {
                app.hints.ask_to_repeat(format!("save {tag_copy}"));
                app.warn(format!("`{tag_copy}` already exists; repeat the command to replace it."));
            }
            Some(Ok(_)) => app.info(format!("Saved as `{tag_copy}`.")),
            Some(Err(failure)) => app.error(failure.message),
        },
    );
}

pub(crate) fn resume(app: &mut App, tag: &str) {
    let tag = tag.to_owned();
    app.run_with_config(
        move |launch| launch.session_library().find_chat(&tag),
        |app, found| match found {
            Ok(chat) => app.queue_effect(Effect::Open(SessionChoice::Import(chat.path))),
            Err(failure) => app.error(failure.message),
        },
    );
}

pub(crate) fn delete(app: &mut App, tag: &str) {
    if tag.is_empty() {
        return app.error("No tag given: use `/chat delete TAG`.");
    }
    let tag = tag.to_owned();
    app.run_with_config(
        move |launch| launch.session_library().delete_chat(&tag),
        |app, deleted| match deleted {
            Ok(chat) => app.info(format!("Deleted `{}`.", chat.tag)),
            Err(failure) => app.error(failure.message),
        },
    );
}

pub(crate) fn share(app: &mut App, file: &str) {
    let (file, session) = (file.to_owned(), SessionId::new(app.session.id().to_owned()));
    app.run_with_config(
        move |launch| launch.session_library().share_chat(&session, Some(&file)),
        |app, written| match written {
            Ok(path) => app.info(format!("Exported to {}", path.display())),
            Err(failure) => app.error(failure.message),
        },
    );
}

pub(crate) fn export(app: &mut App, file: &str) {
    if file.is_empty() {
        return app.error("No file given: use `/export-session FILE`.");
    }
    let (file, session) = (file.to_owned(), SessionId::new(app.session.id().to_owned()));
    app.run_with_config(
        move |launch| launch.session_library().export_session(&session, &file),
        |app, written| match written {
            Ok(path) => app.info(format!("Exported to {}", path.display())),
            Err(failure) => app.error(failure.message),
        },
    );
}
