//! Checks whether a finished stream is a valid response.

use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::excerpt::one_line;
use parallax_protocol::model::{FinishReason, Refusal};

use super::response_builder::ResponseBuilder;

/// Why a response is invalid, with the codes used in machine-readable output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InvalidResponse {
    NoFinishReason,
    MalformedFunctionCall,
    MissingSignature,
    UnexpectedToolCall,
    MaxTokensExceeded,
    SafetyBlocked,
    RecitationBlocked,
    OtherBlocked,
    ThinkingOnlyResponse,
    NoResponseText,
}

/// The finish reason for a history without a signature that the service requires.
const MISSING_SIGNATURE: &str = "MISSING_THOUGHT_SIGNATURE";

/// Maximum number of characters of a refusal in a message.
const REFUSAL: usize = 500;

/// Number of attempts for a request whose stream broke or was invalid.
pub(crate) const ATTEMPTS: u32 = 4;

impl InvalidResponse {
    /// Validates a stream that ended without a transport error. A stream with a call is always
    /// valid. `after_tool`: the request carried results, so a missing finish reason is tolerated.
    pub(crate) fn validate(answer: &ResponseBuilder, after_tool: bool) -> Option<Self> {
        if answer.has_calls() {
            return None;
        }
        let reason = answer.finish.as_ref().map(|finish| finish.reason);
        if answer.finish.as_ref().is_some_and(|finish| finish.provider_reason == MISSING_SIGNATURE)
        {
            return Some(Self::MissingSignature);
        }
        match reason {
            Some(FinishReason::MalformedCall) => return Some(Self::MalformedFunctionCall),
            Some(FinishReason::UnexpectedCall) => return Some(Self::UnexpectedToolCall),
            // A refusal is never valid, even after some text.
            Some(FinishReason::Refused(Refusal::Recitation)) => {
                return Some(Self::RecitationBlocked);
            }
            Some(FinishReason::Refused(Refusal::Safety)) => return Some(Self::SafetyBlocked),
            None if !after_tool => return Some(Self::NoFinishReason),
            _ => {}
        }
        if answer.has_visible_text() {
            return None;
        }
        match reason {
            Some(FinishReason::MaxTokens) => Some(Self::MaxTokensExceeded),
            Some(FinishReason::Other) => Some(Self::OtherBlocked),
            _ if !answer.thoughts.is_empty() => Some(Self::ThinkingOnlyResponse),
            // An empty response after results is retried: it must not pass as an answer.
            _ => Some(Self::NoResponseText),
        }
    }

    /// Returns the maximum number of attempts. A refusal is not retried, because it would only be
    /// repeated.
    pub(crate) fn max_attempts(self) -> u32 {
        match self {
            Self::SafetyBlocked | Self::RecitationBlocked => 1,
            Self::MaxTokensExceeded | Self::MissingSignature => 2,
            _ => ATTEMPTS,
        }
    }

    /// Whether the next attempt carries a note that asks for a response.
    pub(crate) fn needs_nudge(self) -> bool {
        matches!(self, Self::ThinkingOnlyResponse | Self::NoResponseText)
    }

    /// Returns the code for machine-readable output.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::NoFinishReason => "NO_FINISH_REASON",
            Self::MalformedFunctionCall => "MALFORMED_FUNCTION_CALL",
            Self::MissingSignature => "MISSING_SIGNATURE",
            Self::UnexpectedToolCall => "UNEXPECTED_TOOL_CALL",
            Self::MaxTokensExceeded => "MAX_TOKENS_EXCEEDED",
            Self::SafetyBlocked => "SAFETY_BLOCKED",
            Self::RecitationBlocked => "RECITATION_BLOCKED",
            Self::OtherBlocked => "OTHER_BLOCKED",
            Self::ThinkingOnlyResponse => "THINKING_ONLY_RESPONSE",
            Self::NoResponseText => "NO_RESPONSE_TEXT",
        }
    }

    /// Returns the failure reported when no attempt succeeded.
    pub(crate) fn failure(self, answer: &ResponseBuilder) -> Failure {
        let what = match self {
            Self::NoFinishReason => "the model's stream ended without a finish reason",
            Self::MalformedFunctionCall => "the model wrote a malformed function call",
            Self::MissingSignature => {
                "the service requires a thought signature that an earlier answer lacks"
            }
            Self::UnexpectedToolCall => "the model called a tool where none was allowed",
            Self::MaxTokensExceeded => {
                "the model used up its output tokens without a response; ask for less at once"
            }
            Self::SafetyBlocked => "the response was blocked by the service's safety filters",
            Self::RecitationBlocked => "the response was blocked because it recites a source",
            Self::OtherBlocked => {
                match answer.finish.as_ref().map(|finish| finish.provider_reason.as_str()) {
                    Some("TOO_MANY_TOOL_CALLS") => {
                        "the service ended the response because of too many tool calls in a row"
                    }
                    Some("NO_IMAGE") => "the service should have returned an image, but did not",
                    _ => "the service returned no response and no reason",
                }
            }
            Self::ThinkingOnlyResponse => "the model returned only thoughts and no response",
            Self::NoResponseText => "the model returned an empty response",
        };
        let mut message = format!("{what} ({})", self.as_str());
        if let Some(finish) = &answer.finish {
            message.push_str(&format!("; finish reason `{}`", finish.provider_reason));
        }
        if let Some(output) = answer.finish_message.as_deref().filter(|output| !output.is_empty()) {
            message.push_str(&format!(": {output}"));
        }
        // The words of services whose models explain a refusal are lower case.
        let explains = |word: &str| !word.chars().any(char::is_uppercase);
        let is_explained =
            answer.finish.as_ref().is_some_and(|finish| explains(&finish.provider_reason));
        if self == Self::SafetyBlocked && is_explained && answer.has_visible_text() {
            let text: String = one_line(&answer.text()).chars().take(REFUSAL).collect();
            message.push_str(&format!("; the model wrote: {text}"));
        }
        let kind = match self {
            Self::SafetyBlocked | Self::RecitationBlocked => FailureKind::Blocked,
            _ => FailureKind::InvalidStream,
        };
        Failure { kind, message, status: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_protocol::model::{Chunk, Finish};

    fn evaluated(parts: &str, finish: Option<&str>, after_tool: bool) -> Option<InvalidResponse> {
        let mut answer = ResponseBuilder::default();
        answer.push(Chunk {
            parts: serde_json::from_str(parts).expect("parts"),
            finish: finish.map(Finish::from_gemini_word),
            ..Chunk::default()
        });
        InvalidResponse::validate(&answer, after_tool)
    }

    #[test]
    fn every_kind_of_invalid_response_is_distinguished() {
        let text = r#"[{"text":"hello"}]"#;
        let thought = r#"[{"text":"hm","thought":true}]"#;
        let call = r#"[{"functionCall":{"name":"x"}}]"#;
        for (parts, finish, after_tool, expected) in [
            (text, Some("STOP"), false, None),
            (text, Some("SOMETHING_NEW"), false, None),
            (text, Some("MAX_TOKENS"), false, None),
            (text, None, false, Some(InvalidResponse::NoFinishReason)),
            (text, None, true, None),
            (text, Some("SAFETY"), false, Some(InvalidResponse::SafetyBlocked)),
            (call, Some("MALFORMED_FUNCTION_CALL"), false, None),
            (
                "[]",
                Some("MALFORMED_FUNCTION_CALL"),
                false,
                Some(InvalidResponse::MalformedFunctionCall),
            ),
            (
                text,
                Some("MISSING_THOUGHT_SIGNATURE"),
                false,
                Some(InvalidResponse::MissingSignature),
            ),
            ("[]", Some("TOO_MANY_TOOL_CALLS"), false, Some(InvalidResponse::OtherBlocked)),
            ("[]", Some("MAX_TOKENS"), false, Some(InvalidResponse::MaxTokensExceeded)),
            ("[]", Some("SAFETY"), true, Some(InvalidResponse::SafetyBlocked)),
            ("[]", Some("RECITATION"), false, Some(InvalidResponse::RecitationBlocked)),
            ("[]", Some("OTHER"), false, Some(InvalidResponse::OtherBlocked)),
            (thought, Some("STOP"), true, Some(InvalidResponse::ThinkingOnlyResponse)),
            ("[]", Some("STOP"), false, Some(InvalidResponse::NoResponseText)),
            ("[]", Some("STOP"), true, Some(InvalidResponse::NoResponseText)),
        ] {
            assert_eq!(
                evaluated(parts, finish, after_tool),
                expected,
                "{parts} {finish:?} {after_tool}"
            );
        }
    }
}
