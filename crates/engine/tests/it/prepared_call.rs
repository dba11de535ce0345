//! The object that is shown to the user is the one that the policy engine evaluates and that runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use parallax_protocol::event::EventBody;
use parallax_protocol::op::{ApprovalResponse, Op, RequestDecision};
use parallax_protocol::policy::{ApprovalMode, Decision, PolicyDecision, PolicyEngine, Query};
use parallax_protocol::tool::{
    Concurrency, Effects, Invocation, PrepareContext, Preview, RunContext, Tool, ToolError,
    ToolKind, ToolResult, ToolSpec,
};
use parallax_protocol::{BoxFuture, Object};

use crate::support::*;

type Seen = Arc<Mutex<Vec<String>>>;

/// A tool that gives every prepared call its own number, so that another one, prepared from the
/// same arguments, is recognized.
struct NumberingTool {
    spec: ToolSpec,
    prepared: AtomicU64,
    ran: Seen,
}

impl Tool for NumberingTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn prepare(
        &self,
        _args: Object,
        _scope: &PrepareContext,
    ) -> Result<Box<dyn Invocation>, ToolError> {
        let number = self.prepared.fetch_add(1, Ordering::SeqCst).to_string();
        let effects = Effects { runs: vec![number.clone()], ..Effects::default() };
        Ok(Box::new(NumberedCall { number, effects, ran: Arc::clone(&self.ran) }))
    }
}

struct NumberedCall {
    number: String,
    effects: Effects,
    ran: Seen,
}

impl Invocation for NumberedCall {
    fn title(&self) -> String {
        self.number.clone()
    }

    fn effects(&self) -> &Effects {
        &self.effects
    }

    fn preview(&self) -> Option<Preview> {
        Some(Preview::Command { command: self.number.clone(), directory: "/w".into() })
    }

    fn run(self: Box<Self>, _run: RunContext) -> BoxFuture<'static, ToolResult> {
        self.ran.lock().expect("calls").push(self.number.clone());
        echo(1)
    }
}

/// Requires approval for every call, and records the calls that it evaluates.
struct RecordingPolicyEngine(Seen);

impl PolicyEngine for RecordingPolicyEngine {
    fn evaluate(&self, query: &Query<'_>) -> PolicyDecision {
        self.0.lock().expect("calls").extend(query.effects.runs.iter().cloned());
        PolicyDecision::new(Decision::Ask, "test", "every call requires approval")
    }

    fn is_tool_denied(&self, _: &str, _: &[String], _: ApprovalMode, _: bool) -> bool {
        false
    }
}

#[tokio::test]
async fn call_that_is_shown_is_the_one_evaluated_and_run() {
    for sharing in [Concurrency::Shared, Concurrency::Exclusive] {
        let (evaluated, ran) = (Seen::default(), Seen::default());
        let spec = ToolSpec {
            name: "numbering".into(),
            display_name: "Numbering".into(),
            description: "a tool".into(),
            parameters: serde_json::json!({"type": "object", "properties": {}}),
            kind: ToolKind::Execute,
            concurrency: sharing,
            aliases: Vec::new(),
        };
        let tool = NumberingTool { spec, prepared: AtomicU64::new(0), ran: Arc::clone(&ran) };
        let setup = Setup {
            tools: vec![Arc::new(tool)],
            policy_engine: Some(Arc::new(RecordingPolicyEngine(Arc::clone(&evaluated)))),
            ..Setup::default()
        };
        let call = calls(&[("numbering", 1)]);
        let mut rig = rig(vec![call, calls(&[("numbering", 2)]), has_text("done")], setup);
        rig.prompt("go").await;
        let mut shown = Vec::new();
        for _ in 0..2 {
            let event =
                rig.wait_for_event(|body| matches!(body, EventBody::ApprovalRequested(_))).await;
            let EventBody::ApprovalRequested(ask) = event.body else { unreachable!() };
            let Some(Preview::Command { command, .. }) = &ask.preview else {
                panic!("no preview: {ask:?}")
            };
            assert_eq!(*command, ask.title);
            let before = evaluated.lock().expect("calls").len();
            assert_eq!(ran.lock().expect("calls").len(), shown.len(), "it ran before approval");
            assert_eq!(evaluated.lock().expect("calls").last(), Some(command), "after {before}");
            shown.push(command.clone());
            let decide = RequestDecision::new(ask.id, ApprovalResponse::ProceedOnce);
            rig.handle.ops.send(Op::Decide(Box::new(decide))).await.expect("session");
        }
        rig.finish().await;
        assert_eq!(*ran.lock().expect("calls"), shown, "{sharing:?}");
        let mut evaluated = evaluated.lock().expect("calls").clone();
        evaluated.dedup();
        assert_eq!(evaluated, shown, "{sharing:?}");
    }
}
