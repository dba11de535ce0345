//! The seam to a model: a request, a stream of chunks, errors by who can act.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::content::{Part, Sealed};
use crate::price::Price;
use crate::routing::{FallbackModel, Routes};
use crate::{BoxFuture, BoxStream, CancellationToken, Object};

/// A request in provider-neutral terms. Serialising the same request twice
/// gives the same bytes.
#[derive(Debug, Clone)]
pub struct Request {
    /// The model's id (aliases are resolved before).
    pub model: String,
    /// The system prompt; empty = none.
    pub system: std::sync::Arc<str>,
    /// The contents, oldest first.
    pub contents: Vec<Sealed>,
    /// What tools are offered.
    pub tools: ToolSet,
    /// Generation settings set by the user or the caller, in wire spelling
    /// (`temperature`, `responseJsonSchema`, …). The provider adds its family's
    /// defaults, thinking among them, where a key is absent.
    pub generation: Object,
    /// What the request is for: `main`, or a utility's name (`web_search`, …).
    pub role: String,
    /// The name that settings know the call by: what was asked for in the place of
    /// the model (an alias, `auto`), or a utility's name where that is not the
    /// role. Empty: the role.
    pub alias: String,
    /// How many attempts a call may take; `None` = the provider's default.
    pub max_attempts: Option<u32>,
    /// Whether somebody can have another model in its place: while this one has no
    /// capacity it is tried twice more, within seconds, and not for minutes.
    pub has_fallback: bool,
    /// Whether an answer to the same came already and was of no use (empty, cut
    /// off): what settings say of retries holds.
    pub is_retry: bool,
    /// Set where it is sent before it is known whether its answer is wanted; cancelled
    /// (as a signal, once) when the answer is taken. What writes answers down waits for that.
    pub adopted: Option<CancellationToken>,
}

impl Request {
    /// Contents, system prompt and tools, in bytes of JSON: what is sent but for
    /// a few hundred bytes of settings.
    pub fn bytes(&self) -> u64 {
        let contents: usize = self.contents.iter().map(|content| content.json().len() + 1).sum();
        let tools = match &self.tools {
            ToolSet::Functions(declared) => declared.get().len(),
            _ => 0,
        };
        u64::try_from(contents + self.system.len() + tools).unwrap_or(u64::MAX)
    }
}

/// What tools a request offers.
#[derive(Debug, Clone)]
pub enum ToolSet {
    /// None.
    None,
    /// Function declarations: the JSON array, serialised once per session.
    Functions(std::sync::Arc<serde_json::value::RawValue>),
    /// The service's own web search.
    GoogleSearch,
    /// The service's own page reader.
    UrlContext,
}

/// Token counts of one response, as the service reports them. The last value in
/// a stream wins.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// Tokens of the prompt, cached ones included.
    pub prompt_token_count: u64,
    /// Tokens of the answer.
    pub candidates_token_count: u64,
    /// Those of the prompt that were cached.
    pub cached_content_token_count: u64,
    /// Tokens of thinking.
    pub thoughts_token_count: u64,
    /// Tokens of the service's own tools.
    pub tool_use_prompt_token_count: u64,
    /// All.
    pub total_token_count: u64,
}

impl Usage {
    /// Adds another.
    pub fn add(&mut self, other: &Self) {
        for (sum, tokens) in [
            (&mut self.prompt_token_count, other.prompt_token_count),
            (&mut self.candidates_token_count, other.candidates_token_count),
            (&mut self.cached_content_token_count, other.cached_content_token_count),
            (&mut self.thoughts_token_count, other.thoughts_token_count),
            (&mut self.tool_use_prompt_token_count, other.tool_use_prompt_token_count),
            (&mut self.total_token_count, other.total_token_count),
        ] {
            *sum = sum.saturating_add(tokens);
        }
    }
}

/// Why a stream ended, as the service says it. Unknown words are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FinishReason(pub String);

impl FinishReason {
    /// The service's word (`STOP`, `MAX_TOKENS`, `SAFETY`, …).
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// One piece of a response.
#[derive(Debug, Clone, Default)]
pub struct Chunk {
    /// The parts as received.
    pub parts: Vec<Part>,
    /// Why the stream ends, in its last chunk(s).
    pub finish: Option<FinishReason>,
    /// The service's explanation beside it.
    pub finish_message: Option<String>,
    /// Token counts so far.
    pub usage: Option<Usage>,
    /// The whole prompt was refused, with this reason.
    pub blocked: Option<String>,
    /// Sources of the answer: title and address.
    pub citations: Vec<Citation>,
    /// `groundingMetadata` as received (web search, page reader).
    pub grounding: Option<Value>,
    /// `urlContextMetadata` as received.
    pub url_context: Option<Value>,
    /// The model that answered.
    pub model_version: Option<String>,
    /// The service's id of the response.
    pub response_id: Option<String>,
}

/// A source of an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Citation {
    /// Its title, if known.
    #[serde(default)]
    pub title: Option<String>,
    /// Its address.
    #[serde(default)]
    pub uri: String,
}

impl Citation {
    /// The sources that `groundingMetadata` names, in its order, since other fields
    /// point to them by number; one that lacks an address has an empty one.
    pub fn of_grounding(grounding: &Value) -> impl Iterator<Item = Self> {
        let chunks = grounding.get("groundingChunks").and_then(Value::as_array);
        chunks.into_iter().flatten().map(|chunk| {
            let source =
                ["web", "retrievedContext", "maps"].iter().find_map(|kind| chunk.get(kind));
            let field = |name: &str| source?.get(name)?.as_str().map(str::to_owned);
            Self { title: field("title"), uri: field("uri").unwrap_or_default() }
        })
    }
}

/// What a stream yields.
#[derive(Debug, Clone)]
pub enum StreamEvent {
    /// A piece of the response.
    Chunk(Box<Chunk>),
    /// The request failed before any chunk and will be sent again.
    Retry(Retry),
}

/// A wait before another attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Retry {
    /// The attempt that failed, from 1.
    pub attempt: u32,
    /// How many there may be.
    pub max_attempts: u32,
    /// How long is waited, in milliseconds.
    pub delay_ms: u64,
    /// The class of the failure (`rate_limit`, `server`, `network`, …).
    pub class: String,
    /// The HTTP status, if there was one.
    pub status: Option<u16>,
    /// What the service or the network said, in one line.
    pub message: String,
    /// The model asked.
    pub model: String,
}

/// The whole of an answer to a utility call.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// All parts joined.
    pub parts: Vec<Part>,
    /// The last chunk's metadata, merged over the stream.
    pub meta: Chunk,
}

impl Answer {
    /// The visible text.
    pub fn text(&self) -> String {
        crate::content::Content::model(self.parts.clone()).visible_text()
    }
}

/// What a model takes and gives.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// Tokens of context.
    pub context: u64,
    /// Tokens of output.
    pub output: u64,
    /// Whether media may be nested in a function response.
    pub multimodal_tool_results: bool,
}

/// A failed request, by who can act.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ModelError {
    /// Cancelled by us.
    #[error("cancelled")]
    Cancelled,
    /// No or wrong credentials (401, 403).
    #[error("{message}")]
    Auth {
        /// HTTP status, if it came from the service.
        status: Option<u16>,
        /// What was said, and what to do.
        message: String,
    },
    /// The service does not know the model (404).
    #[error("{message}")]
    ModelNotFound {
        /// The model asked for.
        model: String,
        /// What was said, and what to do.
        message: String,
    },
    /// A quota is spent for longer than one waits.
    #[error("{message}")]
    Quota {
        /// Whether it is a daily quota.
        daily: bool,
        /// When it will be free again, where known.
        reset: Option<String>,
        /// HTTP status.
        status: u16,
        /// What was said, and what to do.
        message: String,
    },
    /// The service refused the request (400 and the like); the same request
    /// would fail again.
    #[error("{message}")]
    BadRequest {
        /// HTTP status.
        status: u16,
        /// `error.status` of the service (`INVALID_ARGUMENT`).
        code: Option<String>,
        /// What was said.
        message: String,
    },
    /// The service or the network failed, also after all retries before the
    /// first chunk; another attempt may work.
    #[error("{message}")]
    Unavailable {
        /// HTTP status, if there was one.
        status: Option<u16>,
        /// How long the service asks to wait.
        delay: Option<Duration>,
        /// The class as in [`Retry::class`].
        class: &'static str,
        /// What was said.
        message: String,
    },
    /// The stream broke after it began (cut, idle, bad JSON, an error object).
    #[error("{message}")]
    Broken {
        /// HTTP-like status of an error object inside the stream.
        status: Option<u16>,
        /// What happened.
        message: String,
        /// Whether another attempt may work.
        retryable: bool,
        /// How long the service asks to wait before it.
        delay: Option<Duration>,
    },
    /// A script or recording has no (fitting) answer.
    #[error("{message}")]
    Script {
        /// What was asked and what there was.
        message: String,
    },
}

impl ModelError {
    /// The HTTP status, where there is one.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Auth { status, .. }
            | Self::Unavailable { status, .. }
            | Self::Broken { status, .. } => *status,
            Self::Quota { status, .. } | Self::BadRequest { status, .. } => Some(*status),
            Self::ModelNotFound { .. } => Some(404),
            Self::Cancelled | Self::Script { .. } => None,
        }
    }
}

/// A model behind some wire (or a script).
pub trait Model: Send + Sync {
    /// Sends a request. Waits and retries before the first chunk happen inside
    /// and are told as [`StreamEvent::Retry`]; what breaks after the first
    /// chunk ends the stream with an error, and the engine decides.
    fn stream(
        &self,
        request: Request,
        cancel: CancellationToken,
    ) -> BoxStream<'static, Result<StreamEvent, ModelError>>;

    /// Sends a utility request (its own retries, no stream).
    fn generate(
        &self,
        request: Request,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Result<Answer, ModelError>>;

    /// What the named model takes.
    fn limits(&self, model: &str) -> Limits;

    /// The concrete model for an alias (`auto`, `pro`, `flash`, …), decided
    /// locally; other names come back as they are.
    fn resolve(&self, name: &str) -> String;

    /// The model behind this one, where this one only listens to the requests on
    /// their way: it answers all that is asked of models below.
    fn behind(&self) -> Option<&dyn Model> {
        None
    }

    /// The generation settings that a request goes out with: its own, and what the
    /// provider adds to them. Thinking is left out, which is each family's own.
    fn generation(&self, request: &Request) -> Object {
        self.behind().map_or_else(|| request.generation.clone(), |model| model.generation(request))
    }

    /// The concrete model for a utility call (`web-search`, `web-fetch`, …),
    /// given the main model.
    fn utility(&self, name: &str, main: &str) -> String {
        self.behind().map_or_else(|| main.to_owned(), |model| model.utility(name, main))
    }

    /// The name that settings know a utility call by, given the main model: some
    /// have one for each family (`chat-compression-2.5-pro`).
    fn utility_alias(&self, name: &str, main: &str) -> String {
        self.behind().map_or_else(|| name.to_owned(), |model| model.utility_alias(name, main))
    }

    /// The models among which a name (`auto`) chooses; `None` when it means one.
    fn routes(&self, name: &str) -> Option<Routes> {
        self.behind()?.routes(name)
    }

    /// Who stands in for a model that cannot answer, in order. `chosen`: the
    /// program chose the model, not a person.
    fn fallback_models(&self, model: &str, chosen: bool) -> Vec<FallbackModel> {
        self.behind().map(|behind| behind.fallback_models(model, chosen)).unwrap_or_default()
    }

    /// The most attempts of a request before another model is thought of; `None`:
    /// as many as usual.
    fn attempts(&self, model: &str, chosen: bool) -> Option<u32> {
        self.behind()?.attempts(model, chosen)
    }

    /// Whether a model that had no capacity is tried once in the next prompt,
    /// instead of being left alone for a while.
    fn retries_next_prompt(&self, model: &str, chosen: bool) -> bool {
        self.behind().map_or(chosen, |behind| behind.retries_next_prompt(model, chosen))
    }

    /// What the named model costs, where that is known.
    fn price(&self, model: &str) -> Option<Price> {
        self.behind()?.price(model)
    }

    /// Whether the answers are scripted or replayed, so that no face passes
    /// them off as a model's.
    fn is_scripted(&self) -> bool {
        self.behind().is_some_and(Model::is_scripted)
    }
}

/// Per-model counters of a session, as the json output prints them.
pub type UsageByModel = BTreeMap<String, Usage>;
