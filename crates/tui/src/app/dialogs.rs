//! Handles the results of dialogs.

use crate::edit_arguments::ProposedChange;
use parallax_protocol::op::{ApprovalResponse, Op, RequestDecision};
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::secret::Secret;
use parallax_protocol::tool::Preview;
use parallax_screen::{Key, KeyCode, Modifiers};
use parallax_sdk::credential::KeyKind;
use parallax_sdk::mcp_view::{UserRequest, UserResponse};
use parallax_sdk::trust::TrustAnswer;
use parallax_sessions::SessionChoice;
use tokio::sync::oneshot;

use super::App;
use crate::app::commands::agents;
use crate::app::commands::agents::accept;
use crate::app::commands::agents::config;
use crate::app::commands::choices;
use crate::app::commands::context;
use crate::app::commands::editor;
use crate::app::commands::extensions;
use crate::app::commands::info;
use crate::app::commands::lists;
use crate::app::commands::outside_files;
use crate::app::commands::plan;
use crate::app::commands::rewind;
use crate::app::commands::saved_chats;
use crate::app::commands::sessions;
use crate::app::commands::settings;
use crate::app::commands::sign_in;
use crate::app::commands::skills_and_hooks;
use crate::app::commands::startup_questions;
use crate::app::commands::status_line_items;
use crate::app::effect::Effect;
use crate::app::run_command;
use crate::components::dialog_stack::{DialogPurpose, Overlay, ServerStep};
use crate::components::server_requests::{ServerAnswer, ServerRequest};
use crate::dialog::{DialogResponse, ListDialog, ListItem};
use crate::keymap::KeymapContext;
use crate::sanitize::sanitize;

impl App {
    /// Opens a dialog, replacing the one that is open.
    pub(crate) fn open(&mut self, overlay: Overlay) {
        self.completion.close();
        self.clear_pending_presses();
        self.dialogs.open(overlay);
    }

    /// Opens a dialog that was not requested by a key.
    pub(super) fn open_automatically(&mut self, overlay: Overlay) {
        self.completion.close();
        self.clear_pending_presses();
        self.dialogs.open_automatically(overlay);
    }

    /// Queues a request of an MCP server.
    pub(crate) fn handle_server_request(
        &mut self,
        server: &str,
        question: UserRequest,
        reply: oneshot::Sender<UserResponse>,
    ) {
        let request = match ServerRequest::new(server, question, reply) {
            Ok(request) => request,
            Err(what) => {
                let server = sanitize(server);
                return self.warn(format!(
                    "Declined a request from MCP server `{server}`: it asked {what}."
                ));
            }
        };
        let context = self.dialog_context();
        if self.dialogs.push_server_request(request, &context, &self.theme) {
            self.clear_space_for_dialog();
        }
    }

    /// Removes requests from servers whose calls have ended.
    pub(crate) fn remove_ended_server_requests(&mut self) {
        if self.dialogs.remove_ended_server_requests() {
            self.toast("the server no longer waits for an answer");
        }
        self.next_server_request();
    }

    /// Opens the first waiting request from a server if no other dialog is open.
    pub(super) fn next_server_request(&mut self) {
        if self.dialogs.next_server_request(self.clock.now_ms(), &self.theme) {
            self.clear_space_for_dialog();
        }
    }

    /// Closes the completion list and the hint for a dialog that opened by itself.
    fn clear_space_for_dialog(&mut self) {
        self.completion.close();
        self.clear_pending_presses();
    }

    /// Answers the request from a server that is open.
    fn answer_server(&mut self, answer: ServerAnswer<'_>) {
        match self.dialogs.answer_server(answer, &self.theme) {
            ServerStep::Show(overlay) => self.open(overlay),
            ServerStep::Next => self.next_server_request(),
            ServerStep::Invalid(reason) => self.toast(reason),
        }
    }

    /// Handles the result of a key in the dialog.
    pub(super) fn overlay_answer(&mut self, response: DialogResponse) {
        let Some(purpose) = self.dialogs.purpose().cloned() else {
            return;
        };
        match response {
            DialogResponse::Stay => {}
            DialogResponse::Closed => self.handle_close(purpose),
            DialogResponse::Chosen(id) => self.handle_choice(purpose, &id),
            DialogResponse::Moved(id) => match purpose {
                DialogPurpose::Theme(_) => self.show_theme(&id),
                DialogPurpose::Sessions => sessions::preview(self, &id),
                _ => {}
            },
            DialogResponse::KeyPressed(key, id) => self.handle_list_key(&purpose, key, &id),
        }
        sessions::search(self);
    }

    /// Handles a dialog that was closed without a choice.
    fn handle_close(&mut self, purpose: DialogPurpose) {
        self.dialogs.close();
        match purpose {
            // Without an answer, nothing in the folder is read.
            DialogPurpose::Trust => self.queue_effect(Effect::Quit { delete: false }),
            DialogPurpose::LooseSettings => {
                startup_questions::handle_loosening_settings(self, false)
            }
            DialogPurpose::PolicyUpdate => startup_questions::policy_update_answered(self, false),
            DialogPurpose::Theme(before) => {
                self.theme = *before;
                self.return_from_theme();
            }
            DialogPurpose::Key(_) | DialogPurpose::ProviderKey(_) => {
                self.queue_effect(Effect::CancelKeyCheck);
                sign_in::open(self, None);
            }
            DialogPurpose::ProviderModel => {
                sign_in::open(self, None);
            }
            DialogPurpose::Auth if self.session.is_keyless() => {
                self.warn_once("Not signed in. Run /auth to connect to a model.".to_owned());
            }
            DialogPurpose::AddFolder(folders) => {
                run_command::handle_folder_trust(self, folders, false)
            }
            DialogPurpose::SettingValue(_) => settings::reopen(self),
            DialogPurpose::RewindHow(_) => rewind::request(self),
            DialogPurpose::DeleteSession(_) => sessions::open(self),
            DialogPurpose::OutsideFiles { text, steer, .. }
            | DialogPurpose::LargePrompt { text, steer } => {
                outside_files::handle_close(self, &text, steer.as_ref());
            }
            DialogPurpose::Consent => extensions::handle_consent_answer(self, "no"),
            DialogPurpose::Hooks => skills_and_hooks::apply_hook_changes(self),
            DialogPurpose::DocsPage => info::docs(self, ""),
            DialogPurpose::AcceptAgents(waiting) => accept::handle_answer(self, waiting, false),
            DialogPurpose::ServerQuestion | DialogPurpose::ServerField => {
                self.answer_server(ServerAnswer::Closed)
            }
            _ => {}
        }
    }

    /// Returns to the settings if the theme was opened from there.
    fn return_from_theme(&mut self) {
        if self.settings_view.has_parked_list() {
            settings::reopen(self);
        }
    }

    fn handle_choice(&mut self, purpose: DialogPurpose, id: &str) {
        match purpose {
            DialogPurpose::Trust => {
                let answer = match id {
                    "folder" => TrustAnswer::Folder,
                    "parent" => TrustAnswer::Parent,
                    _ => TrustAnswer::No,
                };
                self.dialogs.close();
                self.queue_effect(Effect::Trust(answer));
            }
            DialogPurpose::Ide => {
                self.dialogs.close();
                editor::handle_choice(self, id);
            }
            DialogPurpose::LooseSettings => {
                self.dialogs.close();
                startup_questions::handle_loosening_settings(self, id == "accept");
            }
            DialogPurpose::PolicyUpdate => {
                self.dialogs.close();
                startup_questions::policy_update_answered(self, id == "accept");
            }
            DialogPurpose::Auth => sign_in::handle_choice(self, id),
            DialogPurpose::Key(kind) => self.key_typed(kind, id),
            DialogPurpose::ProviderKey(provider) => sign_in::provider_key_typed(self, provider, id),
            DialogPurpose::ProviderModel => sign_in::provider_model_chosen(self, id),
            DialogPurpose::Model => {
                self.dialogs.close();
                choices::use_model(self, id, false);
            }
            DialogPurpose::Theme(_) => {
                self.dialogs.close();
                self.save_theme(id);
                self.return_from_theme();
            }
            DialogPurpose::Sessions => {
                self.dialogs.close();
                self.queue_effect(Effect::Open(SessionChoice::Resume(id.to_owned())));
            }
            DialogPurpose::DeleteSession(session) => {
                if id == "yes" {
                    sessions::delete(self, session);
                }
                sessions::open(self);
            }
            DialogPurpose::Tags => {
                self.dialogs.close();
                saved_chats::resume(self, id);
            }
            DialogPurpose::Rewind => {
                if let Ok(turn) = id.parse() {
                    rewind::ask_for_rewind_scope(self, turn);
                }
            }
            DialogPurpose::RewindHow(turn) => rewind::handle_choice(self, turn, id),
            DialogPurpose::Restore => {
                self.dialogs.close();
                rewind::restore(self, id);
            }
            DialogPurpose::ContinueTurn => {
                self.dialogs.close();
                if id == "yes" {
                    self.queue_effect(Effect::Send(Op::Continue));
                }
            }
            DialogPurpose::Settings => settings::handle_choice(self, id),
            // These have nothing to choose.
            DialogPurpose::Help | DialogPurpose::DocsPage | DialogPurpose::Pages => {}
            DialogPurpose::Footer => status_line_items::handle_choice(self, id),
            DialogPurpose::Docs => info::open_docs_page(self, id),
            DialogPurpose::SettingValue(key) => settings::handle_typed(self, &key, id),
            DialogPurpose::Editor => {
                self.dialogs.close();
                let value = serde_json::Value::String(id.to_owned());
                self.save_setting("general.preferredEditor", Some(value));
            }
            DialogPurpose::AddFolder(folders) => {
                run_command::handle_folder_trust(self, folders, id == "yes")
            }
            DialogPurpose::Permissions => {
                self.dialogs.close();
                choices::set_trust(self, id);
            }
            DialogPurpose::Mode => {
                self.dialogs.close();
                match ApprovalMode::parse(id) {
                    Some(ApprovalMode::Yolo) => self.request_yolo(),
                    Some(ApprovalMode::Plan) => plan::run(self, ""),
                    Some(mode) => self.set_mode(mode),
                    None => {}
                }
            }
            DialogPurpose::Yolo(mode) => {
                self.dialogs.close();
                if id == "yes" {
                    self.set_mode(mode);
                }
            }
            DialogPurpose::Context => context::print(self),
            DialogPurpose::Tasks => lists::show_task(self, id),
            DialogPurpose::Queue => lists::take_queued(self, id),
            DialogPurpose::LargePrompt { text, steer } => {
                self.dialogs.close();
                match id {
                    "yes" => self.queue_effect(Effect::Prompt { text, steer, ask: false }),
                    _ => outside_files::handle_close(self, &text, steer.as_ref()),
                }
            }
            DialogPurpose::OutsideFiles { text, steer, paths } => {
                outside_files::handle_answer(self, id == "yes", text, steer, paths);
            }
            DialogPurpose::Hooks => skills_and_hooks::hook_chosen(self, id),
            DialogPurpose::Skills => skills_and_hooks::skill_chosen(self, id),
            DialogPurpose::Agents => agents::chosen(self, id),
            DialogPurpose::AcceptAgents(waiting) => {
                accept::handle_answer(self, waiting, id == "yes")
            }
            DialogPurpose::AgentSettings(name) => config::handle_choice(self, &name, id),
            DialogPurpose::AgentSetting(name, setting) => {
                config::handle_typed(self, &name, setting, id)
            }
            DialogPurpose::ServerQuestion => self.answer_server(ServerAnswer::Choice(id)),
            DialogPurpose::ServerField => self.answer_server(ServerAnswer::Field(id)),
            DialogPurpose::Consent => extensions::handle_consent_answer(self, id),
            DialogPurpose::ExtensionSettings(name) => extensions::setting_chosen(self, &name, id),
            DialogPurpose::ExtensionValue(name, variable) => {
                extensions::value_typed(self, &name, &variable, id);
            }
        }
    }

    /// Handles keys that only some lists use, and those that work everywhere.
    fn handle_list_key(&mut self, purpose: &DialogPurpose, key: Key, id: &str) {
        let delete = key.code == KeyCode::Delete
            || key == Key::ctrl('x')
            || (key.character() == Some('x') && !matches!(purpose, DialogPurpose::Sessions));
        match purpose {
            DialogPurpose::Sessions if delete && !id.is_empty() => {
                let items = vec![
                    ListItem::new("no", "Keep it", ""),
                    ListItem::new("yes", "Delete it permanently", ""),
                ];
                let list = ListDialog::new("Delete this session?", items);
                self.open(Overlay::list(DialogPurpose::DeleteSession(id.to_owned()), list));
            }
            DialogPurpose::Sessions if key == Key::ctrl('s') => sessions::sort(self, false),
            DialogPurpose::Sessions if key == Key::ctrl('r') => sessions::sort(self, true),
            DialogPurpose::Context if delete => context::change(self, self.context.drop_result(id)),
            DialogPurpose::Context if key.character() == Some('p') => {
                context::change(self, self.context.pin(id));
            }
            DialogPurpose::Queue if delete => lists::drop_queued(self, id),
            DialogPurpose::Queue if key == Key::with(KeyCode::Up, Modifiers::SHIFT) => {
                lists::move_queued(self, id, true);
            }
            DialogPurpose::Queue if key == Key::with(KeyCode::Down, Modifiers::SHIFT) => {
                lists::move_queued(self, id, false);
            }
            DialogPurpose::Tasks if delete || key == Key::ctrl('k') => {
                if let Ok(pid) = id.parse() {
                    self.queue_effect(Effect::Send(Op::EndBackground { pid }));
                }
            }
            DialogPurpose::Model if key == Key::ctrl('s') && !id.is_empty() => {
                self.dialogs.close();
                choices::use_model(self, id, true);
            }
            DialogPurpose::Footer if matches!(key.code, KeyCode::Left | KeyCode::Right) => {
                status_line_items::move_item(self, id, key.code == KeyCode::Left);
            }
            DialogPurpose::Settings if key == Key::ctrl('l') => settings::reset(self, id),
            DialogPurpose::Settings if key.code == KeyCode::Tab => settings::switch_scope(self),
            DialogPurpose::Theme(_) if key.code == KeyCode::Tab => settings::switch_scope(self),
            DialogPurpose::AgentSettings(name) if key == Key::ctrl('l') => {
                let name = name.clone();
                config::reset(self, &name, id);
            }
            _ => {
                self.everywhere_key(key, KeymapContext::DIALOG);
            }
        }
    }

    fn key_typed(&mut self, kind: KeyKind, key: &str) {
        if let Some(field) = self.dialogs.field_mut() {
            field.problem = None;
            field.busy = Some("verifying the key…".to_owned());
        }
        self.queue_effect(Effect::CheckKey(kind, Secret::new(key.trim())));
    }

    /// Handles the result of the API key check.
    pub(crate) fn key_checked(&mut self, checked: Result<(), String>) {
        match checked {
            Ok(()) => {
                self.dialogs.close();
                self.info("API key verified and saved.");
            }
            Err(reason) => match self.dialogs.field_mut() {
                Some(field) => {
                    field.busy = None;
                    field.problem = Some(reason);
                }
                _ => self.error(reason),
            },
        }
    }

    /// Switches to YOLO mode. Asks for another confirmation if it would affect all files.
    pub(crate) fn request_yolo(&mut self) {
        let unavailable = self.launch.as_ref().and_then(|launch| launch.yolo_unavailable_reason());
        if let Some(reason) = unavailable {
            return self.error(reason);
        }
        match self.launch.as_ref().is_some_and(parallax_sdk::SessionConfig::is_home_or_root) {
            true => {
                let items = vec![
                    ListItem::new("no", "No, keep asking", ""),
                    ListItem::new("yes", "Yes, auto-approve all actions here", ""),
                ];
                let title = "This folder contains all your files. Auto-approve all actions?";
                let list = ListDialog::new(title, items);
                self.open(Overlay::list(DialogPurpose::Yolo(ApprovalMode::Yolo), list));
            }
            false => self.set_mode(ApprovalMode::Yolo),
        }
    }

    /// Opens the proposed change in the user's editor.
    pub(super) fn edit_change(&mut self) {
        let preview = self.dialogs.approval().and_then(|question| question.request.preview.clone());
        if let Some(Preview::Plan { path, text }) = preview {
            return plan::edit(self, path, text);
        }
        let Some(change) = self.proposed_change() else { return };
        let change = match change {
            Ok(change) => change,
            Err(reason) => return self.toast(reason),
        };
        let name = self.requested_file_name();
        let text = change.new.clone();
        self.queue_effect(Effect::Edit {
            text,
            name,
            then: Box::new(move |app, edited| match edited {
                Ok(text) => app.change_to(&change, &text),
                Err(reason) => app.toast(reason),
            }),
        });
    }

    /// Applies only some hunks of the proposed change.
    pub(super) fn take_hunks(&mut self, selected: &[usize]) {
        let Some(change) = self.proposed_change() else { return };
        match change.and_then(|change| change.apply_hunks(selected).map(|text| (change, text))) {
            Ok((change, text)) => self.change_to(&change, &text),
            Err(reason) => self.toast(reason),
        }
    }

    fn proposed_change(&self) -> Option<Result<ProposedChange, String>> {
        let ask = &self.dialogs.approval()?.request;
        match &ask.preview {
            Some(Preview::Diff(diff)) => Some(ProposedChange::read(diff)),
            _ => None,
        }
    }

    fn requested_file_name(&self) -> String {
        let name = self.dialogs.approval().and_then(|question| match &question.request.preview {
            Some(Preview::Diff(diff)) => diff.file_path.file_name(),
            _ => None,
        });
        let name = name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name.is_empty() || name.starts_with('.') { format!("change{name}") } else { name }
    }

    /// Answers the request with the edited change; the engine asks again with the new change.
    fn change_to(&mut self, change: &ProposedChange, new_text: &str) {
        let Some(question) = self.dialogs.approval() else { return };
        let ask = &question.request;
        let args = self.transcript.arguments(&ask.call).unwrap_or_default();
        match change.arguments(&ask.name, &args, new_text) {
            Ok(arguments) => {
                let mut decide =
                    RequestDecision::new(ask.id.clone(), ApprovalResponse::ModifyWithEditor);
                decide.arguments = Some(arguments);
                self.dialogs.take_approval();
                self.queue_effect(Effect::Send(Op::Decide(Box::new(decide))));
            }
            Err(reason) => self.toast(reason),
        }
    }
}
