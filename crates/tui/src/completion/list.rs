//! The completion list as rows. The whole list takes few bytes, so that a key that opens or changes
//! it is cheap on a slow line: a few names, and the description of the selected row. More names
//! follow when the selection moves, and a short list shows all descriptions.

use std::ops::{Range, RangeInclusive};

use parallax_screen::{Line, Span, grapheme_width, text_width};
use unicode_segmentation::UnicodeSegmentation;

use crate::layout::truncate_text;
use crate::sanitize::sanitize;
use crate::theme::Theme;
use crate::tokens::pointer;

/// Maximum number of rows without headings and marks.
const VISIBLE: usize = 8;
/// The number of rows that are shown even if their names are long.
const ALWAYS_VISIBLE: usize = 3;
/// Maximum share of a row for names when there are descriptions, in percent.
const NAME_SHARE: usize = 55;
/// Maximum width of a name in a list of several.
const NAME_COLUMNS: usize = 32;
/// Maximum width of a description.
const DESCRIPTION_COLUMNS: usize = 40;
/// Range of the width of the name column; longer names extend beyond it.
const NAMES: RangeInclusive<usize> = 18..=30;

/// The approximate number of bytes for the names and descriptions of a list.
const BYTES: usize = 100;
/// The bytes that a step to the next row leaves for more names.
const STEP_BYTES: usize = 50;
/// The approximate number of bytes with which a row begins.
const ROW_START: usize = 6;
/// The approximate number of bytes around a description or a heading: the move and the styles.
const STYLED: usize = 12;

/// A completion candidate.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Candidate {
    /// The text inserted into the input.
    pub insert: String,
    /// The text shown in the list.
    pub label: String,
    /// Shown behind the label in the selected row; may be empty.
    pub aliases: String,
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
    /// Columns of the names. The same for most lists and all scroll positions, so that unchanged
    /// rows need not be repainted.
    names: usize,
    selected: usize,
    top: usize,
    /// Whether the user moved the selection; Enter then accepts it.
    was_moved: bool,
    /// Whether more rows were added when the selection moved.
    has_grown: bool,
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
        let widest = candidates.iter().map(|candidate| text_width(&candidate.label)).max();
        let top = self.top;
        *self = Self {
            candidates,
            names: widest.unwrap_or(0).clamp(*NAMES.start(), *NAMES.end()),
            selected: same_choice.unwrap_or(0),
            top,
            was_moved: same_choice.is_some(),
            has_grown: false,
            loading,
        };
        self.scroll();
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
        // A jump to the other end paints every row.
        let end = if down { 0 } else { count - 1 };
        self.has_grown = self.selected != end;
        self.scroll();
    }

    fn scroll(&mut self) {
        self.top = self.top_for(VISIBLE);
    }

    /// Returns the first visible candidate, so that the selected one is visible.
    fn top_for(&self, most: usize) -> usize {
        let top = self.top.min(self.selected);
        let lowest = (self.selected + 1).saturating_sub(most);
        let shows = |top: &usize| self.window(*top, most).contains(&self.selected);
        (top.max(lowest)..self.selected).find(shows).unwrap_or(self.selected)
    }

    /// Returns the range of visible candidates: at most `most`, and fewer if the names are long.
    fn window(&self, top: usize, most: usize) -> Range<usize> {
        let visible = self.candidates.iter().skip(top).take(most).enumerate();
        let described = visible.clone().any(|(_, candidate)| !candidate.description.is_empty());
        let mut left = BYTES + if self.has_grown { STEP_BYTES } else { 0 }
            - if described { STYLED + DESCRIPTION_COLUMNS } else { 0 };
        if !self.was_moved {
            // The first row shows the aliases.
            let aliases = self.candidates.get(top).map_or(0, |first| text_width(&first.aliases));
            left = left.saturating_sub(aliases);
        }
        let mut section = None;
        let count = visible
            .take_while(|(number, candidate)| {
                let mut bytes = ROW_START + text_width(&candidate.label).min(NAME_COLUMNS);
                if candidate.section.is_some() && candidate.section != section {
                    section.clone_from(&candidate.section);
                    let title = section.as_deref().map_or(0, text_width);
                    bytes += ROW_START + STYLED + title;
                }
                let fits = bytes <= left || *number < ALWAYS_VISIBLE;
                left = left.saturating_sub(bytes);
                fits
            })
            .count();
        top..top + count
    }

    /// Whether the list is so short that it shows every description.
    fn shows_all_descriptions(&self) -> bool {
        let bytes = |candidate: &Candidate| {
            let description = text_width(&candidate.description).min(DESCRIPTION_COLUMNS);
            ROW_START + text_width(&candidate.label) + description + STYLED
        };
        self.candidates.len() <= ALWAYS_VISIBLE
            && self.candidates.iter().map(bytes).sum::<usize>() <= BYTES
    }

    /// Returns the list as at most `limit` rows of at most `columns` columns.
    pub fn rows(&self, columns: usize, limit: usize, theme: &Theme) -> Vec<Line> {
        if self.candidates.is_empty() {
            let text = if self.loading { "  Searching…" } else { "" };
            return vec![Line::styled(truncate_text(text, columns), theme.secondary)];
        }
        // The window may be smaller than the one the list was scrolled for.
        let most = VISIBLE.min(limit.saturating_sub(1)).max(1);
        let window = self.window(self.top_for(most), most);
        let visible = self.candidates.iter().enumerate().take(window.end).skip(window.start);
        let room = columns.saturating_sub(2);
        let described = visible.clone().any(|(_, candidate)| !candidate.description.is_empty());
        let most_name = match described {
            true => room * NAME_SHARE / 100,
            false if self.candidates.len() > 1 => room.min(NAME_COLUMNS),
            false => room,
        };
        let shows_all = self.shows_all_descriptions();
        let mut rows = Vec::new();
        let mut section = None;
        for (number, candidate) in visible {
            if candidate.section.is_some() && candidate.section != section {
                section.clone_from(&candidate.section);
                let title = section.as_deref().unwrap_or("");
                rows.push((number, Line::styled(truncate_start(title, columns), theme.link)));
            }
            let whole = shows_all || number == self.selected;
            rows.push((number, self.row(number, candidate, (most_name, room, whole), theme)));
        }
        // Headings must not push the selected row out of view.
        while rows.len() > limit.max(1)
            && rows.last().is_some_and(|(number, _)| *number > self.selected)
        {
            rows.pop();
        }
        let over = rows.len().saturating_sub(limit.max(1));
        let mut rows: Vec<Line> = rows.drain(over..).map(|(_, row)| row).collect();
        if self.candidates.len() > window.len() && rows.len() < limit {
            let up = if window.start > 0 { "▲" } else { " " };
            let down = if window.end < self.candidates.len() { "▼" } else { " " };
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
            if !candidate.aliases.is_empty() {
                row.push_str(&format!(" {}", sanitize(&candidate.aliases)));
            }
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
        let label = sanitize(&candidate.label);
        let name = match whole && !candidate.aliases.is_empty() {
            // The name of a command is more informative than its aliases.
            true => truncate_text(&format!("{label} {}", sanitize(&candidate.aliases)), most_name),
            false => truncate_start(&label, most_name),
        };
        let mut row = Line::styled(mark, theme.accent).with_span(name.clone(), style);
        let description = sanitize(&candidate.description);
        let used = self.names.min(most_name).max(text_width(&name)) + 2;
        let remaining = room.saturating_sub(used).min(DESCRIPTION_COLUMNS);
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
        list
    }

    fn render_list(list: &List, columns: usize, rows: usize) -> Vec<String> {
        list.rows(columns, rows, &Theme::default()).iter().map(Line::text).collect()
    }

    #[test]
    fn selected_row_is_always_visible_and_described() {
        let mut list = list(24);
        let rows = render_list(&list, 40, 10);
        assert_eq!(rows[..2], ["❯ name0               does 0", "  name1"]);
        assert_eq!(rows.last().unwrap(), " ▼ (1/24)");
        let opened = rows.len();
        for _ in 0..9 {
            list.step(true);
        }
        let rows = render_list(&list, 40, 10);
        assert!(rows.len() > opened, "more rows follow: {rows:?}");
        assert_eq!(rows[rows.len() - 2..], ["❯ name9               does 9", "▲▼ (10/24)"]);
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
    fn aliases_follow_the_selected_name_and_are_truncated_first() {
        let mut list = List::default();
        let command = Candidate {
            label: "shells".to_owned(),
            aliases: "(tasks, bg, background, bashes)".to_owned(),
            ..Candidate::default()
        };
        list.set(vec![command; 4], false);
        assert_eq!(render_list(&list, 22, 9)[..2], ["❯ shells (tasks, bg, …", "  shells"]);
    }

    #[test]
    fn headings_precede_their_first_row() {
        let mut list = list(3);
        let mut candidates = list.candidates().to_vec();
        candidates[0].section = Some("auto".to_owned());
        candidates[1].section = Some("checkpoints".to_owned());
        candidates[2].section = Some("checkpoints".to_owned());
        list.set(candidates, false);
        let rows = render_list(&list, 40, 10);
        assert_eq!(
            rows.iter().map(|row| row.trim()).collect::<Vec<_>>()[..3],
            ["auto", "❯ name0               does 0", "checkpoints"]
        );
    }

    #[test]
    fn short_list_shows_all_descriptions() {
        let rows = render_list(&list(3), 40, 10);
        assert!(rows.iter().all(|row| row.contains("does")), "{rows:?}");
        let rows = render_list(&list(4), 40, 10);
        assert_eq!(rows.iter().filter(|row| row.contains("does")).count(), 1, "{rows:?}");
    }

    #[test]
    fn long_names_limit_the_visible_rows() {
        let mut list = List::default();
        let path = |number| Candidate {
            label: format!("a/folder/of/this/project/file{number}.rs"),
            ..Candidate::default()
        };
        list.set((0..24).map(path).collect(), false);
        for steps in 0..24 {
            let rows = render_list(&list, 80, 10);
            assert_eq!(rows.len(), ALWAYS_VISIBLE + 1, "{steps}: {rows:?}");
            let selected = format!("file{steps}.rs");
            assert!(rows.iter().any(|row| row.starts_with('❯') && row.ends_with(&selected)));
            list.step(true);
        }
    }
}
