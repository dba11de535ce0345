//! The model of a session, and the state that its requests depend on.

use std::sync::Arc;
use std::time::Duration;

use parallax_protocol::content::Role;
use parallax_protocol::event::{EndReason, EventBody, Failure};
use parallax_protocol::generation::set_thinking_level;
use parallax_protocol::model::{Model, ModelCatalog, Retry};
use parallax_protocol::store::UnfinishedAnswer;
use parallax_protocol::{CancellationToken, Object};

use crate::closing_notes::PARTIAL_NOTE;
use crate::conversation::Conversation;
use crate::event_bus::EventBus;
use crate::inbox::Inbox;

/// The inputs of a model client.
pub(crate) struct ModelClientOptions {
    pub(crate) model: Arc<dyn Model>,
    /// Generation settings from the user, with wire names.
    pub(crate) generation: Object,
    /// Attempts of one request before its first chunk; `None`: the model's default.
    pub(crate) max_attempts: Option<u32>,
    /// The first wait after a broken stream; it doubles.
    pub(crate) retry_base: Duration,
    /// Maximum number of requests in this process; `None`: no limit.
    pub(crate) max_requests: Option<u32>,
    /// The answer of an earlier process that the next request continues.
    pub(crate) unfinished_answer: Option<UnfinishedAnswer>,
}

/// Sends the requests of a session.
pub(crate) struct ModelClient {
    options: ModelClientOptions,
    /// Number of requests.
    requests: u32,
    /// Number of requests before the running turn.
    requests_at_prompt: u32,
}

impl ModelClient {
    pub(crate) fn new(options: ModelClientOptions) -> Self {
        Self { options, requests: 0, requests_at_prompt: 0 }
    }

    pub(crate) fn model(&self) -> &Arc<dyn Model> {
        &self.options.model
    }

    pub(crate) fn catalog(&self) -> &dyn ModelCatalog {
        self.options.model.catalog()
    }

    /// Attempts of one request before its first chunk, if configured.
    pub(crate) fn max_attempts(&self) -> Option<u32> {
        self.options.max_attempts
    }

    /// Returns the generation settings, with the thinking level that the user chose.
    pub(crate) fn generation(&self, thinking_level: Option<&str>) -> Object {
        let mut generation = self.options.generation.clone();
        if let Some(level) = thinking_level {
            set_thinking_level(&mut generation, level);
        }
        generation
    }

    /// Starts a prompt: an unfinished answer is given up.
    pub(crate) fn start_prompt(&mut self) {
        self.options.unfinished_answer = None;
        self.requests_at_prompt = self.requests;
    }

    /// Counts a request.
    pub(crate) fn count_request(&mut self) {
        self.requests += 1;
    }

    /// Returns the limit if no further request may be sent. In its final turn, a subagent has one
    /// request, regardless of earlier ones.
    pub(crate) fn exceeded_limit(&self, is_final_turn: bool) -> Option<u32> {
        let limit = match is_final_turn {
            true => Some(self.requests_at_prompt + 1),
            false => self.options.max_requests,
        };
        limit.filter(|limit| self.requests >= *limit)
    }

    /// Whether the next request continues an answer of an earlier process.
    pub(crate) fn has_unfinished(&self) -> bool {
        self.options.unfinished_answer.is_some()
    }

    /// Takes the answer of an earlier process that the next request to the model continues.
    /// With another model, a note asks for the rest instead.
    pub(crate) fn take_unfinished_answer(
        &mut self,
        model: &str,
        conversation: &mut Conversation,
    ) -> Option<UnfinishedAnswer> {
        let unfinished = self.options.unfinished_answer.take()?;
        let has_content = conversation.history().last_role() == Some(Role::Model);
        if unfinished.model == model {
            if has_content {
                conversation.history_mut().take_last();
            }
            return Some(unfinished);
        }
        if has_content {
            conversation.history_mut().push_note(PARTIAL_NOTE);
        }
        None
    }

    /// Restores the unfinished answer after a failed turn, so that it can be continued later.
    pub(crate) fn restore_unfinished(
        &mut self,
        unfinished: UnfinishedAnswer,
        conversation: &mut Conversation,
    ) {
        conversation.record_partial(&unfinished);
        self.options.unfinished_answer = Some(unfinished);
    }

    /// Waits 1, 2, 4 … times the base before another attempt, at least as long as the service asks.
    pub(crate) async fn wait(
        &self,
        failure: &Failure,
        (number, max_attempts): (u32, u32),
        server_delay: Option<Duration>,
        model: &str,
        (bus, inbox): (&EventBus, &mut Inbox),
        cancel: &CancellationToken,
    ) -> Result<(), EndReason> {
        let backoff =
            self.options.retry_base * 2u32.saturating_pow(number.saturating_sub(1)).min(64);
        let delay = backoff.max(server_delay.unwrap_or_default());
        bus.send(EventBody::Retry(Retry {
            attempt: number,
            max_attempts,
            delay_ms: u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
            class: "stream".into(),
            status: failure.status,
            message: failure.message.clone(),
            model: model.to_owned(),
        }));
        let woken = async {
            tokio::select! {
                () = cancel.cancelled() => Err(EndReason::Cancelled),
                () = tokio::time::sleep(delay) => Ok(()),
            }
        };
        inbox.while_receiving(woken).await
    }
}

#[cfg(test)]
mod tests {
    use parallax_protocol::generation::{THINKING, ThinkingSettings};
    use serde_json::json;

    use super::*;
    use crate::test_parts::{TestModel, conversation};

    fn client(
        max_requests: Option<u32>,
        unfinished_answer: Option<UnfinishedAnswer>,
    ) -> ModelClient {
        ModelClient::new(ModelClientOptions {
            model: Arc::new(TestModel),
            generation: Object::new(),
            max_attempts: None,
            retry_base: Duration::ZERO,
            max_requests,
            unfinished_answer,
        })
    }

    #[test]
    fn requests_are_limited_and_the_final_turn_of_a_subagent_has_one() {
        let mut client = client(Some(2), None);
        client.count_request();
        assert_eq!(client.exceeded_limit(false), None);
        client.count_request();
        assert_eq!(client.exceeded_limit(false), Some(2));
        client.start_prompt();
        assert_eq!(client.exceeded_limit(true), None);
        client.count_request();
        assert_eq!(client.exceeded_limit(true), Some(3));
    }

    #[test]
    fn unfinished_answer_is_continued_only_by_its_model() {
        let answer = || UnfinishedAnswer {
            time: String::new(),
            model: "strong".to_owned(),
            token: "t".to_owned(),
            parts: Vec::new(),
        };
        let mut conversation = conversation();
        let mut client = client(None, Some(answer()));
        assert!(client.has_unfinished());
        let unfinished =
            client.take_unfinished_answer("strong", &mut conversation).expect("an answer");
        client.restore_unfinished(unfinished, &mut conversation);
        assert!(client.take_unfinished_answer("fast", &mut conversation).is_none());
        assert!(!client.has_unfinished());
    }

    #[test]
    fn thinking_level_of_the_user_replaces_a_budget() {
        let mut client = client(None, None);
        client.options.generation.insert("temperature".to_owned(), json!(0.5));
        let generation = client.generation(Some("high"));
        assert_eq!(ThinkingSettings::read(&generation).level, Some("high"));
        assert_eq!(generation["temperature"], 0.5);
        assert!(!client.generation(None).contains_key(THINKING));
    }
}
