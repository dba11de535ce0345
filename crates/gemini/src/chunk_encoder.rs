//! Writes a [`Chunk`] in the format of the API, for recordings.

use parallax_protocol::content::Part;
use parallax_protocol::model::{Chunk, Citation, Finish, Usage};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// A chunk in the format of the API; parts keep their bytes.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireChunk<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    candidates: Option<[WireCandidate<'a>; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_feedback: Option<WireFeedback<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage_metadata: Option<Usage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model_version: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_id: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireCandidate<'a> {
    content: WireContent<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finish_reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finish_message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    citation_metadata: Option<WireCitations<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    grounding_metadata: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url_context_metadata: Option<&'a Value>,
}

#[derive(Serialize)]
struct WireContent<'a> {
    parts: &'a [Part],
    role: &'static str,
}

#[derive(Serialize)]
struct WireCitations<'a> {
    citations: &'a [Citation],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireFeedback<'a> {
    block_reason: &'a str,
}

/// Writes a chunk in the format of the API. `has_ids`: with the model's version and the id of the
/// response.
pub fn encode_chunk(chunk: &Chunk, has_ids: bool) -> Box<RawValue> {
    let parts = chunk.parts.as_slice();
    let has_candidate = !parts.is_empty()
        || chunk.finish.is_some()
        || !chunk.citations.is_empty()
        || chunk.grounding.is_some()
        || chunk.page_reads.is_some();
    let wire = WireChunk {
        candidates: has_candidate.then(|| {
            [WireCandidate {
                content: WireContent { parts, role: "model" },
                finish_reason: chunk.finish.as_ref().map(Finish::gemini_word),
                finish_message: chunk.finish_message.as_deref(),
                citation_metadata: (!chunk.citations.is_empty())
                    .then_some(WireCitations { citations: &chunk.citations }),
                grounding_metadata: chunk.grounding.as_ref().map(|it| &it.raw),
                url_context_metadata: chunk.page_reads.as_ref().map(|it| &it.raw),
            }]
        }),
        prompt_feedback: chunk.blocked.as_deref().map(|block_reason| WireFeedback { block_reason }),
        usage_metadata: chunk.usage,
        model_version: chunk.model_version.as_deref().filter(|_| has_ids),
        response_id: chunk.response_id.as_deref().filter(|_| has_ids),
    };
    // Strings and values cannot fail to serialize into memory.
    serde_json::value::to_raw_value(&wire).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
