//! Events and operations keep their meaning on the way to another process.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::content::Part;
use crate::event::EndReason;
use crate::ids::{CallId, SteerId};
use crate::op::{Op, Prompt, RequestDecision, SteeringMessage};
use crate::permissions::Permissions;
use crate::policy::{Decision, PolicyDecision, SuggestedRule};
use crate::tool::{Display, FileDiff, ToolErrorKind, ToolKind};

fn repeat<T: Serialize + DeserializeOwned>(value: &T) -> T {
    let text = serde_json::to_string(value).expect("JSON");
    let reparsed = serde_json::from_str(&text).expect("the same type");
    let (first, second): (Value, Value) = (
        serde_json::from_str(&text).expect("JSON"),
        serde_json::to_value(&reparsed).expect("JSON"),
    );
    assert_eq!(first, second);
    reparsed
}

fn event(body: EventBody) -> EventBody {
    repeat(&Event { seq: 1, turn: 2, body }).body
}

fn decision() -> PolicyDecision {
    PolicyDecision::new(Decision::Ask, "r", "w")
}

#[test]
fn approval_request_keeps_the_default_of_its_rules() {
    let mut ask = ApprovalRequest::for_session(
        "a".into(),
        "run",
        "title".to_owned(),
        decision(),
        Question::Exec,
        vec![ApprovalResponse::ProceedOnce, ApprovalResponse::Cancel],
    );
    ask.rules = vec![
        SuggestedRule::default(),
        SuggestedRule { is_default: true, ..SuggestedRule::default() },
    ];
    ask.permissions = Permissions { network: true, ..Permissions::default() };
    let EventBody::ApprovalRequested(again) = event(EventBody::ApprovalRequested(Box::new(ask)))
    else {
        panic!("a request");
    };
    assert_eq!(again.rules.iter().map(|rule| rule.is_default).collect::<Vec<_>>(), [false, true]);
    assert!(again.permissions.network);
}

#[test]
fn finished_items_are_kept_with_their_paths() {
    let diff = FileDiff {
        file_path: "/a/\u{fc}".into(),
        diff: "@@".to_owned(),
        lines_added: 1,
        lines_removed: 2,
        is_new_file: true,
        texts: None,
    };
    let done = ToolDone {
        call: CallId::from("c"),
        index: 3,
        name: "edit".to_owned(),
        kind: Some(ToolKind::Edit),
        title: "t".to_owned(),
        status: ToolStatus::Error,
        decision: None,
        policy_decision: Some(decision()),
        display: Some(Display::Diff(diff)),
        error: Some((ToolErrorKind::InvalidToolParams, "m".to_owned())),
        for_model: "f".to_owned(),
        data: Some(json!({"a": [1, null]})),
        duration_ms: 5,
    };
    event(EventBody::ItemDone { item: "i".into(), done: ItemDone::Tool(Box::new(done)) });
    let shell = ShellDone {
        command: "ls".to_owned(),
        ending: crate::shell::ShellEnding::Exited { code: 1 },
        output: "\u{1b}[1mx".to_owned(),
        directory: None,
        duration_ms: 1,
    };
    event(EventBody::ItemDone { item: "i".into(), done: ItemDone::Shell(Box::new(shell)) });
    let undone = UndoResult {
        restored: vec!["/a".into()],
        skipped: vec![("/b".into(), "changed".to_owned())],
        ..UndoResult::default()
    };
    let EventBody::Undone(again) = event(EventBody::Undone(undone)) else { panic!("undone") };
    assert_eq!(again.skipped, [("/b".into(), "changed".to_owned())]);
}

#[test]
fn ends_of_turns_are_kept() {
    for reason in [
        EndReason::Done,
        EndReason::MaxTurns { limit: 3 },
        EndReason::Stopped { reason: "r".to_owned(), blocked: true },
        EndReason::Failed(Failure::new(FailureKind::Quota, "m".to_owned())),
    ] {
        let name = reason.as_str();
        let ended = TurnEnded { reason, duration_ms: 1, is_removed: true };
        let EventBody::TurnEnded(again) = event(EventBody::TurnEnded(ended)) else { panic!() };
        assert_eq!(again.reason.as_str(), name);
    }
}

#[test]
fn operations_are_kept() {
    let prompt = Prompt {
        text: "look".to_owned(),
        attachments: vec![Part::text("file"), Part::inline_data("image/png", "AAAA")],
        ..Prompt::default()
    };
    let Op::Prompt(again) = repeat(&Op::Prompt(prompt.clone())) else { panic!("a prompt") };
    assert_eq!(again.attachments, prompt.attachments);
    repeat(&Op::Steer(SteeringMessage { id: SteerId::from("s"), prompt }));
    let mut decide = RequestDecision::new("a".into(), ApprovalResponse::ProceedAlways);
    decide.rule = Some(SuggestedRule { tool_name: "t".to_owned(), ..SuggestedRule::default() });
    decide.increase = Some(1.5);
    repeat(&Op::Decide(Box::new(decide)));
    repeat(&Op::AddDirectory("/a b".into()));
    repeat(&Op::Undo { prompt: Some(1), force: true });
    for op in [Op::Interrupt, Op::Continue, Op::ListPrompts, Op::DescribeContext] {
        repeat(&op);
    }
}
