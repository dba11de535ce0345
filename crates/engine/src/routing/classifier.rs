//! Asks a small model which model a prompt needs.

use std::sync::Arc;
use std::time::Duration;

use parallax_protocol::content::{Content, Part, PartView, Role, SealedContent};
use parallax_protocol::model::{Model, Request, ToolSet};
use parallax_protocol::routing::ClassifierAnswerFormat;
use parallax_protocol::{CancellationToken, Object};
use serde::Deserialize;
use serde_json::{Value, json};

/// The role of the requests.
pub(super) const ROLE: &str = "utility_router";
/// How many recent contents are searched for turns.
const RECENT_CONTENTS: usize = 20;
/// Maximum number of characters of one turn, and of the prompt.
const TURN: usize = 1_200;
const PROMPT: usize = 6_000;
/// Maximum number of characters of a reason.
const REASON: usize = 300;
/// Prefixes of generated text in user contents.
const GENERATED_PREFIXES: [&str; 3] = ["<session_context>", "<hook_context>", "[System:"];
const CHOICE: &str = include_str!("../../prompts/route_choice.md");
const SCORE: &str = include_str!("../../prompts/route_score.md");

/// The classifier's decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClassifierResult {
    /// Whether the prompt needs the strong model.
    pub(super) needs_strong_model: bool,
    pub(super) reason: String,
}

/// A request to the classifier.
pub(super) struct ClassifierRequest {
    pub(super) model: Arc<dyn Model>,
    /// The classifier's id.
    pub(super) name: String,
    pub(super) scale: ClassifierAnswerFormat,
    /// The score from which the strong model is used.
    pub(super) threshold: u64,
    /// Its time limit.
    pub(super) time_limit: Duration,
    /// The prompt with the preceding turns.
    pub(super) text: String,
}

/// Runs the classifier.
///
/// # Errors
/// Returns the reason if there is no decision.
pub(super) async fn ask(
    question: ClassifierRequest,
    cancel: CancellationToken,
) -> Result<ClassifierResult, String> {
    let (system, schema) = match question.scale {
        ClassifierAnswerFormat::Choice => (CHOICE, choice_schema()),
        ClassifierAnswerFormat::Score => (SCORE, score_schema()),
    };
    let mut generation = Object::new();
    generation.insert("responseMimeType".into(), "application/json".into());
    generation.insert("responseJsonSchema".into(), schema);
    let request = Request {
        model: question.name,
        system: Arc::from(system),
        contents: vec![Content::user(vec![Part::text(question.text)]).seal()],
        tools: ToolSet::None,
        generation,
        role: ROLE.into(),
        alias: "classifier".into(),
        max_attempts: Some(1),
        has_fallback: false,
        is_retry: false,
        continuation: None,
    };
    let answer = question.model.generate(request, cancel);
    match tokio::time::timeout(question.time_limit, answer).await {
        Ok(Ok(answer)) => read(&answer.text(), question.scale, question.threshold),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => {
            let limit = question.time_limit.as_millis();
            Err(format!("no answer within {limit} ms (`model.routingTimeoutMs`)"))
        }
    }
}

fn choice_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "reasoning": {"type": "string"},
            "model_choice": {"type": "string", "enum": ["flash", "pro"]}
        },
        "required": ["reasoning", "model_choice"]
    })
}

fn score_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "complexity_reasoning": {"type": "string"},
            "complexity_score": {"type": "integer", "minimum": 1, "maximum": 100}
        },
        "required": ["complexity_reasoning", "complexity_score"]
    })
}

#[derive(Deserialize)]
struct ChoiceReply {
    #[serde(default)]
    reasoning: String,
    model_choice: String,
}

#[derive(Deserialize)]
struct ScoreReply {
    #[serde(default)]
    complexity_reasoning: String,
    complexity_score: f64,
}

fn read(
    text: &str,
    scale: ClassifierAnswerFormat,
    threshold: u64,
) -> Result<ClassifierResult, String> {
    let text = text.trim().trim_start_matches("```json").trim_matches('`');
    let bad = |error: serde_json::Error| format!("invalid classifier response: {error}");
    match scale {
        ClassifierAnswerFormat::Choice => {
            let choice: ChoiceReply = serde_json::from_str(text).map_err(bad)?;
            let needs_strong_model = match choice.model_choice.as_str() {
                "pro" => true,
                "flash" => false,
                other => return Err(format!("unknown choice `{}`", truncate(other, 40))),
            };
            Ok(ClassifierResult { needs_strong_model, reason: truncate(&choice.reasoning, REASON) })
        }
        ClassifierAnswerFormat::Score => {
            let score: ScoreReply = serde_json::from_str(text).map_err(bad)?;
            let number = score.complexity_score;
            if !(0.0..=100.0).contains(&number) {
                return Err(format!("the score {number} is out of range"));
            }
            #[expect(clippy::cast_precision_loss, reason = "a number up to 100")]
            let needs_strong_model = number >= threshold as f64;
            let reason = truncate(&score.complexity_reasoning, REASON);
            Ok(ClassifierResult {
                needs_strong_model,
                reason: format!("score {number} of 100, threshold {threshold}: {reason}"),
            })
        }
    }
}

/// Returns the prompt and the preceding turns, without tool calls and results.
pub(super) fn text(
    contents: &[SealedContent],
    prompt: &str,
    scale: ClassifierAnswerFormat,
) -> String {
    let turns = match scale {
        ClassifierAnswerFormat::Choice => 4,
        ClassifierAnswerFormat::Score => 8,
    };
    // The newest content is the prompt itself.
    let before = contents.split_last().map_or(contents, |(_, before)| before);
    let from = before.len().saturating_sub(RECENT_CONTENTS);
    let clean = before.get(from..).unwrap_or_default().iter().filter_map(content_text);
    let clean: Vec<(Role, String)> = clean.collect();
    let last = clean.get(clean.len().saturating_sub(turns)..).unwrap_or_default();
    let mut text = String::new();
    if !last.is_empty() {
        text.push_str("<earlier_turns>\n");
        for (role, output) in last {
            let who = if *role == Role::User { "user" } else { "agent" };
            text.push_str(&format!("{who}: {}\n", truncate(output, TURN)));
        }
        text.push_str("</earlier_turns>\n\n");
    }
    text.push_str(&format!("<request>\n{}\n</request>", truncate(prompt, PROMPT)));
    text
}

/// Returns the text of a content without calls or results.
fn content_text(content: &SealedContent) -> Option<(Role, String)> {
    let opened = content.open().ok()?;
    let is_traffic = opened
        .parts
        .iter()
        .any(|part| matches!(part.view(), PartView::Call(_) | PartView::Response(_)));
    let text = match opened.role {
        Role::User => message_text(&opened),
        Role::Model => opened.visible_text(),
    };
    (!is_traffic && !text.trim().is_empty()).then(|| (content.role(), text))
}

/// Returns the user's text, without generated text.
fn message_text(content: &Content) -> String {
    let ours =
        |text: &str| GENERATED_PREFIXES.iter().any(|mark| text.trim_start().starts_with(mark));
    let texts = content.parts.iter().filter_map(|part| match part.view() {
        PartView::Text(text) if !ours(text) => Some(text),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Returns the beginning of a string.
fn truncate(text: &str, characters: usize) -> String {
    let text = text.trim();
    match text.char_indices().nth(characters) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classifier_responses_are_parsed_or_rejected() {
        let score = |text| {
            read(text, ClassifierAnswerFormat::Score, 90).map(|output| output.needs_strong_model)
        };
        assert_eq!(score(r#"{"complexity_reasoning": "x", "complexity_score": 90}"#), Ok(true));
        assert_eq!(score("```json\n{\"complexity_score\": 89}\n```"), Ok(false));
        assert!(score(r#"{"complexity_score": 900}"#).is_err());
        assert!(score("no").is_err());
        let choice = |text| {
            read(text, ClassifierAnswerFormat::Choice, 90).map(|output| output.needs_strong_model)
        };
        assert_eq!(choice(r#"{"reasoning": "x", "model_choice": "pro"}"#), Ok(true));
        assert_eq!(choice(r#"{"model_choice": "flash"}"#), Ok(false));
        assert!(choice(r#"{"model_choice": "mine"}"#).is_err());
    }

    #[test]
    fn text_added_by_the_program_does_not_count_as_a_turn() {
        let context = Part::text(format!("<session_context>\n{}", "x".repeat(5_000)));
        let hook = Part::text("<hook_context>h</hook_context>");
        let first = Content::user(vec![context, Part::text("the wish"), hook]).seal();
        let current = Content::user(vec![Part::text("now")]).seal();
        let text = text(&[first, current], "now", ClassifierAnswerFormat::Choice);
        assert!(text.starts_with("<earlier_turns>\nuser: the wish\n</earlier"), "{text}");
    }

    #[test]
    fn classifier_sees_only_sanitized_turns() {
        let user = |text: &str| Content::user(vec![Part::text(text)]).seal();
        let model = |text: &str| Content::model(vec![Part::text(text)]).seal();
        let call = Part::function_response(None, "x", Object::new(), Vec::new());
        let contents =
            [user("first"), model("said"), Content::user(vec![call]).seal(), user("now")];
        let text = text(&contents, "now", ClassifierAnswerFormat::Choice);
        assert_eq!(
            text,
            "<earlier_turns>\nuser: first\nagent: said\n</earlier_turns>\n\n<request>\nnow\n</request>"
        );
    }
}
