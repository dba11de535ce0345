//! Handles the results of dialogs.

use parallax_protocol::op::{AskOutcome, Decide, Op};
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::secret::Secret;
use parallax_protocol::tool::Preview;
use parallax_screen::{Key, KeyCode, Modifiers};
use parallax_sdk::credential::KeyKind;
use parallax_sdk::edit_arguments::ProposedChange;
use parallax_sdk::mcp_view::{Answer, Question};
use parallax_sdk::trust::TrustAnswer;
use parallax_sessions::SessionChoice;
use tokio::sync::oneshot;

use super::App;
use crate::clean::clean;
use crate::components::dialog_stack::{Overlay, Purpose, ServerStep};
use crate::components::server_requests::{ServerAnswer, ServerRequest};
use crate::dialog::{ListDialog, ListItem, Response};
use crate::effect::Effect;

impl App {
    /// Opens a dialog, replacing the one that is open.
    pub(crate) fn open(&mut self, overlay: Overlay) {
        self.completion.close();
        self.drop_hint();
        self.dialogs.open(overlay);
    }

    /// Opens a dialog that was not requested by a key.
    pub(super) fn open_automatically(&mut self, overlay: Overlay) {
        self.completion.close();
        self.drop_hint();
        self.dialogs.open_automatically(overlay);
    }

    /// Queues a request of an MCP server.
    pub(crate) fn server_asks(
        &mut self,
        server: &str,
        question: Question,
        reply: oneshot::Sender<Answer>,
    ) {
        let request = match ServerRequest::new(server, question, reply) {
            Ok(request) => request,
            Err(what) => {
                let server = clean(server);
                return self.warn(format!(
                    "Declined a request of MCP server `{server}`: it asked {what}."
                ));
            }
        };
        let around = self.around_dialogs();
        if self.dialogs.push_server_request(request, &around, &self.theme) {
            self.dialog_came();
        }
    }

    /// Removes requests of servers whose calls have ended.
    pub(crate) fn server_requests_ended(&mut self) {
        if self.dialogs.remove_ended_server_requests() {
            self.toast("the server no longer waits for an answer");
        }
        self.next_server_request();
    }

    /// Opens the first waiting request of a server if no other dialog is open.
    pub(super) fn next_server_request(&mut self) {
        if self.dialogs.next_server_request(self.clock.now_ms(), &self.theme) {
            self.dialog_came();
        }
    }

    /// Makes way for a dialog that opened by itself.
    fn dialog_came(&mut self) {
        self.completion.close();
        self.drop_hint();
    }

    /// Answers the request of a server that is open.
    fn answer_server(&mut self, answer: ServerAnswer<'_>) {
        match self.dialogs.answer_server(answer, &self.theme) {
            ServerStep::Show(overlay) => self.open(overlay),
            ServerStep::Next => self.next_server_request(),
            ServerStep::Invalid(why) => self.toast(why),
        }
    }

    /// Handles the result of a key in the dialog.
    pub(super) fn overlay_answer(&mut self, response: Response) {
        let Some(purpose) = self.dialogs.purpose().cloned() else {
            return;
        };
        match response {
            Response::Stay => {}
            Response::Closed => self.closed(purpose),
            Response::Chosen(id) => self.chosen(purpose, &id),
            Response::Moved(id) => match purpose {
                Purpose::Theme(_) => self.show_theme(&id),
                Purpose::Sessions => self.preview_session(&id),
                _ => {}
            },
            Response::Pressed(key, id) => self.pressed(&purpose, key, &id),
        }
        self.search_sessions();
    }

    /// Handles a dialog that was closed without a choice.
    fn closed(&mut self, purpose: Purpose) {
        self.dialogs.close();
        match purpose {
            // Without an answer, nothing in the folder is read.
            Purpose::Trust => self.effect(Effect::Quit { delete: false }),
            Purpose::LooseSettings => self.loose_settings_answer(false),
            Purpose::PolicyUpdate => self.policy_update_answer(false),
            Purpose::Theme(before) => {
                self.theme = *before;
                self.after_theme();
            }
            Purpose::Key(_) | Purpose::ProviderKey(_) | Purpose::ProviderModel => {
                self.auth_dialog(None);
            }
            Purpose::AddFolder(folders) => self.folder_trust_said(folders, false),
            Purpose::SettingValue(_) => self.settings_again(),
            Purpose::RewindHow(_) => self.rewind_dialog(),
            Purpose::DeleteSession(_) => self.sessions_dialog(),
            Purpose::CustomShell => self.custom_answer("no"),
            Purpose::Outside { text, steer, .. } | Purpose::LargePrompt { text, steer } => {
                self.outside_left(&text, steer.as_ref());
            }
            Purpose::Consent => self.consent_answer("no"),
            Purpose::Hooks => self.hooks_closed(),
            Purpose::DocsPage => self.docs(""),
            Purpose::AcceptAgents(waiting) => self.agent_answer(waiting, false),
            Purpose::ServerQuestion | Purpose::ServerField => {
                self.answer_server(ServerAnswer::Closed)
            }
            _ => {}
        }
    }

    /// Returns to the settings if the theme was opened from there.
    fn after_theme(&mut self) {
        if self.settings_view.is_aside() {
            self.settings_again();
        }
    }

    fn chosen(&mut self, purpose: Purpose, id: &str) {
        match purpose {
            Purpose::Trust => {
                let answer = match id {
                    "folder" => TrustAnswer::Folder,
                    "parent" => TrustAnswer::Parent,
                    _ => TrustAnswer::No,
                };
                self.dialogs.close();
                self.effect(Effect::Trust(answer));
            }
            Purpose::Ide => {
                self.dialogs.close();
                self.ide_chosen(id);
            }
            Purpose::LooseSettings => {
                self.dialogs.close();
                self.loose_settings_answer(id == "accept");
            }
            Purpose::PolicyUpdate => {
                self.dialogs.close();
                self.policy_update_answer(id == "accept");
            }
            Purpose::Auth => self.auth_chosen(id),
            Purpose::Key(kind) => self.key_typed(kind, id),
            Purpose::ProviderKey(provider) => self.provider_key_typed(provider, id),
            Purpose::ProviderModel => self.provider_model_chosen(id),
            Purpose::Model => {
                self.dialogs.close();
                self.use_model(id, false);
            }
            Purpose::Theme(_) => {
                self.dialogs.close();
                self.keep_theme(id);
                self.after_theme();
            }
            Purpose::Sessions => {
                self.dialogs.close();
                self.effect(Effect::Open(SessionChoice::Resume(id.to_owned())));
            }
            Purpose::DeleteSession(session) => {
                if id == "yes" {
                    self.delete_session(session);
                }
                self.sessions_dialog();
            }
            Purpose::Tags => {
                self.dialogs.close();
                self.resume_tag(id);
            }
            Purpose::Rewind => {
                if let Ok(turn) = id.parse() {
                    self.rewind_how(turn);
                }
            }
            Purpose::RewindHow(turn) => self.rewind_chosen(turn, id),
            Purpose::Restore => {
                self.dialogs.close();
                self.restore(id);
            }
            Purpose::CutOff => {
                self.dialogs.close();
                if id == "yes" {
                    self.effect(Effect::Send(Op::Continue));
                }
            }
            Purpose::Settings => self.setting_chosen(id),
            // These have nothing to choose.
            Purpose::Help | Purpose::DocsPage => {}
            Purpose::Footer => self.footer_chosen(id),
            Purpose::Docs => self.docs_page(id),
            Purpose::SettingValue(key) => self.setting_typed(&key, id),
            Purpose::Editor => {
                self.dialogs.close();
                let value = serde_json::Value::String(id.to_owned());
                self.keep_setting("general.preferredEditor", Some(value));
            }
            Purpose::AddFolder(folders) => self.folder_trust_said(folders, id == "yes"),
            Purpose::Permissions => {
                self.dialogs.close();
                self.permissions_chosen(id);
            }
            Purpose::Mode => {
                self.dialogs.close();
                match ApprovalMode::parse(id) {
                    Some(ApprovalMode::Yolo) => self.want_yolo(),
                    Some(ApprovalMode::Plan) => self.plan(""),
                    Some(mode) => self.set_mode(mode),
                    None => {}
                }
            }
            Purpose::Yolo(mode) => {
                self.dialogs.close();
                if id == "yes" {
                    self.set_mode(mode);
                }
            }
            Purpose::Context => self.print_context(),
            Purpose::Tasks => self.show_task(id),
            Purpose::CustomShell => {
                self.dialogs.close();
                self.custom_answer(id);
            }
            Purpose::Queue => self.take_queued(id),
            Purpose::LargePrompt { text, steer } => {
                self.dialogs.close();
                match id {
                    "yes" => self.effect(Effect::Prompt { text, steer, ask: false }),
                    _ => self.outside_left(&text, steer.as_ref()),
                }
            }
            Purpose::Outside { text, steer, paths } => {
                self.outside_answer(id == "yes", text, steer, paths);
            }
            Purpose::Hooks => self.hook_chosen(id),
            Purpose::AcceptAgents(waiting) => self.agent_answer(waiting, id == "yes"),
            Purpose::AgentSettings(name) => self.agent_setting_chosen(&name, id),
            Purpose::AgentSetting(name, setting) => self.agent_setting_typed(&name, setting, id),
            Purpose::ServerQuestion => self.answer_server(ServerAnswer::Choice(id)),
            Purpose::ServerField => self.answer_server(ServerAnswer::Field(id)),
            Purpose::Consent => self.consent_answer(id),
            Purpose::ExtensionSettings(name) => self.extension_setting_chosen(&name, id),
            Purpose::ExtensionValue(name, variable) => {
                self.extension_value_typed(&name, &variable, id);
            }
        }
    }

    /// Handles keys that only some lists use.
    fn pressed(&mut self, purpose: &Purpose, key: Key, id: &str) {
        let delete = key.code == KeyCode::Delete
            || key == Key::ctrl('x')
            || (key.typed() == Some('x') && !matches!(purpose, Purpose::Sessions));
        match purpose {
            Purpose::Sessions if delete && !id.is_empty() => {
                let items = vec![
                    ListItem::new("no", "Keep it", ""),
                    ListItem::new("yes", "Delete it permanently", ""),
                ];
                let list = ListDialog::new("Delete this session?", items);
                self.open(Overlay::list(Purpose::DeleteSession(id.to_owned()), list));
            }
            Purpose::Sessions if key == Key::ctrl('s') => self.sort_sessions(false),
            Purpose::Sessions if key == Key::ctrl('r') => self.sort_sessions(true),
            Purpose::Sessions if key == Key::ctrl('o') => self.toggle_one_shots(),
            Purpose::Context if delete => self.change_context(self.context.drop_result(id)),
            Purpose::Context if key.typed() == Some('p') => {
                self.change_context(self.context.pin(id));
            }
            Purpose::Queue if delete => self.drop_queued(id),
            Purpose::Queue if key == Key::with(KeyCode::Up, Modifiers::SHIFT) => {
                self.move_queued(id, true);
            }
            Purpose::Queue if key == Key::with(KeyCode::Down, Modifiers::SHIFT) => {
                self.move_queued(id, false);
            }
            Purpose::Tasks if delete || key == Key::ctrl('k') => {
                if let Ok(pid) = id.parse() {
                    self.effect(Effect::Send(Op::EndBackground { pid }));
                }
            }
            Purpose::Model if key == Key::ctrl('s') && !id.is_empty() => {
                self.dialogs.close();
                self.use_model(id, true);
            }
            Purpose::Footer if matches!(key.code, KeyCode::Left | KeyCode::Right) => {
                self.footer_moved(id, key.code == KeyCode::Left);
            }
            Purpose::Settings if key == Key::ctrl('l') => self.reset_setting(id),
            Purpose::Settings if key.code == KeyCode::Tab => self.switch_scope(),
            Purpose::Theme(_) if key.code == KeyCode::Tab => self.switch_scope(),
            Purpose::AgentSettings(name) if key == Key::ctrl('l') => {
                let name = name.clone();
                self.reset_agent_setting(&name, id);
            }
            _ => {}
        }
    }

    fn key_typed(&mut self, kind: KeyKind, key: &str) {
        if let Some(field) = self.dialogs.field_mut() {
            field.problem = None;
            field.busy = Some("verifying the key…".to_owned());
        }
        self.effect(Effect::CheckKey(kind, Secret::new(key.trim())));
    }

    /// Handles the result of the API key check.
    pub(crate) fn key_checked(&mut self, checked: Result<(), String>) {
        match checked {
            Ok(()) => {
                self.dialogs.close();
                self.info("API key verified and saved.");
            }
            Err(why) => match self.dialogs.field_mut() {
                Some(field) => {
                    field.busy = None;
                    field.problem = Some(why);
                }
                _ => self.error(why),
            },
        }
    }

    /// Switches to YOLO mode. Asks for another confirmation if it would affect all files.
    pub(crate) fn want_yolo(&mut self) {
        let refused = self.launch.as_ref().and_then(|launch| launch.yolo_refusal());
        if let Some(why) = refused {
            return self.error(why);
        }
        match self.launch.as_ref().is_some_and(parallax_sdk::Launch::is_everything) {
            true => {
                let items = vec![
                    ListItem::new("no", "No, keep asking", ""),
                    ListItem::new("yes", "Yes, auto-approve all actions here", ""),
                ];
                let title = "This folder contains all your files. Auto-approve all actions?";
                let list = ListDialog::new(title, items);
                self.open(Overlay::list(Purpose::Yolo(ApprovalMode::Yolo), list));
            }
            false => self.set_mode(ApprovalMode::Yolo),
        }
    }

    /// Opens the proposed change in the user's editor.
    pub(super) fn edit_change(&mut self) {
        let preview = self.dialogs.approval().and_then(|question| question.ask.preview.clone());
        if let Some(Preview::Plan { path, text }) = preview {
            return self.edit_plan(path, text);
        }
        let Some(change) = self.asked_change() else { return };
        let change = match change {
            Ok(change) => change,
            Err(why) => return self.toast(why),
        };
        let name = self.asked_file_name();
        let text = change.new.clone();
        self.effect(Effect::Edit {
            text,
            name,
            then: Box::new(move |app, edited| match edited {
                Ok(text) => app.change_to(&change, &text),
                Err(why) => app.toast(why),
            }),
        });
    }

    /// Applies only some hunks of the proposed change.
    pub(super) fn take_hunks(&mut self, taken: &[usize]) {
        let Some(change) = self.asked_change() else { return };
        match change.and_then(|change| change.with(taken).map(|text| (change, text))) {
            Ok((change, text)) => self.change_to(&change, &text),
            Err(why) => self.toast(why),
        }
    }

    fn asked_change(&self) -> Option<Result<ProposedChange, String>> {
        let ask = &self.dialogs.approval()?.ask;
        match &ask.preview {
            Some(Preview::Diff(diff)) => Some(ProposedChange::read(diff)),
            _ => None,
        }
    }

    fn asked_file_name(&self) -> String {
        let name = self.dialogs.approval().and_then(|question| match &question.ask.preview {
            Some(Preview::Diff(diff)) => diff.file_path.file_name(),
            _ => None,
        });
        let name = name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name.is_empty() || name.starts_with('.') { format!("change{name}") } else { name }
    }

    /// Answers the request with the edited change; the engine asks again with the new change.
    fn change_to(&mut self, change: &ProposedChange, wanted: &str) {
        let Some(question) = self.dialogs.approval() else { return };
        let ask = &question.ask;
        let args = self.transcript.arguments(&ask.call).unwrap_or_default();
        match change.arguments(&ask.name, &args, wanted) {
            Ok(arguments) => {
                let mut decide = Decide::new(ask.id.clone(), AskOutcome::ModifyWithEditor);
                decide.arguments = Some(arguments);
                self.dialogs.take_approval();
                self.effect(Effect::Send(Op::Decide(Box::new(decide))));
            }
            Err(why) => self.toast(why),
        }
    }
}
