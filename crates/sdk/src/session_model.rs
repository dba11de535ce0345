//! The model and the mode with which a stored session continues.

use parallax_protocol::content::Role;
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::session_selection::SelectionRecord;
use parallax_protocol::store::Record;

use crate::options::ResponseSource;
use crate::session_config::{SessionConfig, failure, script_name};

/// The model that a stored session last used, if it is not the model of new sessions.
pub(crate) struct SessionModel {
    name: String,
    /// A warning that the model is not the one in the settings.
    pub(crate) notice: Option<String>,
}

impl SessionModel {
    /// Adds the model, and how to choose another, to the reason why it cannot be used.
    pub(crate) fn explain(&self, error: Failure) -> Failure {
        let message = format!(
            "this session last used the model `{}`: {}; `-m MODEL` continues with another model",
            self.name, error.message
        );
        Failure { message, ..error }
    }
}

impl SessionConfig {
    /// Continues with the model that a stored session last used, unless a flag selects one, so that
    /// a conversation moves to another provider only if the user wants that. Clients that show the
    /// mode as a property of the session also get its mode. Returns the model if new sessions would
    /// use another one.
    ///
    /// # Errors
    /// Returns an error if the provider of the model is not configured anymore.
    pub(crate) fn restore_selection(
        &mut self,
        records: &[Record],
    ) -> Result<Option<SessionModel>, Failure> {
        if self.options.exact_session
            && let Some(mode) = newest_mode(records)
            && self.mode_unavailable_reason(mode).is_none()
        {
            self.mode = mode;
        }
        let is_chosen = self.options.model.as_ref().is_some_and(|name| !name.trim().is_empty());
        let current = self.model_name();
        let is_scripted =
            self.options.answers != ResponseSource::Service || script_name(&current).is_some();
        // An editor has no flag for one session: its model is that of new sessions.
        if is_scripted || (is_chosen && !self.options.exact_session) {
            return Ok(None);
        }
        let manager = self.provider_manager();
        let models = manager.model_table();
        let Some(name) = last_model(records, &|name| models.resolve(name)) else {
            return Ok(None);
        };
        if script_name(&name).is_some() || models.resolve(&name) == models.resolve(&current) {
            return Ok(None);
        }
        let notice = self.has_configured_model().then(|| {
            format!(
                "Continuing with `{name}`, which this session last used; `-m {current}` selects \
                 the configured model"
            )
        });
        let model = SessionModel { name, notice };
        if let Some(error) = manager.model_error(&model.name) {
            return match self.options.exact_session {
                true => Ok(None),
                false => Err(model.explain(failure(FailureKind::Input, error))),
            };
        }
        self.options.model = Some(model.name.clone());
        Ok(Some(model))
    }
}

fn newest_mode(records: &[Record]) -> Option<ApprovalMode> {
    records.iter().rev().find_map(|record| match record {
        Record::Selection(selection) => selection.mode,
        _ => None,
    })
}

/// Returns the name that was configured when a session ended: what the user selected, the name for
/// which a model was chosen or replaced, or else the model of the newest answer. `resolve` returns
/// the model of an alias.
fn last_model(records: &[Record], resolve: &dyn Fn(&str) -> String) -> Option<String> {
    let mut answered: Option<&str> = None;
    for record in records.iter().rev() {
        match record {
            Record::Selection(SelectionRecord { model, .. }) => {
                return match answered {
                    Some(answered) if resolve(model) != answered => Some(answered.to_owned()),
                    _ => Some(model.clone()),
                };
            }
            Record::Route(chosen) => {
                return match answered {
                    Some(answered) if chosen.route.model != answered => Some(answered.to_owned()),
                    _ => Some(chosen.route.requested.clone()),
                };
            }
            Record::Unfinished(piece) => answered = answered.or(Some(&piece.model)),
            Record::Content(content) if content.wire.role() == Role::Model => {
                answered = answered.or(content.model.as_deref());
            }
            _ => {}
        }
    }
    answered.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::last_model;
    use parallax_protocol::store::Record;
    use serde_json::{Value, json};

    fn records(lines: &[Value]) -> Vec<Record> {
        let read = |line: &Value| serde_json::from_str(&line.to_string()).expect("a record");
        lines.iter().map(read).collect()
    }

    fn answer(model: &str) -> Value {
        json!({"content": {"time": "2026-01-01T00:00:00Z", "turn": 1, "model": model,
            "wire": {"role": "model", "parts": [{"text": "hi"}]}}})
    }

    fn route(requested: &str, model: &str) -> Value {
        json!({"route": {"time": "2026-01-01T00:00:00Z", "asked": requested, "model": model,
            "source": "rules", "reason": "r", "latencyMs": 1}})
    }

    fn selection(model: &str) -> Value {
        json!({"selection": {"time": "2026-01-01T00:00:00Z", "mode": "default", "model": model}})
    }

    fn piece(model: &str) -> Value {
        json!({"unfinished": {"time": "2026-01-01T00:00:00Z", "model": model, "token": "T",
            "first": true, "parts": []}})
    }

    #[test]
    fn model_of_the_newest_choice_or_answer_is_used() {
        let resolve = |name: &str| match name {
            "pro" => "gemini-pro".to_owned(),
            name => name.to_owned(),
        };
        let table = [
            (vec![], None),
            (vec![answer("ollama:a")], Some("ollama:a")),
            (vec![answer("ollama:a"), answer("openai:b")], Some("openai:b")),
            (vec![route("auto", "gemini-pro"), answer("gemini-pro")], Some("auto")),
            (vec![route("auto", "gemini-pro"), answer("ollama:a")], Some("ollama:a")),
            (vec![answer("ollama:a"), selection("openai:b")], Some("openai:b")),
            (vec![selection("pro"), answer("gemini-pro")], Some("pro")),
            (vec![selection("pro"), answer("ollama:a")], Some("ollama:a")),
            (vec![selection("ollama:a")], Some("ollama:a")),
            (
                vec![selection("ollama:a"), answer("ollama:a"), selection("openai:b")],
                Some("openai:b"),
            ),
            (vec![answer("ollama:a"), piece("gemini-4-argon")], Some("gemini-4-argon")),
            (vec![route("auto", "gemini-4-argon"), piece("gemini-4-argon")], Some("auto")),
        ];
        for (lines, expected) in table {
            let found = last_model(&records(&lines), &resolve);
            assert_eq!(found.as_deref(), expected, "{lines:?}");
        }
    }
}
