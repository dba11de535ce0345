//! The text of an answer while it streams.

use parallax_protocol::event::{EventBody, ItemDone, ItemStart};
use parallax_protocol::ids::ItemId;
use serde_json::{Value, json};

/// The received text that was not passed on yet. A secret may arrive in several pieces, so text is
/// passed on only up to a position outside of any possible secret.
#[derive(Debug, Default)]
pub(super) struct AnswerText {
    pending: String,
}

impl AnswerText {
    /// Returns the messages for an event of the session itself; `None` if it is not about the text
    /// of an answer.
    pub(super) fn messages(
        &mut self,
        event: &EventBody,
        secrets: &[String],
    ) -> Option<Vec<(&'static str, Value)>> {
        match event {
            EventBody::ItemStarted { item, start: ItemStart::Text } => {
                self.pending.clear();
                Some(vec![("answer", json!({"item": item.as_str()}))])
            }
            // A viewer may have attached after the start. The kind of an item is in its id.
            EventBody::ItemDelta { item, text } if item.as_str().starts_with("text-") => {
                self.pending.push_str(text);
                let end = safe_length(&self.pending, secrets);
                let text: String = self.pending.drain(..end).collect();
                Some(message(item, text).into_iter().collect())
            }
            EventBody::ItemDone { item, done: ItemDone::Text { is_dropped, .. } } => {
                let rest = message(item, std::mem::take(&mut self.pending));
                let end = json!({"item": item.as_str(), "dropped": is_dropped});
                Some(rest.into_iter().chain([("answer_end", end)]).collect())
            }
            _ => None,
        }
    }
}

fn message(item: &ItemId, text: String) -> Option<(&'static str, Value)> {
    (!text.is_empty()).then(|| ("answer_text", json!({"item": item.as_str(), "text": text})))
}

/// Returns how many bytes of the text cannot belong to a secret that is still incomplete.
fn safe_length(text: &str, secrets: &[String]) -> usize {
    let begins_in = |secret: &String| {
        let from = text.len().saturating_sub(secret.len().saturating_sub(1));
        (from..text.len()).find(|at| {
            text.is_char_boundary(*at) && text.get(*at..).is_some_and(|end| secret.starts_with(end))
        })
    };
    secrets.iter().filter_map(begins_in).min().unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn split_secret_is_held_back_until_it_is_complete() {
        let secrets = ["plain-secret-1".to_owned(), "clé-secrète".to_owned()];
        let item = ItemId::new("text-1");
        let mut answer = AnswerText::default();
        let mut sent = |text: &str| {
            let event = EventBody::ItemDelta { item: item.clone(), text: text.into() };
            let messages = answer.messages(&event, &secrets).expect("of an answer");
            messages.iter().map(|(_, value)| value["text"].to_string()).collect::<String>()
        };
        assert_eq!(sent("It is pl"), "\"It is \"");
        assert_eq!(sent("ain-sec"), "");
        assert_eq!(sent("ret-1."), "\"plain-secret-1.\"");
        assert_eq!(sent("a cl"), "\"a \"");
        assert_eq!(sent("é-"), "");
        assert_eq!(sent("x"), "\"clé-x\"");
        let text = Arc::new("all".to_owned());
        let done = ItemDone::Text { text, is_dropped: true };
        let event = EventBody::ItemDone { item: ItemId::new("text-1"), done };
        let messages = answer.messages(&event, &secrets).expect("of an answer");
        assert_eq!(messages.len(), 1);
        assert_eq!(messages[0].1["dropped"], true);
    }

    #[test]
    fn output_of_tools_is_ignored() {
        let item = ItemId::new("shell-text-1");
        let event = EventBody::ItemDelta { item, text: "output".into() };
        assert!(AnswerText::default().messages(&event, &[]).is_none());
    }
}
