//! Names sessions with a cheap model, if enabled. Otherwise a session is listed by its first
//! prompt.

use std::sync::Arc;

use parallax_engine::EventReader;
use parallax_protocol::content::{Content, Part};
use parallax_protocol::event::{EndReason, EventBody};
use parallax_protocol::model::{Model, Request, ToolSet};
use parallax_protocol::store::{NameRecord, Record, Store};
use parallax_protocol::{CancellationToken, Object};
use parallax_sessions::truncate;

/// Default model for naming.
const MODEL: &str = "flash-lite";
/// Maximum bytes of the prompt that are sent.
const PROMPT: usize = 4_000;
/// Maximum characters of a name.
const NAME: usize = 80;

const ASKED: &str = "Give the conversation that begins with this message a title: at most eight \
                     words in the language of the message, no quotation marks, no final period. \
                     Answer with the title alone.\n\n";

/// Starts a task that names the session after its first turn. After a failure, the session keeps
/// its first prompt as the name.
pub(crate) fn name(mut events: EventReader, model: Arc<dyn Model>, store: Arc<dyn Store>) {
    tokio::spawn(async move {
        let mut prompt = String::new();
        while let Some(event) = events.next().await {
            match event.body {
                EventBody::TurnStarted { prompt: first } if prompt.is_empty() => prompt = first,
                EventBody::TurnEnded(ended) => {
                    if matches!(ended.reason, EndReason::Done) && !prompt.trim().is_empty() {
                        break;
                    }
                    prompt.clear();
                }
                _ => {}
            }
        }
        drop(events);
        if prompt.is_empty() {
            return;
        }
        let text = format!("{ASKED}{}", truncate(&prompt, PROMPT));
        let request = Request {
            model: model.catalog().resolve(MODEL),
            system: Arc::from(""),
            contents: vec![Content::user(vec![Part::text(text)]).seal()],
            tools: ToolSet::None,
            generation: Object::new(),
            role: "utility_session_name".into(),
            alias: String::new(),
            max_attempts: Some(1),
            has_fallback: false,
            is_retry: false,
            continuation: None,
        };
        let answer = match model.generate(request, CancellationToken::new()).await {
            Ok(answer) => answer,
            Err(error) => {
                tracing::debug!(%error, "the session title stays the first prompt");
                return;
            }
        };
        let Some(text) = parse_name(&answer.text()) else { return };
        let record = Record::Name(NameRecord { time: parallax_store::timestamp(), text });
        if let Err(error) = store.append(&record) {
            tracing::debug!(%error, "failed to save the session title");
        }
    });
}

/// Returns the first line of an answer without quotes and markup.
fn parse_name(answer: &str) -> Option<String> {
    let line = answer.lines().find(|line| !line.trim().is_empty())?;
    let line = line.trim().trim_matches(['"', '*', '#', '`', ' ']).trim_end_matches('.');
    let name: String = line.chars().filter(|char| !char.is_control()).take(NAME).collect();
    (!name.trim().is_empty()).then(|| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::parse_name;

    #[test]
    fn session_name_is_one_plain_line() {
        assert_eq!(
            parse_name("\n**\"Fix the parser.\"**\nmore").as_deref(),
            Some("Fix the parser")
        );
        assert_eq!(parse_name(" \n\"\"\n").as_deref(), None);
        assert_eq!(parse_name(&"x".repeat(200)).map(|name| name.len()), Some(80));
    }
}
