//! A tool implemented by a function of the embedding program.

use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use parallax_protocol::tool::{
    Concurrency, Effects, Invocation, PrepareContext, RunContext, Tool, ToolError, ToolErrorKind,
    ToolKind, ToolResult, ToolSpec,
};
use parallax_protocol::{BoxFuture, Object};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

type Function<A> = Arc<dyn Fn(A) -> BoxFuture<'static, Result<String, String>> + Send + Sync>;

struct FunctionTool<A> {
    spec: ToolSpec,
    function: Function<A>,
    arguments: PhantomData<fn(A)>,
}

/// Creates a tool from a function. The arguments of a call are validated against the schema of `A`
/// before the function runs. The model receives an `Err` as the error of the tool call.
pub fn function_tool<A, F, R>(name: &str, description: &str, function: F) -> Arc<dyn Tool>
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    F: Fn(A) -> R + Send + Sync + 'static,
    R: Future<Output = Result<String, String>> + Send + 'static,
{
    let mut parameters = schemars::schema_for!(A).to_value();
    if let Some(schema) = parameters.as_object_mut() {
        schema.remove("$schema");
        schema.remove("title");
    }
    let spec = ToolSpec {
        name: name.to_owned(),
        display_name: name.to_owned(),
        description: description.to_owned(),
        parameters,
        kind: ToolKind::Other,
        concurrency: Concurrency::Shared,
        aliases: Vec::new(),
    };
    let function: Function<A> = Arc::new(move |arguments| Box::pin(function(arguments)));
    Arc::new(FunctionTool { spec, function, arguments: PhantomData })
}

impl<A: DeserializeOwned + Send + 'static> Tool for FunctionTool<A> {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn prepare(
        &self,
        args: Object,
        _scope: &PrepareContext,
    ) -> Result<Box<dyn Invocation>, ToolError> {
        let title = self.spec.name.clone();
        let arguments = serde_json::from_value(Value::Object(args)).map_err(|error| {
            let message = format!("invalid arguments for `{title}`: {error}");
            ToolError::new(ToolErrorKind::InvalidToolParams, message)
        })?;
        let function = Arc::clone(&self.function);
        Ok(Box::new(FunctionCall { title, arguments, function, effects: Effects::default() }))
    }
}

struct FunctionCall<A> {
    title: String,
    arguments: A,
    function: Function<A>,
    effects: Effects,
}

impl<A: Send + 'static> Invocation for FunctionCall<A> {
    fn title(&self) -> String {
        self.title.clone()
    }

    fn effects(&self) -> &Effects {
        &self.effects
    }

    fn run(self: Box<Self>, run: RunContext) -> BoxFuture<'static, ToolResult> {
        Box::pin(async move {
            let failed = |message: String| {
                ToolResult::failure(ToolError::new(ToolErrorKind::ExecutionFailed, message))
            };
            tokio::select! {
                biased;
                () = run.cancel.cancelled() => failed("the call was cancelled".to_owned()),
                result = (self.function)(self.arguments) => match result {
                    Ok(text) => ToolResult::text(text),
                    Err(message) => failed(message),
                },
            }
        })
    }
}
