//! The context window: context that results add, results that the user drops or pins, and the
//! common prefix of requests.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use parallax_engine::CompactionOptions;
use parallax_protocol::content::SealedContent;
use parallax_protocol::context::{
    BlockKind, ContextBreakdown, EditorContext, FolderContext, FoundContextFile, ResultLocation,
    Source,
};
use parallax_protocol::event::{CompactionCause, EventBody};
use parallax_protocol::op::{Op, Rewind};
use parallax_protocol::store::{Record, pins};
use parallax_protocol::tool::{Concurrency, ToolResult};

use crate::support::*;

type SavedOutputs = Arc<Mutex<Vec<String>>>;

/// Compaction options that save outputs in a list.
fn options_with_saved_outputs(compaction: CompactionOptions) -> (CompactionOptions, SavedOutputs) {
    let saved: SavedOutputs = Arc::default();
    let files = Arc::clone(&saved);
    let compaction = CompactionOptions {
        save_output: Some(Arc::new(move |tool, text| {
            files.lock().expect("files").push(text.to_owned());
            Ok(format!("/kept/{tool}").into())
        })),
        ..compaction
    };
    (compaction, saved)
}

async fn breakdown(rig: &mut Rig) -> ContextBreakdown {
    rig.send(Op::DescribeContext).await;
    let report = rig.wait_for_event(|body| matches!(body, EventBody::ContextBreakdown(_))).await;
    match report.body {
        EventBody::ContextBreakdown(breakdown) => *breakdown,
        _ => ContextBreakdown::default(),
    }
}

fn lines(name: &str, count: usize) -> Arc<TestTool> {
    let name = name.to_owned();
    tool(&name.clone(), Concurrency::Shared, move |n, _| {
        let text = format!("{name} says {n}\n").repeat(count);
        Box::pin(async move { ToolResult::text(text) })
    })
}

#[tokio::test]
async fn long_result_of_any_tool_is_saved_to_a_file() {
    let (compaction, saved) = options_with_saved_outputs(CompactionOptions {
        max_result_characters: Some(5_000),
        ..CompactionOptions::default()
    });
    let replies = vec![calls(&[("mcp_far_tool", 1), ("read_file", 2)]), has_text("done")];
    let tools = vec![lines("mcp_far_tool", 1_000) as _, lines("read_file", 1_000) as _];
    let mut rig = rig(replies, Setup { tools, compaction, ..Setup::default() });
    let (_, events) = rig.turn("go").await;
    let output = tools_done(&events);
    let far = &output.iter().find(|done| done.name == "mcp_far_tool").expect("call").for_model;
    assert!(far.len() < 5_300 && far.contains("`/kept/mcp_far_tool`"), "{far}");
    assert!(far.contains("]\nmcp_far_tool says 1\n") && far.ends_with("mcp_far_tool says 1\n"));
    assert_eq!(saved.lock().expect("files").len(), 1);
    // Paginated results are limited only by the context window.
    let read = &output.iter().find(|done| done.name == "read_file").expect("call").for_model;
    assert!(!read.contains("Too long"));
}

#[tokio::test]
async fn result_never_exceeds_the_remaining_context_window() {
    let (compaction, saved) = options_with_saved_outputs(CompactionOptions {
        tokens: 1_000_000,
        share: 1.0,
        ..CompactionOptions::default()
    });
    let replies = vec![calls(&[("read_file", 1)]), has_text("done")];
    let tools = vec![lines("read_file", 10_000) as _];
    let mut rig = rig(replies, Setup { tools, compaction, ..Setup::default() });
    rig.script.window(20_000);
    let (reason, _) = rig.turn("go").await;
    assert!(matches!(reason, parallax_protocol::event::EndReason::Done), "{reason:?}");
    assert_eq!(saved.lock().expect("files").len(), 1);
}

/// Returns the context of a directory once, and again when the contents no longer include it.
#[derive(Default)]
struct OneFile {
    has_reported: Mutex<bool>,
}

const FOUND: &str =
    "\n\n--- Newly Discovered Project Context ---\nmind the dog\n--- End Project Context ---";

impl FolderContext for OneFile {
    fn find(&self, _touched: &[PathBuf]) -> Vec<FoundContextFile> {
        vec![FoundContextFile { path: PathBuf::new(), text: FOUND.to_owned() }]
    }
    fn send(&self, found: Vec<FoundContextFile>) -> Option<String> {
        let mut report = self.has_reported.lock().expect("told");
        (!std::mem::replace(&mut *report, true))
            .then(|| found.into_iter().map(|file| file.text).collect())
    }
    fn retain_sent(&self, contents: &[SealedContent]) {
        let is_there = contents.iter().any(|content| content.json().contains("mind the dog"));
        *self.has_reported.lock().expect("told") &= is_there;
    }
    fn new_instance(&self) -> Arc<dyn FolderContext> {
        Arc::new(Self::default())
    }
    fn resume(&self, _contents: &[SealedContent]) {}
}

#[tokio::test]
async fn directory_context_is_sent_once_and_again_after_compaction() {
    let replies = vec![
        calls(&[("look", 0)]),
        calls(&[("read_file", 1)]),
        calls(&[("read_file", 2)]),
        has_text("one"),
        has_text("two"),
        calls(&[("read_file", 3)]),
        has_text("three"),
    ];
    let (compaction, _) = options_with_saved_outputs(CompactionOptions {
        probe: false,
        ..CompactionOptions::default()
    });
    let mut rig = rig(
        replies,
        Setup {
            tools: vec![lines("look", 5) as _, lines("read_file", 2_000) as _],
            compaction,
            folder_context: Some(Arc::new(OneFile::default())),
            ..Setup::default()
        },
    );
    rig.turn("first").await;
    let sent = rig.script.contents().pop().expect("request").join("\n");
    assert_eq!(sent.matches("mind the dog").count(), 1);
    let look = sent.find("read_file says 1").expect("result");
    assert!(sent.find("mind the dog").expect("context") > look);
    rig.turn("second").await;
    rig.send(Op::Compact { focus: None }).await;
    rig.wait_for_event(
        |body| matches!(body, EventBody::Compaction(report) if report.how.is_some()),
    )
    .await;
    rig.turn("third").await;
    let sent = rig.script.contents().pop().expect("request").join("\n");
    assert_eq!(sent.matches("mind the dog").count(), 1, "the context is sent again");
}

/// An editor whose message is new once, and again after a reset.
#[derive(Default)]
struct OpenEditor {
    has_reported: Mutex<bool>,
}

impl EditorContext for OpenEditor {
    fn message(&self) -> Option<String> {
        let mut report = self.has_reported.lock().expect("told");
        (!std::mem::replace(&mut *report, true)).then(|| "a.rs is open; hush-hush-hush".to_owned())
    }
    fn reset(&self) {
        *self.has_reported.lock().expect("told") = false;
    }
}

#[tokio::test]
async fn editor_context_is_resent_after_its_prompt_is_removed_or_compacted() {
    let failing = (0..4).map(|_| vec![Step::Fail(broken_error("cut"))]);
    let replies = failing.chain([has_text("one"), has_text("two"), has_text("three")]).collect();
    let (compaction, _) = options_with_saved_outputs(CompactionOptions {
        probe: false,
        ..CompactionOptions::default()
    });
    let editor_context = Some(Arc::new(OpenEditor::default()) as _);
    let mut rig = rig(replies, Setup { compaction, editor_context, ..Setup::default() });
    rig.turn("failing").await;
    rig.turn("first").await;
    rig.turn("second").await;
    let sent = rig.script.contents().pop().expect("request").join("\n");
    assert_eq!(sent.matches("a.rs is open").count(), 1, "{sent}");
    assert!(sent.find("a.rs is open") < sent.find("first") && !sent.contains("hush-hush"));
    rig.send(Op::Rewind(Rewind { turn: 2, chat: true, files: false, force: false })).await;
    rig.wait_for_event(|body| matches!(body, EventBody::Rewound(_))).await;
    rig.turn("third").await;
    let sent = rig.script.contents().pop().expect("request").join("\n");
    assert_eq!(sent.matches("a.rs is open").count(), 1, "{sent}");
}

#[tokio::test]
async fn dropped_result_becomes_a_note_and_can_be_restored() {
    let (compaction, saved) = options_with_saved_outputs(CompactionOptions::default());
    let replies = vec![
        calls(&[("look", 1), ("see", 2)]),
        has_text("one"),
        has_text("two"),
        has_text("three"),
    ];
    let tools = vec![lines("look", 500) as _, lines("see", 500) as _];
    let sources = vec![Source { name: "/w/GEMINI.md".into(), tokens: 3, in_system: true }];
    let setup = Setup { tools, compaction, sources, ..Setup::default() };
    let mut rig = rig(replies, setup);
    rig.turn("first").await;
    let before = breakdown(&mut rig).await;
    let results = |picture: &ContextBreakdown| -> Vec<(Option<String>, u64)> {
        let of = picture.blocks.iter().filter(|block| block.kind == BlockKind::Results);
        of.map(|block| (block.name.clone(), block.tokens)).collect()
    };
    assert_eq!(results(&before).len(), 2);
    assert!(before.blocks.iter().any(|block| block.kind == BlockKind::Memory && block.tokens == 3));
    let look = before.items.iter().find(|item| item.tool == "look").expect("item");
    assert!(!look.is_dropped && !look.pinned && look.tokens > 1_000);
    rig.send(Op::DropResults(vec![look.place])).await;
    let report = rig.wait_for_event(|body| matches!(body, EventBody::Compaction(_))).await;
    let EventBody::Compaction(report) = report.body else { panic!("another event") };
    assert!(
        report.after + 1_000 < report.before && report.cause == CompactionCause::Manual,
        "{report:?}"
    );
    assert!(saved.lock().expect("files")[0].starts_with("look says 1"));
    let after = breakdown(&mut rig).await;
    assert!(after.items.iter().any(|item| item.tool == "look" && item.is_dropped), "{after:?}");
    rig.turn("second").await;
    let sent = rig.script.contents().pop().expect("request").join("\n");
    assert!(sent.contains("dropped this result") && sent.contains("/kept/look"), "{sent}");
    assert!(!sent.contains("look says 1") && sent.contains("see says 2"));
    rig.send(Op::UndoCompaction).await;
    rig.turn("third").await;
    let sent = rig.script.contents().pop().expect("request").join("\n");
    assert!(sent.contains("look says 1"));
}

#[tokio::test]
async fn pinned_content_survives_compaction_and_resume() {
    let (compaction, _) = options_with_saved_outputs(CompactionOptions {
        probe: false,
        ..CompactionOptions::default()
    });
    let replies = vec![
        calls(&[("look", 7)]),
        calls(&[("look", 8)]),
        has_text("one"),
        has_text("two"),
        has_text("three"),
        has_text("four"),
    ];
    let tools = vec![lines("look", 2_000) as _];
    let mut rig = rig(replies, Setup { tools, compaction, ..Setup::default() });
    rig.turn("first").await;
    let place = breakdown(&mut rig).await.items.last().expect("item").place;
    rig.send(Op::Pin { place, on: true }).await;
    rig.send(Op::Pin { place: ResultLocation { content: 99, part: 0 }, on: true }).await;
    rig.turn("second").await;
    rig.turn("third").await;
    rig.send(Op::Compact { focus: None }).await;
    rig.wait_for_event(
        |body| matches!(body, EventBody::Compaction(report) if report.how.is_some()),
    )
    .await;
    rig.turn("fourth").await;
    let sent = rig.script.contents().pop().expect("request").join("\n");
    assert!(sent.matches("look says 7").count() >= 2_000 && sent.contains("<pinned call="));
    assert!(sent.matches("look says 8").count() < 2_000, "what is not held on to goes");
    let items = breakdown(&mut rig).await.items;
    assert!(items.iter().any(|item| item.place == place && item.pinned));
    let records: Vec<Record> = rig.store.0.lock().expect("records").clone();
    assert_eq!(pins(&records), BTreeSet::from([place]));
}

/// Returns the common prefix of two strings.
fn shared(one: &str, other: &str) -> usize {
    one.bytes().zip(other.bytes()).take_while(|(left, right)| left == right).count()
}

#[tokio::test]
async fn requests_share_their_prefix() {
    let mut replies = Vec::new();
    for turn in 0..6 {
        replies.extend((0..10).map(|n| calls(&[("look", turn * 100 + n), ("see", n)])));
        replies.push(has_text("so far"));
    }
    let (compaction, _) = options_with_saved_outputs(CompactionOptions::default());
    let tools = vec![lines("look", 20) as _, lines("see", 30) as _];
    let mut rig = rig(replies, Setup { tools, compaction, ..Setup::default() });
    for turn in 0..6 {
        rig.turn(&format!("step {turn}")).await;
    }
    let requests = rig.script.requests.lock().expect("requests");
    assert_eq!(requests.len(), 66);
    let texts: Vec<String> = requests
        .iter()
        .map(|request| {
            let tools = match &request.tools {
                parallax_protocol::model::ToolSet::Functions(tools) => tools.get().to_owned(),
                _ => String::new(),
            };
            let contents: Vec<&str> = request.contents.iter().map(SealedContent::json).collect();
            format!("{}\n{tools}\n{}", request.system, contents.join(","))
        })
        .collect();
    for pair in texts.windows(2) {
        #[expect(clippy::cast_precision_loss, reason = "lengths of texts in a test")]
        let share = shared(&pair[0], &pair[1]) as f64 / pair[0].len() as f64;
        assert!(share >= 0.99, "{share}");
    }
}

#[tokio::test]
async fn added_directory_is_sent_to_the_model_and_recorded() {
    let mut rig = rig(vec![has_text("a"), has_text("b")], Setup::default());
    rig.turn("one").await;
    rig.send(Op::AddDirectory("/more".into())).await;
    rig.turn("two").await;
    let sent = rig.script.contents().pop().expect("request");
    assert!(sent[0].contains("one") && !sent[0].contains("/more"), "{}", sent[0]);
    assert!(sent[2].contains("<session_context>[\\\"/more\\\"]"), "{}", sent[2]);
    let records = rig.store.0.lock().expect("records").clone();
    let report = parallax_protocol::store::directories(records.iter());
    assert_eq!(report, [PathBuf::from("/more")]);
}

#[tokio::test]
async fn unloaded_skill_is_removed_from_requests() {
    let (compaction, _) = options_with_saved_outputs(CompactionOptions::default());
    let replies =
        vec![calls(&[("activate_skill", 1), ("look", 2)]), has_text("one"), has_text("two")];
    let skill = tool("activate_skill", Concurrency::Shared, |_, _| {
        let text = "<activated_skill name=\"release\">\n<instructions>\nRun the checks.\n"
            .to_owned()
            + &"More of it.\n".repeat(200);
        Box::pin(async move { ToolResult::text(text) })
    });
    let tools = vec![skill as _, lines("look", 500) as _];
    let mut rig = rig(replies, Setup { tools, compaction, ..Setup::default() });
    rig.turn("first").await;
    rig.send(Op::UnloadSkill("Release".to_owned())).await;
    rig.wait_for_event(
        |body| matches!(body, EventBody::Compaction(report) if report.how.is_some()),
    )
    .await;
    rig.turn("second").await;
    let sent = rig.script.contents().pop().expect("request").join("\n");
    assert!(!sent.contains("Run the checks") && sent.contains("look says 2"), "{sent}");
    rig.send(Op::UnloadSkill("other".to_owned())).await;
    let is_reported = |body: &EventBody| matches!(body, EventBody::ItemDone { .. });
    rig.wait_for_event(is_reported).await;
}
