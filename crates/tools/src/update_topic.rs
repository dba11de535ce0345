//! `update_topic`: the model sets the topic of its work, shown as a heading of what follows.

use std::sync::{Arc, Mutex, PoisonError};

use parallax_protocol::tool::{
    Concurrency, Display, Effects, Invocation, PrepareContext, RunContext, Tool, ToolError,
    ToolKind, ToolResult, ToolSpec,
};
use parallax_protocol::{BoxFuture, Object};
use serde_json::json;

use crate::arguments::Arguments;
use crate::failure::invalid_params;

/// Maximum number of characters of a heading and of the intent.
const LINE: usize = 300;
/// Maximum number of characters of a summary.
const SUMMARY: usize = 4_000;

/// The tool.
#[derive(Debug)]
pub struct UpdateTopic {
    spec: ToolSpec,
    /// The current heading.
    title: Arc<Mutex<String>>,
}

impl Default for UpdateTopic {
    fn default() -> Self {
        Self::new()
    }
}

impl UpdateTopic {
    /// Creates the tool.
    pub fn new() -> Self {
        let spec = ToolSpec {
            name: "update_topic".into(),
            display_name: "UpdateTopic".into(),
            description: include_str!("update_topic/description.md").trim().into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "strategic_intent": {
                        "type": "string",
                        "minLength": 1,
                        "description": "What you will do next and why."
                    },
                    "title": {"type": "string"},
                    "summary": {
                        "type": "string",
                        "description": "Results so far, for a new topic."
                    }
                },
                "required": ["strategic_intent"]
            }),
            kind: ToolKind::Think,
            concurrency: Concurrency::Exclusive,
            aliases: vec!["UpdateTopicTool".into()],
        };
        Self { spec, title: Arc::default() }
    }
}

impl Tool for UpdateTopic {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn prepare(
        &self,
        args: Object,
        _scope: &PrepareContext,
    ) -> Result<Box<dyn Invocation>, ToolError> {
        let args = Arguments::check(args, &self.spec)?;
        let text = |name: &str, limit: usize| -> String {
            args.text(name).trim().chars().take(limit).collect()
        };
        let intent = text("strategic_intent", LINE).replace('\n', " ");
        if intent.is_empty() {
            return Err(invalid_params("params/strategic_intent must not be empty".to_owned()));
        }
        Ok(Box::new(UpdateTopicCall {
            intent,
            title: text("title", LINE).replace('\n', " "),
            summary: text("summary", SUMMARY),
            current: Arc::clone(&self.title),
            effects: Effects::default(),
        }))
    }
}

struct UpdateTopicCall {
    intent: String,
    title: String,
    summary: String,
    current: Arc<Mutex<String>>,
    effects: Effects,
}

impl Invocation for UpdateTopicCall {
    fn title(&self) -> String {
        if self.title.is_empty() { self.intent.clone() } else { self.title.clone() }
    }

    fn effects(&self) -> &Effects {
        &self.effects
    }

    fn run(self: Box<Self>, _run: RunContext) -> BoxFuture<'static, ToolResult> {
        let Self { intent, title, summary, current, .. } = *self;
        let is_new = {
            let mut current = current.lock().unwrap_or_else(PoisonError::into_inner);
            let is_new = !title.is_empty() && *current != title;
            if is_new {
                current.clone_from(&title);
            }
            is_new
        };
        let text = match (is_new, summary.is_empty()) {
            (true, true) => format!("Current topic: {title}\nStrategic intent: {intent}"),
            (true, false) => format!(
                "Current topic: {title}\nTopic summary: {summary}\nStrategic intent: {intent}"
            ),
            (false, _) => format!("Strategic intent: {intent}"),
        };
        let title = if is_new { title } else { String::new() };
        let outcome =
            ToolResult::text(text).with_display(Display::Topic { title, summary, intent });
        Box::pin(std::future::ready(outcome))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::run;

    #[tokio::test]
    async fn topic_heading_is_emitted_once() {
        let tool = UpdateTopic::new();
        let args = json!({"strategic_intent": "look", "title": "Tests", "summary": "None yet."});
        let first = run(&tool, args.clone()).await;
        assert_eq!(
            first.for_model.output,
            "Current topic: Tests\nTopic summary: None yet.\nStrategic intent: look"
        );
        let second = run(&tool, args).await;
        assert_eq!(second.for_model.output, "Strategic intent: look");
        assert!(matches!(second.for_user, Some(Display::Topic { title, .. }) if title.is_empty()));
    }
}
