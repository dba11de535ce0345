//! Benchmarks: streaming a long answer and opening a long session.

use parallax_protocol::Object;
use parallax_protocol::content::{Content, Part};
use parallax_protocol::event::{Event, EventBody, ItemDone, ItemStart};
use parallax_protocol::ids::ItemId;
use parallax_tui::highlight::wait_until_loaded;
use parallax_tui::theme::Theme;
use parallax_tui::transcript::{Anchor, Transcript};

fn main() {
    wait_until_loaded();
    divan::main();
}

/// About 2,000 lines of typical model output, half of it code.
fn answer() -> String {
    let mut text = String::new();
    for part in 0..50 {
        text.push_str(&format!("## Part {part}\n\nThis part shows **what** `item_{part}` does, and [why](https://example.com/{part}).\n\n"));
        text.push_str("| name | what it is | cost |\n|---|---|---:|\n");
        for row in 0..5 {
            text.push_str(&format!("| entry {row} | a cell with some *text* in it | {row}00 |\n"));
        }
        text.push_str("\n```rust\n");
        for line in 0..5 {
            text.push_str(&format!(
                "/// Adds {line}.\npub fn add_{line}(value: u64, text: &str) -> Option<u64> {{\n    let sum = value.checked_add({line})?; // no overflow\n    Some(sum + text.len() as u64)\n}}\n"
            ));
        }
        text.push_str("```\n\n");
        for line in 0..4 {
            text.push_str(&format!("{}. Step {line} is done when the list has an end\n", line + 1));
        }
        text.push('\n');
    }
    text
}

fn event(body: EventBody) -> Event {
    Event { seq: 0, turn: 1, body }
}

fn stream(text: &str, frame: usize) -> usize {
    let (theme, item) = (Theme::default(), ItemId::from("t"));
    let mut transcript = Transcript::new();
    transcript.apply(&event(EventBody::ItemStarted { item: item.clone(), start: ItemStart::Text }));
    let (mut rest, mut rows, mut chunks) = (text, 0, 0);
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at(rest.floor_char_boundary(20).max(1));
        rest = after;
        transcript
            .apply(&event(EventBody::ItemDelta { item: item.clone(), text: chunk.to_owned() }));
        chunks += 1;
        if chunks % frame == 0 {
            rows += transcript.take_finished(100, &theme).len();
            rows += transcript.live(100, 20, &theme, 0).len();
        }
    }
    let done = ItemDone::Text { text: std::sync::Arc::new(text.to_owned()), is_dropped: false };
    transcript.apply(&event(EventBody::ItemDone { item, done }));
    rows + transcript.take_finished(100, &theme).len()
}

/// Streams 2,000 lines in pieces of 20 bytes with a frame every `pieces_a_frame` pieces.
#[divan::bench(sample_count = 5, args = [1, 4, 16])]
fn stream_an_answer(bencher: divan::Bencher<'_, '_>, pieces_a_frame: usize) {
    let text = answer();
    bencher.bench_local(|| stream(&text, pieces_a_frame));
}

fn session() -> Vec<Content> {
    let mut args = Object::new();
    args.insert("file_path".into(), "src/main.rs".into());
    let text = answer();
    let piece = &text[..1_500];
    let mut contents = Vec::new();
    for turn in 0..3_334 {
        let mut output = Object::new();
        output.insert("output".into(), "text".repeat(100).into());
        contents.push(Content::user(vec![Part::text(format!("prompt {turn}"))]));
        contents.push(Content::model(vec![Part::function_call(None, "read_file", args.clone())]));
        contents.push(Content::user(vec![Part::function_response(
            None,
            "read_file",
            output,
            vec![],
        )]));
        contents.push(Content::model(vec![Part::text(piece)]));
    }
    contents
}

/// Opens 10,000 items at the last page.
#[divan::bench(sample_count = 20)]
fn open_a_long_session(bencher: divan::Bencher<'_, '_>) {
    let (contents, theme) = (session(), Theme::default());
    bencher.bench_local(|| {
        let mut transcript = Transcript::new();
        transcript.load(&contents, 0);
        transcript.page(Anchor::Bottom, 100, 50, &theme, 0).rows.len()
    });
}

/// Scrolls up 20 pages.
#[divan::bench(sample_count = 20)]
fn scroll_a_long_session(bencher: divan::Bencher<'_, '_>) {
    let (contents, theme) = (session(), Theme::default());
    let mut transcript = Transcript::new();
    transcript.load(&contents, 0);
    bencher.bench_local(|| {
        let mut anchor = Anchor::Bottom;
        for _ in 0..20 {
            anchor = transcript.scroll(anchor, -49, 100, 50, &theme);
            divan::black_box(transcript.page(anchor, 100, 50, &theme, 0));
        }
    });
}
