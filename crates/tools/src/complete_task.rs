//! `complete_task`: ends a subagent and returns its result.

use parallax_protocol::agent::{AgentResult, COMPLETE_TASK};
use parallax_protocol::tool::{
    Concurrency, Display, Effects, Invocation, PrepareContext, RunContext, Tool, ToolError,
    ToolErrorKind, ToolKind, ToolResult, ToolSpec,
};
use parallax_protocol::{BoxFuture, Object};
use serde_json::{Value, json};

use crate::arguments::Arguments;
use crate::failure::invalid_params;

/// The result format.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskOutput {
    /// The name of the argument.
    pub name: String,
    /// The description for the model.
    pub description: String,
    /// Its JSON Schema.
    pub schema: Value,
}

/// The tool of one subagent.
#[derive(Debug)]
pub struct CompleteTask {
    spec: ToolSpec,
    output: String,
    result: AgentResult,
}

impl CompleteTask {
    /// Creates the tool; `result` receives the result. Without an output format, the result is a
    /// string called `result`.
    pub fn new(output: Option<TaskOutput>, result: AgentResult) -> Self {
        let TaskOutput { name, description, mut schema } = output.unwrap_or_else(|| TaskOutput {
            name: "result".to_owned(),
            description: "Everything that the caller must know: the caller sees nothing else of \
                your work."
                .to_owned(),
            schema: json!({"type": "string"}),
        });
        if let Value::Object(schema) = &mut schema {
            schema.entry("description").or_insert(description.into());
        }
        let spec = ToolSpec {
            name: COMPLETE_TASK.into(),
            display_name: "CompleteTask".into(),
            description:
                "Returns your result and ends your work. Call it once, when you are done: \
                it is the only way to answer."
                    .into(),
            parameters: json!({
                "type": "object",
                "properties": {&name: schema},
                "required": [&name],
            }),
            kind: ToolKind::Other,
            // Other calls of the same batch finish before it ends the run.
            concurrency: Concurrency::Exclusive,
            aliases: Vec::new(),
        };
        Self { spec, output: name, result }
    }
}

impl Tool for CompleteTask {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn prepare(
        &self,
        args: Object,
        _scope: &PrepareContext,
    ) -> Result<Box<dyn Invocation>, ToolError> {
        let args = Arguments::check(args, &self.spec)?;
        let value = args.value(&self.output).cloned().unwrap_or_default();
        if value.as_str().is_some_and(|text| text.trim().is_empty()) {
            return Err(invalid_params(format!("params/{} must not be empty", self.output)));
        }
        let effects = Effects::default();
        Ok(Box::new(CompleteTaskCall { value, result: self.result.clone(), effects }))
    }
}

struct CompleteTaskCall {
    value: Value,
    result: AgentResult,
    effects: Effects,
}

impl Invocation for CompleteTaskCall {
    fn title(&self) -> String {
        "Return the result".to_owned()
    }

    fn effects(&self) -> &Effects {
        &self.effects
    }

    fn run(self: Box<Self>, _run: RunContext) -> BoxFuture<'static, ToolResult> {
        let Self { value, result, .. } = *self;
        let data = json!({"taskCompleted": true, "submittedOutput": &value});
        let outcome = match result.submit(value) {
            true => ToolResult {
                data: Some(data),
                ..ToolResult::text("Result returned; the work is done.")
                    .with_display(Display::text("result returned"))
            },
            false => ToolResult::failure(ToolError::new(
                ToolErrorKind::ExecutionFailed,
                "a result was already returned; only the first one is used",
            )),
        };
        Box::pin(std::future::ready(outcome))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{object, run, scope};

    #[tokio::test]
    async fn first_valid_result_wins() {
        let result = AgentResult::default();
        let output = TaskOutput {
            name: "report".into(),
            description: "It.".into(),
            schema: json!({"type": "object", "properties": {"found": {"type": "array"}},
                "required": ["found"]}),
        };
        let tool = CompleteTask::new(Some(output), result.clone());
        for invalid in [json!({}), json!({"report": "x"}), json!({"report": {}})] {
            assert!(tool.prepare(object(invalid), &scope(COMPLETE_TASK)).is_err());
        }
        assert!(run(&tool, json!({"report": {"found": [1]}})).await.error.is_none());
        assert!(run(&tool, json!({"report": {"found": [2]}})).await.error.is_some());
        assert_eq!(result.get(), Some(json!({"found": [1]})));
    }

    #[test]
    fn result_text_must_not_be_empty() {
        let tool = CompleteTask::new(None, AgentResult::default());
        let blank = tool.prepare(object(json!({"result": " "})), &scope(COMPLETE_TASK));
        assert!(blank.err().expect("refused").message.contains("must not be empty"));
    }
}
