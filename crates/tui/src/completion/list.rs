//! The completion list as rows. Each key paints little, so that it is cheap on a slow line: a few
//! names first, and the rest after a pause in typing.

use std::ops::{Range, RangeInclusive};

use parallax_screen::{Line, Span, grapheme_width, text_width};
use unicode_segmentation::UnicodeSegmentation;

use crate::layout::truncate_text;
use crate::sanitize::sanitize;
use crate::theme::Theme;
use crate::tokens::pointer;

/// Maximum number of rows without headings and marks.
const VISIBLE: usize = 8;
/// Maximum share of a row for names when there are descriptions, in percent.
const NAME_SHARE: usize = 55;
/// Range of the width of the name column; longer names extend beyond it.
const NAMES: RangeInclusive<usize> = 18..=30;

/// Maximum columns of names painted for one key.
const NAMES_AT_ONCE: usize = 90;

/// How much of a candidate its row shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum CandidateDetail {
    #[default]
    Nothing,
    Name,
    Full,
}

/// A completion candidate.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Candidate {
    /// The text inserted into the input.
    pub insert: String,
    /// The text shown in the list.
    pub label: String,
    /// The description; may be empty.
    pub description: String,
    /// The heading in the list.
    pub section: Option<String>,
    /// Whether nothing can follow, so that a space is inserted after it.
    pub is_complete: bool,
    /// Whether Enter runs it at once.
    pub runs: bool,
    /// Whether it equals the typed text.
    pub exact: bool,
    /// Whether it is chosen only after the user selects it: options can do harm.
    pub optional: bool,
}

/// The candidates and the selection.
#[derive(Debug, Clone, Default)]
pub struct List {
    candidates: Vec<Candidate>,
    /// How much of each candidate is shown.
    shown_parts: Vec<CandidateDetail>,
    /// Columns of the names. The same for most lists and all scroll positions, so that unchanged
    /// rows need not be repainted.
    names: usize,
    selected: usize,
    top: usize,
    /// Whether the user moved the selection; Enter then accepts it.
    was_moved: bool,
    /// Whether more candidates are being searched for.
    pub loading: bool,
}

impl List {
    /// Replaces the candidates and selects the first, unless the user has selected one.
    pub fn set(&mut self, candidates: Vec<Candidate>, loading: bool) {
        // Additional results must not move the user's selection.
        let chosen = self.selected().map(|chosen| chosen.insert.clone()).filter(|_| self.was_moved);
        let same_choice = chosen
            .and_then(|chosen| candidates.iter().position(|candidate| candidate.insert == chosen));
        self.was_moved = same_choice.is_some();
        let before = std::mem::take(self);
        self.was_moved = before.was_moved;
        self.shown_parts = vec![CandidateDetail::Nothing; candidates.len()];
        let widest = candidates.iter().map(|candidate| text_width(&candidate.label)).max();
        self.names = widest.unwrap_or(0).clamp(*NAMES.start(), *NAMES.end());
        self.candidates = candidates;
        self.loading = loading;
        self.selected = same_choice.unwrap_or(0);
        self.scroll();
        // Unchanged rows need no repainting.
        if before.names == self.names {
            let pairs = before.window().zip(self.window());
            for (old, new) in pairs {
                if before.candidates.get(old) == self.candidates.get(new)
                    && let (Some(was), Some(shown)) =
                        (before.shown_parts.get(old), self.shown_parts.get_mut(new))
                {
                    *shown = *was;
                }
            }
        }
        self.show_selected_name();
    }

    /// Clears the list.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.candidates.is_empty()
    }

    /// Returns all candidates.
    #[cfg(test)]
    pub fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    /// Returns the selected candidate.
    pub fn selected(&self) -> Option<&Candidate> {
        self.candidates.get(self.selected).filter(|it| self.was_moved || !it.optional)
    }

    /// Returns the candidate that Tab accepts, which may be an option.
    pub fn first_or_selected(&self) -> Option<&Candidate> {
        self.candidates.get(self.selected)
    }

    /// Whether the user moved the selection.
    pub fn was_moved(&self) -> bool {
        self.was_moved
    }

    /// Selects the next or previous candidate, wrapping around.
    pub fn step(&mut self, down: bool) {
        let count = self.candidates.len().max(1);
        // The first step selects an option that is not preselected.
        let next = if self.selected().is_none() && down { 0 } else { 1 };
        self.selected = if down { self.selected + next } else { self.selected + count - 1 } % count;
        self.was_moved = true;
        let before = self.top;
        self.scroll();
        if self.top.abs_diff(before) > 1 {
            // Every row changes.
            self.shown_parts.fill(CandidateDetail::Nothing);
        }
        self.show_selected_name();
    }

    fn scroll(&mut self) {
        self.top = self.top.min(self.selected).max((self.selected + 1).saturating_sub(VISIBLE));
    }

    /// Returns the range of visible candidates.
    fn window(&self) -> Range<usize> {
        self.top..(self.top + VISIBLE).min(self.candidates.len())
    }

    /// Shows the name of the selected candidate, and other names up to the limit.
    fn show_selected_name(&mut self) {
        let mut remaining = NAMES_AT_ONCE;
        let others = self.window().filter(|at| *at != self.selected);
        for index in std::iter::once(self.selected).chain(others) {
            let (Some(candidate), Some(shown)) =
                (self.candidates.get(index), self.shown_parts.get_mut(index))
            else {
                return;
            };
            if *shown > CandidateDetail::Nothing {
                continue;
            }
            let width = text_width(&candidate.label) + 2;
            if width > remaining && index != self.selected {
                return;
            }
            remaining = remaining.saturating_sub(width);
            *shown = match candidate.description.is_empty() {
                true => CandidateDetail::Full,
                false => CandidateDetail::Name,
            };
        }
    }

    /// Whether more is shown after a pause in typing.
    pub fn is_holding_back(&self) -> bool {
        let visible = self.shown_parts.get(self.window()).unwrap_or_default();
        visible.iter().any(|shown| *shown < CandidateDetail::Full)
    }

    /// Shows all visible candidates in full.
    pub fn show_all(&mut self) {
        let window = self.window();
        if let Some(visible) = self.shown_parts.get_mut(window) {
            visible.fill(CandidateDetail::Full);
        }
    }

    /// Returns the list as at most `limit` rows of at most `columns` columns.
    pub fn rows(&self, columns: usize, limit: usize, theme: &Theme) -> Vec<Line> {
        if self.candidates.is_empty() {
            let text = if self.loading { "  Searching…" } else { "" };
            return vec![Line::styled(truncate_text(text, columns), theme.secondary)];
        }
        let visible_rows = VISIBLE.min(limit.saturating_sub(1)).max(1);
        // The window is smaller than the one the list was scrolled for.
        let top = self.top.max((self.selected + 1).saturating_sub(visible_rows));
        let visible = self.candidates.iter().enumerate().skip(top).take(visible_rows);
        let room = columns.saturating_sub(2);
        let described = visible.clone().any(|(_, candidate)| !candidate.description.is_empty());
        let most_name = if described { room * NAME_SHARE / 100 } else { room };
        let mut rows = Vec::new();
        let mut section = None;
        for (number, candidate) in visible {
            if candidate.section.is_some() && candidate.section != section {
                section.clone_from(&candidate.section);
                let title = section.as_deref().unwrap_or("");
                rows.push((number, Line::styled(truncate_start(title, columns), theme.link)));
            }
            let row = match self.shown_parts.get(number) {
                Some(CandidateDetail::Nothing) | None => Line::EMPTY,
                Some(shown) => {
                    let whole = *shown == CandidateDetail::Full;
                    self.row(number, candidate, (most_name, room, whole), theme)
                }
            };
            rows.push((number, row));
        }
        // Headings must not push the selected row out of view.
        while rows.len() > limit.max(1)
            && rows.last().is_some_and(|(number, _)| *number > self.selected)
        {
            rows.pop();
        }
        let over = rows.len().saturating_sub(limit.max(1));
        let mut rows: Vec<Line> = rows.drain(over..).map(|(_, row)| row).collect();
        if self.candidates.len() > visible_rows && rows.len() < limit {
            let up = if top > 0 { "▲" } else { " " };
            let down = if top + visible_rows < self.candidates.len() { "▼" } else { " " };
            let more = if self.loading { "+" } else { "" };
            let count =
                format!("{up}{down} ({}/{}{more})", self.selected + 1, self.candidates.len());
            rows.push(Line::styled(truncate_text(&count, columns), theme.secondary));
        }
        rows
    }

    /// Returns the first candidates and the selected one in words, for a screen reader.
    pub fn screen_reader_lines(&self, limit: usize) -> Vec<String> {
        let mut rows = Vec::new();
        for (number, candidate) in self.candidates.iter().enumerate() {
            let chosen = number == self.selected && (self.was_moved || !candidate.optional);
            if number >= limit && !chosen {
                continue;
            }
            let mut row = sanitize(&candidate.label);
            if !candidate.description.is_empty() {
                row.push_str(&format!(": {}", sanitize(&candidate.description)));
            }
            rows.push(if chosen { format!("selected: {row}") } else { row });
        }
        if self.candidates.len() > limit {
            rows.push("More follow; type to narrow the list.".to_owned());
        }
        rows
    }

    fn row(
        &self,
        number: usize,
        candidate: &Candidate,
        (most_name, room, whole): (usize, usize, bool),
        theme: &Theme,
    ) -> Line {
        let chosen = number == self.selected && (self.was_moved || !candidate.optional);
        let mark = pointer(chosen);
        let style = if chosen { theme.selected } else { theme.text };
        // The name of a command is more informative than its aliases.
        let command = candidate.insert.trim_start_matches('/');
        let has_aliases = !command.is_empty() && candidate.label.len() > command.len();
        let label = sanitize(&candidate.label);
        let name = match has_aliases && label.starts_with(command) {
            true => truncate_text(&label, most_name),
            false => truncate_start(&label, most_name),
        };
        let mut row = Line::styled(mark, theme.accent).with_span(name.clone(), style);
        let description = sanitize(&candidate.description);
        let used = self.names.min(most_name).max(text_width(&name)) + 2;
        let remaining = room.saturating_sub(used);
        if whole && !description.is_empty() && remaining > 3 {
            let gap = used - text_width(&name);
            let text = truncate_text(&description, remaining);
            row.push(Span::styled(format!("{}{text}", " ".repeat(gap)), theme.secondary));
        }
        row
    }
}

/// Truncates a name at its start, because its end is more informative.
fn truncate_start(name: &str, columns: usize) -> String {
    if text_width(name) <= columns {
        return name.to_owned();
    }
    let mut used = 1;
    let mut start = name.len();
    for (offset, cluster) in name.grapheme_indices(true).rev() {
        used += grapheme_width(cluster);
        if used > columns {
            break;
        }
        start = offset;
    }
    format!("…{}", name.get(start..).unwrap_or(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(count: usize) -> List {
        let mut list = List::default();
        let candidates = (0..count).map(|number| Candidate {
            insert: number.to_string(),
            label: format!("name{number}"),
            description: format!("does {number}"),
            ..Candidate::default()
        });
        list.set(candidates.collect(), false);
        list.show_all();
        list
    }

    fn render_list(list: &List, columns: usize, rows: usize) -> Vec<String> {
        list.rows(columns, rows, &Theme::default()).iter().map(Line::text).collect()
    }

    #[test]
    fn selected_row_is_always_visible() {
        let mut list = list(24);
        assert_eq!(render_list(&list, 40, 10)[0], "❯ name0               does 0");
        assert_eq!(render_list(&list, 40, 10)[8], " ▼ (1/24)");
        for _ in 0..9 {
            list.step(true);
        }
        assert_eq!(render_list(&list, 40, 10)[7], "❯ name9");
        list.show_all();
        let rows = render_list(&list, 40, 10);
        assert_eq!((rows.len(), rows[7].as_str()), (9, "❯ name9               does 9"));
        assert_eq!(rows[8], "▲▼ (10/24)");
        assert!(render_list(&list, 40, 3).iter().any(|row| row.starts_with("❯ name9")));
        list.step(false);
        for _ in 0..9 {
            list.step(false);
        }
        assert_eq!(list.selected().unwrap().label, "name23");
    }

    #[test]
    fn rows_fit_and_long_names_keep_their_ends() {
        let mut list = List::default();
        list.set(
            vec![Candidate {
                label: "a/very/long/path/to/file.rs".to_owned(),
                ..Candidate::default()
            }],
            false,
        );
        assert_eq!(render_list(&list, 14, 9), ["❯ …/to/file.rs"]);
        for columns in 1..40 {
            for row in list.rows(columns, 9, &Theme::default()) {
                assert!(row.width() <= columns.max(3), "{columns}: {}", row.text());
            }
        }
    }

    #[test]
    fn command_name_is_kept_when_aliases_do_not_fit() {
        let mut list = List::default();
        let command = Candidate {
            insert: "/shells".to_owned(),
            label: "shells (tasks, bg, background, bashes)".to_owned(),
            ..Candidate::default()
        };
        list.set(vec![command], false);
        assert_eq!(render_list(&list, 22, 9), ["❯ shells (tasks, bg, …"]);
    }

    #[test]
    fn headings_precede_their_first_row() {
        let mut list = list(3);
        let mut candidates = list.candidates().to_vec();
        candidates[0].section = Some("auto".to_owned());
        candidates[1].section = Some("checkpoints".to_owned());
        candidates[2].section = Some("checkpoints".to_owned());
        list.set(candidates, false);
        list.show_all();
        let rows = render_list(&list, 40, 10);
        assert_eq!(
            rows.iter().map(|row| row.trim()).collect::<Vec<_>>()[..3],
            ["auto", "❯ name0               does 0", "checkpoints"]
        );
    }

    #[test]
    fn first_key_shows_names_before_descriptions() {
        let mut list = list(24);
        let rows = render_list(&list, 40, 10);
        // Rows that stay in place keep their descriptions.
        let mut candidates = list.candidates().to_vec();
        candidates[1].label = "another".to_owned();
        list.set(candidates, false);
        assert!(list.is_holding_back());
        let after = render_list(&list, 40, 10);
        assert_eq!((after[0].as_str(), after[1].as_str()), (rows[0].as_str(), "  another"));
        assert_eq!(after[2], rows[2]);
        list.show_all();
        assert!(!list.is_holding_back());
        assert_eq!(render_list(&list, 40, 10)[1], "  another             does 1");
    }

    #[test]
    fn long_names_limit_the_visible_rows() {
        let mut list = List::default();
        let path = |number| Candidate {
            label: format!("a/folder/of/this/project/file{number}.rs"),
            ..Candidate::default()
        };
        list.set((0..24).map(path).collect(), false);
        let rows = render_list(&list, 80, 10);
        assert_eq!((rows.len(), rows.iter().filter(|row| !row.is_empty()).count()), (9, 3));
        list.show_all();
        assert!(render_list(&list, 80, 10).iter().all(|row| !row.is_empty()));
        // The next row appears when it is selected.
        for _ in 0..8 {
            list.step(true);
        }
        assert!(render_list(&list, 80, 10).iter().all(|row| !row.is_empty()));
    }
}
