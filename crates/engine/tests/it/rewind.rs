//! Rewinding to before a prompt.

use std::path::PathBuf;
use std::sync::Arc;

use parallax_protocol::event::{EventBody, ItemDone, Level, PromptEntry, RewindResult};
use parallax_protocol::op::{Op, Rewind};
use parallax_protocol::store::{Record, RewindTarget};
use parallax_protocol::tool::{Concurrency, Display, FileDiff, ToolResult};

use crate::support::*;

fn rewind(turn: u64, chat: bool, files: bool, force: bool) -> Op {
    Op::Rewind(Rewind { turn, chat, files, force })
}

async fn rewind_result(rig: &mut Rig) -> RewindResult {
    let event = rig.wait_for_event(|body| matches!(body, EventBody::Rewound(_))).await;
    match event.body {
        EventBody::Rewound(rewound) => rewound,
        _ => unreachable!(),
    }
}

async fn prompts(rig: &mut Rig) -> Vec<PromptEntry> {
    rig.send(Op::ListPrompts).await;
    let event = rig.wait_for_event(|body| matches!(body, EventBody::Prompts { .. })).await;
    match event.body {
        EventBody::Prompts { prompts } => prompts,
        _ => unreachable!(),
    }
}

fn turns(prompts: &[PromptEntry]) -> Vec<(u64, &str)> {
    prompts.iter().map(|prompt| (prompt.turn, prompt.text.as_str())).collect()
}

#[tokio::test]
async fn rewind_removes_turns_and_prompt_numbers_stay_unique() {
    let mut rig = rig(["a", "b", "c", "d", "e"].map(has_text).into(), Setup::default());
    for prompt in ["one", "two", "three"] {
        rig.turn(prompt).await;
    }
    assert_eq!(turns(&prompts(&mut rig).await), [(1, "one"), (2, "two"), (3, "three")]);
    rig.send(rewind(2, true, false, false)).await;
    let output = rewind_result(&mut rig).await;
    assert_eq!((output.number, output.prompt.as_str(), output.chat), (2, "two", true));
    assert_eq!(output.files, None);
    rig.turn("other").await;
    let request = rig.script.contents().pop().expect("request");
    assert_eq!(request.len(), 3, "{request:?}");
    assert!(request[1].contains("\"a\"") && request[2].contains("other"));
    let listed = prompts(&mut rig).await;
    assert_eq!(turns(&listed), [(1, "one"), (4, "other")]);
    assert_eq!(listed.iter().map(|prompt| prompt.number).collect::<Vec<_>>(), [1, 2]);
    {
        let records = rig.store.0.lock().expect("records");
        assert!(
            records.iter().any(|record| matches!(record, Record::Truncate { keep_contents: 2 }))
        );
        let numbers: Vec<u64> = records
            .iter()
            .filter_map(|record| match record {
                Record::Content(content) => content.turn,
                _ => None,
            })
            .collect();
        assert_eq!(numbers, [1, 2, 3, 4]);
    }
    // Rewound to the start: the context of the first prompt is sent again.
    rig.send(rewind(1, true, false, false)).await;
    rewind_result(&mut rig).await;
    rig.turn("new_instance").await;
    let request = rig.script.contents().pop().expect("request");
    assert_eq!(request.len(), 1);
    assert!(request[0].contains("<session_context/>") && request[0].contains("new_instance"));
    rig.send(rewind(2, true, false, false)).await;
    let refused = rig
        .wait_for_event(|body| {
            matches!(
                body,
                EventBody::ItemDone { done: ItemDone::Notice { level: Level::Error, .. }, .. }
            )
        })
        .await;
    assert!(format!("{refused:?}").contains("already removed"));
}

#[tokio::test]
async fn files_are_reverted_turn_by_turn() {
    for (force, restored, kept) in
        [(false, vec!["/w/3"], vec!["/w/2"]), (true, vec!["/w/2", "/w/3"], vec![])]
    {
        let versions = Arc::new(TestCheckpoints::default());
        let setup = Setup { checkpoints: Some(versions.clone()), ..Setup::default() };
        let mut rig = rig(["a", "b"].map(has_text).into(), setup);
        rig.turn("one").await;
        rig.turn("two").await;
        let list = prompts(&mut rig).await;
        assert_eq!(list[1].files, [PathBuf::from("/w/2")]);
        rig.send(rewind(2, false, true, force)).await;
        let output = rewind_result(&mut rig).await;
        let files = output.files.expect("files");
        let paths = |paths: Vec<&str>| paths.into_iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(files.restored, paths(restored));
        let left: Vec<PathBuf> = files.skipped.into_iter().map(|(path, _)| path).collect();
        assert_eq!(left, paths(kept));
        assert_eq!(*versions.undone.lock().expect("log"), [(3, force), (2, force)]);
        // The conversation is unchanged.
        assert_eq!(prompts(&mut rig).await.len(), 2);
    }
}

#[tokio::test]
async fn rewind_reports_line_counts_and_is_rejected_during_a_turn() {
    let edit = tool("edit", Concurrency::Exclusive, |n, _| {
        Box::pin(async move {
            ToolResult::text("ok").with_display(Display::Diff(FileDiff {
                file_path: "/w/x".into(),
                diff: String::new(),
                lines_added: n,
                lines_removed: 1,
                is_new_file: false,
                texts: None,
            }))
        })
    });
    let hanging = vec![chunk(r#"[{"text":"half"}]"#, None), Step::Hang];
    let replies = vec![calls(&[("edit", 5), ("edit", 6)]), has_text("done"), hanging];
    let mut rig = rig(replies, Setup { tools: vec![edit], ..Setup::default() });
    rig.turn("one").await;
    let list = prompts(&mut rig).await;
    assert_eq!((list[0].lines_added, list[0].lines_removed), (11, 2));
    rig.prompt("two").await;
    rig.wait_for_event(|body| matches!(body, EventBody::ItemDelta { .. })).await;
    rig.send(rewind(1, true, false, false)).await;
    let refused = rig
        .wait_for_event(|body| {
            matches!(body, EventBody::ItemDone { done: ItemDone::Notice { .. }, .. })
        })
        .await;
    assert!(format!("{refused:?}").contains("between turns"));
}

#[tokio::test]
async fn resumed_session_can_rewind() {
    use parallax_protocol::content::{Content, Part};
    let history = vec![
        Content::user(vec![Part::text("<session_context old/>"), Part::text("one")]).seal(),
        Content::model(vec![Part::text("a")]).seal(),
    ];
    let mark = RewindTarget {
        turn: 3,
        at: 0,
        text: "one".into(),
        time: String::new(),
        lines_added: 0,
        lines_removed: 0,
    };
    let setup = Setup { history, prompts: vec![mark], ..Setup::default() };
    let mut rig = rig(vec![has_text("b"), has_text("c")], setup);
    rig.turn("two").await;
    rig.send(rewind(3, true, false, false)).await;
    assert_eq!(rewind_result(&mut rig).await.prompt, "one");
    rig.turn("again").await;
    let request = rig.script.contents().pop().expect("request");
    assert_eq!(request.len(), 1);
    // The context of the first prompt, and later changes.
    assert!(
        request[0].contains("<session_context old/>") && request[0].contains("<session_context/>")
    );
    assert!(!request[0].contains("\"one\""));
}

#[tokio::test]
async fn context_usage_is_reported() {
    let counted = vec![Step::Chunk(Box::new(parallax_protocol::model::Chunk {
        parts: serde_json::from_str(r#"[{"text":"hello"}]"#).expect("parts"),
        finish: Some(parallax_protocol::model::Finish::from_gemini_word("STOP")),
        usage: Some(parallax_protocol::model::Usage { prompt: 5000, ..Default::default() }),
        ..Default::default()
    }))];
    let mut rig = rig(vec![counted], Setup::default());
    rig.prompt("go").await;
    let report = rig.wait_for_event(|body| matches!(body, EventBody::ContextUsed(_))).await;
    let EventBody::ContextUsed(used) = report.body else { unreachable!() };
    assert_eq!(used.window, 1_000_000);
    assert!((5001..5100).contains(&used.tokens), "{used:?}");
    rig.send(rewind(1, true, false, false)).await;
    rewind_result(&mut rig).await;
}
