//! A list of things to choose from, as rows.

use parallax_screen::{Line, Span, grapheme_width, text_width, truncate};
use unicode_segmentation::UnicodeSegmentation;

use crate::theme::Theme;

/// Rows of the list without headings and marks.
const VISIBLE: usize = 8;
/// Names take at most this share of a row, in percent, when there are descriptions.
const NAME_SHARE: usize = 55;
/// Columns that names get even when they are shorter.
const USUAL_NAME: usize = 18;

/// One thing to choose.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Candidate {
    /// What it puts into the input.
    pub insert: String,
    /// What the list shows.
    pub label: String,
    /// More about it; may be empty.
    pub description: String,
    /// The heading that it stands under.
    pub section: Option<String>,
    /// Nothing can follow: a space is put behind it.
    pub whole: bool,
    /// Choosing it with Enter runs it at once.
    pub runs: bool,
    /// It is just what is typed.
    pub exact: bool,
}

/// The candidates and the chosen one.
#[derive(Debug, Clone, Default)]
pub struct List {
    candidates: Vec<Candidate>,
    selected: usize,
    top: usize,
    /// The person chose; Enter takes the choice, whatever is typed.
    moved: bool,
    /// More are being looked for.
    pub loading: bool,
}

impl List {
    /// Shows other candidates; the first is chosen.
    pub fn set(&mut self, candidates: Vec<Candidate>, loading: bool) {
        // More of the same must not move what was chosen.
        let chosen = self.selected().map(|chosen| chosen.insert.clone()).filter(|_| self.moved);
        let again = chosen
            .and_then(|chosen| candidates.iter().position(|candidate| candidate.insert == chosen));
        self.moved = again.is_some();
        self.candidates = candidates;
        self.loading = loading;
        self.selected = again.unwrap_or(0);
        self.top = 0;
        self.scroll();
    }

    /// Shows nothing.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether nothing can be chosen.
    pub fn is_empty(&self) -> bool {
        self.candidates.is_empty()
    }

    /// All candidates.
    #[cfg(test)]
    pub fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    /// The chosen one.
    pub fn selected(&self) -> Option<&Candidate> {
        self.candidates.get(self.selected)
    }

    /// Whether the person chose it.
    pub fn was_moved(&self) -> bool {
        self.moved
    }

    /// Chooses the next or the previous one, round and round.
    pub fn step(&mut self, down: bool) {
        let count = self.candidates.len().max(1);
        self.selected = if down { self.selected + 1 } else { self.selected + count - 1 } % count;
        self.moved = true;
        self.scroll();
    }

    fn scroll(&mut self) {
        self.top = self.top.min(self.selected).max((self.selected + 1).saturating_sub(VISIBLE));
    }

    /// The list as at most `most` rows of at most `columns` columns.
    pub fn rows(&self, columns: usize, most: usize, theme: &Theme) -> Vec<Line> {
        if self.candidates.is_empty() {
            let text = if self.loading { "  Searching…" } else { "" };
            return vec![Line::styled(truncate(text, columns).to_owned(), theme.secondary)];
        }
        let shown = VISIBLE.min(most.saturating_sub(1)).max(1);
        // A smaller window than the list was scrolled for.
        let top = self.top.max((self.selected + 1).saturating_sub(shown));
        let visible = self.candidates.iter().enumerate().skip(top).take(shown);
        let widest =
            visible.clone().map(|(_, candidate)| text_width(&candidate.label)).max().unwrap_or(0);
        let room = columns.saturating_sub(2);
        let described = visible.clone().any(|(_, candidate)| !candidate.description.is_empty());
        // The same for most lists, so that rows which stay need not be painted anew.
        let names = widest.max(USUAL_NAME).min(room * NAME_SHARE / 100);
        let names = if described { names } else { room };
        let mut rows = Vec::new();
        let mut section = None;
        for (number, candidate) in visible {
            if candidate.section.is_some() && candidate.section != section {
                section.clone_from(&candidate.section);
                let title = section.as_deref().unwrap_or("");
                rows.push((number, Line::styled(shortened(title, columns), theme.link)));
            }
            rows.push((number, self.row(number, candidate, names, room, theme)));
        }
        // Headings must not push the chosen row out.
        while rows.len() > most.max(1)
            && rows.last().is_some_and(|(number, _)| *number > self.selected)
        {
            rows.pop();
        }
        let over = rows.len().saturating_sub(most.max(1));
        let mut rows: Vec<Line> = rows.drain(over..).map(|(_, row)| row).collect();
        if self.candidates.len() > shown && rows.len() < most {
            let up = if top > 0 { "▲" } else { " " };
            let down = if top + shown < self.candidates.len() { "▼" } else { " " };
            let more = if self.loading { "+" } else { "" };
            let count =
                format!("{up}{down} ({}/{}{more})", self.selected + 1, self.candidates.len());
            rows.push(Line::styled(truncate(&count, columns).to_owned(), theme.secondary));
        }
        rows
    }

    fn row(
        &self,
        number: usize,
        candidate: &Candidate,
        names: usize,
        room: usize,
        theme: &Theme,
    ) -> Line {
        let chosen = number == self.selected;
        let (mark, style) = if chosen { ("> ", theme.selected) } else { ("  ", theme.text) };
        let name = shortened(&candidate.label, names);
        let mut row = Line::styled(format!("{mark}{name}"), style);
        let description: String = candidate
            .description
            .chars()
            .map(|char| if char.is_control() { ' ' } else { char })
            .collect();
        let left = room.saturating_sub(names + 2);
        if !description.is_empty() && left > 3 {
            let gap = names + 2 - text_width(&name);
            let text = if text_width(&description) > left {
                format!("{}…", truncate(&description, left - 1))
            } else {
                description
            };
            let style = if chosen { theme.selected } else { theme.secondary };
            row.push(Span::styled(format!("{}{text}", " ".repeat(gap)), style));
        }
        row
    }
}

/// A name cut at its start, whose end says more.
fn shortened(name: &str, columns: usize) -> String {
    if text_width(name) <= columns {
        return name.to_owned();
    }
    let mut used = 1;
    let mut start = name.len();
    for (at, cluster) in name.grapheme_indices(true).rev() {
        used += grapheme_width(cluster);
        if used > columns {
            break;
        }
        start = at;
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

    fn shown(list: &List, columns: usize, rows: usize) -> Vec<String> {
        list.rows(columns, rows, &Theme::default()).iter().map(Line::text).collect()
    }

    #[test]
    fn the_chosen_row_is_always_shown() {
        let mut list = list(24);
        assert_eq!(shown(&list, 40, 10)[0], "> name0               does 0");
        assert_eq!(shown(&list, 40, 10)[8], " ▼ (1/24)");
        for _ in 0..9 {
            list.step(true);
        }
        let rows = shown(&list, 40, 10);
        assert_eq!((rows.len(), rows[7].as_str()), (9, "> name9               does 9"));
        assert_eq!(rows[8], "▲▼ (10/24)");
        assert!(shown(&list, 40, 3).iter().any(|row| row.starts_with("> name9")));
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
        assert_eq!(shown(&list, 14, 9), ["> …/to/file.rs"]);
        for columns in 1..40 {
            for row in list.rows(columns, 9, &Theme::default()) {
                assert!(row.width() <= columns.max(3), "{columns}: {}", row.text());
            }
        }
    }

    #[test]
    fn headings_stand_before_their_first_row() {
        let mut list = list(3);
        let mut candidates = list.candidates().to_vec();
        candidates[0].section = Some("auto".to_owned());
        candidates[1].section = Some("checkpoints".to_owned());
        candidates[2].section = Some("checkpoints".to_owned());
        list.set(candidates, false);
        let rows = shown(&list, 40, 10);
        assert_eq!(
            rows.iter().map(|row| row.trim()).collect::<Vec<_>>()[..3],
            ["auto", "> name0               does 0", "checkpoints"]
        );
    }
}
