//! A scripted model, configurable tools, and a session that uses them.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use parallax_engine::{
    ApprovalPersistence, EventBus, EventReader, SessionHandle, SessionOptions, SharedPolicyEngine,
    invariants, start,
};
use parallax_protocol::checkpoint::{CheckpointGuard, Checkpoints, PendingChange};
use parallax_protocol::content::{Part, SealedContent};
use parallax_protocol::event::{EndReason, Event, EventBody, ItemDone, ToolDone, UndoResult};
use parallax_protocol::ids::SessionId;
use parallax_protocol::model::{
    Answer, Chunk, Finish, Limits, Model, ModelCatalog, ModelError, Request, StreamEvent,
};
use parallax_protocol::op::{Op, Prompt};
use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::{
    ApprovalMode, Decision, PolicyDecision, PolicyEngine, Query, RuleStore, SuggestedRule,
};
use parallax_protocol::routing::{AutoFallback, ClassifierAnswerFormat, FallbackModel, Routes};
use parallax_protocol::store::{Record, Store, StoreError};
use parallax_protocol::tool::{
    Concurrency, Effects, Invocation, PrepareContext, RunContext, Tool, ToolError, ToolErrorKind,
    ToolKind, ToolResult, ToolSpec,
};
use parallax_protocol::{BoxFuture, BoxStream, CancellationToken, Object};

pub enum Step {
    Chunk(Box<Chunk>),
    Fail(ModelError),

    Hang,
}

pub type ModelReply = Vec<Step>;

pub fn chunk(parts: &str, finish: Option<&str>) -> Step {
    Step::Chunk(Box::new(Chunk {
        parts: serde_json::from_str(parts).expect("parts"),
        finish: finish.map(Finish::from_gemini_word),
        ..Chunk::default()
    }))
}

pub fn has_text(text: &str) -> ModelReply {
    vec![chunk(&format!("[{{\"text\":{}}}]", serde_json::json!(text)), Some("STOP"))]
}

/// Creates calls by name and argument `n`; the first one is signed.
pub fn calls(list: &[(&str, u64)]) -> ModelReply {
    let parts: Vec<String> = list
        .iter()
        .enumerate()
        .map(|(index, (name, n))| {
            let signature = if index == 0 { ",\"thoughtSignature\":\"c2ln\"" } else { "" };
            format!(
                "{{\"functionCall\":{{\"name\":\"{name}\",\"args\":{{\"n\": {n}}}}}{signature}}}"
            )
        })
        .collect();
    vec![chunk(&format!("[{}]", parts.join(",")), Some("STOP"))]
}

pub fn broken_error(text: &str) -> ModelError {
    ModelError::Broken { status: None, message: text.into(), retryable: true, delay: None }
}

#[derive(Default)]
pub struct Script {
    replies: Mutex<VecDeque<ModelReply>>,
    pub requests: Mutex<Vec<Request>>,
    /// Answers to utility requests; without one, a utility request fails.
    written: Mutex<VecDeque<String>>,
    prompts: Mutex<Vec<String>>,
    /// How long utility requests take.
    thinks: Mutex<Duration>,
    window: std::sync::atomic::AtomicU64,
}

impl Script {
    pub fn new(replies: Vec<ModelReply>) -> Arc<Self> {
        Arc::new(Self { replies: Mutex::new(replies.into()), ..Self::default() })
    }

    /// Sets the answers to utility requests.
    pub fn writes(&self, texts: Vec<&str>) {
        let texts = texts.into_iter().map(str::to_owned);
        self.written.lock().expect("written").extend(texts);
    }

    /// Returns the utility requests.
    pub fn utility_requests(&self) -> Vec<String> {
        self.prompts.lock().expect("asked").clone()
    }

    /// Sets the context window in tokens.
    pub fn window(&self, tokens: u64) {
        self.window.store(tokens, Ordering::SeqCst);
    }

    /// Returns each request as the text of its contents. Checks that every request is valid and
    /// (by default) extends the previous one.
    pub fn contents(&self) -> Vec<Vec<String>> {
        let requests = self.requests.lock().expect("requests");
        requests
            .iter()
            .map(|request| request.contents.iter().map(|c| c.json().to_owned()).collect())
            .collect()
    }

    pub fn assert_prefixes(&self) {
        for pair in self.contents().windows(2) {
            let [earlier, later] = pair else { continue };
            assert!(later.starts_with(earlier), "\n{earlier:#?}\nis no prefix of\n{later:#?}");
        }
    }
}

impl Model for Script {
    fn stream(
        &self,
        request: Request,
        cancel: CancellationToken,
    ) -> BoxStream<'static, Result<StreamEvent, ModelError>> {
        assert_eq!(invariants::violation(&request.contents), None);
        self.requests.lock().expect("requests").push(request);
        let reply = self.replies.lock().expect("replies").pop_front();
        let reply = reply.unwrap_or_else(|| {
            vec![Step::Fail(ModelError::Script { message: "no reply left".into() })]
        });
        let steps = futures_util::stream::iter(reply);
        Box::pin(steps.filter_map(move |step| {
            let cancel = cancel.clone();
            async move {
                match step {
                    Step::Chunk(chunk) => Some(Ok(StreamEvent::Chunk(chunk))),
                    Step::Fail(error) => Some(Err(error)),
                    Step::Hang => {
                        cancel.cancelled().await;
                        Some(Err(ModelError::Cancelled))
                    }
                }
            }
        }))
    }

    fn generate(
        &self,
        request: Request,
        _cancel: CancellationToken,
    ) -> BoxFuture<'static, Result<Answer, ModelError>> {
        let prompt =
            request.contents.iter().map(SealedContent::json).collect::<Vec<_>>().join("\n");
        self.prompts.lock().expect("asked").push(prompt);
        let written = self.written.lock().expect("written").pop_front();
        let thinks = *self.thinks.lock().expect("thinks");
        Box::pin(async move {
            tokio::time::sleep(thinks).await;
            let text = written.ok_or(ModelError::Cancelled)?;
            Ok(Answer { parts: vec![Part::text(text)], ..Answer::default() })
        })
    }

    fn catalog(&self) -> &dyn ModelCatalog {
        self
    }
}

impl ModelCatalog for Script {
    fn limits(&self, _model: &str) -> Limits {
        let context = match self.window.load(Ordering::SeqCst) {
            0 => 1_000_000,
            tokens => tokens,
        };
        Limits { context, output: 65_536, multimodal_tool_results: true, shared_window: false }
    }

    fn resolve(&self, name: &str) -> String {
        if name == "auto" { "strong".to_owned() } else { name.to_owned() }
    }

    fn routes(&self, name: &str) -> Option<Routes> {
        (name == "auto").then(|| Routes {
            strong_model: "strong".into(),
            fast: "fast".into(),
            classifier: "small".into(),
            scale: ClassifierAnswerFormat::Score,
        })
    }

    fn fallback_models(&self, model: &str, chosen: bool) -> Vec<FallbackModel> {
        let other = match model {
            "strong" => "fast",
            "fast" if chosen => "strong",
            _ => return Vec::new(),
        };
        let auto_fallback = if chosen { AutoFallback::PASSING } else { AutoFallback::NEVER };
        vec![FallbackModel {
            model: other.into(),
            auto_fallback,
            last_resort: false,
            only_for: None,
        }]
    }
}

type Body = Arc<dyn Fn(u64, RunContext) -> BoxFuture<'static, ToolResult> + Send + Sync>;

pub struct TestTool {
    pub spec: ToolSpec,
    body: Body,
    pub prepared: Arc<AtomicUsize>,
}

pub fn tool(
    name: &str,
    sharing: Concurrency,
    body: impl Fn(u64, RunContext) -> BoxFuture<'static, ToolResult> + Send + Sync + 'static,
) -> Arc<TestTool> {
    let spec = ToolSpec {
        name: name.into(),
        display_name: name.into(),
        description: "a tool".into(),
        parameters: serde_json::json!({"type": "object", "properties": {}}),
        kind: match sharing {
            Concurrency::Exclusive => ToolKind::Edit,
            Concurrency::Shared if name.contains("run") => ToolKind::Execute,
            Concurrency::Shared => ToolKind::Read,
        },
        concurrency: sharing,
        aliases: Vec::new(),
    };
    Arc::new(TestTool { spec, body: Arc::new(body), prepared: Arc::default() })
}

/// Creates a tool with a long description.
pub fn verbose_tool(name: &str, words: usize) -> Arc<TestTool> {
    let plain = tool(name, Concurrency::Shared, |n, _| echo(n));
    let spec = ToolSpec { description: "word ".repeat(words), ..plain.spec.clone() };
    Arc::new(TestTool { spec, body: Arc::clone(&plain.body), prepared: Arc::default() })
}

impl Tool for TestTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }
    fn prepare(
        &self,
        args: Object,
        _scope: &PrepareContext,
    ) -> Result<Box<dyn Invocation>, ToolError> {
        self.prepared.fetch_add(1, Ordering::SeqCst);
        assert!(!args.contains_key("wait_for_previous"));
        match args.get("n").and_then(serde_json::Value::as_u64) {
            Some(n) => Ok(Box::new(TestCall {
                n,
                body: Arc::clone(&self.body),
                effects: match self.spec.kind {
                    ToolKind::Execute => {
                        Effects { runs: vec![n.to_string()], ..Effects::default() }
                    }
                    ToolKind::Edit => {
                        Effects { writes: vec![format!("/{n}").into()], ..Effects::default() }
                    }
                    _ => Effects::default(),
                },
            })),
            None => {
                Err(ToolError::new(ToolErrorKind::InvalidToolParams, "params/n must be number"))
            }
        }
    }
}

struct TestCall {
    n: u64,
    body: Body,
    effects: Effects,
}

impl Invocation for TestCall {
    fn title(&self) -> String {
        format!("call {}", self.n)
    }
    fn effects(&self) -> &Effects {
        &self.effects
    }
    fn broader_permissions(&self, permissions: &Permissions) -> Permissions {
        Permissions { caches: permissions.network, ..permissions.clone() }
    }
    fn run(self: Box<Self>, run: RunContext) -> BoxFuture<'static, ToolResult> {
        (self.body)(self.n, run)
    }
}

/// Asks for `ask_*`, denies `deny_*`, and allows everything else; asks for permissions that no rule
/// grants. Rules apply to whole tools.
#[derive(Default)]
struct ByName {
    rules: Vec<SuggestedRule>,
}

impl PolicyEngine for ByName {
    fn evaluate(&self, query: &Query<'_>) -> PolicyDecision {
        let rule = self.rules.iter().find(|rule| rule.tool_name == query.tool);
        let granted = rule.map(|rule| rule.permissions.clone()).unwrap_or_default();
        if !query.effects.permissions.difference(&granted).is_empty() {
            let decision = if query.interactive { Decision::Ask } else { Decision::Deny };
            return PolicyDecision::new(decision, "beyond", "it wants more");
        }
        if rule.is_some() {
            return PolicyDecision {
                grants: granted,
                ..PolicyDecision::new(Decision::Allow, "rule", "kept")
            };
        }
        let decision = match query.tool.split('_').next() {
            Some("ask") if query.mode < ApprovalMode::AutoEdit => Decision::Ask,
            Some("deny") => Decision::Deny,
            _ => Decision::Allow,
        };
        PolicyDecision::new(decision, "by name", "its name says so")
    }
    fn is_tool_denied(&self, _: &str, _: &[String], _: ApprovalMode, _: bool) -> bool {
        false
    }
    fn suggested_rules(&self, query: &Query<'_>, permissions: &Permissions) -> Vec<SuggestedRule> {
        vec![SuggestedRule {
            tool_name: query.tool.into(),
            permissions: permissions.clone(),
            ..SuggestedRule::default()
        }]
    }
    fn with_rule(&self, rule: &SuggestedRule) -> Result<Arc<dyn PolicyEngine>, String> {
        if rule.tool_name == "*" {
            return Err("too wide".into());
        }
        let mut rules = self.rules.clone();
        rules.push(rule.clone());
        Ok(Arc::new(Self { rules }))
    }
}

#[derive(Default)]
pub struct Memory(pub Mutex<Vec<Record>>);

impl Store for Memory {
    fn append(&self, record: &Record) -> Result<(), StoreError> {
        self.0.lock().expect("records").push(record.clone());
        Ok(())
    }
    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

pub struct Rig {
    pub handle: SessionHandle,
    pub events: EventReader,
    pub script: Arc<Script>,
    pub store: Arc<Memory>,
}

#[derive(Default)]
pub struct Setup {
    pub tools: Vec<Arc<dyn Tool>>,
    pub history: Vec<SealedContent>,
    pub pending: std::collections::BTreeMap<usize, Box<serde_json::value::RawValue>>,
    pub cut_off: bool,
    pub max_turns: Option<u32>,
    pub budget: parallax_engine::Budget,
    pub routing: parallax_engine::RoutingOptions,
    pub model: Option<&'static str>,
    pub mode: ApprovalMode,
    pub unattended: bool,
    pub keeper: Option<Arc<dyn RuleStore>>,
    /// Instead of [`ToolStatsByName`].
    pub policy_engine: Option<Arc<dyn PolicyEngine>>,
    pub checkpoints: Option<Arc<dyn Checkpoints>>,
    pub hooks: Option<Arc<dyn parallax_protocol::hooks::Hooks>>,
    pub shell: Option<Arc<dyn parallax_protocol::shell::Shell>>,
    pub prompts: Vec<parallax_protocol::store::RewindTarget>,
    pub compactions: Vec<parallax_protocol::store::CompactionRecord>,
    pub compaction: parallax_engine::CompactionOptions,
    pub pins: std::collections::BTreeSet<parallax_protocol::context::ResultLocation>,
    pub sources: Vec<parallax_protocol::context::Source>,
    pub folder_context: Option<Arc<dyn parallax_protocol::context::FolderContext>>,
    pub editor_context: Option<Arc<dyn parallax_protocol::context::EditorContext>>,
    pub agents: Option<Arc<dyn parallax_protocol::agent::Agents>>,
}

pub fn rig(replies: Vec<ModelReply>, setup: Setup) -> Rig {
    let script = Script::new(replies);
    let store = Arc::new(Memory::default());
    let bus = EventBus::new();
    let events = bus.subscribe();
    let added = Arc::new(Mutex::new(Vec::<PathBuf>::new()));
    let folders = Arc::clone(&added);
    let handle = start(
        SessionOptions {
            id: SessionId::from("test"),
            model: script.clone(),
            model_name: setup.model.unwrap_or("gemini-test").into(),
            tools: setup.tools,
            more_tools: None,
            agents: setup.agents,
            policy_engine: SharedPolicyEngine::new(
                setup.policy_engine.unwrap_or_else(|| Arc::new(ByName::default())),
            ),
            store: store.clone(),
            mode: setup.mode,
            interactive: !setup.unattended,
            includes_file_texts: false,
            is_replacement: false,
            trusted: true,
            workspace: Arc::new(move || {
                let added = folders.lock().expect("folders");
                let root = (!added.is_empty()).then(|| PathBuf::from("/w"));
                root.into_iter().chain(added.iter().cloned()).collect()
            }),
            add_directory: Box::new(move |folder| {
                added.lock().expect("folders").push(folder.clone());
                Ok(folder)
            }),
            describe_directories: Arc::new(|added| {
                format!("<session_context>{added:?}</session_context>")
            }),
            directories: Vec::new(),
            model_changed: Box::new(|_| {}),
            system: Box::new(|_, _| Arc::from("system")),
            preface: Some("<session_context/>".into()),
            was_interrupted: setup.cut_off,
            unfinished_answer: None,
            history: setup.history,
            pending: setup.pending,
            compactions: setup.compactions,
            compaction: setup.compaction,
            pins: setup.pins,
            sources: setup.sources,
            folder_context: setup.folder_context,
            editor_context: setup.editor_context,
            generation: Object::new(),
            max_turns: setup.max_turns,
            budget: setup.budget,
            routing: setup.routing,
            max_attempts: None,
            loop_detection: true,
            retry_base: Duration::from_millis(1),
            approvals: ApprovalPersistence {
                permanent: setup.keeper.is_some(),
                ..ApprovalPersistence::default()
            },
            rule_store: setup.keeper,
            checkpoints: setup.checkpoints,
            is_build_file: |_| false,
            turns: setup.prompts.iter().map(|mark| mark.turn).max().unwrap_or(0),
            prompts: setup.prompts,
            plan: None,
            shell: setup.shell,
            hooks: setup.hooks,
            secrets: vec!["hush-hush-hush".into()],
        },
        bus,
    );
    Rig { handle, events, script, store }
}

/// Creates a steering message.
pub fn steer(id: &str, text: &str) -> Op {
    let prompt = Prompt { text: text.into(), ..Prompt::default() };
    Op::Steer(parallax_protocol::op::SteeringMessage { id: id.into(), prompt })
}

impl Rig {
    pub async fn prompt(&self, text: &str) {
        let prompt = Prompt { text: text.into(), ..Prompt::default() };
        self.handle.ops.send(Op::Prompt(prompt)).await.expect("session");
    }

    pub async fn send(&self, op: Op) {
        self.handle.ops.send(op).await.expect("session");
    }

    /// Waits until all operations sent so far are processed.
    pub async fn wait_until_processed(&self) {
        drop(self.handle.ops.reserve_many(64).await.expect("session"));
    }

    /// Sends a prompt and reads events to the end of its turn.
    pub async fn turn(&mut self, text: &str) -> (EndReason, Vec<Event>) {
        self.prompt(text).await;
        self.finish().await
    }

    pub async fn finish(&mut self) -> (EndReason, Vec<Event>) {
        let mut events = Vec::new();
        loop {
            let event = self.next().await;
            if let EventBody::TurnEnded(ended) = &event.body {
                return (ended.reason.clone(), events);
            }
            events.push(event);
        }
    }

    /// Reads events to the end of the turn and returns its reported duration.
    pub async fn turn_ms(&mut self) -> u64 {
        match self.wait_for_event(|body| matches!(body, EventBody::TurnEnded(_))).await.body {
            EventBody::TurnEnded(ended) => ended.duration_ms,
            _ => unreachable!(),
        }
    }

    pub async fn next(&mut self) -> Event {
        let waiting = tokio::time::timeout(Duration::from_secs(20), self.events.next());
        waiting.await.expect("an event in time").expect("an open session")
    }

    pub async fn wait_for_event(&mut self, mut matches: impl FnMut(&EventBody) -> bool) -> Event {
        loop {
            let event = self.next().await;
            if matches(&event.body) {
                return event;
            }
        }
    }
}

/// Returns the recorded strings, in order.
pub fn texts(events: &[Event]) -> Vec<String> {
    events
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::ItemDone { done: ItemDone::Text { text, is_dropped: false }, .. } => {
                Some(String::clone(text))
            }
            _ => None,
        })
        .collect()
}

pub fn tools_done(events: &[Event]) -> Vec<ToolDone> {
    events
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::ItemDone { done: ItemDone::Tool(done), .. } => Some((**done).clone()),
            _ => None,
        })
        .collect()
}

pub fn echo(n: u64) -> BoxFuture<'static, ToolResult> {
    Box::pin(async move { ToolResult::text(format!("result {n}")) })
}

/// Checkpoints in which turns 1 to 3 changed one file each, and the file of turn 2 was changed by
/// others since. Restoring a moment always succeeds.
#[derive(Default)]
pub struct TestCheckpoints {
    /// The turns that were undone, and whether by force.
    pub undone: Mutex<Vec<(u64, bool)>>,
    /// The moments that were restored, and in which turn.
    pub restored: Mutex<Vec<(i64, u64)>>,
}

impl Checkpoints for TestCheckpoints {
    fn irreversible_changes(&self, _: PendingChange<'_>) -> Vec<String> {
        Vec::new()
    }
    fn save_before(
        &self,
        _: u64,
        _: PendingChange<'_>,
    ) -> Result<Box<dyn CheckpointGuard>, String> {
        Err("not here".into())
    }
    fn created_paths(&self) -> Vec<PathBuf> {
        Vec::new()
    }
    fn changes(&self) -> Vec<(u64, Vec<PathBuf>)> {
        (1..=3).map(|turn| (turn, vec![PathBuf::from(format!("/w/{turn}"))])).collect()
    }
    fn undo(&self, turn: Option<u64>, force: bool) -> Result<UndoResult, String> {
        let turn = turn.expect("a turn");
        self.undone.lock().expect("log").push((turn, force));
        let path = PathBuf::from(format!("/w/{turn}"));
        let mut undone = UndoResult { turn, ..UndoResult::default() };
        match turn == 2 && !force {
            true => undone.skipped.push((path, "it was changed since".into())),
            false => undone.restored.push(path),
        }
        Ok(undone)
    }
    fn restore(&self, moment: i64, turn: u64, _: bool) -> Result<UndoResult, String> {
        self.restored.lock().expect("log").push((moment, turn));
        Ok(UndoResult { turn, restored: vec!["/w/a".into()], ..UndoResult::default() })
    }
}
