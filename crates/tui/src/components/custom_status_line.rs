//! The user's own status line: a command gets the session facts as JSON and prints one row.

use parallax_screen::Line;
use serde_json::Value;

use crate::layout::truncate_text;
use crate::sanitize::one_row;
use crate::theme::Theme;

/// The printed row and its inputs.
#[derive(Debug, Default)]
pub(crate) struct CustomStatusLine {
    row: String,
    /// The facts last passed to the command.
    pending: Option<Value>,
    is_running: bool,
    /// Whether a failure was reported.
    is_reported: bool,
}

impl CustomStatusLine {
    /// Whether the command runs. Only one run at a time.
    pub(crate) fn is_running(&self) -> bool {
        self.is_running
    }

    /// Takes new facts. Returns whether to run the command with them.
    pub(crate) fn begin(&mut self, status: &Value) -> bool {
        if self.is_running || self.pending.as_ref() == Some(status) {
            return false;
        }
        self.pending = Some(status.clone());
        self.is_running = true;
        true
    }

    /// Takes the result of the command. Returns the first failure, for the user.
    pub(crate) fn handle_result(&mut self, result: Result<String, String>) -> Option<String> {
        self.is_running = false;
        match result {
            Ok(row) => {
                self.row = one_row(&row).into_owned();
                None
            }
            Err(reason) => {
                self.row.clear();
                (!std::mem::replace(&mut self.is_reported, true)).then_some(reason)
            }
        }
    }

    /// Returns the row below the status line.
    pub(crate) fn row(&self, width: usize, theme: &Theme) -> Option<Line> {
        let row = truncate_text(&self.row, width);
        (!self.row.is_empty()).then(|| Line::styled(row, theme.secondary))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn status_line_command_runs_once_for_unchanged_facts() {
        let mut line = CustomStatusLine::default();
        assert!(line.begin(&json!(1)) && !line.begin(&json!(2)));
        assert_eq!(line.handle_result(Ok("a\nb".to_owned())), None);
        assert!(!line.begin(&json!(1)) && line.begin(&json!(2)));
        assert_eq!(line.handle_result(Err("why".to_owned())).as_deref(), Some("why"));
        assert!(line.row(80, &Theme::default()).is_none());
        assert!(line.begin(&json!(3)));
        assert_eq!(line.handle_result(Err("again".to_owned())), None);
    }
}
