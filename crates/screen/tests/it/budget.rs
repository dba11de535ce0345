//! The cost of frames in bytes, which slow lines and terminals are sensitive to.

use std::fmt::Write as _;

use parallax_screen::{Frame, Line, Region, wrap};

use crate::child::live_rows;
use crate::emulators::Emulators;
use crate::frames::LOOK;

const COLUMNS: u16 = 100;
const ROWS: usize = 30;

/// Returns an answer of 2,000 lines of different lengths.
fn answer() -> Vec<String> {
    (0..2_000)
        .map(|line| {
            let mut text = format!("{line:04}");
            for word in 0..line * 7 % 13 {
                write!(text, " word{word}").unwrap();
            }
            text
        })
        .collect()
}

#[test]
fn streamed_answer_costs_at_most_three_bytes_per_byte() {
    let mut region = Region::new(COLUMNS.into(), ROWS, LOOK);
    let mut emulators = Emulators::new(COLUMNS.into(), ROWS);
    let (mut text_bytes, mut sent, mut frames) = (0, 0, 0);
    let lines = answer();
    // The last lines stay live, like an unfinished paragraph.
    let mut live: Vec<Line> = Vec::new();
    for line in &lines {
        let mut commit = Vec::new();
        if live.len() == 6 {
            commit = live.drain(..5).collect();
        }
        live.push(Line::EMPTY);
        for end in (0..line.len()).step_by(16).skip(1).chain([line.len()]) {
            frames += 1;
            *live.last_mut().unwrap() = Line::raw(line[..end].to_owned());
            let (column, below) = live_rows("", COLUMNS, frames / 8);
            let row = u16::try_from(live.len() + 2).unwrap();
            let shown = [live.as_slice(), &below].concat();
            let frame = Frame { commit: &commit, live: &shown, cursor: Some((column, row)) };
            let bytes = region.frame(&frame);
            emulators.feed(&bytes);
            assert!(!bytes.windows(4).any(|window| window == b"\x1b[2J" || window == b"\x1b[3J"));
            sent += bytes.len();
            commit.clear();
        }
        text_bytes += line.len() + 1;
    }
    assert!(sent <= 3 * text_bytes, "{sent} bytes for {text_bytes}");
    for (name, visible) in emulators.visible_rows() {
        assert_eq!(visible.rows[..lines.len()], lines[..], "{name}");
    }
}

#[test]
fn key_costs_at_most_two_hundred_bytes() {
    let mut region = Region::new(COLUMNS.into(), ROWS, LOOK);
    let history: Vec<Line> = answer()[..10].iter().map(|line| Line::raw(line.clone())).collect();
    let mut typed = String::new();
    for char in "a prompt that is long enough for the composer".chars() {
        typed.push(char);
        let (column, below) = live_rows(&typed, COLUMNS, 0);
        let live = [history.as_slice(), &below].concat();
        let frame = Frame { commit: &[], live: &live, cursor: Some((column, 12)) };
        let bytes = region.frame(&frame);
        assert!(typed.len() == 1 || bytes.len() <= 30, "{:?}", String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn finishing_painted_rows_costs_nothing() {
    let mut region = Region::new(COLUMNS.into(), ROWS, LOOK);
    let rows: Vec<Line> =
        answer()[..8].iter().flat_map(|line| wrap(&Line::raw(line.clone()), 100, &[])).collect();
    let cursor = |row: usize| Some((0, u16::try_from(row).unwrap()));
    region.frame(&Frame { commit: &[], live: &rows, cursor: cursor(rows.len() - 1) });
    let bytes = region.frame(&Frame {
        commit: &rows[..5],
        live: &rows[5..],
        cursor: cursor(rows.len() - 6),
    });
    assert_eq!(bytes, b"");
}
