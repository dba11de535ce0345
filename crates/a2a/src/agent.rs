//! A remote agent and the conversation with it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use parallax_config::agents::{CardSource, RemoteDefinition};
use parallax_http::ClientOptions;
use parallax_http::url::Url;
use parallax_protocol::BoxFuture;
use parallax_protocol::agent::{RemoteAgent, RemoteTask};
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::answer::{RemoteAnswer, RemoteTaskState};
use crate::card::AgentCard;
use crate::credentials::{Credentials, VariableLookup};
use crate::error::A2aError;
use crate::request::OutgoingMessage;
use crate::transport::A2aTransport;

/// How long an agent may take to confirm that a task was cancelled.
const CANCEL_TIME: Duration = Duration::from_secs(1);
/// Delays between polls of a task that runs without a stream.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(5);
const WELL_KNOWN: &str = ".well-known/agent-card.json";

/// How a remote agent is opened.
pub struct A2aAgentOptions {
    /// The definition.
    pub definition: RemoteDefinition,
    /// The options of the HTTP client.
    pub http: ClientOptions,
    /// Returns environment variables, for secrets of the definition.
    pub variables: VariableLookup,
    /// Variables that locate Google Cloud credentials.
    pub google: Vec<(OsString, OsString)>,
    /// Where commands of the definition run.
    pub directory: PathBuf,
}

/// A remote agent. Cheap to clone.
#[derive(Clone)]
pub struct A2aAgent {
    state: Arc<AgentState>,
}

struct AgentState {
    source: CardSource,
    transport: A2aTransport,
    card: OnceCell<AgentCard>,
    conversation: Mutex<RemoteConversation>,
}

/// What the next message refers to.
#[derive(Debug, Default, Clone)]
struct RemoteConversation {
    context: Option<String>,
    /// A task that waits for the next message.
    task: Option<String>,
}

impl A2aAgent {
    /// Creates a client. It connects with the first task.
    pub fn new(options: A2aAgentOptions) -> Self {
        let A2aAgentOptions { definition, http, variables, google, directory } = options;
        let credentials = Credentials::new(definition.auth, variables, directory, &google, &http);
        let state = AgentState {
            source: definition.card,
            transport: A2aTransport::new(&http, credentials),
            card: OnceCell::new(),
            conversation: Mutex::default(),
        };
        Self { state: Arc::new(state) }
    }
}

impl RemoteAgent for A2aAgent {
    fn run(&self, task: RemoteTask) -> BoxFuture<'static, Result<String, String>> {
        let state = Arc::clone(&self.state);
        Box::pin(async move { state.run(task).await.map_err(|error| error.to_string()) })
    }
}

impl AgentState {
    async fn run(&self, task: RemoteTask) -> Result<String, A2aError> {
        let card = tokio::select! {
            card = self.card.get_or_try_init(|| self.read_card()) => card?,
            () = task.cancel.cancelled() => return Err(cancelled_error()),
        };
        let conversation = self.conversation().clone();
        let had_task = conversation.task.is_some() || conversation.context.is_some();
        let answered = match self.ask(card, &task, conversation).await {
            Err(error) if had_task && error.is_unknown_task() => {
                self.ask(card, &task, RemoteConversation::default()).await
            }
            answered => answered,
        };
        let answer = answered?;
        let waits = answer.state.is_some_and(RemoteTaskState::waits);
        *self.conversation() = RemoteConversation {
            context: answer.context.clone(),
            task: answer.task.clone().filter(|_| waits),
        };
        final_text(&answer)
    }

    fn conversation(&self) -> std::sync::MutexGuard<'_, RemoteConversation> {
        self.conversation.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn read_card(&self) -> Result<AgentCard, A2aError> {
        match &self.source {
            CardSource::Json(text) => {
                let unusable = |reason: String| A2aError::Card {
                    source_name: "`agent_card_json`".to_owned(),
                    reason,
                };
                let card: Value =
                    serde_json::from_str(text).map_err(|error| unusable(error.to_string()))?;
                AgentCard::read(&card, None).map_err(unusable)
            }
            CardSource::Url(url) => {
                let (url, card) = self.fetch_card(url).await?;
                let unusable = |reason| A2aError::Card { source_name: url.to_string(), reason };
                AgentCard::read(&card, Some(&url)).map_err(unusable)
            }
        }
    }

    /// Fetches the card from its address, or from the well-known place below it.
    async fn fetch_card(&self, url: &Url) -> Result<(Url, Value), A2aError> {
        let fetched = self.transport.card(url).await;
        let is_exact = url.path().ends_with(".json") || url.path().contains("/.well-known/");
        match fetched {
            Ok(card) if card.is_object() => Ok((url.clone(), card)),
            Err(error @ (A2aError::Connection { .. } | A2aError::Credentials(_))) => Err(error),
            Err(error) if is_exact => Err(error),
            _ => {
                let mut card_url = url.clone();
                card_url.set_path(&format!("{}/{WELL_KNOWN}", url.path().trim_end_matches('/')));
                let card = self.transport.card(&card_url).await?;
                Ok((card_url, card))
            }
        }
    }

    /// Sends a message and waits until the agent has answered.
    async fn ask(
        &self,
        card: &AgentCard,
        task: &RemoteTask,
        conversation: RemoteConversation,
    ) -> Result<RemoteAnswer, A2aError> {
        let message = OutgoingMessage {
            id: uuid::Uuid::new_v4().to_string(),
            text: task.prompt.clone(),
            context: conversation.context.clone(),
            task: conversation.task.clone(),
        };
        let mut answer = RemoteAnswer::default();
        answer.context = conversation.context;
        let ended = tokio::select! {
            ended = self.answer(card, task, &message, &mut answer) => Some(ended),
            () = task.cancel.cancelled() => None,
        };
        match ended {
            Some(ended) => ended.map(|()| answer),
            None => {
                self.cancel(card, &answer).await;
                Err(cancelled_error())
            }
        }
    }

    async fn answer(
        &self,
        card: &AgentCard,
        task: &RemoteTask,
        message: &OutgoingMessage,
        answer: &mut RemoteAnswer,
    ) -> Result<(), A2aError> {
        let add = |answer: &mut RemoteAnswer, item: Value| {
            if let Some(report) = answer.add(&item) {
                (task.status)(report);
            }
            !answer.state.is_some_and(RemoteTaskState::is_final)
        };
        let (version, schemes) = (card.version, &card.credentials);
        let trace = task.trace.as_ref();
        let request = card.send(message, card.is_streaming).with_trace(trace);
        let streams = card.is_streaming;
        let sent = self
            .transport
            .for_each_result(&request, version, schemes, streams, |item| add(answer, item))
            .await;
        match sent {
            Ok(()) => {}
            // The connection is lost, but the task continues.
            Err(A2aError::Connection { .. }) if answer.task.is_some() => {}
            Err(error) => return Err(error),
        }
        let mut pause = FIRST_PAUSE;
        while !answer.state.is_some_and(RemoteTaskState::is_final) {
            let Some(id) = answer.task.clone() else {
                let reason = "it sent neither a message nor a task".to_owned();
                return Err(A2aError::Protocol { url: card.url.to_string(), reason });
            };
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
            let request = card.get_task(&id).with_trace(trace);
            let item = |item| add(answer, item);
            self.transport.for_each_result(&request, version, schemes, false, item).await?;
        }
        Ok(())
    }

    /// Cancels a task whose answer is no longer needed.
    async fn cancel(&self, card: &AgentCard, answer: &RemoteAnswer) {
        let Some(id) = &answer.task else { return };
        let request = card.cancel_task(id);
        let stream = self.transport.for_each_result(
            &request,
            card.version,
            &card.credentials,
            false,
            |_| false,
        );
        // Its answer is not needed.
        let _ = tokio::time::timeout(CANCEL_TIME, stream).await;
    }
}

fn cancelled_error() -> A2aError {
    A2aError::Task("the task was cancelled".to_owned())
}

/// Returns the text for the calling model.
fn final_text(answer: &RemoteAnswer) -> Result<String, A2aError> {
    let text = answer.text();
    let or_silence = |text: String| match text.is_empty() {
        true => "(it gave no reason)".to_owned(),
        false => text,
    };
    match answer.state {
        Some(RemoteTaskState::InputRequired) => Ok(format!(
            "{text}\n\n[The agent needs more input. Call it again with the answer: it continues \
             this task.]"
        )),
        Some(RemoteTaskState::AuthRequired) => {
            Err(A2aError::Task(format!("the agent asks for credentials: {}", or_silence(text))))
        }
        Some(RemoteTaskState::Failed) => {
            Err(A2aError::Task(format!("the agent failed: {}", or_silence(text))))
        }
        Some(RemoteTaskState::Rejected) => {
            Err(A2aError::Task(format!("the agent rejected the task: {}", or_silence(text))))
        }
        Some(RemoteTaskState::Cancelled) => {
            Err(A2aError::Task(format!("the agent cancelled the task: {}", or_silence(text))))
        }
        _ if text.is_empty() => Ok("(The agent finished without output.)".to_owned()),
        _ => Ok(text),
    }
}
