//! The session browser. Filters by title at once and by content as soon as the index has answered,
//! and previews the selected session.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parallax_screen::Line;
use parallax_sdk::past::PastItem;
use parallax_sdk::session_search::{Found, IndexStep, MARKS, Search, SearchHit};
use parallax_sdk::session_tree::tree;
use parallax_sdk::{Launch, SessionChoice, SessionEntry};

use super::App;
use crate::clean::clean;
use crate::components::dialog_stack::{Body, Overlay, Purpose};
use crate::dialog::{ListDialog, ListItem};
use crate::effect::Effect;
use crate::face::Deliver;
use crate::theme::Theme;

/// Maximum number of sessions that a search returns.
const MOST_FOUND: usize = 50;
/// Minimum number of characters for a content search.
const LEAST_TYPED: usize = 2;
/// Number of prompts in the preview of a session.
const PREVIEWED: usize = 2;
/// Maximum indentation depth of nested forks.
const DEEPEST: usize = 8;

/// Minimum interval between updates of the indexing progress.
const BETWEEN: Duration = Duration::from_millis(200);

/// Content search that runs one query at a time and keeps only the newest pending query. The first
/// search reads all sessions; parallel searches would repeat that work.
#[derive(Debug, Default)]
pub(super) struct Searching {
    is_running: bool,
    /// The query to run after the current one.
    next: Option<String>,
}

impl Searching {
    /// Requests a search. Returns whether to start it now.
    fn wants(&mut self, text: &str) -> bool {
        if self.is_running {
            self.next = Some(text.to_owned());
            return false;
        }
        self.is_running = true;
        true
    }

    /// Records that a search ended. Returns the query to start now.
    fn ended(&mut self) -> Option<String> {
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
pub(super) struct Order {
    by: SortKey,
    reversed: bool,
    /// Whether one-shot headless runs are listed too.
    with_one_shots: bool,
}

impl Order {
    fn title(self) -> String {
        let (first, last) = match self.by {
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

    /// Returns the title with the number of hidden sessions.
    fn title_of(self, sessions: &[SessionEntry]) -> String {
        match sessions.iter().filter(|entry| !self.lists(entry)).count() {
            0 => self.title(),
            hidden => format!("{} · {hidden} headless runs hidden (ctrl+o)", self.title()),
        }
    }

    fn lists(self, entry: &SessionEntry) -> bool {
        self.with_one_shots || !entry.one_shot
    }
}

fn session_item(entry: &SessionEntry) -> ListItem {
    ListItem::new(entry.id.clone(), clean(&entry.title), entry.age())
}

/// Returns a list item, indented by its fork depth.
fn below(depth: usize, entry: &SessionEntry) -> ListItem {
    let mark = match depth {
        0 => String::new(),
        depth => format!("{}└ ", "  ".repeat((depth - 1).min(DEEPEST))),
    };
    ListItem::new(entry.id.clone(), format!("{mark}{}", clean(&entry.title)), entry.age())
}

/// Returns the size of a session file in bytes.
fn size(entry: &SessionEntry) -> u64 {
    std::fs::metadata(&entry.path).map_or(0, |metadata| metadata.len())
}

impl App {
    /// Shows the sessions of the project, newest first.
    pub(crate) fn sessions_dialog(&mut self) {
        let Some(launch) = self.launch.clone() else { return self.too_early() };
        self.effect(Effect::Run(Box::new(move || {
            let mut sessions = launch.sessions();
            sessions.sort_by_key(|entry| std::cmp::Reverse(entry.last_used));
            Box::new(move |app| {
                if sessions.is_empty() {
                    app.dialogs.close();
                    return app.info("No earlier sessions of this project.");
                }
                let with_one_shots = sessions.iter().all(|entry| entry.one_shot);
                let order = Order { with_one_shots, ..Order::default() };
                let listed = sessions.iter().filter(|entry| order.lists(entry));
                let items = listed.clone().map(session_item).collect();
                let first = listed.map(|entry| entry.id.clone()).next();
                let list = ListDialog::new(order.title_of(&sessions), items).searched().hint(
                    "type to search · enter resume · delete remove · ctrl+s sort · ctrl+r reverse \
                     · esc back",
                );
                app.session_order = order;
                app.browsed = Arc::from(sessions);
                app.open(Overlay::list(Purpose::Sessions, list));
                app.preview_session(&first.unwrap_or_default());
            })
        })));
    }

    /// Ctrl+S and Ctrl+R: changes or reverses the sort order.
    pub(super) fn sort_sessions(&mut self, reverse: bool) {
        self.session_order = match reverse {
            true => Order { reversed: !self.session_order.reversed, ..self.session_order },
            false => {
                Order { by: self.session_order.by.next(), reversed: false, ..self.session_order }
            }
        };
        self.list_sessions();
    }

    /// Ctrl+O: shows or hides one-shot headless runs.
    pub(super) fn toggle_one_shots(&mut self) {
        self.session_order.with_one_shots ^= true;
        self.list_sessions();
    }

    /// Shows the sessions in the current order.
    fn list_sessions(&mut self) {
        let order = self.session_order;
        let mut sessions = self.browsed.to_vec();
        match order.by {
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
        let items = match order.by {
            SortKey::Tree => {
                let listed: Vec<SessionEntry> =
                    sessions.iter().filter(|entry| order.lists(entry)).cloned().collect();
                tree(&listed).into_iter().map(|(depth, entry)| below(depth, entry)).collect()
            }
            _ => sessions.iter().filter(|entry| order.lists(entry)).map(session_item).collect(),
        };
        let title = order.title_of(&sessions);
        self.browsed = Arc::from(sessions);
        if let Some(list) = self.sessions_list() {
            list.retitle(title);
            list.replace(items);
        }
    }

    /// Loads the preview of a session, which is shown below the list.
    pub(super) fn preview_session(&mut self, id: &str) {
        let Some(entry) = self.browsed.iter().find(|entry| entry.id == id).cloned() else { return };
        let has = |list: &ListDialog| list.has_preview(id);
        if matches!(self.dialogs.overlay(), Some(Overlay { body: Body::List(list), .. }) if has(list))
        {
            return;
        }
        let Some(launch) = self.launch.clone() else { return };
        self.effect(Effect::Run(Box::new(move || {
            let items = launch.preview(&entry, PREVIEWED).unwrap_or_default();
            Box::new(move |app| {
                let rows = preview_rows(&items, &app.theme);
                if let Some(list) = app.sessions_list() {
                    list.preview(&entry.id, rows);
                }
            })
        })));
    }

    /// Searches the contents of sessions for the typed text, once per text.
    pub(super) fn search_sessions(&mut self) {
        let Some(list) = self.sessions_list() else { return };
        let text = list.search_text().trim().to_owned();
        if text.chars().count() < LEAST_TYPED || list.looked_for(&text) {
            return;
        }
        if self.launch.is_some() && self.searching.wants(&text) {
            self.begin_search(text);
        }
    }

    /// Searches on a thread and reports the indexing progress. Closing the browser stops it;
    /// sessions read so far stay in the index.
    fn begin_search(&mut self, text: String) {
        let Some(launch) = self.launch.clone() else { return };
        self.effect(Effect::Tell(Box::new(move |deliver| {
            let reading = Reading::new(deliver.clone());
            let hits = look(&launch, &text, &|step| reading.tell(step));
            // A session that was not read completely may contain more matches.
            let hits = (!reading.is_stopped()).then_some(hits);
            deliver.send(Box::new(move |app| app.searched(&text, hits)));
        })));
    }

    fn searched(&mut self, text: &str, hits: Option<Result<Found, String>>) {
        let next = self.searching.ended();
        let theme = self.theme.clone();
        if let Some(list) = self.sessions_list() {
            list.under_way = None;
            match hits {
                Some(Ok(Found { hits, left_out })) => {
                    list.notice = left_out;
                    let found = hits.iter().map(|hit| (hit.id.clone(), found_row(hit, &theme)));
                    list.found(text, found.collect());
                }
                Some(Err(why)) => list.notice = Some(why),
                None => {}
            }
            let current = list.current().map(|item| item.id.clone());
            self.preview_session(&current.unwrap_or_default());
            if let Some(next) = next {
                return self.begin_search(next);
            }
        }
        self.searching = Searching::default();
    }

    fn sessions_list(&mut self) -> Option<&mut ListDialog> {
        self.dialogs.list_for(&Purpose::Sessions)
    }

    pub(super) fn delete_session(&mut self, id: String) {
        if id == self.session {
            return self.error("This session is open; use `/quit --delete` to exit and delete it.");
        }
        let Some(launch) = self.launch.clone() else { return self.too_early() };
        self.effect(Effect::Run(Box::new(move || {
            let deleted = launch.delete_session(&id);
            Box::new(move |app| match deleted {
                Ok(entry) => app.info(format!("Deleted: {}", entry.title)),
                Err(failure) => app.error(failure.message),
            })
        })));
    }

    /// Resumes a session of any project or program, a saved conversation, or a file.
    pub(super) fn load(&mut self, what: &str) {
        if what.is_empty() {
            return self.sessions_dialog();
        }
        let Some(launch) = self.launch.clone() else { return self.too_early() };
        let what = what.to_owned();
        self.effect(Effect::Run(Box::new(move || {
            let choice = launch.loadable(&what);
            Box::new(move |app| match choice {
                Ok(choice) => app.effect(Effect::Open(choice)),
                Err(failure) => app.error(failure.message),
            })
        })));
    }

    /// Forks the session, here or before a prompt.
    pub(super) fn fork(&mut self, before: &str) {
        if self.is_busy() {
            return self.toast("Not available while the agent is running (Esc to stop)");
        }
        let before = match before {
            "" => None,
            number => match number.parse() {
                Ok(number) => Some(number),
                Err(_) => {
                    return self
                        .error(format!("Unknown prompt `{number}`; `/rewind` lists the prompts."));
                }
            },
        };
        let Some(launch) = self.launch.clone() else { return self.too_early() };
        let id = self.session.clone();
        self.effect(Effect::Run(Box::new(move || {
            // A session has no file before its first prompt.
            let made = match launch.any_session(&id) {
                Ok(_) => launch.fork_session(&id, before).map_err(|failure| failure.message),
                Err(_) => Err("nothing to copy yet".to_owned()),
            };
            Box::new(move |app| match made {
                Ok(new) => {
                    // The screen shows all of it already.
                    app.again = before.is_none();
                    let told = format!(
                        "You are now in a copy, `{}`. To return to the original, run `/load {id}`.",
                        new.id
                    );
                    app.effect(Effect::Open(SessionChoice::Resume(new.id.to_string())));
                    // Shown after the contents of the copy.
                    app.effect(Effect::Run(Box::new(|| Box::new(move |app| app.info(told)))));
                }
                Err(why) => app.error(why),
            })
        })));
    }
}

/// Reports the indexing progress to the browser.
struct Reading {
    deliver: Deliver,
    begun: Instant,
    /// When progress was last reported, since the start.
    told: std::cell::Cell<Duration>,
    /// Whether the browser was closed.
    stopped: Arc<AtomicBool>,
}

impl Reading {
    fn new(deliver: Deliver) -> Self {
        let stopped = Arc::new(AtomicBool::new(false));
        Self { deliver, begun: Instant::now(), told: Default::default(), stopped }
    }

    /// Reports progress if an update is due. Returns whether to continue.
    fn tell(&self, step: IndexStep) -> bool {
        let since = self.begun.elapsed();
        if step.read < step.of && since - self.told.get() >= BETWEEN {
            self.told.set(since);
            let stopped = Arc::clone(&self.stopped);
            self.deliver.send_soon(Box::new(move |app| match app.sessions_list() {
                Some(list) => list.under_way = Some(reading_row(step)),
                None => stopped.store(true, Ordering::Relaxed),
            }));
        }
        !self.is_stopped()
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

fn reading_row(step: IndexStep) -> String {
    format!("indexing sessions for the search: {} of {}", step.read, step.of)
}

fn look(launch: &Launch, text: &str, watch: &dyn Fn(IndexStep) -> bool) -> Result<Found, String> {
    let search = Search { text: text.to_owned(), here: true, limit: MOST_FOUND, rebuild: false };
    launch.search_sessions(&search, watch).map_err(|failure| failure.message)
}

/// Returns the snippet with the matches highlighted.
fn found_row(hit: &SearchHit, theme: &Theme) -> Line {
    let mut row = Line::styled(format!("prompt {}: ", hit.turn), theme.secondary);
    for (at, piece) in hit.snippet.split(MARKS).enumerate() {
        let style = if at % 2 == 1 { theme.accent.bold() } else { theme.text };
        row = row.and(clean(piece), style);
    }
    row
}

/// Returns the preview rows of a session.
fn preview_rows(items: &[PastItem], theme: &Theme) -> Vec<Line> {
    let first = |text: &str| clean(text.lines().find(|line| !line.trim().is_empty()).unwrap_or(""));
    let rows = items.iter().filter_map(|item| match item {
        PastItem::User { text, .. } => Some(Line::styled(format!("> {}", first(text)), theme.user)),
        PastItem::Text { text, .. } => Some(Line::styled(first(text), theme.text)),
        PastItem::Tool { name, .. } => Some(Line::styled(format!("  {name}"), theme.secondary)),
        _ => None,
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_search_runs_and_then_the_newest_text() {
        let mut searching = Searching::default();
        assert!(searching.wants("wa"));
        assert!(!searching.wants("wal") && !searching.wants("walr"));
        assert_eq!(searching.ended().as_deref(), Some("walr"));
        assert!(!searching.wants("walru"));
        assert_eq!(searching.ended().as_deref(), Some("walru"));
        assert_eq!(searching.ended(), None);
        assert!(searching.wants("seal"));
    }
}
