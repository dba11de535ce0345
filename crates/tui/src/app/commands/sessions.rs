//! The session browser. Filters by title at once and by content as soon as the index has answered,
//! and previews the selected session.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parallax_sdk::SessionConfig;
use parallax_sessions::SessionChoice;
use parallax_sessions::search::{IndexStep, SearchRequest, SearchResult};

use crate::app::App;
use crate::app::effect::Effect;
use crate::app::effect::ResultSender;
use crate::components::dialog_stack::{DialogPurpose, Overlay, OverlayBody};
use crate::components::session_browser::{hit_row, preview_rows};
use crate::dialog::ListDialog;

/// Maximum number of sessions that a search returns.
const MAX_FOUND: usize = 50;
/// Number of prompts in the preview of a session.
const PREVIEWED: usize = 2;
/// Minimum interval between updates of the indexing progress.
const INTERVAL: Duration = Duration::from_millis(200);

/// Shows the sessions of the project, newest first.
pub(crate) fn open(app: &mut App) {
    let Some(launch) = app.launch.clone() else { return app.report_not_ready() };
    app.queue_effect(Effect::Run(Box::new(move || {
        let sessions = launch.session_library().sessions();
        Box::new(move |app| {
            let current = app.session.id().to_owned();
            let Some((overlay, first)) = app.browser.open(sessions, &current) else {
                app.dialogs.close();
                return app.info("No other sessions of this project.");
            };
            app.open(overlay);
            preview(app, &first);
        })
    })));
}

/// Ctrl+S and Ctrl+R: changes or reverses the sort order.
pub(crate) fn sort(app: &mut App, reverse: bool) {
    match reverse {
        true => app.browser.reverse(),
        false => app.browser.sort_by_next(),
    }
    refresh(app);
}

fn refresh(app: &mut App) {
    if let Some(list) = app.dialogs.list_for(&DialogPurpose::Sessions) {
        app.browser.refresh(list);
    }
}

/// Loads the preview of a session, which is shown below the list.
pub(crate) fn preview(app: &mut App, id: &str) {
    let Some(entry) = app.browser.entry(id).cloned() else { return };
    let has = |list: &ListDialog| list.has_preview(id);
    if matches!(app.dialogs.overlay(), Some(Overlay { body: OverlayBody::List(list), .. }) if has(list))
    {
        return;
    }
    let Some(launch) = app.launch.clone() else { return };
    app.queue_effect(Effect::Run(Box::new(move || {
        let items = launch.session_library().preview(&entry, PREVIEWED).unwrap_or_default();
        Box::new(move |app| {
            let rows = preview_rows(&items, &app.theme);
            if let Some(list) = list(app) {
                list.preview(&entry.id, rows);
            }
        })
    })));
}

/// Searches the contents of sessions for the typed text, once per text.
pub(crate) fn search(app: &mut App) {
    let Some(list) = app.dialogs.list_for(&DialogPurpose::Sessions) else { return };
    if app.launch.is_some()
        && let Some(text) = app.browser.search(list)
    {
        begin_search(app, text);
    }
}

/// Searches on a thread and reports the indexing progress. Closing the browser stops it;
/// sessions read so far stay in the index.
fn begin_search(app: &mut App, text: String) {
    let Some(launch) = app.launch.clone() else { return };
    app.queue_effect(Effect::ReportProgress(Box::new(move |deliver| {
        let reading = IndexingReport::new(deliver.clone());
        let hits = search_sessions(&launch, &text, &|step| reading.update(step));
        // A session that was not read completely may contain more matches.
        let hits = (!reading.is_stopped()).then_some(hits);
        deliver.send(Box::new(move |app| handle_search_result(app, &text, hits)));
    })));
}

fn handle_search_result(app: &mut App, text: &str, hits: Option<Result<SearchResult, String>>) {
    let next = app.browser.search_ended();
    let theme = app.theme.clone();
    if let Some(list) = list(app) {
        list.search_status = None;
        match hits {
            Some(Ok(SearchResult { hits, skipped_notice })) => {
                list.notice = skipped_notice;
                let found = hits.iter().map(|hit| (hit.id.clone(), hit_row(hit, &theme)));
                list.add_results(text, found.collect());
            }
            Some(Err(reason)) => list.notice = Some(reason),
            None => {}
        }
        let current = list.current().map(|item| item.id.clone());
        preview(app, &current.unwrap_or_default());
        if let Some(next) = next {
            return begin_search(app, next);
        }
    }
    app.browser.close();
}

fn list(app: &mut App) -> Option<&mut ListDialog> {
    app.dialogs.list_for(&DialogPurpose::Sessions)
}

pub(crate) fn delete(app: &mut App, id: String) {
    if id == app.session.id() {
        return app.error("This session is open; use `/quit --delete` to exit and delete it.");
    }
    let Some(launch) = app.launch.clone() else { return app.report_not_ready() };
    app.queue_effect(Effect::Run(Box::new(move || {
        let deleted = launch.session_library().delete_session(&id);
        Box::new(move |app| match deleted {
            Ok(entry) => app.info(format!("Deleted: {}", entry.title)),
            Err(failure) => app.error(failure.message),
        })
    })));
}

/// Resumes a session of any project or program, a saved conversation, or a file.
pub(crate) fn load(app: &mut App, what: &str) {
    if what.is_empty() {
        return open(app);
    }
    let Some(launch) = app.launch.clone() else { return app.report_not_ready() };
    let what = what.to_owned();
    app.queue_effect(Effect::Run(Box::new(move || {
        let choice = launch.session_library().loadable_session(&what);
        Box::new(move |app| match choice {
            Ok(choice) => app.queue_effect(Effect::Open(choice)),
            Err(failure) => app.error(failure.message),
        })
    })));
}

/// Forks the session, here or before a prompt.
pub(crate) fn fork(app: &mut App, before: &str) {
    if app.is_busy() {
        return app.toast("Not available while the agent is running (esc to stop)");
    }
    let before = match before {
        "" => None,
        number => match number.parse() {
            Ok(number) => Some(number),
            Err(_) => {
                return app
                    .error(format!("Unknown prompt `{number}`; `/rewind` lists the prompts."));
            }
        },
    };
    let Some(launch) = app.launch.clone() else { return app.report_not_ready() };
    let id = app.session.id().to_owned();
    app.queue_effect(Effect::Run(Box::new(move || {
        // A session has no file before its first prompt.
        let forked = match launch.session_library().any_session(&id) {
            Ok(_) => launch
                .session_library()
                .fork_session(&id, before)
                .map_err(|failure| failure.message),
            Err(_) => Err("nothing to copy yet".to_owned()),
        };
        Box::new(move |app| match forked {
            Ok(new) => {
                // The screen shows all of it already.
                app.session.set_shown(before.is_none());
                let message = format!(
                    "You are now in a copy, `{}`. To return to the original, run `/load {id}`.",
                    new.id
                );
                app.queue_effect(Effect::Open(SessionChoice::Resume(new.id.to_string())));
                // Shown after the contents of the copy.
                app.queue_effect(Effect::Run(Box::new(|| Box::new(move |app| app.info(message)))));
            }
            Err(reason) => app.error(reason),
        })
    })));
}

/// Reports the indexing progress to the browser.
struct IndexingReport {
    sender: ResultSender,
    started: Instant,
    /// When progress was last reported, since the start.
    last_report: std::cell::Cell<Duration>,
    /// Whether the browser was closed.
    stopped: Arc<AtomicBool>,
}

impl IndexingReport {
    fn new(sender: ResultSender) -> Self {
        let stopped = Arc::new(AtomicBool::new(false));
        Self { sender, started: Instant::now(), last_report: Default::default(), stopped }
    }

    /// Reports progress if an update is due. Returns whether to continue.
    fn update(&self, step: IndexStep) -> bool {
        let since = self.started.elapsed();
        if step.read < step.total && since - self.last_report.get() >= INTERVAL {
            self.last_report.set(since);
            let stopped = Arc::clone(&self.stopped);
            self.sender.send_soon(Box::new(move |app| match list(app) {
                Some(list) => list.search_status = Some(indexing_row(step)),
                None => stopped.store(true, Ordering::Relaxed),
            }));
        }
        !self.is_stopped()
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

fn indexing_row(step: IndexStep) -> String {
    format!("indexing sessions for the search: {} of {}", step.read, step.total)
}

fn search_sessions(
    launch: &SessionConfig,
    text: &str,
    watch: &dyn Fn(IndexStep) -> bool,
) -> Result<SearchResult, String> {
    let search = SearchRequest {
        text: text.to_owned(),
        project_only: true,
        limit: MAX_FOUND,
        rebuild: false,
    };
    launch.session_library().search_sessions(&search, watch).map_err(|failure| failure.message)
}
