//! Requests that the service rejects because of their contents.

use parallax_protocol::content::Part;
use parallax_protocol::event::{EndReason, EventBody, ItemDone, Level};
use parallax_protocol::model::ModelError;
use parallax_protocol::op::{Op, Prompt};
use parallax_protocol::store::Record;
use parallax_protocol::tool::{Concurrency, ToolResult};

use crate::support::{Setup, Step, calls, echo, has_text, rig, tool};

fn refuses(message: &str) -> Vec<Step> {
    vec![Step::Fail(ModelError::BadRequest {
        status: 400,
        code: Some("INVALID_ARGUMENT".into()),
        message: message.into(),
    })]
}

fn picture() -> Part {
    Part::inline_data("image/png", "iVBORw0KGgo=")
}

#[tokio::test]
async fn rejected_media_of_a_result_are_removed_and_the_turn_continues() {
    let look = tool("look", Concurrency::Shared, |_, _| {
        Box::pin(async {
            let mut outcome = ToolResult::text("a picture");
            outcome.for_model.media.push(picture());
            outcome
        })
    });
    let replies = vec![
        calls(&[("look", 1)]),
        refuses("Unable to process input image."),
        has_text("done"),
        has_text("more"),
    ];
    let mut rig = rig(replies, Setup { tools: vec![look], ..Setup::default() });
    let (reason, events) = rig.turn("go").await;
    assert!(matches!(reason, EndReason::Done), "{reason:?}");
    let contents = rig.script.contents();
    assert!(contents[1][2].contains("iVBORw0KGgo="));
    assert!(!contents[2][2].contains("inlineData"), "{}", contents[2][2]);
    assert!(contents[2][2].contains("image/png was removed"), "{}", contents[2][2]);
    let report = events.iter().any(|event| {
        matches!(&event.body, EventBody::ItemDone { done: ItemDone::Notice { level, text, .. }, .. }
            if *level == Level::Warning && text.contains("Removed from the conversation: image/png"))
    });
    assert!(report);
    // It is excluded from later requests, even when the session is resumed.
    let (reason, _) = rig.turn("and now?").await;
    assert!(matches!(reason, EndReason::Done));
    assert!(!rig.script.contents()[3].concat().contains("inlineData"));
    let records = rig.store.0.lock().expect("records");
    assert!(records.iter().any(|record| matches!(record, Record::Compaction(_))));
}

#[tokio::test]
async fn rejected_media_of_a_prompt_are_removed() {
    let mut rig = rig(vec![refuses("bad image"), has_text("done")], Setup::default());
    let prompt = Prompt { text: "look".into(), attachments: vec![picture()], ..Prompt::default() };
    rig.send(Op::Prompt(prompt)).await;
    let (reason, _) = rig.finish().await;
    assert!(matches!(reason, EndReason::Done), "{reason:?}");
    assert!(!rig.script.contents()[1].concat().contains("inlineData"));
}

#[tokio::test]
async fn rejected_result_is_removed_and_accepted_results_are_kept() {
    let one = tool("one", Concurrency::Shared, |n, _| echo(n));
    let replies = vec![calls(&[("one", 1)]), calls(&[("one", 2)]), refuses("no"), has_text("done")];
    let mut rig = rig(replies, Setup { tools: vec![one], ..Setup::default() });
    let (reason, _) = rig.turn("go").await;
    assert!(matches!(reason, EndReason::Done), "{reason:?}");
    let last = rig.script.contents().pop().expect("a request");
    assert!(!last[2].contains("was removed"), "{}", last[2]);
    assert!(last[4].contains("this result was removed"), "{}", last[4]);
}

#[tokio::test]
async fn no_content_is_removed_when_removal_does_not_help() {
    let one = tool("one", Concurrency::Shared, |n, _| echo(n));
    let replies =
        vec![calls(&[("one", 1)]), refuses("first"), refuses("second"), has_text("fine again")];
    let mut rig = rig(replies, Setup { tools: vec![one], ..Setup::default() });
    let (reason, _) = rig.turn("go").await;
    let EndReason::Failed(failure) = reason else { panic!("{reason:?}") };
    assert!(
        failure.message.contains("first") && failure.message.contains("/rewind"),
        "{failure:?}"
    );
    let (reason, _) = rig.turn("and now?").await;
    assert!(matches!(reason, EndReason::Done));
    let last = rig.script.contents().pop().expect("a request");
    assert!(!last.concat().contains("was removed"), "{last:#?}");
}
