//! Concurrent tool calls: order, limits, crashes, approval requests.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use parallax_protocol::event::{EndReason, EventBody, ItemDone, Question, ToolStatus};
use parallax_protocol::op::{ApprovalResponse, Op, RequestDecision};
use parallax_protocol::tool::{Concurrency, ToolError, ToolErrorKind, ToolResult};
use tokio::sync::Barrier;

use crate::support::*;

#[tokio::test]
async fn results_keep_the_order_of_calls_whatever_finishes_first() {
    // Both wait for each other, so they must run at the same time.
    let barrier = Arc::new(Barrier::new(2));
    let slow = tool("slow", Concurrency::Shared, move |n, _| {
        let barrier = barrier.clone();
        Box::pin(async move {
            barrier.wait().await;
            if n == 1 {
                tokio::task::yield_now().await;
            }
            ToolResult::text(format!("result {n}"))
        })
    });
    let replies = vec![calls(&[("slow", 1), ("slow", 2)]), has_text("done")];
    let mut rig = rig(replies, Setup { tools: vec![slow], ..Setup::default() });
    let (reason, _) = rig.turn("go").await;
    assert!(matches!(reason, EndReason::Done));
    rig.script.assert_prefixes();
    let last = rig.script.contents().pop().and_then(|contents| contents.last().cloned());
    assert_eq!(
        last.as_deref(),
        Some(concat!(
            r#"{"role":"user","parts":[{"functionResponse":{"name":"slow","response":{"output":"result 1"}}},"#,
            r#"{"functionResponse":{"name":"slow","response":{"output":"result 2"}}}]}"#
        ))
    );
}

#[tokio::test]
async fn thousand_calls_run_eight_at_a_time_and_all_are_answered() {
    let (now, peak) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (seen, highest) = (now.clone(), peak.clone());
    let busy = tool("busy", Concurrency::Shared, move |n, _| {
        let (now, peak) = (now.clone(), peak.clone());
        Box::pin(async move {
            peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            now.fetch_sub(1, Ordering::SeqCst);
            ToolResult::text(n.to_string())
        })
    });
    let list: Vec<(&str, u64)> = (0..1000).map(|n| ("busy", n)).collect();
    let mut rig =
        rig(vec![calls(&list), has_text("done")], Setup { tools: vec![busy], ..Setup::default() });
    let (reason, events) = rig.turn("go").await;
    assert!(matches!(reason, EndReason::Done));
    assert_eq!(tools_done(&events).len(), 1000);
    assert_eq!(seen.load(Ordering::SeqCst), 0);
    assert!(highest.load(Ordering::SeqCst) <= 8);
}

#[tokio::test]
async fn exclusive_call_is_prepared_after_earlier_calls_finish() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let (reads, edits) = (log.clone(), log.clone());
    let read = tool("read", Concurrency::Shared, move |n, _| {
        let log = reads.clone();
        Box::pin(async move {
            tokio::task::yield_now().await;
            log.lock().expect("log").push(format!("read {n}"));
            ToolResult::text("")
        })
    });
    let edit = tool("edit", Concurrency::Exclusive, move |n, _| {
        let log = edits.clone();
        Box::pin(async move {
            log.lock().expect("log").push(format!("edit {n} begins"));
            tokio::task::yield_now().await;
            log.lock().expect("log").push(format!("edit {n} ends"));
            ToolResult::text("")
        })
    });
    let replies =
        vec![calls(&[("read", 1), ("edit", 2), ("edit", 3), ("read", 4)]), has_text("done")];
    let mut rig = rig(replies, Setup { tools: vec![read, edit], ..Setup::default() });
    rig.turn("go").await;
    assert_eq!(
        *log.lock().expect("log"),
        ["read 1", "edit 2 begins", "edit 2 ends", "edit 3 begins", "edit 3 ends", "read 4"]
    );
}

#[tokio::test]
async fn panic_invalid_argument_and_unknown_tool_become_results() {
    let crash = tool("crash", Concurrency::Shared, |_, _| Box::pin(async { panic!("ouch") }));
    let fine = tool("fine", Concurrency::Shared, |n, _| echo(n));
    let odd = r#"[{"functionCall":{"name":"crash","args":{"n":1}}},{"functionCall":{"name":"fine","args":{"n":"x"}}},{"functionCall":{"name":"fien","args":{"n":3}}},{"functionCall":{"name":"fine","args":[1]}},{"functionCall":{"name":"fine","args":{"n":5}}}]"#;
    let replies = vec![vec![chunk(odd, Some("STOP"))], has_text("done")];
    let mut rig = rig(replies, Setup { tools: vec![crash, fine], ..Setup::default() });
    let (reason, events) = rig.turn("go").await;
    assert!(matches!(reason, EndReason::Done));
    let mut done = tools_done(&events);
    done.sort_by_key(|done| done.index);
    let kinds: Vec<_> =
        done.iter().map(|done| done.error.as_ref().map(|(kind, _)| *kind)).collect();
    assert_eq!(
        kinds,
        [
            Some(ToolErrorKind::UnhandledException),
            Some(ToolErrorKind::InvalidToolParams),
            Some(ToolErrorKind::ToolNotRegistered),
            Some(ToolErrorKind::InvalidToolParams),
            None,
        ]
    );
    assert!(done[2].for_model.contains("\"fine\""), "{}", done[2].for_model);
}

#[tokio::test]
async fn approved_call_runs_while_its_sibling_waits() {
    let ask = tool("ask_me", Concurrency::Shared, |n, _| echo(n));
    let replies = vec![calls(&[("ask_me", 1), ("ask_me", 2)]), has_text("done")];
    let mut rig = rig(replies, Setup { tools: vec![ask], ..Setup::default() });
    rig.prompt("go").await;
    let mut asks = Vec::new();
    while asks.len() < 2 {
        if let EventBody::ApprovalRequested(ask) = rig.next().await.body {
            asks.push(ask);
        }
    }
    let decide = |ask: usize, outcome, feedback: Option<&str>| {
        Op::Decide(Box::new(RequestDecision {
            feedback: feedback.map(str::to_owned),
            ..RequestDecision::new(asks[ask].id.clone(), outcome)
        }))
    };
    rig.handle.ops.send(decide(1, ApprovalResponse::ProceedOnce, None)).await.expect("open");
    rig.wait_for_event(|body| matches!(body, EventBody::ItemDone { item, .. } if item.as_str().starts_with("tool-"))).await;
    rig.handle
        .ops
        .send(decide(0, ApprovalResponse::Cancel, Some("use the other one")))
        .await
        .expect("open");
    let (reason, events) = rig.finish().await;
    assert!(matches!(reason, EndReason::Done));
    let refused = &tools_done(&events)[0];
    assert_eq!(refused.status, ToolStatus::Cancelled);
    assert!(refused.for_model.contains("use the other one"));
}

#[tokio::test]
async fn full_disk_ends_the_run_after_saving_results() {
    let full = tool("full", Concurrency::Shared, |_, _| {
        Box::pin(async {
            ToolResult::failure(ToolError::new(ToolErrorKind::NoSpaceLeft, "disk full"))
        })
    });
    let mut rig = rig(vec![calls(&[("full", 1)])], Setup { tools: vec![full], ..Setup::default() });
    let (reason, _) = rig.turn("go").await;
    assert!(matches!(reason, EndReason::Failed(failure) if failure.message == "disk full"));
}

#[tokio::test]
async fn repeated_steps_are_nudged_and_then_stopped() {
    let same =
        tool("same", Concurrency::Shared, |_, _| Box::pin(async { ToolResult::text("as ever") }));
    let replies = (0..20).map(|_| calls(&[("same", 1)])).collect();
    let mut rig = rig(replies, Setup { tools: vec![same], ..Setup::default() });
    let (reason, _) = rig.turn("go").await;
    assert!(matches!(reason, EndReason::Loop { .. }), "{reason:?}");
    let contents = rig.script.contents();
    assert_eq!(contents.len(), 8);
    assert!(contents[5].last().expect("content").contains("Possible loop"));
    rig.script.assert_prefixes();
}

#[tokio::test]
async fn loops_are_reported_with_the_display_name_to_users_and_the_declared_name_to_the_model() {
    let same =
        tool("same", Concurrency::Shared, |_, _| Box::pin(async { ToolResult::text("as ever") }));
    let mut same = Arc::into_inner(same).expect("the only reference");
    same.spec.display_name = "ShowSame".into();
    let replies = (0..20).map(|_| calls(&[("same", 1)])).collect();
    let mut rig = rig(replies, Setup { tools: vec![Arc::new(same)], ..Setup::default() });
    let (reason, events) = rig.turn("go").await;
    let EndReason::Loop { detail } = reason else { panic!("{reason:?}") };
    assert!(detail.starts_with("`ShowSame` was called 8 times"), "{detail}");
    let notice = events.iter().find_map(|event| match &event.body {
        EventBody::ItemDone { done: ItemDone::Notice { text, .. }, .. } => Some(text),
        _ => None,
    });
    let notice = notice.expect("a notice");
    assert!(notice.contains("`ShowSame` was called 5 times"), "{notice}");
    assert!(notice.contains("cancel the request"), "{notice}");
    assert!(rig.script.contents()[5].last().expect("content").contains("`same` was called"));
}

#[tokio::test]
async fn user_can_disable_loop_detection() {
    let same =
        tool("same", Concurrency::Shared, |_, _| Box::pin(async { ToolResult::text("as ever") }));
    let mut replies: Vec<_> = (0..12).map(|_| calls(&[("same", 1)])).collect();
    replies.push(has_text("done"));
    let budget = parallax_engine::Budget::default().with_user_prompts(true);
    let mut rig = rig(replies, Setup { tools: vec![same], budget, ..Setup::default() });
    rig.prompt("go").await;
    let approval = rig.wait_for_event(|body| matches!(body, EventBody::ApprovalRequested(_))).await;
    let EventBody::ApprovalRequested(ask) = approval.body else { unreachable!("a question") };
    assert_eq!(ask.question, Question::Loop);
    rig.send(Op::Decide(Box::new(RequestDecision::new(ask.id, ApprovalResponse::ProceedAlways))))
        .await;
    let (reason, _) = rig.finish().await;
    assert!(matches!(reason, EndReason::Done), "{reason:?}");
    rig.script.assert_prefixes();
}
