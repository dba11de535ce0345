//! Sampling: a server asks the model for an answer. The user approves this for one request or for
//! the session, and a token budget limits each server. The messages of the server reach the model
//! in a separate request, without tools and without any content of the session, and only the server
//! receives the answer.

#![expect(deprecated, reason = "current servers still use sampling")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parallax_protocol::content::{Content, Part, SealedContent};
use parallax_protocol::model::{
    Answer as Reply, FinishReason, Model, ModelError, Request, ToolSet,
};
use parallax_protocol::{CancellationToken, Object};
use rmcp::model::{
    CreateMessageRequestParams, CreateMessageResult, ErrorCode, ErrorData, Role, SamplingMessage,
    SamplingMessageContentBlock,
};
use serde_json::{Value, json};
use tokio::sync::{Mutex, Semaphore};

use crate::media::media_type;
use crate::user_requests::{TIMEOUT, UserRequest, UserRequestHandler, UserResponse};

/// The role of these requests in statistics, and their alias in `modelConfigs`.
const ROLE: &str = "mcp_sampling";
/// Maximum messages of one request.
const MAX_MESSAGES: usize = 200;
/// Maximum base64 characters of images and audio of one request.
const MAX_MEDIA: usize = 8 * 1024 * 1024;
/// Estimated tokens of an image or audio.
const TOKENS_OF_MEDIA: u64 = 1_000;
/// Estimated bytes per token.
const BYTES_OF_TOKEN: usize = 4;
/// Maximum waiting requests of one server.
const MAX_WAITING: usize = 8;
/// The error code of the protocol for a request that the user rejected.
const REFUSED: ErrorCode = ErrorCode(-1);

/// What answers sampling requests.
#[derive(Clone)]
pub struct Sampling {
    /// The model.
    pub model: Arc<dyn Model>,
    /// Returns the name of the session's current model.
    pub main: Arc<dyn Fn() -> String + Send + Sync>,
    /// Tokens that one server may use in the session for prompts and answers; 0 disables sampling.
    pub tokens: u64,
}

/// The tokens that one server has used, and the user's response for the rest of the session.
pub(crate) struct SamplingBudget {
    used_tokens: AtomicU64,
    /// The user's response for the rest of the session, once given. Locked while a request is
    /// answered, so that the next one includes the tokens of this one.
    session_response: Mutex<Option<bool>>,
    permits: Semaphore,
}

impl Default for SamplingBudget {
    fn default() -> Self {
        Self {
            used_tokens: AtomicU64::new(0),
            session_response: Mutex::new(None),
            permits: Semaphore::new(MAX_WAITING),
        }
    }
}

/// A parsed request from a server.
struct SamplingPrompt {
    system: String,
    contents: Vec<SealedContent>,
    /// The text, for the user.
    display_text: String,
    /// The estimated tokens of the prompt.
    tokens: u64,
}

impl SamplingBudget {
    /// Answers a request of `server`, if the user approves.
    pub(crate) async fn answer(
        &self,
        server: &str,
        params: CreateMessageRequestParams,
        asker: Option<Arc<dyn UserRequestHandler>>,
        sampling: Option<Sampling>,
        cancel: CancellationToken,
    ) -> Result<CreateMessageResult, ErrorData> {
        let Some((asker, sampling)) = asker.zip(sampling) else {
            return Err(invalid_request(
                "sampling was denied: it requires approval, and no user is present",
            ));
        };
        if sampling.tokens == 0 {
            return Err(invalid_request("sampling is disabled (`mcp.samplingTokens` is 0)"));
        }
        let Ok(_place) = self.permits.try_acquire() else {
            return Err(invalid_request("too many sampling requests are pending"));
        };
        let mut session_response = self.session_response.lock().await;
        let remaining_tokens =
            sampling.tokens.saturating_sub(self.used_tokens.load(Ordering::Acquire));
        let sampling_prompt = read(&params)?;
        if sampling_prompt.tokens >= remaining_tokens {
            return Err(invalid_request(&format!(
                "the sampling budget of this server for this session is used up ({remaining_tokens} of {} tokens are left, \
                 the prompt alone needs about {})",
                sampling.tokens, sampling_prompt.tokens
            )));
        }
        let longest =
            u64::from(params.max_tokens).clamp(1, remaining_tokens - sampling_prompt.tokens);
        if session_response.is_none() {
            let question = UserRequest::Sample {
                system: sampling_prompt.system.clone(),
                prompt: sampling_prompt.display_text.clone(),
                tokens: longest,
                remaining_tokens,
            };
            let user_request = tokio::time::timeout(TIMEOUT, asker.ask(server, question));
            let answer = tokio::select! {
                biased;
                () = cancel.cancelled() => UserResponse::Cancel,
                answer = user_request => answer.unwrap_or(UserResponse::Cancel),
            };
            match answer {
                UserResponse::Accept(_) => {}
                UserResponse::Always => *session_response = Some(true),
                UserResponse::Never => *session_response = Some(false),
                UserResponse::Decline | UserResponse::Cancel => {
                    return Err(invalid_request("the user rejected the sampling request"));
                }
            }
        }
        if *session_response == Some(false) {
            return Err(invalid_request("the user rejected sampling for this session"));
        }
        let estimate = sampling_prompt.tokens;
        let model = sampling.model.catalog().utility(ROLE, &(sampling.main)());
        let request = request(model.clone(), sampling_prompt, &params, longest);
        // Counted in advance, because a request that is cancelled may still have cost as much as
        // its prompt.
        let before = self.used_tokens.fetch_add(estimate, Ordering::AcqRel);
        let reply = sampling.model.generate(request, cancel).await;
        if let Some(usage) = reply.as_ref().ok().and_then(|reply| reply.metadata.usage) {
            let used = usage.total.max(usage.prompt + usage.output);
            // Requests from a server are answered one at a time.
            self.used_tokens.store(before + used, Ordering::Release);
        }
        result(reply, model)
    }
}

fn invalid_request(reason: &str) -> ErrorData {
    ErrorData::new(REFUSED, reason.to_owned(), None)
}

/// Parses the messages: text, images, and audio. Tool calls and results are not supported, because
/// no tools are offered.
fn read(params: &CreateMessageRequestParams) -> Result<SamplingPrompt, ErrorData> {
    let invalid = |reason: &str| ErrorData::invalid_params(reason.to_owned(), None);
    if params.tools.as_ref().is_some_and(|tools| !tools.is_empty()) {
        return Err(invalid("sampling with tools is not supported"));
    }
    if params.messages.is_empty() {
        return Err(invalid("a sampling request requires a message"));
    }
    if params.messages.len() > MAX_MESSAGES {
        return Err(invalid("a sampling request has too many messages"));
    }
    let system = params.system_prompt.clone().unwrap_or_default();
    let (mut contents, mut shown) = (Vec::new(), Vec::new());
    let (mut bytes, mut media, mut pieces) = (system.len(), 0, 0);
    for message in &params.messages {
        let mut parts = Vec::new();
        for block in message.content.clone().into_vec() {
            let (kind, data) = match block {
                SamplingMessageContentBlock::Text(text) => {
                    bytes += text.text.len();
                    shown.push(match message.role {
                        Role::User => text.text.clone(),
                        Role::Assistant => format!("(assistant message:) {}", text.text),
                    });
                    parts.push(Part::text(text.text));
                    continue;
                }
                SamplingMessageContentBlock::Image(image) => (image.mime_type, image.data),
                SamplingMessageContentBlock::Audio(audio) => (audio.mime_type, audio.data),
                _ => return Err(invalid("only text, images, and audio are supported")),
            };
            let Some(kind) = media_type(&kind).map(str::to_owned) else {
                return Err(invalid("a sampling request has an invalid `mimeType`"));
            };
            media += data.len();
            pieces += 1;
            shown.push(format!("[{kind}]"));
            parts.push(Part::inline_data(kind, &data));
        }
        if media > MAX_MEDIA {
            return Err(invalid("the images and audio of a sampling request are too large"));
        }
        contents.push(match message.role {
            Role::User => Content::user(parts).seal(),
            Role::Assistant => Content::model(parts).seal(),
        });
    }
    let tokens = u64::try_from(bytes / BYTES_OF_TOKEN).unwrap_or(u64::MAX);
    let tokens = tokens.saturating_add(TOKENS_OF_MEDIA * pieces);
    Ok(SamplingPrompt { system, contents, display_text: shown.join("\n\n"), tokens })
}

fn request(
    model: String,
    prompt: SamplingPrompt,
    params: &CreateMessageRequestParams,
    longest: u64,
) -> Request {
    let mut generation = Object::new();
    generation.insert("maxOutputTokens".into(), json!(longest));
    if let Some(temperature) = params.temperature.filter(|set| (0.0..=2.0).contains(set)) {
        generation.insert("temperature".into(), json!(f64::from(temperature)));
    }
    let stop: Vec<&String> = params.stop_sequences.iter().flatten().take(5).collect();
    if !stop.is_empty() {
        generation.insert("stopSequences".into(), json!(stop));
    }
    Request {
        model,
        system: Arc::from(prompt.system),
        contents: prompt.contents,
        tools: ToolSet::None,
        generation,
        role: ROLE.to_owned(),
        alias: String::new(),
        max_attempts: None,
        has_fallback: false,
        is_retry: false,
        continuation: None,
    }
}

fn result(
    reply: Result<Reply, ModelError>,
    model: String,
) -> Result<CreateMessageResult, ErrorData> {
    let failed = |why: String| ErrorData::internal_error(why, None::<Value>);
    let reply = reply.map_err(|error| failed(format!("the model did not respond: {error}")))?;
    if let Some(reason) = &reply.metadata.blocked {
        return Err(failed(format!("the service blocked the prompt ({reason})")));
    }
    let stopped = match reply.metadata.finish.as_ref().map(|finish| finish.reason) {
        Some(FinishReason::MaxTokens) => CreateMessageResult::STOP_REASON_END_MAX_TOKEN,
        _ => CreateMessageResult::STOP_REASON_END_TURN,
    };
    let model = reply.metadata.model_version.clone().unwrap_or(model);
    let message = SamplingMessage::assistant_text(reply.text());
    Ok(CreateMessageResult::new(message, model).with_stop_reason(stopped))
}
