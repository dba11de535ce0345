//! The session browser: the sessions of the project in an order, and the search in their contents.

use parallax_screen::Line;
use parallax_sessions::SessionEntry;
use parallax_sessions::recorded_items::RecordedItem;
use parallax_sessions::search::{MARKS, SearchHit};
use parallax_sessions::tree;

use super::dialog_stack::{DialogPurpose, Overlay};
use crate::dialog::{ListDialog, ListItem};
use crate::markdown::{RenderOptions, render};
use crate::sanitize::sanitize;
use crate::theme::Theme;
use crate::tokens::RETRY;
use crate::transcript::display_name;

/// Minimum number of characters for a content search.
const LEAST_TYPED: usize = 2;
/// Width in columns of an answer in the preview before it is wrapped to the window.
const MAX_LINE_LENGTH: usize = 400;
/// Maximum indentation depth of nested forks.
const MAX_DEPTH: usize = 8;

/// Content search that runs one query at a time and keeps only the newest pending query. The first
/// search reads all sessions; parallel searches would repeat that work.
#[derive(Debug, Default)]
struct ContentSearch {
    is_running: bool,
    /// The query to run after the current one.
    next: Option<String>,
}

impl ContentSearch {
    /// Requests a search. Returns whether to start it now.
    fn request(&mut self, text: &str) -> bool {
        if self.is_running {
            self.next = Some(text.to_owned());
            return false;
        }
        self.is_running = true;
        true
    }

    /// Records that a search ended. Returns the query to start now.
    fn record_end(&mut self) -> Option<String> {
        let next = self.next.take();
        self.is_running = next.is_some();
        next
    }
}

/// The sort key of the session list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum SortKey {
    #[default]
    Used,
    Began,
    /// File size, which grows with the messages.
    Size,
    Name,
    /// Forks listed below their originals.
    Tree,
}

impl SortKey {
    fn next(self) -> Self {
        match self {
            Self::Used => Self::Began,
            Self::Began => Self::Size,
            Self::Size => Self::Name,
            Self::Name => Self::Tree,
            Self::Tree => Self::Used,
        }
    }
}

/// The order of the session list.
#[derive(Debug, Clone, Copy, Default)]
struct SortOrder {
    key: SortKey,
    reversed: bool,
}

impl SortOrder {
    fn title(self) -> String {
        let (first, last) = match self.key {
            SortKey::Used => ("most recently used first", "least recently used first"),
            SortKey::Began => ("newest first", "oldest first"),
            SortKey::Size => ("longest first", "shortest first"),
            SortKey::Name => ("by name", "by name, reversed"),
            SortKey::Tree => {
                ("copies below originals", "copies below originals, least recently used first")
            }
        };
        format!("Sessions · {}", if self.reversed { last } else { first })
    }
}

/// The tabs: sessions that were used in a terminal, and one-shot headless runs.
const TABS: [&str; 2] = ["Conversations", "Headless runs"];

/// Returns the tabs if there are sessions of both kinds.
fn tabs(sessions: &[SessionEntry]) -> Vec<&'static str> {
    let one_shots = sessions.iter().filter(|entry| entry.one_shot).count();
    match one_shots == 0 || one_shots == sessions.len() {
        true => Vec::new(),
        false => TABS.into(),
    }
}

fn session_item(entry: &SessionEntry) -> ListItem {
    indented_item(0, entry)
}

/// Returns a list item, indented by its fork depth.
fn indented_item(depth: usize, entry: &SessionEntry) -> ListItem {
    let mark = match depth {
        0 => String::new(),
        depth => format!("{}└ ", "  ".repeat((depth - 1).min(MAX_DEPTH))),
    };
    let label = format!("{mark}{}", sanitize(&entry.title));
    let item = ListItem::new(entry.id.clone(), label, entry.age());
    ListItem { tab: usize::from(entry.one_shot), ..item }
}

/// Returns the size of a session file in bytes.
fn size(entry: &SessionEntry) -> u64 {
    std::fs::metadata(&entry.path).map_or(0, |metadata| metadata.len())
}

/// The sessions in the browser, their order, and the search.
#[derive(Debug, Default)]
pub(crate) struct SessionBrowser {
    sessions: Vec<SessionEntry>,
    order: SortOrder,
    searching: ContentSearch,
}

impl SessionBrowser {
    /// Opens the browser with these sessions, without the open one. Returns the dialog and the id
    /// of the first one, or `None` if there are no others.
    pub(crate) fn open(
        &mut self,
        mut sessions: Vec<SessionEntry>,
        current: &str,
    ) -> Option<(Overlay, String)> {
        sessions.retain(|entry| entry.id != current);
        if sessions.is_empty() {
            return None;
        }
        sessions.sort_by_key(|entry| std::cmp::Reverse(entry.last_used));
        let order = SortOrder::default();
        let items = sessions.iter().map(session_item).collect();
        let tabs = tabs(&sessions);
        let is_first = |entry: &&SessionEntry| tabs.is_empty() || !entry.one_shot;
        let first = sessions.iter().find(is_first).map(|entry| entry.id.clone());
        let first = first.unwrap_or_default();
        let list = ListDialog::new(order.title(), items).with_search().with_tabs(tabs).hint(
            "enter resume · delete remove · ctrl+s sort · ctrl+r reverse · esc \
             close",
        );
        self.order = order;
        self.sessions = sessions;
        Some((Overlay::list(DialogPurpose::Sessions, list), first))
    }

    /// Sorts by the next property.
    pub(crate) fn sort_by_next(&mut self) {
        self.order = SortOrder { key: self.order.key.next(), reversed: false };
    }

    /// Reverses the order.
    pub(crate) fn reverse(&mut self) {
        self.order.reversed ^= true;
    }

    /// Updates the list to the current order.
    pub(crate) fn refresh(&mut self, list: &mut ListDialog) {
        let order = self.order;
        let sessions = &mut self.sessions;
        match order.key {
            SortKey::Used | SortKey::Tree => {
                sessions.sort_by_key(|entry| std::cmp::Reverse(entry.last_used))
            }
            SortKey::Began => sessions.sort_by_key(|entry| std::cmp::Reverse(entry.start)),
            SortKey::Size => sessions.sort_by_key(|entry| std::cmp::Reverse(size(entry))),
            SortKey::Name => sessions.sort_by_key(|entry| entry.title.to_lowercase()),
        }
        if order.reversed {
            sessions.reverse();
        }
        let items = match order.key {
            SortKey::Tree => tree(sessions)
                .into_iter()
                .map(|(depth, entry)| indented_item(depth, entry))
                .collect(),
            _ => sessions.iter().map(session_item).collect(),
        };
        list.set_title(order.title());
        list.replace_with_tabs(items, tabs(sessions));
    }

    /// Returns the session with this id.
    pub(crate) fn entry(&self, id: &str) -> Option<&SessionEntry> {
        self.sessions.iter().find(|entry| entry.id == id)
    }

    /// Requests a content search for the text typed into the list. Returns the text to search for
    /// now.
    pub(crate) fn search(&mut self, list: &mut ListDialog) -> Option<String> {
        let text = list.search_text().trim().to_owned();
        if text.chars().count() < LEAST_TYPED || list.record_search(&text) {
            return None;
        }
        self.searching.request(&text).then_some(text)
    }

    /// Records that a search ended. Returns the text to search for now.
    pub(crate) fn search_ended(&mut self) -> Option<String> {
        self.searching.record_end()
    }

    /// Records that the browser was closed.
    pub(crate) fn close(&mut self) {
        self.searching = ContentSearch::default();
    }
}

/// Returns the snippet with the matches highlighted.
pub(crate) fn hit_row(hit: &SearchHit, theme: &Theme) -> Line {
    let mut row = Line::styled(format!("prompt {}: ", hit.turn), theme.secondary);
    for (index, piece) in hit.snippet.split(MARKS).enumerate() {
        let style = if index % 2 == 1 { theme.accent.bold() } else { theme.text };
        row = row.with_span(sanitize(piece), style);
    }
    row
}

/// Returns the preview rows of a session.
pub(crate) fn preview_rows(items: &[RecordedItem], theme: &Theme) -> Vec<Line> {
    let first =
        |text: &str| sanitize(text.lines().find(|line| !line.trim().is_empty()).unwrap_or(""));
    let rows = items.iter().filter_map(|item| match item {
        RecordedItem::User { text, .. } => {
            Some(Line::styled(format!("> {}", first(text)), theme.user))
        }
        RecordedItem::Text { text, .. } => {
            let options = RenderOptions::new(theme, MAX_LINE_LENGTH);
            render(&first(text), &options).into_iter().find(|row| !row.text().trim().is_empty())
        }
        RecordedItem::Continued(continuation) => {
            let text = first(&continuation.to_string());
            Some(Line::styled(format!("{RETRY} {text}"), theme.secondary))
        }
        RecordedItem::Tool { name, .. } => {
            Some(Line::styled(format!("  {}", display_name(name)), theme.secondary))
        }
        _ => None,
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_runs_once_and_then_with_the_newest_text() {
        let mut searching = ContentSearch::default();
        assert!(searching.request("wa"));
        assert!(!searching.request("wal") && !searching.request("walr"));
        assert_eq!(searching.record_end().as_deref(), Some("walr"));
        assert!(!searching.request("walru"));
        assert_eq!(searching.record_end().as_deref(), Some("walru"));
        assert_eq!(searching.record_end(), None);
        assert!(searching.request("seal"));
    }
}
