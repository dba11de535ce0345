//! Startup questions about a project: whether to accept settings that lower security, and whether
//! to accept its policy rules.

use parallax_protocol::code_text::code_text as one_line;
use parallax_screen::Line;
use parallax_sdk::trust::IgnoredSettings;

use crate::app::App;
use crate::app::effect::Effect;
use crate::components::dialog_stack::{DialogPurpose, Overlay};
use crate::dialog::{ListDialog, ListItem};
use crate::sanitize::sanitize;

/// Asks whether to accept project settings that lower security, with what they would be.
pub(crate) fn ask_about_loosened_settings(app: &mut App, files: &[IgnoredSettings]) {
    let mut rows = Vec::new();
    for file in files {
        let path = one_line(&file.file.display().to_string()).into_owned();
        rows.push(Line::styled(format!("  {path}"), app.theme.secondary));
        let settings = file.keys.iter().zip(&file.values);
        rows.extend(settings.map(|(key, value)| {
            let danger = app.theme.error.bold();
            Line::styled(format!("    {}: {}", one_line(key), one_line(value)), danger)
        }));
    }
    let items = vec![
        ListItem::new("decline", "Ignore these settings", ""),
        ListItem::new("accept", "Accept these settings as they are now", ""),
    ];
    let title = "This project has settings that lower security. Accept them?";
    let list = ListDialog::new(title, items).intro(rows);
    app.open(Overlay::list(DialogPurpose::LooseSettings, list));
}

pub(crate) fn handle_loosening_settings(app: &mut App, accepted: bool) {
    let Some(launch) = &app.launch else { return };
    let output = match accepted {
        true => launch.trust_manager().accept_loosening_settings(),
        false => launch.trust_manager().decline_loosening_settings(),
    };
    match output {
        Err(failure) => app.error(failure.message),
        Ok(_) if accepted => return apply_accepted(app),
        Ok(_) => {}
    }
    next(app);
}

/// Applies the accepted settings of the terminal interface; the session reads the others when it
/// opens.
fn apply_accepted(app: &mut App) {
    let Some(launch) = app.launch.clone() else { return next(app) };
    app.queue_effect(Effect::Run(Box::new(move || {
        let reloaded = launch.reload();
        Box::new(move |app| {
            match reloaded {
                Ok(launch) => app.settings_changed(launch),
                Err(failure) => app.error(failure.message),
            }
            next(app);
        })
    })));
}

/// Asks whether to accept new or changed policy rules of the project.
pub(crate) fn ask_about_policy_update(app: &mut App, update: &parallax_sdk::trust::PolicyUpdate) {
    let line = |text: String, style| Line::styled(text, style);
    let mut rows: Vec<_> = update
        .files
        .iter()
        .map(|file| line(sanitize(&format!("  {}", file.display())), app.theme.secondary))
        .collect();
    rows.extend(
        update.rules.iter().map(|rule| line(sanitize(&format!("  {rule}")), app.theme.warning)),
    );
    let items = vec![
        ListItem::new("ignore", "Ignore these rules", ""),
        ListItem::new("accept", "Accept these rules as they are now", ""),
    ];
    let what = if update.is_new { "has policy rules" } else { "changed its policy rules" };
    let title = format!("This project {what}. Accept them?");
    let list = ListDialog::new(title, items).intro(rows);
    app.open(Overlay::list(DialogPurpose::PolicyUpdate, list));
}

pub(crate) fn policy_update_answered(app: &mut App, accepted: bool) {
    if accepted
        && let Some(launch) = &app.launch
        && let Err(reason) = launch.policy_sources().accept_project_rules()
    {
        app.error(reason);
    }
    app.queue_effect(Effect::Open(first_choice(app)));
}

/// Asks the next startup question, or opens the session.
fn next(app: &mut App) {
    let update = app.launch.as_ref().and_then(|launch| launch.policy_sources().update());
    match update {
        Some(update) => ask_about_policy_update(app, &update),
        None => app.queue_effect(Effect::Open(first_choice(app))),
    }
}

fn first_choice(app: &App) -> parallax_sessions::SessionChoice {
    app.launch.as_ref().map(|launch| launch.options().session.clone()).unwrap_or_default()
}
