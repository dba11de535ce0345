//! Startup questions about a project: whether to accept settings that lower security, and whether
//! to accept its policy rules.

use parallax_screen::Line;
use parallax_sdk::Launch;

use super::App;
use crate::components::dialog_stack::{Overlay, Purpose};
use crate::dialog::{ListDialog, ListItem};
use crate::effect::Effect;

impl App {
    /// Asks whether to accept project settings that lower security.
    pub(crate) fn ask_loose_settings(&mut self, keys: &[String]) {
        let rows =
            keys.iter().map(|key| Line::styled(format!("  {key}"), self.theme.warning)).collect();
        let items = vec![
            ListItem::new("decline", "Ignore these settings", ""),
            ListItem::new("accept", "Accept these settings as they are now", ""),
        ];
        let title = "This project has settings that lower security. Accept them?";
        let list = ListDialog::new(title, items).intro(rows);
        self.open(Overlay::list(Purpose::LooseSettings, list));
    }

    pub(super) fn loose_settings_answer(&mut self, accepted: bool) {
        let Some(launch) = &self.launch else { return };
        let said = match accepted {
            true => launch.accept_loose_settings(),
            false => launch.decline_loose_settings(),
        };
        if let Err(failure) = said {
            self.error(failure.message);
        }
        self.next_gate();
    }

    /// Asks whether to accept new or changed policy rules of the project.
    pub(crate) fn ask_policy_update(&mut self, update: &parallax_sdk::trust::PolicyUpdate) {
        let line = |text: String, style| Line::styled(text, style);
        let mut rows: Vec<_> = update
            .files
            .iter()
            .map(|file| line(format!("  {}", file.display()), self.theme.secondary))
            .collect();
        rows.extend(update.rules.iter().map(|rule| line(format!("  {rule}"), self.theme.text)));
        let items = vec![
            ListItem::new("ignore", "Ignore these rules", ""),
            ListItem::new("accept", "Accept these rules as they are now", ""),
        ];
        let what = if update.new { "has policy rules" } else { "changed its policy rules" };
        let title = format!("This project {what}. Accept them?");
        let list = ListDialog::new(title, items).intro(rows);
        self.open(Overlay::list(Purpose::PolicyUpdate, list));
    }

    pub(super) fn policy_update_answer(&mut self, accepted: bool) {
        if accepted
            && let Some(launch) = &self.launch
            && let Err(failure) = launch.accept_policy_update()
        {
            self.error(failure.message);
        }
        self.effect(Effect::Open(self.first_choice()));
    }

    /// Asks the next startup question, or opens the session.
    fn next_gate(&mut self) {
        let update = self.launch.as_ref().and_then(Launch::policy_update);
        match update {
            Some(update) => self.ask_policy_update(&update),
            None => self.effect(Effect::Open(self.first_choice())),
        }
    }

    fn first_choice(&self) -> parallax_sessions::SessionChoice {
        self.launch.as_ref().map(|launch| launch.options().session.clone()).unwrap_or_default()
    }
}
