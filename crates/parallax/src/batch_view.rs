//! What `parallax batch` prints while it runs.

use std::io::{self, IsTerminal as _, Write as _};

use parallax_batch::{BatchDirectory, BatchOutcome, BatchProgress, QueueEvent, Summary};
use parallax_headless::{ExitCode, json_document};
use parallax_screen::{char_width, text_width};
use serde_json::json;

use crate::argument_values::Format;

/// Progress on stderr, or objects on stdout.
pub(crate) struct BatchView {
    progress: BatchProgress,
    format: Format,
    is_live: bool,
    /// The widths of the rows that are on the terminal.
    row_widths: Vec<usize>,
}

impl BatchView {
    /// Creates the view of this many tasks.
    pub(crate) fn new(tasks: usize, format: Format) -> Self {
        Self {
            progress: BatchProgress::new(tasks),
            format,
            is_live: is_live(format),
            row_widths: Vec::new(),
        }
    }

    /// Counts and prints an event.
    pub(crate) fn handle_event(&mut self, event: &QueueEvent) {
        self.progress.count_event(event);
        if self.format == Format::StreamJson {
            write_line(&mut io::stdout(), &self.progress.json(event).to_string());
        } else if let Some(text) = self.progress.plain_line(event) {
            // In a terminal, the progress bar shows the successful tasks.
            let is_worth_a_line = match event {
                QueueEvent::Ended(result) => !result.reason.is_empty(),
                QueueEvent::Notice(_) => true,
                _ => false,
            };
            if !self.is_live || is_worth_a_line {
                self.print_notice(&text);
            }
        }
    }

    /// Prints a line above the view.
    pub(crate) fn print_notice(&mut self, text: &str) {
        self.clear();
        write_line(&mut io::stderr(), text);
        self.draw();
    }

    /// Draws the view again.
    pub(crate) fn draw(&mut self) {
        if !self.is_live {
            return;
        }
        let (columns, lines) = terminal_size();
        // What scrolls out of the terminal cannot be removed.
        let rows = self.progress.rows().into_iter().take(lines - 1);
        let rows: Vec<String> = rows.map(|row| truncate(row, columns - 1)).collect();
        self.clear();
        self.row_widths = rows.iter().map(|row| text_width(row)).collect();
        write_line(&mut io::stderr(), &rows.join("\n"));
    }

    /// Removes the view.
    pub(crate) fn clear(&mut self) {
        let lines = wrapped_lines(&self.row_widths, terminal_size().0);
        if lines > 0 {
            // A terminal that is gone needs no view.
            let _ = write!(io::stderr(), "\r\x1b[{lines}A\x1b[J");
            self.row_widths.clear();
        }
    }

    /// Prints the end of the batch.
    pub(crate) fn print_end(
        &mut self,
        summary: &Summary,
        directory: &BatchDirectory,
        end: &BatchOutcome,
        code: ExitCode,
    ) {
        let results = directory.path().display();
        match self.format {
            Format::Json => {
                // It is a whole document.
                let _ = io::stdout().write_all(json_document(summary).as_bytes());
            }
            Format::StreamJson => {
                let object = json!({"type": "result", "exit_code": code.0, "tasks": summary.tasks,
                    "states": summary.states, "cost": summary.cost, "tokens": summary.tokens,
                    "budget_spent": end.budget_spent, "drained": end.was_drained,
                    "directory": directory.path()});
                write_line(&mut io::stdout(), &object.to_string());
            }
            Format::Text => {
                let mut text = format!("{}\nResults: {results}", summary.line());
                if end.budget_spent {
                    text.push_str("\nThe budget is used up; raise `--max-cost` to run the rest");
                } else if end.was_drained {
                    text.push_str("\nStopped; run the same command again to continue");
                }
                write_line(&mut io::stdout(), &text);
            }
        }
    }
}

/// Returns the columns and lines of the terminal, at least two.
fn terminal_size() -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(io::stderr());
    size.map_or((80, 24), |size| (usize::from(size.ws_col).max(2), usize::from(size.ws_row).max(2)))
}

/// Cuts a row to this many columns.
fn truncate(mut row: String, columns: usize) -> String {
    let mut width = 0;
    let end = row.char_indices().find(|(_, char)| {
        width += char_width(*char);
        width > columns
    });
    row.truncate(end.map_or(row.len(), |(offset, _)| offset));
    row
}

/// Returns the number of lines that rows of these widths occupy: a terminal that became narrower
/// has wrapped them.
fn wrapped_lines(widths: &[usize], columns: usize) -> usize {
    widths.iter().map(|width| width.div_ceil(columns).max(1)).sum()
}

/// Writes a line. A closed pipe is not an error here.
fn write_line(to: &mut impl io::Write, text: &str) {
    let _ = to.write_all(format!("{text}\n").as_bytes()).and_then(|()| to.flush());
}

/// Whether the progress is shown as a view that is updated in place.
fn is_live(format: Format) -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    let is_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
    format == Format::Text && io::stderr().is_terminal() && !is_dumb && !is_ci
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_truncated_by_character_width() {
        assert_eq!(truncate("ab日本".to_owned(), 5), "ab日");
        assert_eq!(truncate("ab日本".to_owned(), 6), "ab日本");
        assert_eq!(truncate("abc".to_owned(), 0), "");
    }

    #[test]
    fn rows_that_a_narrower_terminal_wrapped_are_all_removed() {
        assert_eq!(wrapped_lines(&[80, 80, 12, 0], 80), 4);
        assert_eq!(wrapped_lines(&[80, 80, 12, 0], 40), 6);
        assert_eq!(wrapped_lines(&[80, 80, 12, 0], 30), 8);
        assert_eq!(wrapped_lines(&[], 30), 0);
    }
}
