//! Benchmarks of frames: a typed key, and a piece of a streamed answer.

use divan::Bencher;
use parallax_screen::{Attributes, Color, ColorDepth, Frame, Line, PaintOptions, Region, Style};

fn main() {
    divan::main();
}

const LOOK: PaintOptions =
    PaintOptions { depth: ColorDepth::True, links: true, synchronized: true };
const COLUMNS: usize = 120;

fn window(typed: &str, answer: usize) -> Vec<Line> {
    let dim = Style::PLAIN.with(Attributes::DIM);
    let mut rows: Vec<Line> = (0..30)
        .map(|row| {
            Line::raw(format!("row {row} of the answer "))
                .with_span("with a style", Style::fg(Color::Ansi(4)))
        })
        .collect();
    rows.push(Line::raw("a".repeat(answer % COLUMNS)));
    rows.push(Line::styled("─".repeat(COLUMNS), dim));
    rows.push(Line::raw(format!("> {typed}")));
    rows.push(Line::styled("footer", dim));
    rows
}

#[divan::bench]
fn type_key(bencher: Bencher) {
    let mut region = Region::new(COLUMNS, 40, LOOK);
    let frames = [window("some text", 10), window("some texts", 10)];
    let mut at = 0;
    bencher.bench_local(|| {
        at += 1;
        region.frame(&Frame { commit: &[], live: &frames[at % 2], cursor: Some((12, 32)) })
    });
}

#[divan::bench]
fn stream_row(bencher: Bencher) {
    let mut region = Region::new(COLUMNS, 40, LOOK);
    let live = window("", 50);
    let commit =
        [Line::raw("row 0 of the answer ").with_span("with a style", Style::fg(Color::Ansi(4)))];
    bencher.bench_local(|| {
        region.frame(&Frame { commit: &commit, live: &live, cursor: Some((2, 32)) })
    });
}
