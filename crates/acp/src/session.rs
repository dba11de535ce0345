//! A session: a task that handles operations of the client and forwards events.

mod management;
mod prompts;
mod reopening;
mod session_options;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use parallax_protocol::event::{
    ApprovalRequest, EndReason, Event, EventBody, Failure, FailureKind, ItemDone, ItemStart,
    NOT_SAVED, TRUNCATED,
};
use parallax_protocol::model::Usage;
use parallax_protocol::op::{ApprovalResponse, Op, Prompt, RequestDecision};
use parallax_protocol::similar_texts::merge_similar;
use parallax_protocol::store::Record;
use parallax_protocol::typed_input::CurrentMode;
use parallax_sdk::mcp_view::{McpUpdate, McpUpdates, PendingSignIn};
use parallax_sdk::{EventReader, OpenSession};
use parallax_sessions::recorded_items::RecordedItem;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::{JoinError, JoinHandle, JoinSet};

use self::management::RunningCommands;
use self::reopening::ReopenNotice;
use crate::client_files::{CallTerminals, ClientFiles};
use crate::client_terminal::terminal_content;
use crate::clients::SessionClients;
use crate::connection::ClientConnection;
use crate::consent::{self, ConsentRequests};
use crate::history::RecordedCalls;
use crate::host::{CommandReply, Host};
use crate::options::SessionChoices;
use crate::permission;
use crate::rpc::RpcError;
use crate::server_questions::sign_in;
use crate::updates::{ClientFeatures, UpdateBuilder, chunk};

/// How long a session may take to end.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(1200);
/// Maximum number of queued approval responses.
const DECISIONS: usize = 32;
/// Maximum characters of a title.
const MAX_TITLE: usize = 80;

/// An operation of the client.
pub(crate) enum ClientOperation {
    Prompt {
        reply: PendingReply,
        blocks: Vec<Value>,
    },
    /// Cancels the running prompt, or only the prompt of this request.
    Cancel {
        request: Option<PendingReply>,
    },
    SetMode {
        reply: PendingReply,
        mode: String,
    },
    SetModel {
        reply: PendingReply,
        model: String,
    },
    SetOption {
        reply: PendingReply,
        option: String,
        value: String,
    },
    /// Another client joins.
    Join {
        reply: PendingReply,
        with_history: bool,
    },
    Close {
        completion: oneshot::Sender<()>,
    },
}

/// A request and the client that sent it.
#[derive(Clone)]
pub(crate) struct PendingReply {
    pub(crate) id: Value,
    pub(crate) client: ClientConnection,
}

impl PendingReply {
    async fn respond(self, result: Result<Value, RpcError>) {
        self.client.respond(self.id, result).await;
    }

    fn is_same(&self, other: &Self) -> bool {
        self.id == other.id && self.client.is_same(&other.client)
    }
}

/// A prompt that is answered when its turn ends.
struct RunningPrompt {
    reply: PendingReply,
    is_started: bool,
    /// Whether the output limit of the model cut the last answer off.
    is_truncated: bool,
    usage: BTreeMap<String, Usage>,
}

/// What a typed text is turned into.
enum PreparedInput {
    Prompt(Prompt),
    Reply(CommandReply),
}

/// A prompt whose files and commands are being expanded, or a running command.
type PreparingInput = JoinHandle<Result<PreparedInput, Failure>>;

/// Why a session stops serving its clients.
enum SessionEnd {
    Closed(Option<oneshot::Sender<()>>),
    Reopen(ReopenNotice),
}

pub(crate) struct EditorSession {
    id: String,
    open: OpenSession,
    events: EventReader,
    host: Arc<dyn Host>,
    clients: SessionClients,
    features: ClientFeatures,
    choices: SessionChoices,
    updates: UpdateBuilder,
    running: Option<RunningPrompt>,
    pending_input: Option<PreparingInput>,
    /// Whether the journal could not be written.
    is_unsaved: bool,
    /// Whether the journal existed after a turn.
    was_stored: bool,
    /// Whether the user agreed to what the pending command does; it cannot be cancelled then.
    has_consent: Arc<AtomicBool>,
    running_commands: RunningCommands,
    /// Asks for consent that no tool call waits for.
    consents: ConsentRequests,
    /// The mode, with changes that the session has not confirmed yet.
    mode: CurrentMode,
    /// Set if the session has to be reopened.
    reopening: Option<ReopenNotice>,
    /// The prompt that replaces the one being cancelled.
    queued: Option<(PendingReply, Vec<Value>)>,
    decision_sender: mpsc::Sender<RequestDecision>,
    decisions: mpsc::Receiver<RequestDecision>,
    has_title: bool,
    /// A report of usage that is sent with the next prompt.
    late_usage: Option<Value>,
    /// The commands that the clients know.
    commands: Vec<Value>,
    /// The sign-ins to MCP servers that are under way.
    sign_ins: JoinSet<()>,
    /// `None`: as configured.
    thinking_level: Option<String>,
    /// Abandons file requests that the client does not answer.
    files_cancelled: Arc<Notify>,
    terminals: CallTerminals,
}

impl EditorSession {
    pub(crate) fn new(
        (open, events): (OpenSession, EventReader),
        host: Arc<dyn Host>,
        clients: SessionClients,
        features: ClientFeatures,
        files: &ClientFiles,
    ) -> Self {
        let launch = open.launch();
        let directory = launch.options().directory.clone();
        let choices = SessionChoices::new(launch);
        let (decision_sender, decisions) = mpsc::channel(DECISIONS);
        let id = open.id.to_string();
        Self {
            consents: ConsentRequests::new(clients.clone(), id.clone()),
            mode: CurrentMode::new(open.mode),
            id,
            updates: UpdateBuilder::new(directory, features, open.mode, open.model.clone()),
            open,
            events,
            host,
            clients,
            features,
            choices,
            running: None,
            pending_input: None,
            is_unsaved: false,
            was_stored: false,
            has_consent: Arc::default(),
            running_commands: RunningCommands::new(),
            reopening: None,
            queued: None,
            decision_sender,
            decisions,
            has_title: false,
            late_usage: None,
            commands: Vec::new(),
            sign_ins: JoinSet::new(),
            thinking_level: None,
            files_cancelled: files.cancelled.clone(),
            terminals: files.terminals.clone(),
        }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Returns the session's records as updates.
    pub(crate) fn history(&self) -> Vec<Value> {
        self.replay_updates(&self.open.initial_records(), false)
    }

    /// Returns how the last turn of a loaded session ended: `none` without a turn, `cut_off` if its
    /// process ended before it, otherwise the name of the reason.
    pub(crate) fn last_turn(&self) -> String {
        parallax_sessions::last_turn(&self.open.initial_records(), self.open.is_cut_off())
    }

    /// Returns records as updates. Open calls of a running turn are left out: they have other ids.
    fn replay_updates(&self, records: &[Record], is_running: bool) -> Vec<Value> {
        let items = parallax_sessions::recorded_items::items(records);
        let is_prompt = |item: &RecordedItem| matches!(item, RecordedItem::User { .. });
        let turn = items.iter().rposition(is_prompt).filter(|_| is_running);
        let is_open = |number: usize, item: &RecordedItem| {
            turn.is_some_and(|turn| number > turn)
                && matches!(item, RecordedItem::Tool { status: None, .. })
        };
        let kinds = self.open.tools().into_iter().map(|tool| (tool.name, tool.kind));
        let directory = &self.open.launch().options().directory;
        let history = RecordedCalls { kinds: kinds.collect(), directory };
        let past = items.iter().enumerate().filter(|(number, item)| !is_open(*number, item));
        past.filter_map(|(number, item)| history.update(item, number)).collect()
    }

    /// Returns modes, models, and options for the result of opening the session.
    pub(crate) fn state_json(&self) -> Value {
        let (mode, model) = (self.updates.mode, &self.updates.model);
        json!({"modes": self.choices.modes_json(mode), "models": self.choices.models_json(model),
            "configOptions": self.config_json(mode)})
    }

    /// Runs until the client closes the session or is gone.
    pub(crate) async fn run(mut self, mut orders: mpsc::Receiver<ClientOperation>) {
        loop {
            match self.serve(&mut orders).await {
                SessionEnd::Closed(completion) => return self.close(completion).await,
                SessionEnd::Reopen(reopening) => match self.reopen(reopening).await {
                    Some(reopened) => self = reopened,
                    None => return,
                },
            }
        }
    }

    /// Serves the clients until the session has to be closed or reopened.
    async fn serve(&mut self, orders: &mut mpsc::Receiver<ClientOperation>) -> SessionEnd {
        self.announce_commands().await;
        let mut servers = None;
        if let Some(view) = self.open.mcp_view() {
            servers = Some(view.updates());
            self.servers_changed(view.sign_ins()).await;
        }
        for warning in merge_similar(self.open.warnings.clone()) {
            tracing::warn!("{warning}");
        }
        loop {
            if let Some(reopening) = self.reopening.take() {
                return SessionEnd::Reopen(reopening);
            }
            tokio::select! {
                operation = orders.recv() => match operation {
                    None => return SessionEnd::Closed(None),
                    Some(ClientOperation::Close { completion }) => {
                        return SessionEnd::Closed(Some(completion));
                    }
                    Some(operation) => self.handle_operation(operation).await,
                },
                event = self.events.next() => match event {
                    None => return SessionEnd::Closed(None),
                    Some(event) => self.handle_event(event).await,
                },
                Some(decide) = self.decisions.recv() => self.send(Op::Decide(Box::new(decide))).await,
                input = prepared_input(&mut self.pending_input) => self.handle_prepared(input).await,
                update = next_update(&mut servers) => self.servers_changed(update.sign_ins).await,
            }
        }
    }

    async fn close(mut self, completion: Option<oneshot::Sender<()>>) {
        self.sign_ins.abort_all();
        if let Some(preparing) = self.pending_input.take() {
            preparing.abort();
        }
        self.consents.cancel().await;
        self.answer(Ok(json!("cancelled"))).await;
        if let Some((from, _)) = self.queued.take() {
            from.respond(Ok(json!({"stopReason": "cancelled"}))).await;
        }
        self.send(Op::Interrupt).await;
        let commands = self.running_commands.wait();
        if tokio::time::timeout(CLOSE_TIMEOUT, commands).await.is_err() {
            tracing::warn!("a command in session `{}` did not finish in time", self.id);
        }
        for report in self.open.close_with_limit(tokio::time::sleep(CLOSE_TIMEOUT)).await {
            tracing::warn!("{report}");
        }
        if let Some(completion) = completion {
            // Fails only if the request was cancelled.
            let _ = completion.send(());
        }
    }

    async fn send(&self, op: Op) {
        if self.open.ops().send(op).await.is_err() {
            tracing::warn!("the session `{}` has ended", self.id);
        }
    }

    /// Sends the slash commands, if they changed.
    async fn announce_commands(&mut self) {
        let mut commands: Vec<Value> = Vec::new();
        for (name, description, hint) in self.host.commands() {
            commands.push(command_json(name, description, hint));
        }
        let custom = self.open.commands.clone();
        let listed = tokio::task::spawn_blocking(move || custom.catalog()).await;
        if let Ok(catalog) = listed {
            commands.extend(catalog.commands().iter().map(|it| {
                let hint = match it.argument_hint.as_str() {
                    "" => "arguments",
                    hint => hint,
                };
                command_json(&it.name, &it.description, hint)
            }));
        }
        for prompt in self.open.commands.prompts() {
            let arguments =
                prompt.arguments.iter().map(|(name, _, is_required)| match is_required {
                    true => name.clone(),
                    false => format!("[{name}]"),
                });
            let hint = arguments.collect::<Vec<_>>().join(" ");
            commands.push(command_json(&prompt.name, &prompt.description, &hint));
        }
        if commands != self.commands {
            self.commands.clone_from(&commands);
            let update = json!({"sessionUpdate": "available_commands_update",
                "availableCommands": commands});
            self.clients.update(&self.id, update).await;
        }
    }

    /// Announces new prompts of MCP servers, and asks the user to sign in where they require it.
    async fn servers_changed(&mut self, sign_ins: Vec<PendingSignIn>) {
        self.announce_commands().await;
        let Some(view) = self.open.mcp_view().filter(|_| self.features.opens_urls) else { return };
        for PendingSignIn { server, .. } in sign_ins {
            let (view, clients) = (view.clone(), self.clients.clone());
            self.sign_ins.spawn(sign_in(view, clients, self.id.clone(), server));
        }
    }

    async fn handle_operation(&mut self, operation: ClientOperation) {
        match operation {
            ClientOperation::Prompt { reply, blocks } => self.start_prompt(reply, blocks).await,
            ClientOperation::Cancel { request } => self.cancel(request).await,
            ClientOperation::SetMode { reply, mode } => {
                let result = self.set_mode(&mode).await.map(|_| json!({}));
                reply.respond(result).await;
            }
            ClientOperation::SetModel { reply, model } => {
                let result = self.set_model(model).await.map(|()| json!({}));
                let is_set = result.is_ok();
                reply.respond(result).await;
                if is_set {
                    self.announce_options().await;
                }
            }
            ClientOperation::SetOption { reply, option, value } => {
                let mut mode = self.updates.mode;
                let result = match option.as_str() {
                    // The change is announced when the engine has made it.
                    "mode" => self.set_mode(&value).await.map(|changed| mode = changed),
                    "model" => self.set_model(value).await,
                    "thought_level" => self.set_thinking_level(&value).await,
                    other => {
                        let message = format!(
                            "unknown option `{other}`: use `mode`, `model`, or `thought_level`"
                        );
                        Err(RpcError::invalid_params(message))
                    }
                };
                let result = result.map(|()| json!({"configOptions": self.config_json(mode)}));
                reply.respond(result).await;
            }
            ClientOperation::Join { reply, with_history } => self.join(reply, with_history).await,
            // Ends the loop in `run`.
            ClientOperation::Close { .. } => {}
        }
    }

    /// Adds another client: it receives the history and then all updates.
    async fn join(&mut self, from: PendingReply, with_history: bool) {
        if with_history {
            let journal_task = tokio::task::spawn_blocking(self.open.journal_reader());
            let records = journal_task.await.unwrap_or_default();
            for update in self.replay_updates(&records, self.running.is_some()) {
                from.client.update(&self.id, update).await;
            }
        }
        for mut update in self.updates.open_calls() {
            self.restore_terminal(&mut update);
            from.client.update(&self.id, update).await;
        }
        if self.running.is_some() {
            from.client.notify_turn(self.turn_started()).await;
        }
        self.clients.add(from.client.clone());
        from.respond(Ok(self.state_json())).await;
    }

    async fn handle_event(&mut self, event: Event) {
        let mode = self.updates.mode;
        for mut update in self.updates.updates_for(&event) {
            self.restore_terminal(&mut update);
            // After the answer to a prompt, no update about it may follow.
            let is_usage = matches!(event.body, EventBody::ContextUsed(_));
            if is_usage && self.running.is_none() && self.has_title {
                self.late_usage = Some(update);
                continue;
            }
            self.clients.update(&self.id, update).await;
        }
        if mode != self.updates.mode {
            self.announce_options().await;
        }
        if let EventBody::StateChanged { mode, .. } = &event.body {
            self.mode.confirm(*mode);
        }
        match event.body {
            EventBody::ItemDone { done: ItemDone::Notice { text, .. }, .. }
                if text == TRUNCATED =>
            {
                if let Some(running) = &mut self.running {
                    running.is_truncated = true;
                }
            }
            EventBody::ItemDone { done: ItemDone::Notice { text, .. }, .. }
                if text.starts_with(NOT_SAVED) =>
            {
                self.is_unsaved = true;
            }
            EventBody::ItemStarted { start: ItemStart::Tool(_), .. } => {
                if let Some(running) = &mut self.running {
                    running.is_truncated = false;
                }
            }
            EventBody::ModelCall(call) => {
                if let Some(running) = &mut self.running {
                    running.usage.entry(call.model).or_default().add(&call.usage);
                }
            }
            EventBody::ApprovalRequested(ask) => self.ask(*ask),
            EventBody::Restored(undone) => self.report_restored_files(undone).await,
            EventBody::TurnEnded(ended) => {
                self.was_stored |= self.open.is_resumable();
                self.turn_ended(ended.reason).await;
                self.next_prompt().await;
            }
            _ => {}
        }
    }

    /// Lets a call that ran in a terminal of the client keep showing it instead of its output.
    fn restore_terminal(&self, update: &mut Value) {
        let Some(call) = update["toolCallId"].as_str().filter(|_| update["content"].is_array())
        else {
            return;
        };
        let terminals = self.terminals.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(id) = terminals.get(call) {
            update["content"] = json!([terminal_content(id)]);
        }
    }

    /// Sends the request to the client in a task, so that the session continues meanwhile.
    fn ask(&self, approval: ApprovalRequest) {
        let (clients, decided) = (self.clients.clone(), self.decision_sender.clone());
        let form = permission::elicitation(&self.id, &approval);
        let offers_form = self.features.elicitation;
        // A request about the session itself belongs to no call.
        let own_id = approval.call.as_str().is_empty().then(consent::new_id);
        let call = own_id.as_deref().unwrap_or(approval.call.as_str());
        let request =
            permission::request(&self.id, &approval, call, &self.updates.locations(&approval.call));
        let consents = self.consents.clone();
        tokio::spawn(async move {
            let decide = match form {
                Some(form) if offers_form => {
                    let answer = clients.elicit(form, |offers| offers.elicitation).await;
                    if is_disconnected(&answer) {
                        return;
                    }
                    permission::answers(&approval, &answer)
                }
                // The client cannot show questions.
                Some(_) => RequestDecision::new(approval.id.clone(), ApprovalResponse::Cancel),
                None => {
                    let answer = match own_id {
                        Some(id) => {
                            let is_agreed =
                                |answer: &Value| permission::is_allowed(&approval, answer);
                            consents.request(id, request, is_agreed).await
                        }
                        None => clients.request("session/request_permission", request).await,
                    };
                    if is_disconnected(&answer) {
                        return;
                    }
                    permission::decision(&approval, &answer)
                }
            };
            // Fails only if the session has ended.
            let _ = decided.send(decide).await;
        });
    }

    async fn turn_ended(&mut self, reason: EndReason) {
        self.consents.cancel().await;
        let (stop, text) = match reason {
            EndReason::Done if self.running.as_ref().is_some_and(|it| it.is_truncated) => {
                ("max_tokens", None)
            }
            EndReason::Done => ("end_turn", None),
            EndReason::Cancelled => ("cancelled", None),
            EndReason::MaxTurns { limit } => {
                ("max_turn_requests", Some(format!("Stopped after {limit} turns.")))
            }
            EndReason::Budget(spent) => ("max_turn_requests", Some(spent.to_string())),
            EndReason::Loop { detail } => ("end_turn", Some(detail)),
            EndReason::Stopped { reason, .. } => ("end_turn", Some(reason)),
            EndReason::Failed(failure) if failure.kind == FailureKind::Blocked => {
                ("refusal", Some(failure.message))
            }
            // The model answered with nothing.
            EndReason::Failed(failure) if failure.kind == FailureKind::InvalidStream => {
                ("end_turn", Some(failure.message))
            }
            EndReason::Failed(failure) => return self.answer(Err(failure.into())).await,
        };
        if let Some(text) = text {
            self.clients.update(&self.id, chunk("agent_message_chunk", &text)).await;
        }
        self.answer(Ok(json!(stop))).await;
    }
}

/// Whether no client remains to answer. The session ends: a rejection would ask the model again.
fn is_disconnected(answer: &Result<Value, RpcError>) -> bool {
    answer.as_ref().is_err_and(RpcError::is_disconnected)
}

/// Waits for the next change of the MCP servers, forever if there are none.
async fn next_update(servers: &mut Option<McpUpdates>) -> McpUpdate {
    if let Some(news) = servers {
        if let Some(update) = news.next().await {
            return update;
        }
        *servers = None;
    }
    std::future::pending().await
}

async fn prepared_input(preparing: &mut Option<PreparingInput>) -> Result<PreparedInput, Failure> {
    match preparing {
        Some(preparing) => preparing.await.unwrap_or_else(|error| Err(internal_failure(&error))),
        None => std::future::pending().await,
    }
}

/// Returns the failure of a task that panicked or was aborted.
fn internal_failure(error: &JoinError) -> Failure {
    Failure::new(FailureKind::Internal, error.to_string())
}

fn command_json(name: &str, description: &str, hint: &str) -> Value {
    let mut command = json!({"name": name, "description": description});
    if !hint.is_empty() {
        command["input"] = json!({"hint": hint});
    }
    command
}

fn quota(usage: &BTreeMap<String, Usage>) -> Value {
    let count = |usage: &Usage| json!({"input_tokens": usage.prompt, "output_tokens": usage.output + usage.thought});
    let mut total = Usage::default();
    usage.values().for_each(|it| total.add(it));
    let models =
        usage.iter().map(|(model, usage)| json!({"model": model, "token_count": count(usage)}));
    json!({"token_count": count(&total), "model_usage": models.collect::<Vec<_>>()})
}
