//! Property tests with any events in any order.

use super::*;

/// Applies one event selected by a few numbers and a text.
fn step(view: &mut TestTranscript, kind: u8, id: u8, text: &str) {
    let item = format!("{}{id}", if kind.is_multiple_of(2) { "t" } else { "c" });
    match kind {
        0 => view.start(&item, ItemStart::Text),
        1 => view.call(&item, text, json!({"command": text, "x": [text]})),
        2 | 3 => view.delta(&item, text),
        4 => view.text(&item, text, id == 0),
        5 | 7 => {
            let mut done = tool(&item, "run_shell_command", ToolKind::Execute, text);
            done.kind = (kind == 5).then_some(ToolKind::Execute);
            done.status = [ToolStatus::Success, ToolStatus::Error, ToolStatus::Cancelled]
                [usize::from(id % 3)];
            done.display = Some(Display::text(text));
            done.error = (id == 1).then(|| (ToolErrorKind::Unknown, text.to_owned()));
            view.end(done)
        }
        6 => view.start(&item, ItemStart::User { text: text.into() }),
        8 => view.done(&item, ItemDone::Thought { text: text.into() }),
        9 => view.done(&item, ItemDone::notice(Level::Info, text)),
        10 => view.event(EventBody::TurnEnded(TurnEnded {
            reason: EndReason::Cancelled,
            duration_ms: 1,
            is_removed: false,
        })),
        _ => {
            view.transcript.push(LocalItem::Shell {
                command: text.into(),
                output: text.into(),
                code: None,
            });
            view
        }
    };
}

#[test]
fn interrupted_answer_fits_a_narrow_window() {
    let mut view = TestTranscript::default();
    let mut rows = Vec::new();
    for (kind, text) in [(0, ""), (2, "界\n\n"), (4, "")] {
        step(&mut view, kind, 0, text);
        rows.extend(view.transcript.take_finished(12, &view.theme));
    }
    assert!(rows.iter().any(|row| row.text().contains("interrupted")));
    assert!(rows.iter().all(|row| row.width() <= 12));
}

proptest::proptest! {
    /// For any events in any order: rows fit the width, the live part is not too high, and no
    /// output contains terminal control sequences.
    #[test]
    fn any_event_order_fits_the_width(
        steps in proptest::collection::vec((0u8..12, 0u8..3, "(?s)[\u{0}-\u{7f}世界\u{202e}]{0,80}"), 1..16),
        width in 12usize..70,
        height in 1usize..20,
        options in 0u8..128,
    ) {
        let mut view = TestTranscript::default();
        view.transcript.options = ViewOptions {
            thoughts: [ThoughtDisplay::Off, ThoughtDisplay::Subject, ThoughtDisplay::Full][usize::from(options % 3)],
            line_numbers: options & 4 != 0,
            screen_reader: options & 8 != 0,
            raw_markdown: options & 16 != 0,
            expanded: options & 2 != 0,
            boxes_results: options & 32 != 0,
            full_errors: options & 64 != 0,
            is_static: options & 32 != 0,
        };
        for (kind, id, text) in steps {
            step(&mut view, kind, id, &text);
            let mut rows = view.transcript.take_finished(width, &view.theme);
            let live = view.transcript.live(width, height, &view.theme, 5);
            proptest::prop_assert!(live.len() <= height);
            rows.extend(live);
            let page = view.transcript.page(Anchor::Bottom, width, height, &view.theme, 5);
            proptest::prop_assert!(page.rows.len() <= height && page.at_end);
            rows.extend(page.rows);
            for row in rows {
                proptest::prop_assert!(row.width() <= width, "{} > {width}: {:?}", row.width(), row.text());
                let harmful = row.text().contains(|char: char| char.is_control() || char == '\u{202e}');
                proptest::prop_assert!(!harmful);
            }
        }
    }
}
