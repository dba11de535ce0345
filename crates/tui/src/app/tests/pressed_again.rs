//! Tests of keys that do more when pressed again, and of approval keys over text.

use std::time::Duration;

use parallax_protocol::event::ItemStart;
use parallax_protocol::op::ApprovalResponse;

use super::*;

const ESCAPE: &str = "\u{1b}";
const BACK: &str = "press esc again to go back to an earlier prompt";

/// Returns a session with one finished turn.
fn bench_after_turn() -> Bench {
    let mut bench = Bench::new(Layout::Inline);
    bench.turn();
    let start = ItemStart::User { text: "go".to_owned() };
    bench.event(EventBody::ItemStarted { item: "u".into(), start });
    ended(&mut bench);
    bench.ops();
    bench
}

fn ended(bench: &mut Bench) {
    let ended = TurnEnded { reason: EndReason::Done, duration_ms: 1, is_removed: false };
    bench.event(EventBody::TurnEnded(ended));
}

fn outcome(bench: &mut Bench) -> Option<ApprovalResponse> {
    bench.ops().into_iter().find_map(|op| match op {
        Op::Decide(decide) => Some(decide.outcome),
        _ => None,
    })
}

#[test]
fn second_escape_works_while_its_hint_is_visible() {
    let mut bench = bench_after_turn();
    bench.keys(ESCAPE);
    bench.assert_visible(BACK);
    bench.app.clock.advance(Duration::from_millis(1_900));
    bench.assert_visible(BACK);
    bench.keys(ESCAPE);
    assert!(bench.ops().iter().any(|op| matches!(op, Op::ListPrompts)));
    bench.assert_hidden(BACK);
    bench.keys(ESCAPE);
    bench.app.clock.advance(Duration::from_millis(2_100));
    bench.assert_hidden(BACK);
}

#[test]
fn hint_disappears_with_the_next_input() {
    for next in ["a", "/clear\n", "hello\n"] {
        let mut bench = bench_after_turn();
        bench.keys(ESCAPE);
        bench.assert_visible(BACK);
        bench.keys(next);
        bench.assert_hidden(BACK);
    }
    // The second press has no effect either.
    let mut bench = bench_after_turn();
    bench.press(Key::ctrl('c'));
    bench.assert_visible("Press Ctrl+C again to exit");
    bench.keys("a");
    bench.assert_hidden("again to exit");
    bench.press(Key::plain(KeyCode::Backspace));
    bench.press(Key::ctrl('c'));
    assert!(!bench.app.take_effects().iter().any(|it| matches!(it, Effect::Quit { .. })));
    bench.press(Key::ctrl('c'));
    assert!(bench.app.take_effects().iter().any(|it| matches!(it, Effect::Quit { .. })));
    // An approval request that opens by itself.
    let mut bench = bench_after_turn();
    bench.keys(ESCAPE);
    send_request(&mut bench);
    bench.assert_hidden(BACK);
}

#[test]
fn rewind_without_prompts_has_no_effect() {
    let mut bench = Bench::new(Layout::Inline);
    bench.keys(ESCAPE);
    bench.assert_hidden("press esc again");
}

#[test]
fn answer_hint_disappears_with_the_request() {
    let mut bench = bench_with_draft_request("my draft");
    bench.keys("1");
    bench.assert_visible("press it again to answer");
    bench.event(EventBody::ApprovalClosed { ask: "ask".into(), outcome: None });
    bench.assert_hidden("press it again to answer");
}

#[test]
fn y_and_enter_answer_despite_a_draft() {
    let mut bench = bench_with_draft_request("my draft");
    bench.keys("y\n");
    assert_eq!(outcome(&mut bench), Some(ApprovalResponse::ProceedOnce));
    assert_eq!(bench.prompts(), [""; 0]);
    bench.assert_visible("> my draft");
    // A number followed by Enter takes that choice.
    let mut bench = bench_with_draft_request("my draft");
    bench.keys("3");
    bench.keys("\n");
    assert_eq!(outcome(&mut bench), Some(ApprovalResponse::Cancel));
    bench.assert_visible("> my draft");
}

#[test]
fn enter_never_sends_a_draft_older_than_the_request() {
    for keys in ["yes", "ok", "!", "please"] {
        let mut bench = bench_with_draft_request("my draft ");
        bench.keys(keys);
        bench.rows();
        bench.keys("\n");
        assert_eq!(outcome(&mut bench), None, "{keys}");
        assert_eq!(bench.prompts(), [""; 0], "{keys}");
        assert!(!bench.app.composer.is_empty(), "{keys}");
        // The dialog is shown again at once.
        bench.assert_visible("Allow execution of this command?");
        bench.assert_visible("Your text is kept.");
    }
    // Too early for the dialog, but not for sending the text.
    let mut bench = Bench::new(Layout::Inline);
    bench.turn();
    bench.keys("my draft");
    bench.app.clock.advance(Duration::from_secs(5));
    send_request(&mut bench);
    bench.assert_visible("Allow execution of this command?");
    bench.keys("y\n");
    assert_eq!(bench.prompts(), [""; 0]);
    assert_eq!(outcome(&mut bench), None);
    // Text typed over the dialog is sent to the model.
    let mut bench = bench_with_draft_request("");
    bench.keys("use nextest\n");
    assert_eq!(bench.prompts(), ["use nextest"]);
    // After the answer, the text is sent as usual.
    let mut bench = bench_with_draft_request("my draft");
    bench.keys("1");
    bench.keys("1");
    bench.event(EventBody::ApprovalClosed { ask: "ask".into(), outcome: None });
    bench.rows();
    bench.keys("\n");
    assert_eq!(bench.prompts(), ["my draft"]);
}

#[test]
fn prompt_waiting_for_hooks_is_visible() {
    let mut bench = Bench::new(Layout::Inline);
    bench.event(EventBody::TurnStarted { prompt: "fix it".to_owned() });
    bench.assert_visible("› fix it");
    let start = ItemStart::User { text: "fix it".to_owned() };
    bench.event(EventBody::ItemStarted { item: "u".into(), start });
    bench.assert_hidden("› fix it");
    // A prompt cancelled before any output returns to the composer.
    let mut bench = Bench::new(Layout::Inline);
    bench.event(EventBody::TurnStarted { prompt: "fix it".to_owned() });
    let ended = TurnEnded { reason: EndReason::Cancelled, duration_ms: 1, is_removed: false };
    bench.event(EventBody::TurnEnded(ended));
    bench.assert_visible("> fix it");
    let mut bench = Bench::new(Layout::Inline);
    bench.app.session.mark_not_ready();
    bench.keys("fix it\n");
    bench.assert_visible("› fix it");
}

#[test]
fn screen_reader_announces_a_running_command() {
    let mut bench = Bench::new(Layout::Plain);
    bench.shell("make");
    let delta = |text: &str| EventBody::ItemDelta { item: "sh".into(), text: text.to_owned() };
    bench.event(delta("first line\nhalf"));
    let rows = bench.rows();
    assert!(rows.contains(&"first line".to_owned()), "{rows:?}");
    assert!(!rows.iter().any(|row| row.contains("half")), "{rows:?}");
    bench.assert_hidden("first line");
}
