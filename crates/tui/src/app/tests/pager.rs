//! Tests of the pager.

use parallax_screen::{MouseEvent, MouseKind};
use parallax_sessions::recorded_items::RecordedItem;

use super::*;

fn recorded_items(count: usize) -> Vec<RecordedItem> {
    (0..count)
        .flat_map(|number| {
            [
                RecordedItem::User {
                    text: format!("prompt {number}"),
                    labeled_text: None,
                    before: 0,
                    turn: 1,
                    time: String::new(),
                    read: Vec::new(),
                },
                RecordedItem::Text {
                    text: format!(
                        "The **answer** to number {number} is long enough to be wrapped once."
                    ),
                    partial: false,
                },
            ]
        })
        .collect()
}

/// Returns a session with this number of turns whose rows are in the scrollback.
fn bench(turns: usize) -> Bench {
    let mut bench = Bench::new(Layout::Inline);
    bench.app.transcript.resume(recorded_items(turns));
    bench.rows();
    bench
}

fn alt(char: char) -> Key {
    Key::with(KeyCode::Char(char), parallax_screen::Modifiers::ALT)
}

#[test]
fn pager_scrolls_and_closes_without_a_trace() {
    let mut bench = bench(100);
    bench.assert_hidden("prompt 3");
    let before = bench.rows();
    bench.press(alt('t'));
    let frame = bench.app.frame(Layout::Inline);
    assert!(frame.cover.is_some() && frame.finished.is_empty());
    assert_eq!(frame.live.len(), 30);
    bench.assert_visible("The answer to number 99");
    bench.assert_visible(" Transcript end · / search");
    bench.assert_visible(" · q close");
    bench.press(Key::plain(KeyCode::Home));
    bench.assert_visible("> prompt 0");
    bench.press(Key::plain(KeyCode::PageDown));
    bench.assert_hidden("> prompt 0");
    bench.press(Key::plain(KeyCode::PageUp));
    bench.assert_visible("> prompt 0");
    let kind = MouseKind::WheelDown;
    bench.app.handle_input(
        InputEvent::Mouse(MouseEvent { kind, column: 0, row: 0 }),
        std::time::Instant::now(),
    );
    bench.assert_hidden("> prompt 0");
    bench.assert_visible("> prompt 1");
    // Letters are not text in the pager, and nothing is sent.
    bench.keys("xyz\n");
    bench.keys("q");
    assert_eq!(bench.rows(), before);
    assert!(bench.ops().is_empty() && bench.app.composer.is_empty());
    for close in [Key::plain(KeyCode::Escape), Key::ctrl('c'), alt('t')] {
        bench.keys("/transcript\n");
        bench.assert_hidden("Type your message");
        bench.press(close);
        bench.assert_visible("Type your message");
    }
}

#[test]
fn pager_is_rendered_for_the_current_width() {
    let mut bench = bench(3);
    bench.press(alt('t'));
    bench.assert_visible("number 0 is long enough to be wrapped once.");
    bench.app.handle_input(InputEvent::Resize(40, 20), std::time::Instant::now());
    bench.assert_hidden("number 0 is long enough to be wrapped once.");
    let frame = bench.app.frame(Layout::Inline);
    assert_eq!(frame.live.len(), 20);
    assert!(frame.live.iter().all(|row| row.width() < 40));
}

#[test]
fn pager_search_wraps_around() {
    let mut bench = bench(60);
    bench.press(alt('t'));
    bench.keys("/");
    bench.keys("NUMBER 7");
    bench.assert_visible("/NUMBER 7");
    bench.keys("\n");
    bench.assert_visible("not found");
    bench.keys("/answer to number 7\n");
    // The search reaches the end and wraps to the start.
    bench.assert_visible("search wrapped to the top");
    bench.assert_visible("number 7 is");
    bench.assert_hidden("number 57 is");
    bench.press(Key::plain(KeyCode::Home));
    bench.keys("/prompt 5\n");
    bench.assert_visible("> prompt 5");
    bench.keys("n");
    bench.assert_visible("> prompt 50");
    bench.keys("N");
    bench.assert_hidden("> prompt 50");
    bench.keys("N");
    bench.assert_visible("search wrapped to the bottom");
    bench.assert_visible("> prompt 59");
    bench.keys("/");
    bench.press(Key::plain(KeyCode::Escape));
    bench.assert_visible("q close");
    assert!(bench.app.is_paging());
}

#[test]
fn pager_shows_full_content_and_keeps_new_rows() {
    let mut bench = bench(1);
    let output: String = (0..60).map(|line| format!("row {line:02}\n")).collect();
    bench.app.transcript.push(crate::transcript::LocalItem::Shell {
        command: "seq".to_owned(),
        output,
        code: Some(0),
    });
    bench.assert_hidden("row 01");
    bench.press(alt('t'));
    bench.press(Key::plain(KeyCode::Home));
    bench.assert_visible("row 01");
    bench.press(Key::ctrl('o'));
    bench.assert_hidden("row 01");
    bench.app.info("told meanwhile");
    bench.press(Key::plain(KeyCode::End));
    bench.assert_visible("told meanwhile");
    bench.keys("q");
    bench.assert_visible("told meanwhile");
    bench.assert_hidden("told meanwhile");
}

#[test]
fn approval_request_waits_while_the_pager_is_open() {
    let mut bench = bench(40);
    bench.press(alt('t'));
    bench.turn();
    send_request(&mut bench);
    bench.assert_visible("waiting for approval: q");
    bench.keys("\n1y");
    assert!(!has_decision(&mut bench));
    bench.keys("q");
    bench.assert_visible("Allow execution of this command?");
    bench.app.clock.advance(std::time::Duration::from_secs(5));
    bench.keys("1");
    assert!(has_decision(&mut bench));
}

#[test]
fn pager_renders_only_the_visible_part() {
    let mut bench = bench(0);
    bench.app.transcript.resume(recorded_items(5_000));
    let drawn = std::time::Instant::now();
    bench.press(alt('t'));
    bench.assert_visible("number 4999");
    bench.press(Key::plain(KeyCode::Home));
    bench.assert_visible("> prompt 0");
    for _ in 0..50 {
        bench.press(Key::plain(KeyCode::PageDown));
        bench.rows();
    }
    // Rendering all of it would take many times as long.
    assert!(drawn.elapsed() < std::time::Duration::from_secs(2), "{:?}", drawn.elapsed());
    bench.keys("/prompt 4321\n");
    bench.assert_visible("> prompt 4321");
}

#[test]
fn box_truncated_at_the_top_keeps_its_title() {
    let mut bench = Bench::new(Layout::Full);
    bench.app.settings.alternate_buffer = true;
    bench.app.transcript.options.expanded = true;
    let output: String = (0..60).map(|line| format!("row {line:02}\n")).collect();
    bench.app.transcript.push(crate::transcript::LocalItem::Shell {
        command: "the command".to_owned(),
        output,
        code: Some(0),
    });
    bench.assert_visible("row 59");
    let rows = bench.rows();
    assert!(rows[0].contains("! the command"), "{rows:#?}");
    for _ in 0..3 {
        bench.press(Key::plain(KeyCode::PageUp));
    }
    let rows = bench.rows();
    assert!(rows[0].starts_with('╭') && rows[1].contains("! the command"), "{rows:#?}");
    assert_eq!(rows.iter().filter(|row| row.contains("the command")).count(), 1);
}
