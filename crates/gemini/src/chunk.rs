//! Parses one stream event into a [`Chunk`].

use std::collections::BTreeMap;

use parallax_model_http::{ErrorPayload, ErrorResponse};
use parallax_protocol::content::Part;
use parallax_protocol::model::{Chunk, Citation, Finish, ModelError, Usage};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::credential_hints::CREDENTIALS;
use crate::error_classification::classify;
use crate::grounding::{parse_grounding, parse_page_reads};

/// Why an event could not be parsed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ChunkError {
    /// It is not JSON.
    NotJson,
    /// It is an error from the service.
    Refused(Box<ErrorPayload>),
}

/// Parses one stream event. Missing, null, and mistyped fields are omitted instead of failing the
/// whole event; parts keep their bytes.
///
/// # Errors
/// Returns an error if the data is not JSON or is an error object of the service. The message never
/// contains the data itself.
pub fn parse_chunk(data: &[u8]) -> Result<Chunk, ModelError> {
    read_chunk(data).map_err(|error| match error {
        ChunkError::NotJson => ModelError::Broken {
            status: None,
            message: NOT_JSON.to_owned(),
            retryable: true,
            delay: None,
        },
        ChunkError::Refused(payload) => ModelError::Broken {
            status: payload.code,
            retryable: payload.code.is_none_or(|code| matches!(code, 429 | 499 | 500..)),
            message: payload.message,
            delay: None,
        },
    })
}

/// Parses a chunk of a script in the format of the API. An error object has the same effect as from
/// the service. `is_first`: no chunk of the response preceded it.
///
/// # Errors
/// Returns an error if the data is not a JSON object or is an error object.
pub fn parse_scripted_chunk(data: &[u8], model: &str, is_first: bool) -> Result<Chunk, ModelError> {
    read_chunk(data).map_err(|error| match error {
        ChunkError::NotJson => {
            ModelError::Script { message: "a chunk of the script is not a JSON object".to_owned() }
        }
        ChunkError::Refused(payload) => {
            let status = payload.code.unwrap_or(500);
            let error_response = ErrorResponse { status, payload: *payload, retry_after: None };
            let class = classify(&error_response);
            match error_response.into_error(Some(model), class, CREDENTIALS) {
                ModelError::Unavailable { status, message, .. } if !is_first => {
                    ModelError::Broken { status, message, retryable: true, delay: None }
                }
                error => error,
            }
        }
    })
}

/// The message for a chunk that does not parse.
pub(crate) const NOT_JSON: &str = "a chunk of the response is not valid JSON";

pub(crate) fn read_chunk(data: &[u8]) -> Result<Chunk, ChunkError> {
    let text = String::from_utf8_lossy(data);
    // Almost every chunk has the documented form; the lenient path is for the others.
    if let Ok(WireResponse {
        error: None,
        candidates,
        prompt_feedback,
        usage_metadata,
        model_version,
        response_id,
    }) = serde_json::from_str::<WireResponse>(&text)
    {
        let mut chunk =
            Chunk { usage: usage_metadata, model_version, response_id, ..Chunk::default() };
        if let Some(feedback) = prompt_feedback {
            chunk.blocked = feedback.block_reason;
            chunk.finish_message = feedback.block_reason_message;
        }
        if let Some(candidate) = candidates.into_iter().next() {
            chunk.parts = candidate.content.map(|content| content.parts).unwrap_or_default();
            chunk.finish = candidate
                .finish_reason
                .filter(|word| !word.is_empty())
                .map(Finish::from_gemini_word);
            chunk.continuation = candidate.continuation_token.filter(|token| !token.is_empty());
            chunk.finish_message = candidate.finish_message.or(chunk.finish_message);
            chunk.citations = candidate.citation_metadata.map(|c| c.citations).unwrap_or_default();
            chunk.grounding = candidate.grounding_metadata.map(parse_grounding);
            chunk.page_reads = candidate.url_context_metadata.map(parse_page_reads);
        }
        return Ok(chunk);
    }
    read_leniently(&text)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct WireResponse {
    candidates: Vec<WireCandidate>,
    prompt_feedback: Option<WireFeedback>,
    usage_metadata: Option<Usage>,
    model_version: Option<String>,
    response_id: Option<String>,
    error: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireCandidate {
    content: Option<WireContent>,
    finish_reason: Option<String>,
    finish_message: Option<String>,
    continuation_token: Option<String>,
    citation_metadata: Option<WireCitations>,
    grounding_metadata: Option<Value>,
    url_context_metadata: Option<Value>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireContent {
    parts: Vec<Part>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireCitations {
    citations: Vec<Citation>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireFeedback {
    block_reason: Option<String>,
    block_reason_message: Option<String>,
}

type ChunkFields<'a> = BTreeMap<String, &'a RawValue>;

fn fields(raw: &RawValue) -> Option<ChunkFields<'_>> {
    serde_json::from_str(raw.get()).ok()
}

fn items(raw: &RawValue) -> Vec<&RawValue> {
    serde_json::from_str(raw.get()).unwrap_or_else(|_| vec![raw])
}

fn value(raw: &RawValue) -> Option<Value> {
    serde_json::from_str(raw.get()).ok().filter(|value: &Value| !value.is_null())
}

fn string(raw: &RawValue) -> Option<String> {
    match value(raw)? {
        Value::String(text) => (!text.is_empty()).then_some(text),
        other => Some(other.to_string()),
    }
}

fn read_leniently(text: &str) -> Result<Chunk, ChunkError> {
    let raw: &RawValue = serde_json::from_str(text).map_err(|_| ChunkError::NotJson)?;
    // Some proxies wrap a single response in an array.
    let raw = match items(raw).as_slice() {
        [only] => *only,
        _ => raw,
    };
    let fields = fields(raw).ok_or(ChunkError::NotJson)?;
    if fields.get("error").and_then(|raw| value(raw)).is_some() {
        let payload = value(raw).as_ref().and_then(ErrorPayload::from_value).unwrap_or_default();
        return Err(ChunkError::Refused(Box::new(payload)));
    }
    let mut chunk = Chunk {
        usage: fields.get("usageMetadata").and_then(|raw| usage(raw)),
        model_version: fields.get("modelVersion").and_then(|raw| string(raw)),
        response_id: fields.get("responseId").and_then(|raw| string(raw)),
        ..Chunk::default()
    };
    if let Some(feedback) = fields.get("promptFeedback").and_then(|raw| self::fields(raw)) {
        chunk.blocked = feedback.get("blockReason").and_then(|raw| string(raw));
        chunk.finish_message = feedback.get("blockReasonMessage").and_then(|raw| string(raw));
    }
    let candidates = fields.get("candidates").map(|raw| items(raw)).unwrap_or_default();
    if let Some(candidate) = candidates.first().and_then(|raw| self::fields(raw)) {
        let content = candidate.get("content").and_then(|raw| self::fields(raw));
        chunk.parts = content
            .and_then(|content| content.get("parts").map(|raw| items(raw)))
            .unwrap_or_default()
            .into_iter()
            .filter_map(|raw| serde_json::from_str(raw.get()).ok())
            .collect();
        chunk.finish =
            candidate.get("finishReason").and_then(|raw| string(raw)).map(Finish::from_gemini_word);
        chunk.continuation = candidate.get("continuationToken").and_then(|raw| string(raw));
        if let Some(message) = candidate.get("finishMessage").and_then(|raw| string(raw)) {
            chunk.finish_message = Some(message);
        }
        chunk.citations = candidate
            .get("citationMetadata")
            .and_then(|raw| self::fields(raw))
            .and_then(|metadata| metadata.get("citations").map(|raw| items(raw)))
            .unwrap_or_default()
            .into_iter()
            .filter_map(|raw| serde_json::from_str(raw.get()).ok())
            .collect();
        let raw = candidate.get("groundingMetadata").and_then(|raw| value(raw));
        chunk.grounding = raw.map(parse_grounding);
        let raw = candidate.get("urlContextMetadata").and_then(|raw| value(raw));
        chunk.page_reads = raw.map(parse_page_reads);
    }
    Ok(chunk)
}

/// Parses token counts that may be null, strings, or fractions.
fn usage(raw: &RawValue) -> Option<Usage> {
    let value = value(raw)?;
    let object = value.as_object()?;
    let count = |key: &str| {
        let value = object.get(key);
        let number = value.and_then(Value::as_u64);
        let text = || value?.as_str()?.trim().parse().ok();
        let float = || value?.as_f64().filter(|n| *n >= 0.0).map(|n| n as u64);
        number.or_else(text).or_else(float).unwrap_or(0)
    };
    Some(Usage {
        prompt: count("promptTokenCount"),
        output: count("candidatesTokenCount"),
        cached: count("cachedContentTokenCount"),
        thought: count("thoughtsTokenCount"),
        tool_prompt: count("toolUsePromptTokenCount"),
        cache_write: 0,
        total: count("totalTokenCount"),
        charged_cost: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn documented_chunk_is_parsed_completely() {
        let part = r#"{"thoughtSignature":"c2ln","functionCall":{"name":"x","args":{"n":1.50}}}"#;
        let text = format!(
            r#"{{"candidates":[{{"content":{{"parts":[{part}],"role":"model"}},"finishReason":"STOP","index":0,
            "citationMetadata":{{"citations":[{{"uri":"u","startIndex":1}}]}},"groundingMetadata":{{"a":1}}}}],
            "usageMetadata":{{"promptTokenCount":7,"promptTokensDetails":[]}},"modelVersion":"m","responseId":"r"}}"#
        );
        let chunk = read_chunk(text.as_bytes()).expect("a chunk");
        assert_eq!(serde_json::to_string(&chunk.parts).expect("json"), format!("[{part}]"));
        assert_eq!(chunk.finish, Some(Finish::from_gemini_word("STOP")));
        assert_eq!(chunk.usage.map(|usage| usage.prompt), Some(7));
        assert_eq!(chunk.citations, [Citation { title: None, uri: "u".into() }]);
        assert_eq!(chunk.model_version.as_deref(), Some("m"));
    }

    #[test]
    fn unexpected_types_do_not_drop_other_fields() {
        let chunk = read_chunk(
            br#"{"candidates":[{"content":{"parts":[null,{"text":"a"},7],"role":null},"finishReason":3,
            "citationMetadata":{"citations":[null,{"uri":"u"}]}}],"promptFeedback":null,"error":null,
            "usageMetadata":{"promptTokenCount":"12","totalTokenCount":null,"thoughtsTokenCount":2.0},"modelVersion":5}"#,
        )
        .expect("a chunk");
        assert_eq!(chunk.parts, [Part::text("a")]);
        assert_eq!(chunk.finish, Some(Finish::from_gemini_word("3")));
        let usage = chunk.usage.expect("usage");
        assert_eq!((usage.prompt, usage.thought), (12, 2));
        assert_eq!(chunk.citations.len(), 1);
        for text in [r#"{"candidates":null}"#, r#"{"candidates":[{"content":{}}]}"#, "{}"] {
            assert!(read_chunk(text.as_bytes()).expect("a chunk").parts.is_empty(), "{text}");
        }
    }

    #[test]
    fn error_chunks_are_distinguished() {
        let refused = |text: &str| match read_chunk(text.as_bytes()) {
            Err(ChunkError::Refused(payload)) => payload.code,
            _ => None,
        };
        assert_eq!(refused(r#"{"error":{"code":503,"message":"x"}}"#), Some(503));
        assert_eq!(refused(r#"[{"error":{"code":429,"message":"x"}}]"#), Some(429));
        let blocked = read_chunk(br#"{"promptFeedback":{"blockReason":"SAFETY"}}"#).expect("chunk");
        assert_eq!(blocked.blocked.as_deref(), Some("SAFETY"));
        assert_eq!(read_chunk(b"{\"a\":").err(), Some(ChunkError::NotJson));
        assert_eq!(read_chunk(b"7").err(), Some(ChunkError::NotJson));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(bytes: Vec<u8>, text in "[\\[\\]{}\",:a-z0-9]{0,80}") {
            let _ = (read_chunk(&bytes), read_chunk(text.as_bytes()));
        }
    }
}
