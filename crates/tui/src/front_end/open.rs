//! Opens the terminal and the session, including the dialogs that come before the first prompt.

use std::sync::Arc;

use parallax_protocol::BoxFuture;
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::similar_texts::merge_similar;
use parallax_screen::{ColorDepth, Input, Line, Mode, Screen, ScreenOptions};
use parallax_sdk::credential::{Credential, NO_GEMINI_KEY};
use parallax_sdk::ide::Companion;
use parallax_sdk::mcp_view::{PendingSignIn, UserRequest, UserRequestHandler, UserResponse};
use parallax_sdk::settings::InlineImages;
use parallax_sdk::trust::{
    Acceptance, IgnoredSettings, PreparedConfig, TrustPreview, TrustQuestion,
};
use parallax_sdk::{OpenSession, SessionConfig};
use parallax_sessions::SessionChoice;
use tokio::sync::mpsc;

use super::session::Session;
use super::{JOBS, TerminalFrontEnd, TerminalOptions};
use crate::app::commands::completions;
use crate::app::commands::editor;
use crate::app::commands::extensions;
use crate::app::commands::mcp;
use crate::app::commands::sessions;
use crate::app::commands::sign_in;
use crate::app::commands::startup_questions;
use crate::app::commands::welcome;
use crate::app::effect::JobContinuation;
use crate::app::opened_session::OpenedSession;
use crate::app::{App, Layout};
use crate::components::dialog_stack::{DialogPurpose, Overlay};
use crate::dialog::{ListDialog, ListItem};
use crate::keymap::{Keymap, Platform};
use crate::theme::Theme;
use crate::theme_choice::TerminalColors;

/// Returns the problems of the settings of the terminal interface: the theme and the keys, one
/// sentence each. Blocking.
pub fn setting_problems(config: &SessionConfig) -> Vec<String> {
    let colors = TerminalColors { background: None, depth: ColorDepth::True };
    let (_, theme) = crate::theme_choice::choose(&config.settings_manager().ui(), colors);
    let keys = Keymap::load(Platform::HERE, &config.facts().keybindings()).problems();
    let keys = keys.into_iter().map(|problem| format!("keybindings.json: {problem}"));
    theme.into_iter().chain(keys).collect()
}

impl TerminalFrontEnd {
    /// Opens the terminal and creates the initial state; nothing is drawn yet.
    pub(super) fn open(
        options: TerminalOptions,
        prepared: PreparedConfig,
    ) -> Result<(Self, Input, mpsc::Receiver<JobContinuation>), Failure> {
        let (ui, keys) = match &prepared {
            PreparedConfig::Ready(launch) => {
                (launch.settings_manager().ui(), launch.facts().keybindings())
            }
            PreparedConfig::NeedsTrust(question) => (question.ui(), String::new()),
        };
        let plain = options.screen_reader || ui.screen_reader || is_dumb();
        let layout = match plain {
            true => Layout::Plain,
            false if ui.alternate_buffer => Layout::Full,
            false => Layout::Inline,
        };
        let mode = match layout {
            Layout::Plain => Mode::Plain,
            Layout::Full => Mode::Alternate,
            Layout::Inline => Mode::Inline,
        };
        let screen_options = ScreenOptions {
            mode,
            mouse: layout == Layout::Full,
            query_pictures: ui.inline_images != InlineImages::Off,
            ..ScreenOptions::default()
        };
        let (screen, input) = Screen::open(screen_options).map_err(|error| Failure {
            kind: FailureKind::Input,
            message: format!("Failed to initialize the terminal: {error}"),
            status: None,
        })?;
        let depth = screen.capabilities().depth;
        // Counts until the terminal reports its background, and in those that never do.
        let stated = std::env::var("COLORFGBG").ok();
        let background = stated.as_deref().and_then(crate::theme_choice::stated_background);
        let (theme, problem) =
            crate::theme_choice::choose(&ui, TerminalColors { background, depth });
        let keymap = Keymap::load(Platform::HERE, &keys);
        let mut app = App::new(screen.size(), ui, theme, keymap);
        app.debug.log = options.log;
        app.window.set_depth(depth);
        if let Some(color) = background {
            app.window.set_background(color);
        }
        app.dialogs.set_typed_ahead(screen.had_keys());
        app.settings.screen_reader |= plain;
        app.status_data.warn_at = 0.5;
        for warning in options.warnings.iter().cloned().chain(problem) {
            app.warn_once(warning);
        }
        let warnings = app.keymap.problems();
        for warning in warnings.iter().take(KEY_WARNINGS) {
            app.warn(format!("keybindings.json: {warning}"));
        }
        if let Some(more) = warnings.len().checked_sub(KEY_WARNINGS).filter(|more| *more > 0) {
            app.warn(format!("keybindings.json: {more} more warnings"));
        }
        let notices = app.keymap.override_notices();
        if !notices.is_empty() {
            app.info(format!("keybindings.json: {}", notices.join("; ")));
        }
        let (jobs, received) = mpsc::channel(JOBS);
        // The job does nothing, but a frame follows it.
        let deliver = crate::app::effect::ResultSender(jobs.clone());
        crate::highlight::on_loaded(move || deliver.send_soon(Box::new(|_| {})));
        let mut front_end = Self {
            app,
            screen,
            layout,
            session: None,
            attached: options.attached,
            session_end: None,
            devtools: options.devtools,
            session_changes: Vec::new(),
            options: options.launch,
            trust: None,
            diffs: std::collections::HashMap::new(),
            jobs,
            key_check: None,
            needs_draw: true,
            last_frame: None,
            frozen: false,
            exit_reason: None,
            delete: false,
            prompt: options.prompt,
            browse: options.browse,
        };
        match prepared {
            PreparedConfig::Ready(launch) => match &front_end.attached {
                Some(attached) => {
                    let id = attached.id.as_str();
                    welcome::print_attached_header(&mut front_end.app, &launch, id);
                    front_end.app.session.set_attached();
                    front_end.app.apply_launch(&launch);
                    front_end.app.launch = Some(*launch);
                }
                None => front_end.continue_opening(*launch),
            },
            PreparedConfig::NeedsTrust(question) => front_end.ask_for_trust(question),
        }
        Ok((front_end, input, received))
    }

    /// Draws the first frame and opens the session.
    pub(super) fn start(&mut self) {
        self.draw_now();
        // The editor's trust may answer the trust dialog.
        if let Some(companion) = self.trust.as_ref().and_then(|trust| trust.start_companion()) {
            self.follow_companion(companion);
        }
        if self.app.launch.is_some() && !self.app.dialogs.is_open() && self.attached.is_none() {
            self.open_session(self.options.session.clone());
        }
    }

    /// Continues after settings and trust are known.
    pub(super) fn continue_opening(&mut self, mut launch: SessionConfig) {
        self.trust = None;
        let careful = launch.restrict_yolo();
        welcome::print_session_header(&mut self.app, &launch);
        self.app.apply_launch(&launch);
        let loose: Vec<IgnoredSettings> = launch
            .trust_manager()
            .loosening_settings()
            .iter()
            .filter(|loose| loose.acceptance == Acceptance::Undecided)
            .cloned()
            .collect();
        let update = launch.policy_sources().update();
        self.app.launch = Some(launch);
        if careful {
            self.app.warn(
                "YOLO mode is not enabled at startup in this folder, because it contains all your \
                 files"
                    .to_owned(),
            );
            self.app.request_yolo();
        }
        if !loose.is_empty() {
            startup_questions::ask_about_loosened_settings(&mut self.app, &loose);
        } else if let Some(update) = update {
            startup_questions::ask_about_policy_update(&mut self.app, &update);
        }
    }

    /// Starts the editor connection once and follows it.
    fn start_companion(&mut self) {
        if self.options.companion.is_some() {
            return;
        }
        if let Some(launch) = &self.app.launch {
            self.follow_companion(launch.companion_manager().start());
        }
    }

    fn follow_companion(&mut self, companion: Companion) {
        let (mut changes, jobs) = (companion.changes(), self.jobs.clone());
        // Report the initial state as a change too.
        changes.mark_changed();
        self.app.editor.update(companion.snapshot());
        self.options.companion = Some(companion);
        tokio::spawn(async move {
            while changes.changed().await.is_ok() {
                let snapshot = changes.borrow_and_update().clone();
                let then: JobContinuation =
                    Box::new(move |app| editor::companion_changed(app, snapshot));
                if jobs.send(then).await.is_err() {
                    return;
                }
            }
        });
    }

    /// Follows what MCP servers provide while the session is open.
    fn follow_servers(&mut self, open: &OpenSession) {
        let Some(view) = open.mcp_view() else {
            return mcp::servers_changed(&mut self.app, Vec::new());
        };
        mcp::servers_changed(&mut self.app, view.resources());
        let (mut news, jobs) = (view.updates(), self.jobs.clone());
        let mut sign_ins = view.sign_ins();
        drop(view);
        tokio::spawn(async move {
            loop {
                for sign_in in std::mem::take(&mut sign_ins) {
                    tokio::spawn(offer_sign_in(jobs.clone(), sign_in));
                }
                let Some(offer) = news.next().await else { return };
                sign_ins = offer.sign_ins;
                let then: JobContinuation =
                    Box::new(move |app| mcp::servers_changed(app, offer.resources));
                if jobs.send(then).await.is_err() {
                    return;
                }
            }
        });
    }

    fn ask_for_trust(&mut self, question: Box<TrustQuestion>) {
        let name = |path: &std::path::Path| path.display().to_string();
        let mut items = vec![ListItem::new("folder", "Trust this folder", name(&question.folder))];
        if let Some(parent) = &question.parent {
            items.push(ListItem::new(
                "parent",
                "Trust the parent folder and everything in it",
                name(parent),
            ));
        }
        items.push(ListItem::new("no", "Do not trust it", "nothing in it is read as instructions"));
        let title = "Parallax · Do you trust this folder?";
        let list = trust_dialog(title, items, &question.preview, &self.app.theme);
        self.app.open(Overlay::list(DialogPurpose::Trust, list));
        self.trust = Some(question);
    }

    /// Opens a session in place of the open one. A job does the work, so that keys are handled in
    /// the meantime.
    pub(super) fn open_session(&mut self, choice: SessionChoice) {
        self.app.session.mark_not_ready();
        self.start_companion();
        let mut options = self.options.clone();
        options.session = choice;
        let prepared = match self.app.launch.as_ref().map(|launch| launch.prepare_again(options)) {
            Some(Ok(launch)) => launch.with_user_prompter(Arc::new(UserPrompts(self.jobs.clone()))),
            Some(Err(failure)) => return self.app.show_error(&failure.message),
            None => return,
        };
        // The full explanation with settings and gateways goes to the log.
        let missing = match prepared.provider_manager().credential() {
            Credential::Missing { reason } => Some(reason),
            _ => None,
        };
        // A stored session may use the model of another provider.
        let is_stored = !matches!(
            prepared.options().session,
            SessionChoice::New | SessionChoice::Clear | SessionChoice::WithId(_)
        );
        if let Some(reason) = missing.as_ref().filter(|_| !is_stored) {
            tracing::warn!("{reason}");
            self.app.launch = Some(prepared);
            self.app.session.set_keyless(Some(short_reason(reason)));
            return sign_in::open(&mut self.app, None);
        }
        self.app.launch = Some(prepared.clone());
        match prepared.open() {
            Ok((open, events)) => {
                for warning in merge_similar(open.warnings.iter().cloned()) {
                    self.app.warn_once(warning);
                }
                self.app.session.set_keyless(None);
                self.app.handle_opened_session(OpenedSession::from(&open));
                self.follow_servers(&open);
                extensions::update_automatically(&mut self.app);
                completions::find_files(
                    &mut self.app,
                    open.expander.clone(),
                    &open.context_files,
                    crate::app::effect::ResultSender(self.jobs.clone()),
                );
                let starts_devtools = open.launch().settings_manager().starts_devtools();
                self.session = Some(Session::new(open, events));
                if starts_devtools {
                    self.open_devtools(true);
                }
                if let Some(prompt) = self.prompt.take() {
                    self.app.remember(&prompt);
                    // The prompt replaces the offer to continue an interrupted turn.
                    self.app.dialogs.close();
                    self.app.submit_typed(prompt);
                } else {
                    self.app.send_waiting_prompt();
                }
                if std::mem::take(&mut self.browse) {
                    sessions::open(&mut self.app);
                }
                editor::offer_connection(&mut self.app);
            }
            Err(failure) if failure.kind == FailureKind::Auth => {
                let reason = match missing.as_ref() == Some(&failure.message) {
                    true => short_reason(&failure.message),
                    false => &failure.message,
                };
                self.app.session.set_keyless(Some(reason));
                sign_in::open(&mut self.app, None);
            }
            Err(failure) => self.app.show_error(&failure.message),
        }
        self.needs_draw = true;
        // Show the history of the session at once.
        self.last_frame = None;
    }
}

/// Returns the question whether to trust a folder, with what the folder would add.
fn trust_dialog(
    title: &str,
    items: Vec<ListItem>,
    preview: &TrustPreview,
    theme: &Theme,
) -> ListDialog {
    let danger = theme.error.bold();
    let rows = |texts: Vec<String>, style| {
        texts.into_iter().map(move |text| Line::styled(format!("  {text}"), style))
    };
    let mut intro: Vec<Line> = rows(preview.dangerous_rows(), danger).collect();
    intro.extend(rows(preview.other_rows(), theme.warning));
    let head = match intro.as_slice() {
        [] => Line::styled("It would add no settings, commands, or context.", theme.secondary),
        _ => Line::styled("It would add:", theme.text),
    };
    intro.insert(0, head);
    let explanation = "Files in a folder can contain instructions for the agent and programs that \
                       run automatically. So far, nothing in this folder has been used.";
    ListDialog::new(title, items)
        .warnings(preview.warnings().into_iter().map(|it| Line::styled(it, danger)).collect())
        .explanation(vec![Line::styled(explanation, theme.text)])
        .intro(intro)
        .hint("enter choose · esc exit")
}

/// Maximum number of key binding warnings printed; the rest is counted.
const KEY_WARNINGS: usize = 5;

/// Reports that a server requires authentication, or asks the user to sign in if its settings say
/// so.
async fn offer_sign_in(jobs: mpsc::Sender<JobContinuation>, sign_in: PendingSignIn) {
    let PendingSignIn { server, is_renewal, asks_immediately } = sign_in;
    let then: JobContinuation = if asks_immediately {
        let answer =
            UserPrompts(jobs.clone()).ask(&server, UserRequest::SignIn { is_renewal }).await;
        if !matches!(answer, UserResponse::Accept(_)) {
            return;
        }
        Box::new(move |app| mcp::sign_in(app, &server))
    } else {
        Box::new(move |app| mcp::report_sign_in_required(app, &server, is_renewal))
    };
    // The session may have ended.
    let _ = jobs.send(then).await;
}

/// Forwards requests from MCP servers to the app.
struct UserPrompts(mpsc::Sender<JobContinuation>);

impl UserRequestHandler for UserPrompts {
    fn ask(&self, server: &str, question: UserRequest) -> BoxFuture<'static, UserResponse> {
        let (jobs, server) = (self.0.clone(), server.to_owned());
        Box::pin(async move {
            // Dropped after the answer, or when it is no longer awaited.
            let _ended = RequestEndGuard(jobs.clone());
            let (reply, answer) = tokio::sync::oneshot::channel();
            let then: JobContinuation =
                Box::new(move |app| app.handle_server_request(&server, question, reply));
            match jobs.send(then).await {
                Ok(()) => answer.await.unwrap_or(UserResponse::Cancel),
                Err(_) => UserResponse::Cancel,
            }
        })
    }
}

/// Notifies the app that a request may have ended.
struct RequestEndGuard(mpsc::Sender<JobContinuation>);

impl Drop for RequestEndGuard {
    fn drop(&mut self) {
        // If this fails, the app notices at the next key.
        let _ = self.0.try_send(Box::new(App::remove_ended_server_requests));
    }
}

/// How the message about a missing key of a provider begins.
const PROVIDER_KEY: &str = "no key for the provider";

/// The reason shown in the sign-in dialog before the first prompt.
const NO_KEY: &str = "No API key found in the environment (GEMINI_API_KEY, or GOOGLE_API_KEY for \
                      Vertex AI).";

/// The reason if other providers are set up.
const OTHER_KEYS: &str =
    "No Gemini API key found, but another provider is set up: choose it below.";

/// Returns the part of a message about missing credentials that the sign-in dialog shows.
fn short_reason(reason: &str) -> &str {
    match reason {
        // The message about a provider is short enough to show.
        short if short.starts_with(PROVIDER_KEY) => short,
        other if other.starts_with(NO_GEMINI_KEY) => OTHER_KEYS,
        _ => NO_KEY,
    }
}

fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term == "dumb" || term.is_empty())
}
