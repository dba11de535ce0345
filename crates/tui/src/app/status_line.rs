//! The user's own status line: a command gets the session facts as JSON and prints one row.

use parallax_screen::Line;
use serde_json::{Value, json};

use super::App;
use crate::effect::Effect;
use crate::layout::shortened;

/// The printed row and its inputs.
#[derive(Debug, Default)]
pub(crate) struct OwnStatusLine {
    row: String,
    /// The facts last passed to the command.
    facts: Option<Value>,
    runs: bool,
    /// Whether a failure was reported.
    reported: bool,
}

impl App {
    /// Runs the command if its input has changed. Only one run at a time.
    pub(super) fn refresh_status_line(&mut self) {
        if self.settings.status_line.is_none() || self.own_line.runs {
            return;
        }
        let Some(command) = self.launch.as_ref().and_then(parallax_sdk::Launch::status_line) else {
            return;
        };
        let facts = self.status_facts();
        if self.own_line.facts.as_ref() == Some(&facts) {
            return;
        }
        self.own_line.facts = Some(facts.clone());
        self.own_line.runs = true;
        self.effect(Effect::Run(Box::new(move || {
            let result = command.run(&facts);
            Box::new(move |app| app.status_line_is(result))
        })));
    }

    fn status_line_is(&mut self, result: Result<String, String>) {
        self.own_line.runs = false;
        match result {
            Ok(row) => self.own_line.row = crate::clean::one_row(&row).into_owned(),
            Err(why) => {
                self.own_line.row.clear();
                if !std::mem::replace(&mut self.own_line.reported, true) {
                    self.warn(why);
                }
            }
        }
        // The facts may have changed in the meantime.
        self.refresh_status_line();
    }

    /// Returns the row below the status line.
    pub(super) fn own_status_row(&self, width: usize) -> Option<Line> {
        let row = &self.own_line.row;
        let shown = self.settings.status_line.is_some() && !row.is_empty();
        shown.then(|| Line::styled(shortened(row, width), self.theme.secondary))
    }

    fn status_facts(&self) -> Value {
        let facts = &self.facts;
        let directory =
            self.launch.as_ref().map(|launch| launch.options().directory.display().to_string());
        json!({
            "session": self.session,
            "version": self.launch.as_ref().map(|launch| launch.options().version),
            "directory": directory,
            "branch": facts.branch,
            "mode": facts.mode.as_str(),
            "model": facts.routed.as_ref().unwrap_or(&facts.model),
            "context": {"tokens": facts.context.0, "window": facts.context.1, "percent": facts.percent()},
            "tokens": {"sent": facts.sent.0, "cached": facts.sent.1, "received": facts.received},
            "cost_usd": facts.cost,
            "lines": {"added": facts.lines_added, "removed": facts.lines_removed},
            "sandbox": facts.confined,
            "trusted": facts.trusted,
            "working": self.working.is_some(),
        })
    }
}
