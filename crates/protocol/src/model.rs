//! The interface to models: requests, streams of chunks, and errors classified by who can act.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::content::{Part, SealedContent};
use crate::grounding::{Grounding, PageReads};
use crate::price::Price;
use crate::routing::{FallbackModel, Routes};
use crate::{BoxFuture, BoxStream, CancellationToken, Object};

pub use crate::grounding::Citation;
pub use crate::usage::Usage;

/// A request in provider-neutral terms. Serializing the same request twice produces the same bytes.
#[derive(Debug, Clone)]
pub struct Request {
    /// The model id, after alias resolution.
    pub model: String,
    /// The system prompt; empty = none.
    pub system: std::sync::Arc<str>,
    /// The contents, oldest first.
    pub contents: Vec<SealedContent>,
    /// The tools that are offered.
    pub tools: ToolSet,
    /// Generation settings of the user or the caller, with wire names (`temperature`,
    /// `responseJsonSchema`, …). The provider adds defaults of the model family, including
    /// thinking, for absent keys.
    pub generation: Object,
    /// The purpose of the request: `main`, or the name of a utility request (`web_search`, …).
    pub role: String,
    /// The name that settings use for the request: the requested name before resolution (an alias,
    /// `auto`), or the name of a utility request where it differs from the role. Empty: the role.
    pub alias: String,
    /// Maximum number of attempts; `None`: the provider's default.
    pub max_attempts: Option<u32>,
    /// Whether a fallback model is available: a model without capacity is then retried only twice,
    /// within seconds instead of minutes.
    pub has_fallback: bool,
    /// Whether an earlier response to the same request was unusable (empty, cut off), so that the
    /// user's settings for retries apply.
    pub is_retry: bool,
    /// The token from which the service continues an answer that another process received in part.
    pub continuation: Option<String>,
}

impl Request {
    /// Returns the size of contents, system prompt, and tools, in bytes of JSON. Generation
    /// settings, a few hundred bytes, are not counted.
    pub fn bytes(&self) -> u64 {
        let contents: usize = self.contents.iter().map(|content| content.json().len() + 1).sum();
        let tools = match &self.tools {
            ToolSet::Functions(declared) => declared.get().len(),
            _ => 0,
        };
        u64::try_from(contents + self.system.len() + tools).unwrap_or(u64::MAX)
    }
}

/// The tools that a request offers.
#[derive(Debug, Clone)]
pub enum ToolSet {
    /// No tools.
    None,
    /// Function declarations: the JSON array, serialized once per session.
    Functions(std::sync::Arc<serde_json::value::RawValue>),
    /// The provider's hosted web search.
    WebSearch,
    /// The provider's hosted page reader.
    UrlContext,
}

/// Why a response ended, for every provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReason {
    /// The response is complete.
    Stop,
    /// It is complete and requests tool calls.
    ToolCalls,
    /// It reached the output limit.
    MaxTokens,
    /// The provider refused to answer.
    Refused(Refusal),
    /// The model wrote a function call that is not valid.
    MalformedCall,
    /// The context window is full.
    ContextFull,
    /// The response reached its own limit, and a token continues it.
    Continue,
    /// The provider paused a long turn; the same request continues it.
    Paused,
    /// The model called a tool where none was offered.
    UnexpectedCall,
    /// The provider ended the response and names no reason.
    Other,
    /// A reason that this version does not recognize.
    Unknown,
}

/// Why a provider refused to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// A safety filter, or the model itself.
    Safety,
    /// The answer would repeat protected material.
    Recitation,
}

/// The end of a response: the reason, and the provider's own word for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finish {
    /// The reason.
    pub reason: FinishReason,
    /// The provider's word (`STOP`, `tool_calls`, `end_turn`, …).
    pub provider_reason: String,
}

impl Finish {
    /// Creates it from the reason and the provider's word.
    pub fn new(reason: FinishReason, word: impl Into<String>) -> Self {
        Self { reason, provider_reason: word.into() }
    }

    /// Creates it from a word of the Gemini API.
    pub fn from_gemini_word(word: impl Into<String>) -> Self {
        let provider_reason = word.into();
        let reason = match provider_reason.as_str() {
            "STOP" => FinishReason::Stop,
            "MAX_TOKENS" => FinishReason::MaxTokens,
            "CONTINUATION" => FinishReason::Continue,
            "RECITATION" => FinishReason::Refused(Refusal::Recitation),
            "SAFETY"
            | "PROHIBITED_CONTENT"
            | "BLOCKLIST"
            | "SPII"
            | "LANGUAGE"
            | "MODEL_ARMOR"
            | "ESCALATION"
            | "PUP_LIMITED_DISABLED" => FinishReason::Refused(Refusal::Safety),
            word if word.starts_with("IMAGE_") => FinishReason::Refused(Refusal::Safety),
            "MALFORMED_FUNCTION_CALL" | "MALFORMED_RESPONSE" | "MISSING_THOUGHT_SIGNATURE" => {
                FinishReason::MalformedCall
            }
            "UNEXPECTED_TOOL_CALL" => FinishReason::UnexpectedCall,
            "OTHER" | "NO_IMAGE" | "TOO_MANY_TOOL_CALLS" => FinishReason::Other,
            _ => FinishReason::Unknown,
        };
        Self { reason, provider_reason }
    }

    /// Returns the word that hooks, recordings, and output formats print, which use those of the
    /// Gemini API (always in upper case).
    pub fn gemini_word(&self) -> &str {
        if self.provider_reason.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_') {
            return &self.provider_reason;
        }
        match self.reason {
            FinishReason::Stop
            | FinishReason::ToolCalls
            | FinishReason::Paused
            | FinishReason::Unknown => "STOP",
            FinishReason::MaxTokens | FinishReason::ContextFull | FinishReason::Continue => {
                "MAX_TOKENS"
            }
            FinishReason::Refused(Refusal::Safety) => "SAFETY",
            FinishReason::Refused(Refusal::Recitation) => "RECITATION",
            FinishReason::MalformedCall => "MALFORMED_FUNCTION_CALL",
            FinishReason::UnexpectedCall => "UNEXPECTED_TOOL_CALL",
            FinishReason::Other => "OTHER",
        }
    }
}

/// One piece of a response.
#[derive(Debug, Clone, Default)]
pub struct Chunk {
    /// The parts as received.
    pub parts: Vec<Part>,
    /// Why the stream ends, in its last chunk(s).
    pub finish: Option<Finish>,
    /// The service's explanation of the finish reason.
    pub finish_message: Option<String>,
    /// Token counts so far.
    pub usage: Option<Usage>,
    /// The reason why the whole prompt was blocked, if it was.
    pub blocked: Option<String>,
    /// Sources of the answer: title and URI.
    pub citations: Vec<Citation>,
    /// What the answer is based on, if the service searched the web or read pages.
    pub grounding: Option<Grounding>,
    /// The pages that the service read.
    pub page_reads: Option<PageReads>,
    /// A token from which the service can continue the answer.
    pub continuation: Option<String>,
    /// The model that answered, as the service names it.
    pub model_version: Option<String>,
    /// The service's id of the response.
    pub response_id: Option<String>,
}

/// What a stream yields.
#[derive(Debug, Clone)]
pub enum StreamEvent {
    /// A piece of the response.
    Chunk(Box<Chunk>),
    /// The response ended, and the next request, which is not sent before this event is read,
    /// continues the answer.
    NextHop,
    /// The request failed before any chunk and will be sent again.
    Retry(Retry),
    /// The provider changed how it sends requests; a message for the user.
    Notice(String),
}

/// A wait before the next attempt of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Retry {
    /// The number of the failed attempt, from 1.
    pub attempt: u32,
    /// The maximum number of attempts.
    pub max_attempts: u32,
    /// The delay in milliseconds.
    pub delay_ms: u64,
    /// The class of the failure (`rate_limit`, `server`, `network`, …).
    pub class: String,
    /// The HTTP status, if there was one.
    pub status: Option<u16>,
    /// The message from the service or the network, in one line.
    pub message: String,
    /// The requested model.
    pub model: String,
}

impl Retry {
    /// The class of requests that the service accepted, but did not answer in time.
    pub const TIMEOUT: &str = "timeout";
}

/// The complete answer to a utility request.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// All parts, joined where possible.
    pub parts: Vec<Part>,
    /// The metadata, merged over all chunks.
    pub metadata: Chunk,
}

impl Answer {
    /// Adds a chunk: parts are joined where possible, and later metadata replaces earlier.
    pub fn push(&mut self, chunk: Chunk) {
        for part in chunk.parts {
            let apart = match self.parts.last_mut() {
                Some(last) => last.try_join(part),
                None => Err(part),
            };
            if let Err(part) = apart {
                self.parts.push(part);
            }
        }
        let meta = &mut self.metadata;
        meta.finish = chunk.finish.or(meta.finish.take());
        meta.finish_message = chunk.finish_message.or(meta.finish_message.take());
        meta.usage = chunk.usage.or(meta.usage);
        meta.blocked = chunk.blocked.or(meta.blocked.take());
        meta.citations.extend(chunk.citations);
        meta.grounding = chunk.grounding.or(meta.grounding.take());
        meta.page_reads = chunk.page_reads.or(meta.page_reads.take());
        meta.model_version = chunk.model_version.or(meta.model_version.take());
        meta.response_id = chunk.response_id.or(meta.response_id.take());
    }

    /// Adds the answer that continues this one. The prompt tokens of the first request are kept.
    pub fn add(&mut self, next: Self) {
        let usage = match (self.metadata.usage, next.metadata.usage) {
            (Some(first), Some(second)) => Some(first.with_continuation(&second)),
            (first, second) => second.or(first),
        };
        self.push(Chunk { parts: next.parts, usage, ..next.metadata });
    }

    /// Returns the visible text.
    pub fn text(&self) -> String {
        crate::content::Content::model(self.parts.clone()).visible_text()
    }
}

/// Tools that a provider runs itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostedTools {
    /// [`ToolSet::WebSearch`].
    pub search: bool,
    /// [`ToolSet::UrlContext`].
    pub page_reader: bool,
}

/// The limits and abilities of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// The size of the context window, in tokens.
    pub context: u64,
    /// The maximum output, in tokens.
    pub output: u64,
    /// Whether function responses may contain media.
    pub multimodal_tool_results: bool,
    /// Whether thoughts and output also count towards `context`.
    pub shared_window: bool,
}

impl Limits {
    /// Returns the maximum prompt size in tokens: in a shared window, space for the output is
    /// reserved, but at most half of the window.
    pub fn prompt(&self) -> u64 {
        match self.shared_window {
            true => self.context - self.output.min(self.context / 2),
            false => self.context,
        }
    }
}

/// Whether an error from a service says that a request is too long for its model, judged by its
/// error code or its message. Other lengths (of an id, a name, a list, the output) do not count.
pub fn is_context_overflow(code: Option<&str>, message: &str) -> bool {
    const CODES: &[&str] = &["context_length_exceeded", "exceed_context_size_error"];
    const WORDS: &[&str] = &[
        "context length",
        "context size",
        "context window",
        "context limit",
        "prompt is too long",
        "prompt too long",
        "input is too long",
        "input too long",
        "request is too long",
        "conversation is too long",
        "messages too long",
        "maximum prompt length",
        "reduce the length of the messages",
        "input length exceed",
        "token limit",
        "exceeds max length",
        "range of input length",
        "`inputs` must have less than",
        "`inputs` tokens + `max_new_tokens`",
        "contextwindowexceeded",
    ];
    const OF_OUTPUT: &[&str] = &[
        "output token",
        "completion token",
        "max_tokens",
        "max_output_tokens",
        "max_completion_tokens",
        "maxoutputtokens",
    ];
    let lower = message.to_lowercase();
    let has_any = |words: &[&str]| words.iter().any(|words| lower.contains(words));
    let counted = lower.contains("token") && has_any(&["exceed", "maximum", "too many"]);
    code.is_some_and(|code| CODES.contains(&code))
        || (!is_rate_limit(message) && (has_any(WORDS) || (counted && !has_any(OF_OUTPUT))))
}

/// Whether an error from a service is about the tokens or requests of a period, not about the
/// length of one request.
pub fn is_rate_limit(message: &str) -> bool {
    const WORDS: &[&str] =
        &["per minute", "per hour", "per day", "rate limit", "ratelimit", "throttl", "quota"];
    let lower = message.to_lowercase();
    WORDS.iter().any(|word| lower.contains(word))
}

/// An error of a model request, classified by who can act.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ModelError {
    /// The request was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// Missing or wrong credentials (401, 403).
    #[error("{message}")]
    Auth {
        /// HTTP status, if it came from the service.
        status: Option<u16>,
        /// The message, and what to do.
        message: String,
    },
    /// The service does not know the model (404).
    #[error("{message}")]
    ModelNotFound {
        /// The model asked for.
        model: String,
        /// The message, and what to do.
        message: String,
    },
    /// A quota is exhausted for longer than Parallax waits.
    #[error("{message}")]
    Quota {
        /// Whether it is a daily quota.
        daily: bool,
        /// When the quota resets, if known.
        reset: Option<String>,
        /// HTTP status.
        status: u16,
        /// The message, and what to do.
        message: String,
    },
    /// The service rejected the request (400 and similar); the same request would fail again.
    #[error("{message}")]
    BadRequest {
        /// HTTP status.
        status: u16,
        /// The `error.status` of the service (`INVALID_ARGUMENT`).
        code: Option<String>,
        /// The message.
        message: String,
    },
    /// The service or the network failed and all retries before the first chunk failed; a later
    /// attempt may succeed.
    #[error("{message}")]
    Unavailable {
        /// HTTP status, if there was one.
        status: Option<u16>,
        /// The delay that the service requests.
        delay: Option<Duration>,
        /// The class, as in [`Retry::class`].
        class: &'static str,
        /// The message.
        message: String,
    },
    /// The stream failed after it began (cut off, idle, invalid JSON, an error object).
    #[error("{message}")]
    Broken {
        /// The status of an error object inside the stream.
        status: Option<u16>,
        /// What happened.
        message: String,
        /// Whether another attempt may succeed.
        retryable: bool,
        /// The delay before it that the service requests.
        delay: Option<Duration>,
    },
    /// A script or recording has no matching answer.
    #[error("{message}")]
    Script {
        /// What was requested, and what was available.
        message: String,
    },
}

impl ModelError {
    /// Returns the HTTP status, if there is one.
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

/// A connection to the models of one provider, or a script.
pub trait Model: Send + Sync {
    /// Sends a request. Waits and retries before the first chunk are reported as
    /// [`StreamEvent::Retry`]; a failure after the first chunk ends the stream with an error, and
    /// the engine decides what to do.
    fn stream(
        &self,
        request: Request,
        cancel: CancellationToken,
    ) -> BoxStream<'static, Result<StreamEvent, ModelError>>;

    /// Sends a utility request, which is not streamed and has its own retries.
    fn generate(
        &self,
        request: Request,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Result<Answer, ModelError>>;

    /// Returns the catalog of models.
    fn catalog(&self) -> &dyn ModelCatalog;

    /// Returns the address of the service that requests for a model were sent to, if it is known
    /// without opening a connection.
    fn server_address(&self, _model: &str) -> Option<ServerAddress> {
        None
    }
}

/// The address of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerAddress {
    /// The host name or IP address.
    pub host: String,
    /// The port.
    pub port: Option<u16>,
}

/// Information about models that is available without a request: names, limits, prices, routes, and
/// fallback models.
pub trait ModelCatalog: Send + Sync {
    /// Returns the limits of a model.
    fn limits(&self, model: &str) -> Limits;

    /// Returns the concrete model for an alias (`auto`, `pro`, `flash`, …), decided locally; other
    /// names are returned unchanged.
    fn resolve(&self, name: &str) -> String;

    /// Returns the generation settings that a request is sent with: its own and what the provider
    /// adds. Settings for thinking, which differ by family, are omitted.
    fn generation(&self, request: &Request) -> Object {
        request.generation.clone()
    }

    /// Returns the generation settings that the request and the user's settings contain, without
    /// anything that a provider adds.
    fn configured_generation(&self, request: &Request) -> Object {
        request.generation.clone()
    }

    /// Returns the concrete model for a utility request (`web-search`, `web-fetch`, …), given the
    /// main model.
    fn utility(&self, _name: &str, main: &str) -> String {
        main.to_owned()
    }

    /// Returns the name that settings use for a utility request, given the main model: some have
    /// one for each family (`chat-compression-2.5-pro`).
    fn utility_alias(&self, name: &str, _main: &str) -> String {
        name.to_owned()
    }

    /// Whether a model reads data of this MIME type, as far as the user's settings say.
    fn accepts_mime(&self, _model: &str, _mime: &str) -> bool {
        true
    }

    /// Whether a model thinks; `None` if it is unknown.
    fn thinks(&self, _model: &str) -> Option<bool> {
        None
    }

    /// Records the context window of a model that a service stated, in tokens.
    fn note_context(&self, _model: &str, _tokens: u64) {}

    /// Returns which tools the provider of a model runs itself.
    fn hosted_tools(&self, _model: &str) -> HostedTools {
        HostedTools { search: true, page_reader: true }
    }

    /// Returns the models that a name such as `auto` chooses from; `None` if it means a single
    /// model.
    fn routes(&self, _name: &str) -> Option<Routes> {
        None
    }

    /// Returns the fallback models for an unavailable model, in order. `chosen`: the program chose
    /// the model, not the user.
    fn fallback_models(&self, _model: &str, _chosen: bool) -> Vec<FallbackModel> {
        Vec::new()
    }

    /// Returns the maximum number of attempts before a fallback model is considered; `None`: the
    /// usual number.
    fn attempts(&self, _model: &str, _chosen: bool) -> Option<u32> {
        None
    }

    /// Whether a model without capacity is tried once at the next prompt instead of being
    /// skipped for a while.
    fn retries_next_prompt(&self, _model: &str, chosen: bool) -> bool {
        chosen
    }

    /// Returns the price of a model, if known.
    fn price(&self, _model: &str) -> Option<Price> {
        None
    }

    /// Whether responses are scripted or replayed, so that no front end presents them as a
    /// model's.
    fn is_scripted(&self) -> bool {
        false
    }
}

/// Token counts of a session by model, as the JSON output prints them.
pub type UsageByModel = BTreeMap<String, Usage>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_length_of_the_whole_request_is_an_overflow() {
        for message in [
            "prompt is too long: 200001 tokens > 200000 maximum",
            "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
            "the request exceeds the available context size, try increasing it",
            "This model's maximum context length is 4096 tokens. However, you requested 5000 \
             tokens (4000 in the messages, 1000 in the completion).",
            "The input token count (1048577) exceeds the maximum number of tokens allowed",
            "Input is too long for requested model.",
            "Please reduce the length of the messages or completion.",
            "Your request exceeded model token limit: 128000",
            "prompt token count of 130000 exceeds the limit of 128000",
            "too many tokens: total number of tokens in the prompt cannot exceed 4081",
            "Prompt exceeds max length",
            "Range of input length should be [1, 129024]",
            "`inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000 `inputs` tokens",
            "`inputs` must have less than 4096 tokens. Given: 5000",
            "litellm.ContextWindowExceededError: no",
        ] {
            assert!(is_context_overflow(None, message), "{message}");
        }
        for message in [
            "Invalid 'input[1].call_id': string too long. Expected a string with maximum length 64",
            "tools[3].function.name: string too long",
            "Invalid 'tools': array too long. Expected an array with maximum length 128",
            "max_tokens: 200000 > 64000, which is the maximum allowed number of output tokens",
            "maxOutputTokens exceeds the maximum of 8192 tokens",
            "max_completion_tokens is too large: 65536. This model supports at most 16384 \
             completion tokens, whereas you provided 65536.",
            "Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested \
             8000, please reduce your message size and try again. Too many tokens",
            "ThrottlingException: Too many tokens, please wait before trying again.",
            "You exceeded your current quota of input tokens per day",
        ] {
            assert!(!is_context_overflow(None, message), "{message}");
        }
        assert!(is_context_overflow(Some("context_length_exceeded"), "no"));
    }
}
