//! Asks about files outside the workspace that a prompt mentions.

use std::path::PathBuf;

use parallax_protocol::ids::SteerId;
use parallax_protocol::protected_names;
use parallax_screen::Line;

use crate::app::App;
use crate::app::effect::Effect;
use crate::components::dialog_stack::{DialogPurpose, Overlay};
use crate::dialog::{ListDialog, ListItem};
use crate::sanitize::sanitize;

/// Asks whether these paths may be read. Paths declined in a session are not asked for again.
pub(crate) fn ask(app: &mut App, text: String, steer: Option<SteerId>, mut paths: Vec<PathBuf>) {
    paths.retain(|path| !app.sent_prompts.is_declined(path));
    if paths.is_empty() {
        return app.queue_effect(Effect::Prompt { text, steer, ask: false });
    }
    let home = app.launch.as_ref().and_then(|launch| launch.user_home());
    let (secrets, others): (Vec<&PathBuf>, Vec<&PathBuf>) =
        paths.iter().partition(|path| protected_names::is_sensitive(path, home));
    let name = |path: &&PathBuf| sanitize(&path.to_string_lossy());
    let row = |path| Line::styled(format!("  {}", name(path)), app.theme.warning);
    let rows = others.iter().map(row).collect();
    let secret =
        |path| Line::styled(format!("Keys or passwords: {}", name(path)), app.theme.error.bold());
    let warnings = secrets.iter().map(secret).collect();
    let items = vec![
        ListItem::new("yes", "Yes, allow reading this session", ""),
        ListItem::new("no", "No, send the prompt without it", ""),
    ];
    let title = match paths.len() {
        1 => "The prompt names a path outside the workspace. Allow reading it?",
        _ => "The prompt names paths outside the workspace. Allow reading them?",
    };
    let list = ListDialog::new(title, items).warnings(warnings).intro(rows);
    let list = list.hint("enter choose · esc back");
    app.open(Overlay::list(DialogPurpose::OutsideFiles { text, steer, paths }, list));
}

/// Asks whether to send a prompt that adds this many tokens.
pub(crate) fn confirm_large_files(
    app: &mut App,
    text: String,
    steer: Option<SteerId>,
    tokens: usize,
    notices: &[String],
) {
    let row = |notice: &String| Line::styled(format!("  {}", sanitize(notice)), app.theme.warning);
    let rows = notices.iter().map(row).collect();
    let items = vec![
        ListItem::new("yes", "Yes, send it", ""),
        ListItem::new("no", "No, edit the prompt", ""),
    ];
    let title = format!("The files in the prompt have about {tokens} tokens. Send them?");
    let list = ListDialog::new(title, items).intro(rows).hint("enter choose · esc back");
    app.open(Overlay::list(DialogPurpose::LargePrompt { text, steer }, list));
}

pub(crate) fn handle_answer(
    app: &mut App,
    yes: bool,
    text: String,
    steer: Option<SteerId>,
    paths: Vec<PathBuf>,
) {
    app.dialogs.close();
    match yes {
        true => app.queue_effect(Effect::AllowReading(paths)),
        false => app.sent_prompts.decline(paths),
    }
    app.queue_effect(Effect::Prompt { text, steer, ask: false });
}

/// Handles a dialog closed without a choice: the prompt returns to the composer.
pub(crate) fn handle_close(app: &mut App, text: &str, steer: Option<&SteerId>) {
    if let Some(id) = steer {
        app.prompt_queue.steer_ended(id);
    }
    app.composer.insert_before(text);
}
