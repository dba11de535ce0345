//! Selection dialogs for the model, theme, editor, and trust.

use parallax_protocol::op::Op;
use parallax_screen::Line;
use parallax_sdk::trust::TrustLevel;
use parallax_sessions::SessionChoice;
use serde_json::Value;

use crate::app::App;
use crate::app::effect::Effect;
use crate::components::dialog_stack::{DialogPurpose, Overlay};
use crate::dialog::{ListDialog, ListItem};
use crate::editors;
use crate::theme_choice as theme;

pub(crate) fn open_editor_dialog(app: &mut App) {
    app.run_with_config(editors::installed_editors, |app, mut editors| {
        editors.sort_by_key(|(_, installed)| !installed);
        let items = editors.iter().map(|(editor, installed)| {
            let mut item = ListItem::new(editor.id, editor.name, "");
            if !installed {
                "not installed".clone_into(&mut item.detail);
                item.disabled = Some(format!("{} is not on `PATH`", editor.name));
            }
            item
        });
        let list = ListDialog::new("Select an editor", items.collect());
        let current = app.settings.preferred_editor.clone().unwrap_or_default();
        app.open(Overlay::list(DialogPurpose::Editor, list.at(&current)));
    });
}

pub(crate) fn use_model(app: &mut App, name: &str, persist: bool) {
    if name.is_empty() {
        return app.error("No model given: use `/model set NAME`.");
    }
    if let Some(error) =
        app.launch.as_ref().and_then(|launch| launch.provider_manager().model_error(name))
    {
        return app.error(error);
    }
    let chosen = name.to_owned();
    match app.session.is_keyless() {
        // The session could not be opened without this model.
        true => app.queue_effect(Effect::Reopen(
            Box::new(move |options| options.model = Some(chosen)),
            SessionChoice::New,
        )),
        false => app.queue_effect(Effect::Send(Op::SetModel(chosen))),
    }
    app.status_data.model = name.to_owned();
    app.status_data.routed_model = None;
    if persist {
        app.save_setting("model.name", Some(Value::String(name.to_owned())));
    }
    app.info(format!("Model: {name}"));
    if let Some(doubt) =
        app.launch.as_ref().and_then(|launch| launch.provider_manager().model_warning(name))
    {
        app.warn(doubt);
    }
}

pub(crate) fn open_permissions_dialog(app: &mut App) {
    app.run_with_config(
        |launch| launch.trust_manager().trust(&launch.options().directory.clone()),
        |app, trust| match trust {
            Err(failure) => app.error(failure.message),
            Ok(trust) => {
                let current = if trust.trusted {
                    "The folder is trusted."
                } else {
                    "The folder is not trusted."
                };
                let items = vec![
                    ListItem::new("trust", "Trust this folder", ""),
                    ListItem::new("parent", "Trust the parent folder and everything in it", ""),
                    ListItem::new("deny", "Do not trust this folder", "nothing in it is read"),
                    ListItem::new("forget", "Ask again next time", ""),
                ];
                let list = ListDialog::new("Trusted folder", items)
                    .intro(vec![Line::styled(current, app.theme.text)]);
                app.open(Overlay::list(DialogPurpose::Permissions, list));
            }
        },
    );
}

pub(crate) fn set_trust(app: &mut App, id: &str) {
    let id = id.to_owned();
    app.run_with_config(
        move |launch| {
            let directory = launch.options().directory.clone();
            let (folder, level) = match id.as_str() {
                "trust" => (directory, Some(TrustLevel::TrustFolder)),
                "parent" => {
                    let parent = directory.parent().map(std::path::Path::to_owned);
                    (parent.unwrap_or(directory), Some(TrustLevel::TrustFolder))
                }
                "deny" => (directory, Some(TrustLevel::DoNotTrust)),
                "forget" => (directory, None),
                other => (directory.join(other), Some(TrustLevel::TrustFolder)),
            };
            launch.trust_manager().set(&folder, level)
        },
        |app, output| match output {
            Ok(_) => {
                app.info("Saved. It takes effect with the next session (`/clear` starts one).")
            }
            Err(failure) => app.error(failure.message),
        },
    );
}

pub(crate) fn open_theme_dialog(app: &mut App) {
    if theme::is_colorless() {
        return app.error("Themes are not available because NO_COLOR is set.");
    }
    app.settings_view.reset_scope();
    let items = theme::names(&app.settings.custom_themes).into_iter().map(|(name, light)| {
        // Colors say nothing to a screen reader.
        let is_seen = !app.settings.screen_reader;
        let sample = theme::find_theme(&name, &app.settings.custom_themes)
            .ok()
            .filter(|_| is_seen)
            .map(|theme| theme.reduce_to(app.window.colors().depth))
            .map(|theme| crate::theme_sample::rows(&theme, app.window.width().min(72)))
            .unwrap_or_default();
        let item = ListItem::new(name.clone(), name, if light { "light" } else { "dark" });
        item.with_preview(sample)
    });
    let list = ListDialog::new(app.settings_view.theme_title(), items.collect())
        .with_search()
        .hint("↑↓ preview · enter save · tab change scope · esc cancel")
        .at(&app.theme.name);
    let before = Box::new(app.theme.clone());
    app.open(Overlay::list(DialogPurpose::Theme(before), list));
}

/// `/theme NAME`, or the path of a theme file.
pub(crate) fn use_theme(app: &mut App, name: &str) {
    if theme::is_colorless() {
        return app.error("Themes are not available because NO_COLOR is set.");
    }
    let names = theme::names(&app.settings.custom_themes);
    let known = names.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    let name = known.map_or(name, |(known, _)| known.as_str());
    match theme::find_theme(name, &app.settings.custom_themes) {
        Ok(_) => {
            app.settings_view.reset_scope();
            app.save_theme(name);
            app.toast(format!("theme: {name}"));
        }
        Err(reason) => app.error(reason),
    }
}
