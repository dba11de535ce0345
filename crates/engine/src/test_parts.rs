//! Parts of a session for unit tests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::StreamExt;
use parallax_protocol::model::{
    Answer, Limits, Model, ModelCatalog, ModelError, Request, StreamEvent,
};
use parallax_protocol::permissions::Permissions;
use parallax_protocol::policy::{
    ApprovalMode, Decision, PolicyDecision, PolicyEngine, Query, SuggestedRule,
};
use parallax_protocol::routing::{AutoFallback, ClassifierAnswerFormat, FallbackModel, Routes};
use parallax_protocol::store::NoStore;
use parallax_protocol::tool::{
    Concurrency, Invocation, PrepareContext, Tool, ToolError, ToolErrorKind, ToolKind, ToolSpec,
};
use parallax_protocol::{BoxFuture, BoxStream, CancellationToken, Object};
use serde_json::json;
use tokio::sync::mpsc;

use crate::approvals::{ApprovalOptions, ApprovalState};
use crate::budget::Ledger;
use crate::conversation::{Conversation, ConversationStart};
use crate::environment::SessionEnvironment;
use crate::event_bus::EventBus;
use crate::history::History;
use crate::inbox::{Inbox, InboxOptions};
use crate::notices::Notices;
use crate::options::ApprovalPersistence;
use crate::prompts::Prompts;
use crate::shared_policy::SharedPolicyEngine;

/// A tool that is declared and never runs.
pub(crate) struct TestTool(ToolSpec);

impl TestTool {
    pub(crate) fn new(name: &str, kind: ToolKind, sharing: Concurrency) -> Self {
        Self(ToolSpec {
            name: name.to_owned(),
            display_name: name.to_owned(),
            description: "A tool.".to_owned(),
            parameters: json!({"type": "object"}),
            kind,
            concurrency: sharing,
            aliases: vec![format!("{name}_alias")],
        })
    }
}

impl Tool for TestTool {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn prepare(
        &self,
        _args: Object,
        _scope: &PrepareContext,
    ) -> Result<Box<dyn Invocation>, ToolError> {
        Err(ToolError::new(ToolErrorKind::ExecutionFailed, "not in this test".to_owned()))
    }
}

/// Gives every call the same decision, and suggests one rule.
pub(crate) struct TestPolicyEngine(pub(crate) Decision);

impl PolicyEngine for TestPolicyEngine {
    fn evaluate(&self, _query: &Query<'_>) -> PolicyDecision {
        PolicyDecision::new(self.0, "test", "because")
    }

    fn is_tool_denied(&self, _: &str, _: &[String], _: ApprovalMode, _: bool) -> bool {
        false
    }

    fn suggested_rules(&self, _: &Query<'_>, _: &Permissions) -> Vec<SuggestedRule> {
        vec![SuggestedRule::default()]
    }
}

/// Models `strong` and `fast`, which `auto` routes between, and `small` as their fallback. No
/// request succeeds.
pub(crate) struct TestModel;

impl Model for TestModel {
    fn stream(
        &self,
        _request: Request,
        _cancel: CancellationToken,
    ) -> BoxStream<'static, Result<StreamEvent, ModelError>> {
        futures_util::stream::empty().boxed()
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

impl ModelCatalog for TestModel {
    fn limits(&self, _model: &str) -> Limits {
        Limits {
            context: 100_000,
            output: 1_000,
            multimodal_tool_results: false,
            shared_window: false,
        }
    }

    fn resolve(&self, name: &str) -> String {
        if name == "auto" { "strong".to_owned() } else { name.to_owned() }
    }

    fn routes(&self, name: &str) -> Option<Routes> {
        (name == "auto").then(|| Routes {
            strong_model: "strong".to_owned(),
            fast: "fast".to_owned(),
            classifier: "small".to_owned(),
            scale: ClassifierAnswerFormat::Score,
        })
    }

    fn fallback_models(&self, model: &str, _chosen: bool) -> Vec<FallbackModel> {
        let fallback = FallbackModel {
            model: "small".to_owned(),
            auto_fallback: AutoFallback::default(),
            last_resort: false,
            only_for: None,
        };
        if model == "small" { Vec::new() } else { vec![fallback] }
    }
}

/// Returns an empty conversation.
pub(crate) fn conversation() -> Conversation {
    Conversation::new(ConversationStart {
        history: History::new(Vec::new(), Vec::new(), BTreeSet::new(), Arc::new(NoStore)),
        prompts: Prompts::new(Vec::new()),
        turn: 0,
        preface: None,
        pending: BTreeMap::new(),
        is_last_answer_partial: false,
        plan: None,
        directories: Vec::new(),
    })
}

/// Returns an inbox without front ends. Must be called on a runtime.
pub(crate) fn inbox(model: &str) -> Inbox {
    let options = InboxOptions {
        ops: mpsc::channel(1).1,
        mode: ApprovalMode::Default,
        model: model.to_owned(),
        model_changed: Box::new(|_| {}),
        add_directory: Box::new(Ok),
        shell: None,
        subagents: None,
        ledger: Ledger::default(),
    };
    Inbox::new(options, EventBus::new())
}

/// Returns the approvals of a session in a trusted directory.
pub(crate) fn approvals(decision: Decision, interactive: bool) -> ApprovalState {
    let environment = SessionEnvironment {
        interactive,
        includes_file_texts: false,
        is_replacement: false,
        trusted: true,
        workspace: Arc::new(Vec::new),
        describe_directories: Arc::new(|_| String::new()),
        secrets: Vec::new(),
        role: None,
    };
    let options = ApprovalOptions {
        policy_engine: SharedPolicyEngine::new(Arc::new(TestPolicyEngine(decision))),
        limits: ApprovalPersistence::default(),
        rule_store: None,
        mode: ApprovalMode::Default,
    };
    let bus = EventBus::new();
    ApprovalState::new(options, Arc::new(environment), bus.clone(), Notices::new(bus))
}
