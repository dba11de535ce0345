//! The approval dialog in a low window: one row with the request, the file, and the scroll
//! position; the body and the answers share the rest.

use parallax_protocol::tool::Preview;
use parallax_screen::{Line, Span, text_width};

use super::QuestionDialog;
use super::body::Body;
use crate::dialog::{DialogView, scroll_position};
use crate::layout::{count, pad_row, truncate_text, truncate_with_mark};
use crate::theme::Theme;
use crate::tokens::LOW;

/// Rows that the body keeps at least so that all answers are in view.
const SCARCE_BODY: usize = 1;
/// Rows that the body keeps, if there are twice as many, although some answers are out of view.
const LEAST_BODY: usize = 3;
/// Minimum columns for the whole question and the beginning of the name of the file.
const NAMES_FILE: usize = 40;

impl QuestionDialog {
    /// Returns at most `height` rows. `head` begins with the request itself.
    pub(super) fn compact_view(
        &self,
        mut head: Vec<Line>,
        body: Body,
        (width, height): (usize, usize),
        theme: &Theme,
    ) -> DialogView {
        let title = head.first().map(Line::text).unwrap_or_default();
        let change = match self.first_change(&body.rows) {
            0 => 0,
            row => row + head.len().saturating_sub(1),
        };
        let mut rows_above = self.rule_rows(width, theme);
        let rule = 0..rows_above.len();
        if self.shows_rule {
            rows_above.extend(self.reason_rows(width, false, theme));
        }
        let change = if self.shows_rule { 0 } else { change };
        let warnings = rows_above.len()..rows_above.len() + self.warning_rows(width, theme).len();
        rows_above.extend(head.drain(..).skip(1));
        let important = body.important.into_iter().map(|row| row + rows_above.len());
        let important = rule.chain(warnings).chain(important).collect();
        let rows = rows_above.into_iter().chain(body.rows).collect();
        let mut body = Body { rows, important };
        let length = body.rows.len();
        // The keys, in windows that are not the lowest.
        let hint = self.hint(width, false, theme).filter(|_| height >= LOW);
        let rest = height.saturating_sub(1 + usize::from(hint.is_some()));
        let answers = self.choices.len();
        let chosen = self.chosen_rows(width, theme).len();
        // The body, which scrolls, gets the rows that the answers leave and at least some; the
        // selected answer is shown in full.
        let limit = rest.saturating_sub(usize::from(length > 0)).max(1);
        let all_answers = answers - 1 + chosen;
        let scarce = length.min(SCARCE_BODY);
        let least = match all_answers + scarce <= rest {
            true => scarce,
            false => length.min(rest.div_ceil(2)).min(LEAST_BODY),
        };
        let room = rest.saturating_sub(least).max(chosen).clamp(1, limit);
        let foot = self.compact_answers(width, room.min(all_answers), theme);
        let visible_rows = rest.saturating_sub(foot.len()).min(length);
        let start = if self.shows_rule { 0 } else { self.first_change(&body.rows) };
        let (shown, [long, short]) = match self.excerpt(&body, start, visible_rows, theme) {
            Some(excerpt) => {
                let hidden = length - excerpt.shown;
                let long = format!(" · {} not shown · page up/down", count(hidden, "row"));
                (excerpt.rows, [long, format!(" ↓{hidden}")])
            }
            None => {
                let above = self.update_scroll(length, visible_rows, change);
                let below = length - visible_rows - above;
                let position = match above + below {
                    0 => [String::new(), String::new()],
                    _ => {
                        let arrow = |sign: &str, rows: usize| match rows {
                            0 => String::new(),
                            rows => format!(" {sign}{rows}"),
                        };
                        let short = format!("{}{}", arrow("↑", above), arrow("↓", below));
                        [format!(" · {}", scroll_position(above, below)), short]
                    }
                };
                (body.rows.drain(above..above + visible_rows).collect(), position)
            }
        };
        let question = self.question_with_file(&title, width);
        let fits = text_width(&question) + text_width(&long) <= width;
        // Without it, the keys are in the hint.
        let hint = match hint {
            Some(_) if !fits => self.hint(width, true, theme),
            hint => hint,
        };
        let position_text = if fits { long } else { short };
        let question = truncate_text(&question, width.saturating_sub(text_width(&position_text)));
        let mut rows = vec![
            Line::styled(question, theme.text.bold()).with_span(position_text, theme.secondary),
        ];
        rows.extend(shown);
        rows.extend(foot);
        rows.extend(hint);
        rows.truncate(height.max(1));
        DialogView { rows, cursor: None }
    }

    /// Returns the request with the name of the file that would change.
    fn question_with_file(&self, question: &str, width: usize) -> String {
        match &self.request.preview {
            Some(Preview::Diff(diff)) => {
                let name = diff.file_path.file_name().unwrap_or_default().to_string_lossy();
                let name = crate::sanitize::one_row(&name).into_owned();
                match width < NAMES_FILE {
                    true => question.replacen("? ", &format!("? {name}: "), 1),
                    false => format!("{question} {name}"),
                }
            }
            _ => question.to_owned(),
        }
    }

    /// Returns all rows of the answer under the cursor.
    fn chosen_rows(&self, width: usize, theme: &Theme) -> Vec<Line> {
        let choice = self.choices.get(self.cursor).copied();
        choice.map_or_else(Vec::new, |choice| self.answer(self.cursor, choice, width, theme))
    }

    /// Returns the answers around the cursor in one row each; the selected one in full, if there is
    /// space.
    fn compact_answers(&self, width: usize, height: usize, theme: &Theme) -> Vec<Line> {
        let height = height.max(1);
        let mut rows = Vec::new();
        let (mut start, mut end) = (0, 0);
        for (index, choice) in self.choices.iter().enumerate() {
            if index == self.cursor {
                start = rows.len();
                let mut chosen = self.chosen_rows(width, theme);
                if chosen.len() > height {
                    let rest: Vec<Span> =
                        chosen.drain(height - 1..).flat_map(|row| row.spans).collect();
                    chosen.push(truncate_with_mark(Line { spans: rest, ..Line::default() }, width));
                }
                rows.append(&mut chosen);
                end = rows.len();
            } else {
                rows.push(self.answer_row(index, *choice, width, theme));
            }
        }
        // Show the answer above it if it fits.
        let first = start.saturating_sub(1).min(rows.len().saturating_sub(height));
        let first = first.max(end.saturating_sub(height));
        let rows_below = rows.len().saturating_sub(first + height);
        let mut rows: Vec<Line> = rows.into_iter().skip(first).take(height).collect();
        if let Some(last) = rows.last_mut().filter(|_| rows_below > 0 && first + height > end) {
            let more = format!(" ↓{rows_below}");
            let row =
                truncate_with_mark(std::mem::take(last), width.saturating_sub(text_width(&more)));
            *last = pad_row(row, width.saturating_sub(text_width(&more)), theme.secondary)
                .with_span(more, theme.secondary);
        }
        rows
    }
}
