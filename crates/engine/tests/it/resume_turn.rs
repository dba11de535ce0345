//! Resuming an interrupted turn, and rerunning a turn at a restored checkpoint.

use std::sync::{Arc, Mutex};

use parallax_protocol::content::{Content, Part, SealedContent};
use parallax_protocol::event::{EndReason, EventBody};
use parallax_protocol::op::{Op, Restore};
use parallax_protocol::store::Record;
use parallax_protocol::tool::Concurrency;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use crate::support::*;

fn call(name: &str, n: u64) -> Part {
    let args = json!({"n": n}).as_object().cloned().unwrap_or_default();
    Part::function_call(None, name, args)
}

fn response(name: &str, output: &str) -> Part {
    let object = json!({"output": output}).as_object().cloned().unwrap_or_default();
    Part::function_response(None, name, object, Vec::new())
}

fn result(name: &str, output: &str) -> Box<RawValue> {
    to_raw_value(&[response(name, output)]).expect("parts")
}

fn interrupted_question() -> SealedContent {
    Content::user(vec![Part::text("work")]).seal()
}

/// Runs to the end of the turn that the operation starts.
async fn resume_turn(rig: &mut Rig) -> EndReason {
    rig.send(Op::Continue).await;
    rig.finish().await.0
}

#[tokio::test]
async fn unanswered_prompt_is_resent_unchanged() {
    let history = vec![interrupted_question()];
    let setup = Setup { history: history.clone(), ..Setup::default() };
    let mut rig = rig(vec![has_text("here it is")], setup);
    assert!(matches!(resume_turn(&mut rig).await, EndReason::Done));
    assert_eq!(rig.script.contents(), [[history[0].json().to_owned()]]);
    assert_complete(&mut rig).await;
}

/// Checks that one request was made and that there is nothing left to resume.
async fn assert_complete(rig: &mut Rig) {
    rig.send(Op::Continue).await;
    rig.wait_for_event(|body| matches!(body, EventBody::NotContinued)).await;
    assert_eq!(rig.script.contents().len(), 1);
}

#[tokio::test]
async fn resumed_turn_uses_finished_results_and_marks_others_as_lost() {
    let answer = Content::model(vec![call("look", 1), call("look", 2), call("look", 3)]).seal();
    let ran: Arc<Mutex<Vec<u64>>> = Arc::default();
    let log = Arc::clone(&ran);
    let look = tool("look", Concurrency::Shared, move |n, _| {
        log.lock().expect("log").push(n);
        echo(n)
    });
    let setup = Setup {
        history: vec![interrupted_question(), answer.clone()],
        pending: [(1, result("look", "second"))].into(),
        tools: vec![look],
        cut_off: true,
        ..Setup::default()
    };
    let mut rig = rig(vec![has_text("done")], setup);
    assert!(matches!(resume_turn(&mut rig).await, EndReason::Done));
    let contents = rig.script.contents().remove(0);
    assert_eq!(contents[..2], [interrupted_question().json().to_owned(), answer.json().to_owned()]);
    let parts: serde_json::Value = serde_json::from_str(&contents[2]).expect("content");
    let parts = parts["parts"].as_array().expect("parts");
    assert_eq!(parts.len(), 3, "nothing but the three responses");
    let output = |at: usize| parts[at]["functionResponse"]["response"].clone();
    assert_eq!(output(1), json!({"output": "second"}));
    for index in [0, 2] {
        assert!(output(index)["error"].as_str().is_some_and(|text| text.contains("interrupted")));
    }
    assert_eq!(*ran.lock().expect("log"), [] as [u64; 0], "nothing runs again");
    assert_complete(&mut rig).await;
}

#[tokio::test]
async fn rewind_to_a_change_reruns_only_its_call() {
    let ran: Arc<Mutex<Vec<u64>>> = Arc::default();
    let log = Arc::clone(&ran);
    let edit = tool("edit", Concurrency::Exclusive, move |n, _| {
        log.lock().expect("log").push(n);
        echo(n)
    });
    let history = vec![
        interrupted_question(),
        Content::model(vec![call("edit", 1), call("edit", 2)]).seal(),
        Content::user(vec![response("edit", "one"), response("edit", "two"), Part::text("steer")])
            .seal(),
        Content::model(vec![Part::text("done")]).seal(),
    ];
    let versions = Arc::new(TestCheckpoints::default());
    let setup = Setup {
        history: history.clone(),
        tools: vec![edit],
        checkpoints: Some(versions.clone()),
        unattended: true,
        ..Setup::default()
    };
    let mut rig = rig(vec![has_text("done again")], setup);
    let order = |keep_contents, call| {
        Op::Restore(Restore { change_time: 77, keep_contents, call, force: false })
    };
    // A position without such a call.
    for (keep, call) in [(0, 0), (1, 0), (2, 2), (9, 0)] {
        rig.send(order(keep, call)).await;
        rig.wait_for_event(
            |body| matches!(body, EventBody::Restored(undone) if undone.problem.is_some()),
        )
        .await;
    }
    rig.send(order(2, 1)).await;
    rig.wait_for_event(|body| matches!(body, EventBody::Restored(_))).await;
    assert!(matches!(rig.finish().await.0, EndReason::Done));
    assert_eq!(*ran.lock().expect("log"), [2], "the first call had its result");
    assert_eq!(*versions.restored.lock().expect("log"), [(77, 1)]);
    let contents = rig.script.contents().remove(0);
    assert_eq!(contents[..2], history[..2].iter().map(|c| c.json().to_owned()).collect::<Vec<_>>());
    assert!(contents[2].contains("\"one\"") && !contents[2].contains("steer"), "{}", contents[2]);
    // After a crash at this point, the first result would be found again.
    let records = rig.store.0.lock().expect("records");
    let kinds: Vec<usize> = records
        .iter()
        .filter_map(|record| match record {
            Record::Result(result) => Some(result.index),
            _ => None,
        })
        .collect();
    assert_eq!(kinds, [0, 1]);
}
