//! The session browser. Filters by title at once and by content as soon as the index has answered,
//! and previews the selected session.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parallax_sdk::Launch;
use parallax_sessions::SessionChoice;
use parallax_sessions::search::{Found, IndexStep, Search};

use super::App;
use crate::components::dialog_stack::{Body, Overlay, Purpose};
use crate::components::session_browser::{found_row, preview_rows};
use crate::dialog::ListDialog;
use crate::effect::Effect;
use crate::face::Deliver;

/// Maximum number of sessions that a search returns.
const MOST_FOUND: usize = 50;
/// Number of prompts in the preview of a session.
const PREVIEWED: usize = 2;
/// Minimum interval between updates of the indexing progress.
const BETWEEN: Duration = Duration::from_millis(200);

impl App {
    /// Shows the sessions of the project, newest first.
    pub(crate) fn sessions_dialog(&mut self) {
        let Some(launch) = self.launch.clone() else { return self.too_early() };
        self.effect(Effect::Run(Box::new(move || {
            let sessions = launch.session_library().sessions();
            Box::new(move |app| {
                if sessions.is_empty() {
                    app.dialogs.close();
                    return app.info("No earlier sessions of this project.");
                }
                let (overlay, first) = app.browser.open(sessions);
                app.open(overlay);
                app.preview_session(&first);
            })
        })));
    }

    /// Ctrl+S and Ctrl+R: changes or reverses the sort order.
    pub(super) fn sort_sessions(&mut self, reverse: bool) {
        match reverse {
            true => self.browser.reverse(),
            false => self.browser.sort_by_next(),
        }
        self.list_sessions();
    }

    /// Ctrl+O: shows or hides one-shot headless runs.
    pub(super) fn toggle_one_shots(&mut self) {
        self.browser.toggle_one_shots();
        self.list_sessions();
    }

    fn list_sessions(&mut self) {
        if let Some(list) = self.dialogs.list_for(&Purpose::Sessions) {
            self.browser.refresh(list);
        }
    }

    /// Loads the preview of a session, which is shown below the list.
    pub(super) fn preview_session(&mut self, id: &str) {
        let Some(entry) = self.browser.entry(id).cloned() else { return };
        let has = |list: &ListDialog| list.has_preview(id);
        if matches!(self.dialogs.overlay(), Some(Overlay { body: Body::List(list), .. }) if has(list))
        {
            return;
        }
        let Some(launch) = self.launch.clone() else { return };
        self.effect(Effect::Run(Box::new(move || {
            let items = launch.session_library().preview(&entry, PREVIEWED).unwrap_or_default();
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
        let Some(list) = self.dialogs.list_for(&Purpose::Sessions) else { return };
        if self.launch.is_some()
            && let Some(text) = self.browser.search(list)
        {
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
        let next = self.browser.search_ended();
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
        self.browser.stop_searching();
    }

    fn sessions_list(&mut self) -> Option<&mut ListDialog> {
        self.dialogs.list_for(&Purpose::Sessions)
    }

    pub(super) fn delete_session(&mut self, id: String) {
        if id == self.session.id() {
            return self.error("This session is open; use `/quit --delete` to exit and delete it.");
        }
        let Some(launch) = self.launch.clone() else { return self.too_early() };
        self.effect(Effect::Run(Box::new(move || {
            let deleted = launch.session_library().delete_session(&id);
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
            let choice = launch.session_library().loadable(&what);
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
        let id = self.session.id().to_owned();
        self.effect(Effect::Run(Box::new(move || {
            // A session has no file before its first prompt.
            let made = match launch.session_library().any_session(&id) {
                Ok(_) => launch
                    .session_library()
                    .fork_session(&id, before)
                    .map_err(|failure| failure.message),
                Err(_) => Err("nothing to copy yet".to_owned()),
            };
            Box::new(move |app| match made {
                Ok(new) => {
                    // The screen shows all of it already.
                    app.session.set_shown(before.is_none());
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
    launch.session_library().search_sessions(&search, watch).map_err(|failure| failure.message)
}
