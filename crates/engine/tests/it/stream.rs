//! Streams that break, are empty, or are blocked.

use parallax_protocol::event::{EndReason, EventBody, FailureKind, ItemDone};
use parallax_protocol::grounding::Grounding;
use parallax_protocol::model::{Chunk, Citation, ModelError};
use parallax_protocol::tool::Concurrency;

use crate::support::*;

#[tokio::test]
async fn interrupted_stream_is_retried_and_its_text_and_calls_dropped() {
    let once = tool("once", Concurrency::Shared, |n, _| echo(n));
    let prepared = once.prepared.clone();
    let mut cut = calls(&[("once", 1)]);
    cut[0] = chunk(r#"[{"text":"I will "},{"functionCall":{"name":"once","args":{"n":1}}}]"#, None);
    cut.push(Step::Fail(broken_error("connection reset")));
    let replies = vec![cut, calls(&[("once", 1)]), has_text("done")];
    let mut rig = rig(replies, Setup { tools: vec![once], ..Setup::default() });
    let (reason, events) = rig.turn("go").await;
    assert!(matches!(reason, EndReason::Done));
    assert_eq!(prepared.load(std::sync::atomic::Ordering::SeqCst), 1);
    assert!(events.iter().any(|event| matches!(&event.body,
        EventBody::ItemDone { done: ItemDone::Text { text, is_dropped: true }, .. } if **text == "I will ")));
    assert_eq!(texts(&events), ["done"]);
    rig.script.assert_prefixes();
}

#[tokio::test]
async fn stream_cut_after_the_finish_reason_is_complete() {
    let mut reply = has_text("all of it");
    reply.push(Step::Fail(broken_error("connection reset")));
    let mut rig = rig(vec![reply], Setup::default());
    let (reason, events) = rig.turn("go").await;
    assert!(matches!(reason, EndReason::Done));
    assert_eq!(texts(&events), ["all of it"]);
}

#[tokio::test]
async fn four_failed_attempts_fail_the_turn_and_return_the_prompt() {
    let replies =
        (0..4).map(|_| vec![Step::Fail(broken_error("cut"))]).chain([has_text("hello")]).collect();
    let mut rig = rig(replies, Setup::default());
    let (reason, _) = rig.turn("first").await;
    assert!(
        matches!(reason, EndReason::Failed(failure) if failure.kind == FailureKind::InvalidStream)
    );
    let (reason, _) = rig.turn("second").await;
    assert!(matches!(reason, EndReason::Done));
    let last = rig.script.contents().pop().expect("a request");
    assert_eq!(last.len(), 1);
    assert!(last[0].contains("session_context") && last[0].contains("second"));
    assert!(!last[0].contains("first"));
}

#[tokio::test]
async fn thinking_alone_is_nudged_in_the_request_only() {
    let thought = vec![chunk(r#"[{"text":"hm","thought":true}]"#, Some("STOP"))];
    let mut rig = rig(vec![thought, has_text("done"), has_text("more")], Setup::default());
    rig.turn("go").await;
    rig.turn("again").await;
    let contents = rig.script.contents();
    assert!(contents[1][0].contains("[System:") && !contents[2][0].contains("[System:"));
}

#[tokio::test]
async fn refusals_fail_with_their_reason_without_many_retries() {
    let refused = || vec![chunk("[]", Some("SAFETY"))];
    let mut rig = rig(vec![refused(), refused(), has_text("never")], Setup::default());
    let (reason, _) = rig.turn("go").await;
    let EndReason::Failed(failure) = reason else { panic!("{reason:?}") };
    assert_eq!(failure.kind, FailureKind::Blocked);
    assert!(failure.message.contains("SAFETY"));
    assert_eq!(rig.script.contents().len(), 1);
}

#[tokio::test]
async fn blocked_prompt_fails_at_once() {
    let blocked = parallax_protocol::model::Chunk {
        blocked: Some("PROHIBITED_CONTENT".into()),
        ..Default::default()
    };
    let mut rig =
        rig(vec![vec![Step::Chunk(Box::new(blocked))], has_text("never")], Setup::default());
    let (reason, _) = rig.turn("go").await;
    assert!(
        matches!(reason, EndReason::Failed(failure) if failure.message.contains("PROHIBITED_CONTENT"))
    );
    assert_eq!(rig.script.contents().len(), 1);
}

#[tokio::test]
async fn signatures_of_another_key_are_replaced_after_one_retry() {
    let refuse = || {
        vec![Step::Fail(ModelError::BadRequest {
            status: 400,
            code: Some("INVALID_ARGUMENT".into()),
            message: "Corrupted thought signature.".into(),
        })]
    };
    let one = tool("one", Concurrency::Shared, |n, _| echo(n));
    let replies = vec![calls(&[("one", 1)]), refuse(), refuse(), has_text("done")];
    let mut rig = rig(replies, Setup { tools: vec![one], ..Setup::default() });
    let (reason, _) = rig.turn("go").await;
    assert!(matches!(reason, EndReason::Done));
    let contents = rig.script.contents();
    assert!(contents[2][1].contains("c2ln"));
    assert!(contents[3][1].contains("skip_thought_signature_validator"));
}

#[tokio::test]
async fn citations_are_emitted_once_each() {
    let source = |title: &str, uri: &str| Citation { title: Some(title.into()), uri: uri.into() };
    let report = Step::Chunk(Box::new(Chunk {
        citations: vec![source("b", "http://b.example/"), source("lost", "")],
        grounding: Some(Grounding {
            sources: vec![source("a", "http://a.example/"), source("b", "http://b.example/")],
            ..Grounding::default()
        }),
        ..Chunk::default()
    }));
    let mut rig = rig(
        vec![[vec![report], has_text("so it is")].into_iter().flatten().collect()],
        Setup::default(),
    );
    rig.prompt("go").await;
    let event = rig.wait_for_event(|body| matches!(body, EventBody::Sources(_))).await;
    let EventBody::Sources(sources) = event.body else { unreachable!() };
    assert_eq!(sources, [source("a", "http://a.example/"), source("b", "http://b.example/")]);
    rig.finish().await;
}
