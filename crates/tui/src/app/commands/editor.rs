//! The editor connection in the user interface: changes are reviewed in the terminal or in the
//! editor, and the first decision counts.

use parallax_protocol::event::ApprovalRequest;
use parallax_protocol::ids::ApprovalId;
use parallax_protocol::op::{ApprovalResponse, Op, RequestDecision};
use parallax_sdk::SessionConfig;
use parallax_sdk::ide::{
    ClosedDiff, CompanionSnapshot, CompanionStatus, DiffDecision, DisconnectReason, diagnosis_text,
    status_text,
};
use parallax_sdk::settings::SettingScope;
use parallax_sdk::trust::TrustAnswer;
use serde_json::Value;

use crate::app::App;
use crate::app::effect::Effect;
use crate::components::dialog_stack::{DialogPurpose, Overlay};
use crate::components::editor_link::EditorDiff;
use crate::dialog::{ListDialog, ListItem};
use crate::layout::plain_rows;

/// Handles a changed editor connection or editor state.
pub(crate) fn companion_changed(app: &mut App, snapshot: CompanionSnapshot) {
    let count = snapshot.files.files.len();
    app.status_data.open_files = snapshot.is_connected().then_some(count);
    let lost = match &snapshot.status {
        CompanionStatus::Disconnected(reason @ DisconnectReason::Lost { .. }) => {
            Some(crate::sanitize::one_row(&reason.to_string()).into_owned())
        }
        _ => None,
    };
    apply_editor_trust(app, &snapshot);
    let shows_status = app.editor.update(snapshot);
    if let Some(text) = lost {
        app.toast(text);
    }
    if shows_status {
        // The open files arrive a moment later; the status line shows them.
        let text = app.editor.companion().map(status_text).unwrap_or_default();
        app.info(text.lines().next().unwrap_or_default());
    }
}

/// Applies trust granted by the editor: it answers the trust dialog; a later change needs the user.
pub(crate) fn apply_editor_trust(app: &mut App, snapshot: &CompanionSnapshot) {
    let Some(is_trusted) = snapshot.is_trusted else { return };
    let name = crate::sanitize::one_row(snapshot.editor_name()).into_owned();
    if matches!(app.dialogs.purpose(), Some(DialogPurpose::Trust)) {
        if is_trusted {
            app.dialogs.close();
            app.info(format!("Trusted for this session, because {name} trusts this folder."));
            app.queue_effect(Effect::Trust(TrustAnswer::ByEditor));
        }
        return;
    }
    if !app.session.is_ready() || is_trusted == app.status_data.trusted {
        return;
    }
    app.warn_once(match is_trusted {
        true => format!(
            "{name} trusts this folder, but Parallax does not. Trust it with `/permissions \
             trust`, then restart Parallax."
        ),
        false => format!(
            "{name} does not trust this folder, but Parallax does. Change that with \
             `/permissions`, then restart Parallax."
        ),
    });
}

/// Shows the connection and the open files.
pub(crate) fn status(app: &mut App) {
    match app.editor.companion() {
        Some(snapshot) => app.show_wrapped_rows(plain_rows(&status_text(snapshot))),
        None => app.report_not_ready(),
    }
}

/// Connects or disconnects, for this session and later ones.
pub(crate) fn connect(app: &mut App, on: bool) {
    let is_connected = app.editor.is_connected();
    save_settings(
        app,
        match on {
            true => &[("ide.enabled", true), ("ide.hasSeenNudge", true)],
            false => &[("ide.enabled", false), ("ide.hasSeenNudge", true)],
        },
    );
    app.queue_effect(Effect::ConnectEditor(on));
    match (on, is_connected) {
        (true, true) => status(app),
        // The result is shown later.
        (true, false) => app.editor.show_status(),
        (false, _) => app.info("The connection to the editor is turned off."),
    }
}

/// Saves several user settings at once.
fn save_settings(app: &mut App, settings: &'static [(&'static str, bool)]) {
    let write = move |launch: &SessionConfig| {
        for (key, on) in settings {
            launch.settings_manager().set(SettingScope::User, key, Some(&Value::Bool(*on)))?;
        }
        launch.reload()
    };
    app.run_with_config(write, |app, written| match written {
        Ok(launch) => app.settings_changed(launch),
        Err(failure) => app.error(failure.message),
    });
}

pub(crate) fn doctor(app: &mut App) {
    app.toast("searching for editors");
    app.run_with_config(
        |launch| launch.companion_manager().diagnose(),
        |app, diagnosis| match diagnosis {
            Ok(diagnosis) => app.show_wrapped_rows(plain_rows(&diagnosis_text(&diagnosis))),
            Err(failure) => app.error(failure.message),
        },
    );
}

pub(crate) fn install(app: &mut App) {
    app.toast("installing the companion extension");
    app.run_with_config(
        |launch| launch.companion_manager().install(),
        |app, installed| match installed {
            Ok(text) => {
                app.info(format!("{text}. If `/ide enable` does not connect, reload its window."));
                app.queue_effect(Effect::ConnectEditor(true));
            }
            Err(failure) => app.error(failure.message),
        },
    );
}

/// Asks once, in the terminal of a supported editor, whether to connect.
pub(crate) fn offer_connection(app: &mut App) {
    let busy = app.dialogs.is_open() || app.is_busy() || app.settings.screen_reader;
    if busy || app.editor.was_offered() {
        return;
    }
    let Some(editor) =
        app.launch.as_ref().and_then(|launch| launch.companion_manager().editor_to_suggest())
    else {
        return;
    };
    let items = vec![
        ListItem::new("yes", "Yes", "the model knows your open files; changes open as diffs"),
        ListItem::new("no", "Not now", ""),
        ListItem::new("never", "No, and don't ask again", "`/ide enable` connects later"),
    ];
    let list = ListDialog::new(format!("Connect to {}?", editor.name), items);
    app.open_automatically(Overlay::list(DialogPurpose::Ide, list));
}

/// Handles the answer to that dialog.
pub(crate) fn handle_choice(app: &mut App, id: &str) {
    match id {
        "yes" => {
            save_settings(app, &[("ide.enabled", true), ("ide.hasSeenNudge", true)]);
            app.editor.show_status();
            app.queue_effect(Effect::ConnectEditor(true));
        }
        "never" => save_settings(app, &[("ide.hasSeenNudge", true)]),
        _ => {}
    }
}

/// Shows the change of a request in the editor too. Returns the editor's name if it does.
pub(crate) fn open(app: &mut App, request: &ApprovalRequest) -> Option<String> {
    match app.editor.open(request) {
        Ok(diff) => {
            let EditorDiff { path, text, editor } = diff?;
            app.queue_effect(Effect::OpenDiff { ask: request.id.clone(), path, text });
            Some(editor)
        }
        Err(reason) => {
            app.toast(reason);
            None
        }
    }
}

pub(crate) fn close(app: &mut App, ask: &ApprovalId) {
    if app.editor.close(ask) {
        app.queue_effect(Effect::CloseDiff(ask.clone()));
    }
}

/// Closes all diffs once no request is open.
pub(crate) fn close_all(app: &mut App) {
    for ask in app.editor.close_all() {
        app.queue_effect(Effect::CloseDiff(ask));
    }
}

/// Handles a decision made in the editor, or a diff that the editor no longer shows.
pub(crate) fn handle_decision(app: &mut App, ask: &ApprovalId, decision: DiffDecision) {
    close(app, ask);
    let Some(question) = app.dialogs.approval_of(ask) else { return };
    let decide = match decision {
        DiffDecision::Unavailable { reason } => {
            let name = question.in_editor.take();
            let why = crate::sanitize::one_row(&reason).into_owned();
            let name = name.unwrap_or_else(|| "the editor".to_owned());
            return app.toast(format!("answer here instead of in {name}: {why}"));
        }
        DiffDecision::Rejected => RequestDecision {
            ends_turn: true,
            ..RequestDecision::new(ask.clone(), ApprovalResponse::Cancel)
        },
        DiffDecision::Accepted { text } => {
            let accept = RequestDecision::new(ask.clone(), ApprovalResponse::ProceedOnce);
            let approval_id = question.request.clone();
            match with_text(app, &approval_id, accept, Some(&text)) {
                Ok(decide) => decide,
                Err(why) => return app.toast(why),
            }
        }
    };
    app.clear_pending_presses();
    app.dialogs.remove_approval(ask);
    app.set_waiting(app.dialogs.has_approvals());
    app.queue_effect(Effect::Send(Op::Decide(Box::new(decide))));
}

/// Handles a change accepted in the terminal: the editor's text is used if it was edited.
pub(crate) fn take_text(
    app: &mut App,
    request: Box<ApprovalRequest>,
    decide: Box<RequestDecision>,
) {
    app.editor.await_text(&request.id);
    app.queue_effect(Effect::TakeDiff(
        request.id.clone(),
        Box::new(move |app, text| {
            // The turn may have ended in the meantime.
            if !app.editor.take_awaited(&request.id) {
                return;
            }
            let text = match text {
                ClosedDiff::Text(text) => Some(text),
                ClosedDiff::NotOpen => None,
                ClosedDiff::Unknown => {
                    app.warn(
                        "The editor did not respond when its diff was closed: the change was \
                         applied as shown here, without edits made in the editor.",
                    );
                    None
                }
            };
            let plain = decide.clone();
            let decide = match with_text(app, &request, *decide, text.as_deref()) {
                Ok(decide) => Box::new(decide),
                Err(reason) => {
                    app.toast(reason);
                    plain
                }
            };
            app.queue_effect(Effect::Send(Op::Decide(decide)));
        }),
    ));
}

/// Returns the response that applies the editor's text, or the given one if the text is
/// unchanged.
fn with_text(
    app: &mut App,
    request: &ApprovalRequest,
    decide: RequestDecision,
    text: Option<&str>,
) -> Result<RequestDecision, String> {
    let arguments = app.transcript.arguments(&request.call).unwrap_or_default();
    app.editor.with_text(request, &arguments, decide, text)
}

/// Whether this is the request for an edited change that was already accepted. If so, answers
/// it.
pub(crate) fn is_accepted(app: &mut App, request: &ApprovalRequest) -> bool {
    let Some(decide) = app.editor.accepted_response(request) else { return false };
    app.queue_effect(Effect::Send(Op::Decide(Box::new(decide))));
    true
}
