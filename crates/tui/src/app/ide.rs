//! The editor connection in the user interface: changes are reviewed in the terminal or in the
//! editor, and the first decision counts.

use parallax_protocol::event::Ask;
use parallax_protocol::ids::AskId;
use parallax_protocol::op::{AskOutcome, Decide, Op};
use parallax_sdk::Launch;
use parallax_sdk::ide::{
    CompanionSnapshot, CompanionStatus, DiffDecision, DisconnectReason, diagnosis_text, status_text,
};
use parallax_sdk::settings::SettingScope;
use parallax_sdk::trust::TrustAnswer;
use serde_json::Value;

use super::App;
use super::telling::plain_rows;
use crate::components::dialog_stack::{Overlay, Purpose};
use crate::components::editor_link::EditorDiff;
use crate::dialog::{ListDialog, ListItem};
use crate::effect::Effect;

impl App {
    /// Handles a changed editor connection or editor state.
    pub(crate) fn companion_changed(&mut self, snapshot: CompanionSnapshot) {
        let count = snapshot.files.files.len();
        self.facts.open_files = snapshot.is_connected().then_some(count);
        let lost = match &snapshot.status {
            CompanionStatus::Disconnected(reason @ DisconnectReason::Lost { .. }) => {
                Some(crate::clean::one_row(&reason.to_string()).into_owned())
            }
            _ => None,
        };
        self.editor_trusts(&snapshot);
        let shows_status = self.editor.update(snapshot);
        if let Some(text) = lost {
            self.toast(text);
        }
        if shows_status {
            // The open files arrive a moment later; the status line shows them.
            let text = self.editor.companion().map(status_text).unwrap_or_default();
            self.info(text.lines().next().unwrap_or_default());
        }
    }

    /// Trust granted by the editor answers the trust dialog; a later change needs the user.
    pub(super) fn editor_trusts(&mut self, snapshot: &CompanionSnapshot) {
        let Some(is_trusted) = snapshot.is_trusted else { return };
        let name = crate::clean::one_row(snapshot.editor_name()).into_owned();
        if matches!(self.dialogs.purpose(), Some(Purpose::Trust)) {
            if is_trusted {
                self.dialogs.close();
                self.info(format!("Trusted for this session, because {name} trusts this folder."));
                self.effect(Effect::Trust(TrustAnswer::ByEditor));
            }
            return;
        }
        if !self.session.is_ready() || is_trusted == self.facts.trusted {
            return;
        }
        self.warn_once(match is_trusted {
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
    pub(super) fn ide_status(&mut self) {
        match self.editor.companion() {
            Some(snapshot) => self.say_wrapped(plain_rows(&status_text(snapshot))),
            None => self.too_early(),
        }
    }

    /// Connects or disconnects, for this session and later ones.
    pub(super) fn connect_ide(&mut self, on: bool) {
        let is_connected = self.editor.is_connected();
        self.keep_ide_settings(match on {
            true => &[("ide.enabled", true), ("ide.hasSeenNudge", true)],
            false => &[("ide.enabled", false), ("ide.hasSeenNudge", true)],
        });
        self.effect(Effect::ConnectEditor(on));
        match (on, is_connected) {
            (true, true) => self.ide_status(),
            // The result is shown later.
            (true, false) => self.editor.show_status(),
            (false, _) => self.info("The connection to the editor is turned off."),
        }
    }

    /// Saves several user settings at once.
    fn keep_ide_settings(&mut self, settings: &'static [(&'static str, bool)]) {
        let write = move |launch: &Launch| {
            for (key, on) in settings {
                launch.set_setting(SettingScope::User, key, Some(&Value::Bool(*on)))?;
            }
            launch.reread()
        };
        self.ask(write, |app, written| match written {
            Ok(launch) => app.settings_changed(launch),
            Err(failure) => app.error(failure.message),
        });
    }

    pub(super) fn ide_doctor(&mut self) {
        self.toast("searching for editors");
        self.ask(Launch::diagnose_companion, |app, diagnosis| match diagnosis {
            Ok(diagnosis) => app.say_wrapped(plain_rows(&diagnosis_text(&diagnosis))),
            Err(failure) => app.error(failure.message),
        });
    }

    pub(super) fn ide_install(&mut self) {
        self.toast("installing the companion extension");
        self.ask(Launch::install_companion, |app, installed| match installed {
            Ok(text) => {
                app.info(format!("{text}. If `/ide enable` does not connect, reload its window."));
                app.effect(Effect::ConnectEditor(true));
            }
            Err(failure) => app.error(failure.message),
        });
    }

    /// Asks once, in the terminal of a supported editor, whether to connect.
    pub(crate) fn offer_companion(&mut self) {
        let busy = self.dialogs.is_open() || self.is_busy() || self.settings.screen_reader;
        if busy || self.editor.was_offered() {
            return;
        }
        let Some(editor) = self.launch.as_ref().and_then(Launch::offers_companion) else { return };
        let items = vec![
            ListItem::new("yes", "Yes", "the model knows your open files; changes open as diffs"),
            ListItem::new("no", "Not now", ""),
            ListItem::new("never", "No, and don't ask again", "`/ide enable` connects later"),
        ];
        let list = ListDialog::new(format!("Connect to {}?", editor.name), items);
        self.open_automatically(Overlay::list(Purpose::Ide, list));
    }

    /// Handles the answer to that dialog.
    pub(super) fn ide_chosen(&mut self, id: &str) {
        match id {
            "yes" => {
                self.keep_ide_settings(&[("ide.enabled", true), ("ide.hasSeenNudge", true)]);
                self.editor.show_status();
                self.effect(Effect::ConnectEditor(true));
            }
            "never" => self.keep_ide_settings(&[("ide.hasSeenNudge", true)]),
            _ => {}
        }
    }

    /// Shows the change of a request in the editor too. Returns the editor's name if it does.
    pub(super) fn open_in_editor(&mut self, ask: &Ask) -> Option<String> {
        match self.editor.open(ask) {
            Ok(diff) => {
                let EditorDiff { path, text, editor } = diff?;
                self.effect(Effect::OpenDiff { ask: ask.id.clone(), path, text });
                Some(editor)
            }
            Err(why) => {
                self.toast(why);
                None
            }
        }
    }

    pub(super) fn close_in_editor(&mut self, ask: &AskId) {
        if self.editor.close(ask) {
            self.effect(Effect::CloseDiff(ask.clone()));
        }
    }

    /// Closes all diffs because no request is open any more.
    pub(super) fn close_all_in_editor(&mut self) {
        for ask in self.editor.close_all() {
            self.effect(Effect::CloseDiff(ask));
        }
    }

    /// Handles a decision made in the editor, or a diff that the editor no longer shows.
    pub(crate) fn editor_decided(&mut self, ask: &AskId, decision: DiffDecision) {
        self.close_in_editor(ask);
        let Some(question) = self.dialogs.approval_of(ask) else { return };
        let decide = match decision {
            DiffDecision::Unavailable { why } => {
                let name = question.in_editor.take();
                let why = crate::clean::one_row(&why).into_owned();
                let name = name.unwrap_or_else(|| "the editor".to_owned());
                return self.toast(format!("decide here, not in {name}: {why}"));
            }
            DiffDecision::Rejected => {
                Decide { ends: true, ..Decide::new(ask.clone(), AskOutcome::Cancel) }
            }
            DiffDecision::Accepted { text } => {
                let accept = Decide::new(ask.clone(), AskOutcome::ProceedOnce);
                let asked = question.ask.clone();
                match self.with_editor_text(&asked, accept, Some(&text)) {
                    Ok(decide) => decide,
                    Err(why) => return self.toast(why),
                }
            }
        };
        self.drop_hint();
        self.dialogs.remove_approval(ask);
        self.waiting(self.dialogs.has_approvals());
        self.effect(Effect::Send(Op::Decide(Box::new(decide))));
    }

    /// Handles a change accepted in the terminal: the editor's text is used if it was edited.
    pub(super) fn take_editor_text(&mut self, ask: Box<Ask>, decide: Box<Decide>) {
        self.editor.await_text(&ask.id);
        self.effect(Effect::TakeDiff(
            ask.id.clone(),
            Box::new(move |app, text| {
                // The turn may have ended in the meantime.
                if !app.editor.take_awaited(&ask.id) {
                    return;
                }
                let plain = decide.clone();
                let decide = match app.with_editor_text(&ask, *decide, text.as_deref()) {
                    Ok(decide) => Box::new(decide),
                    Err(why) => {
                        app.toast(why);
                        plain
                    }
                };
                app.effect(Effect::Send(Op::Decide(decide)));
            }),
        ));
    }

    /// Returns the response that applies the editor's text, or the given one if the text is
    /// unchanged.
    fn with_editor_text(
        &mut self,
        ask: &Ask,
        decide: Decide,
        text: Option<&str>,
    ) -> Result<Decide, String> {
        let arguments = self.transcript.arguments(&ask.call).unwrap_or_default();
        self.editor.with_text(ask, &arguments, decide, text)
    }

    /// Whether this is the request for an edited change that was already accepted. If so, answers
    /// it.
    pub(super) fn is_accepted_in_editor(&mut self, ask: &Ask) -> bool {
        let Some(decide) = self.editor.accepted(ask) else { return false };
        self.effect(Effect::Send(Op::Decide(Box::new(decide))));
        true
    }
}
