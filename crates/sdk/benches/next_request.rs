//! The next request of a session with 1,000 turns: the time from the prompt to the model request,
//! including its body (target: 20 ms).

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use parallax_engine::{
    ApprovalPersistence, Budget, CompactionOptions, EventBus, RoutingOptions, SessionOptions,
    SharedPolicyEngine, start,
};
use parallax_gemini::request_body;
use parallax_models::ModelTable;
use parallax_protocol::content::{Content, Part, Role, SealedContent};
use parallax_protocol::event::EventBody;
use parallax_protocol::ids::SessionId;
use parallax_protocol::model::{
    Answer, Limits, Model, ModelCatalog, ModelError, Request, StreamEvent,
};
use parallax_protocol::op::{Op, Prompt};
use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::{
    ApprovalMode, Decision, PolicyDecision, PolicyEngine, Query, SuggestedRule,
};
use parallax_protocol::store::{NoStore, assemble_step};
use parallax_protocol::{BoxFuture, BoxStream, CancellationToken, Object};
use serde_json::value::RawValue;
use tokio::sync::oneshot;

fn main() {
    divan::main();
}

/// A model that passes on the first request and never responds.
struct RequestCatcher(Mutex<Option<oneshot::Sender<Request>>>);

impl Model for RequestCatcher {
    fn stream(
        &self,
        request: Request,
        _cancel: CancellationToken,
    ) -> BoxStream<'static, Result<StreamEvent, ModelError>> {
        let sender = self.0.lock().ok().and_then(|mut sender| sender.take());
        if let Some(sender) = sender {
            let _ = sender.send(request);
        }
        Box::pin(futures_util::stream::iter([Err(ModelError::Cancelled)]))
    }
    fn generate(
        &self,
        _request: Request,
        _cancel: CancellationToken,
    ) -> BoxFuture<'static, Result<Answer, ModelError>> {
        Box::pin(async { Err(ModelError::Cancelled) })
    }
    fn catalog(&self) -> &dyn ModelCatalog {
        self
    }
}

impl ModelCatalog for RequestCatcher {
    fn limits(&self, _model: &str) -> Limits {
        Limits {
            context: 10_000_000,
            output: 8_192,
            multimodal_tool_results: true,
            shared_window: false,
        }
    }
    fn resolve(&self, name: &str) -> String {
        name.to_owned()
    }
}

struct AllowAll;

impl PolicyEngine for AllowAll {
    fn evaluate(&self, _query: &Query<'_>) -> PolicyDecision {
        PolicyDecision::new(Decision::Allow, "all", "it is a bench")
    }
    fn is_tool_denied(&self, _: &str, _: &[String], _: ApprovalMode, _: bool) -> bool {
        false
    }
    fn suggested_rules(&self, _: &Query<'_>, _: &Permissions) -> Vec<SuggestedRule> {
        Vec::new()
    }
    fn with_rule(&self, _: &SuggestedRule) -> Result<Arc<dyn PolicyEngine>, String> {
        Err("no rules here".to_owned())
    }
}

/// 1,000 turns with a prompt, a tool call with two kilobytes of output, and an answer.
fn history() -> Vec<SealedContent> {
    let output = "    let x = \\\"naïve\\\"; // line\\n".repeat(70);
    let answer = "The function reads the file **twice**. ".repeat(30);
    let mut contents = Vec::new();
    for turn in 0..1_000 {
        let prompt = Part::text(format!("what does function {turn} do?"));
        contents.push(Content::user(vec![prompt]).seal());
        let call = Part::function_call(None, "read_file", Object::new());
        contents.push(Content::model(vec![call]).seal());
        let wire = format!(
            r#"[{{"functionResponse":{{"name":"read_file","response":{{"output":"{output}"}}}}}}]"#
        );
        if let Ok(wire) = RawValue::from_string(wire) {
            contents.push(assemble_step(&[&wire], None));
        }
        contents.push(Content::model(vec![Part::text(&answer)]).seal());
    }
    debug_assert!(contents.last().is_some_and(|content| content.role() == Role::Model));
    contents
}

fn options(model: Arc<dyn Model>, history: Vec<SealedContent>) -> SessionOptions {
    let system: Arc<str> = "You are an agent.\n".repeat(400).into();
    SessionOptions {
        id: SessionId::from("bench"),
        model,
        model_name: "gemini-3-pro-preview".into(),
        tools: Vec::new(),
        more_tools: None,
        policy_engine: SharedPolicyEngine::new(Arc::new(AllowAll)),
        store: Arc::new(NoStore),
        mode: ApprovalMode::Default,
        interactive: true,
        includes_file_texts: false,
        is_replacement: false,
        trusted: true,
        workspace: Arc::new(Vec::<PathBuf>::new),
        add_directory: Box::new(Ok),
        describe_directories: Arc::new(|_| String::new()),
        directories: Vec::new(),
        model_changed: Box::new(|_| {}),
        system: Box::new(move |_, _| Arc::clone(&system)),
        preface: None,
        was_interrupted: false,
        unfinished_answer: None,
        history,
        pending: std::collections::BTreeMap::new(),
        compactions: Vec::new(),
        compaction: CompactionOptions {
            share: 1.0,
            tokens: u64::MAX,
            ..CompactionOptions::default()
        },
        pins: std::collections::BTreeSet::new(),
        sources: Vec::new(),
        folder_context: None,
        editor_context: None,
        agents: None,
        generation: Object::new(),
        max_turns: None,
        budget: Budget::default(),
        routing: RoutingOptions::default(),
        max_attempts: None,
        loop_detection: true,
        retry_base: Duration::from_millis(1),
        approvals: ApprovalPersistence::default(),
        rule_store: None,
        checkpoints: None,
        is_build_file: |_| false,
        turns: 1_000,
        prompts: Vec::new(),
        plan: None,
        shell: None,
        hooks: None,
        secrets: Vec::new(),
    }
}

/// From the prompt to the bytes of the body.
#[divan::bench(sample_count = 20, sample_size = 1)]
fn next_request_after_1000_turns(bencher: divan::Bencher<'_, '_>) {
    let Ok(runtime) =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()
    else {
        return;
    };
    let history = history();
    let table = ModelTable::default();
    bencher
        .with_inputs(|| {
            let (sender, caught) = oneshot::channel();
            let model = Arc::new(RequestCatcher(Mutex::new(Some(sender))));
            let session = runtime.block_on(async {
                let hub = EventBus::new();
                let mut events = hub.subscribe();
                let session = start(options(model, history.clone()), hub);
                // The session is ready when it reports its context usage.
                while let Some(event) = events.next().await {
                    if matches!(event.body, EventBody::ContextUsed(_)) {
                        break;
                    }
                }
                session
            });
            (session, caught)
        })
        .bench_local_values(|(session, caught)| {
            runtime.block_on(async {
                let prompt = Prompt { text: "and this one?".into(), ..Prompt::default() };
                let _ = session.ops.send(Op::Prompt(prompt)).await;
                let request = caught.await.ok()?;
                Some((request_body(&request, &table).len(), session))
            })
        });
}
