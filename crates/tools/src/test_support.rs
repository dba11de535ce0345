//! Shared helpers of the tools' unit tests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use parallax_protocol::model::{
    Answer, Limits, Model, ModelCatalog, ModelError, Request, StreamEvent,
};
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::tool::{NoProgress, PrepareContext, RunContext, Tool, ToolResult};
use parallax_protocol::{BoxFuture, BoxStream, CancellationToken, Object};
use serde_json::Value;

pub(crate) fn object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        other => panic!("not an object: {other}"),
    }
}

pub(crate) fn scope(name: &str) -> PrepareContext {
    PrepareContext {
        call: "call".into(),
        name: name.into(),
        mode: ApprovalMode::Default,
        interactive: false,
    }
}

/// Prepares and runs one call that is not rejected.
pub(crate) async fn run(tool: &dyn Tool, args: Value) -> ToolResult {
    run_until(tool, args, CancellationToken::new()).await
}

pub(crate) async fn run_until(
    tool: &dyn Tool,
    args: Value,
    cancel: CancellationToken,
) -> ToolResult {
    let call = tool.prepare(object(args), &scope(&tool.spec().name)).expect("a call");
    call.run(RunContext::new(cancel, Arc::new(NoProgress))).await
}

/// A model with scripted utility answers. Without an answer it waits until it is cancelled.
#[derive(Default)]
pub(crate) struct FakeModel {
    pub(crate) answers: Mutex<VecDeque<Result<Answer, ModelError>>>,
    pub(crate) requests: Mutex<Vec<Request>>,
}

impl FakeModel {
    pub(crate) fn new(answers: impl IntoIterator<Item = Result<Answer, ModelError>>) -> Arc<Self> {
        Arc::new(Self {
            answers: Mutex::new(answers.into_iter().collect()),
            requests: Mutex::default(),
        })
    }
}

impl Model for FakeModel {
    fn stream(
        &self,
        _request: Request,
        _cancel: CancellationToken,
    ) -> BoxStream<'static, Result<StreamEvent, ModelError>> {
        panic!("tools make utility calls only")
    }

    fn generate(
        &self,
        request: Request,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Result<Answer, ModelError>> {
        self.requests.lock().expect("lock").push(request);
        let answer = self.answers.lock().expect("lock").pop_front();
        Box::pin(async move {
            match answer {
                Some(answer) => answer,
                None => {
                    cancel.cancelled().await;
                    Err(ModelError::Cancelled)
                }
            }
        })
    }

    fn catalog(&self) -> &dyn ModelCatalog {
        self
    }
}

impl ModelCatalog for FakeModel {
    fn limits(&self, _model: &str) -> Limits {
        Limits {
            context: 1_000_000,
            output: 8_192,
            multimodal_tool_results: false,
            shared_window: false,
        }
    }

    fn resolve(&self, name: &str) -> String {
        name.to_owned()
    }

    fn utility(&self, name: &str, main: &str) -> String {
        format!("{main}-{name}")
    }
}
