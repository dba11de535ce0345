//! Asks about files outside the workspace that a prompt mentions.

use std::path::PathBuf;

use parallax_protocol::ids::SteerId;
use parallax_screen::Line;

use super::App;
use crate::clean::clean;
use crate::components::dialog_stack::{Overlay, Purpose};
use crate::dialog::{ListDialog, ListItem};
use crate::effect::Effect;

impl App {
    /// Asks whether these paths may be read. Paths declined in a session are not asked for again.
    pub(crate) fn ask_outside(
        &mut self,
        text: String,
        steer: Option<SteerId>,
        mut paths: Vec<PathBuf>,
    ) {
        paths.retain(|path| !self.sent.is_declined(path));
        if paths.is_empty() {
            return self.effect(Effect::Prompt { text, steer, ask: false });
        }
        let row = |path: &PathBuf| format!("  {}", clean(&path.to_string_lossy()));
        let rows = paths.iter().map(|path| Line::styled(row(path), self.theme.warning)).collect();
        let items = vec![
            ListItem::new("yes", "Yes, allow reading this session", ""),
            ListItem::new("no", "No, send the prompt without it", ""),
        ];
        let title = match paths.len() {
            1 => "The prompt names a path outside the workspace. Allow reading it?",
            _ => "The prompt names paths outside the workspace. Allow reading them?",
        };
        let list = ListDialog::new(title, items).intro(rows).hint("enter choose · esc back");
        self.open(Overlay::list(Purpose::Outside { text, steer, paths }, list));
    }

    /// Asks whether to send a prompt that adds this many tokens.
    pub(crate) fn ask_large(
        &mut self,
        text: String,
        steer: Option<SteerId>,
        tokens: usize,
        notices: &[String],
    ) {
        let row =
            |notice: &String| Line::styled(format!("  {}", clean(notice)), self.theme.warning);
        let rows = notices.iter().map(row).collect();
        let items = vec![
            ListItem::new("yes", "Yes, send it", ""),
            ListItem::new("no", "No, edit the prompt", ""),
        ];
        let title = format!("The files in the prompt have about {tokens} tokens. Send them?");
        let list = ListDialog::new(title, items).intro(rows).hint("enter choose · esc back");
        self.open(Overlay::list(Purpose::LargePrompt { text, steer }, list));
    }

    pub(super) fn outside_answer(
        &mut self,
        yes: bool,
        text: String,
        steer: Option<SteerId>,
        paths: Vec<PathBuf>,
    ) {
        self.dialogs.close();
        match yes {
            true => self.effect(Effect::AllowReading(paths)),
            false => self.sent.decline(paths),
        }
        self.effect(Effect::Prompt { text, steer, ask: false });
    }

    /// Handles a dialog closed without a choice: the prompt returns to the composer.
    pub(super) fn outside_left(&mut self, text: &str, steer: Option<&SteerId>) {
        if let Some(id) = steer {
            self.prompt_queue.steer_ended(id);
        }
        self.composer.insert_before(text);
    }
}
