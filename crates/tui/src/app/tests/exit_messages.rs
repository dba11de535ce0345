//! Tests of the output at exit.

use parallax_protocol::event::ModelCall;
use parallax_protocol::model::Usage;

use super::*;
use crate::app::commands::info;

#[test]
fn exit_message_leaves_room_for_the_transcript() {
    let mut bench = Bench::new(Layout::Inline);
    for turn in 1..=12 {
        let body = EventBody::TurnStarted { prompt: "hi".to_owned() };
        bench.app.handle_event(&Event { seq: 0, turn, body });
        let call = ModelCall {
            model: "gemini-3-pro".to_owned(),
            role: "main".to_owned(),
            usage: Usage { prompt: 12_000, ..Usage::default() },
            cost: None,
            latency_ms: 1_500,
            request_bytes: 10,
            error: None,
        };
        bench.app.handle_event(&Event { seq: 0, turn, body: EventBody::ModelCall(call) });
    }
    let mut rows_in = |rows| -> Vec<String> {
        bench.app.window.resize((80, rows));
        info::exit_summary(&mut bench.app, false).iter().map(Line::text).collect()
    };
    let high = rows_in(50);
    assert!(high.iter().any(|row| row.contains("(the last 8 of 12)")), "{high:#?}");
    let usual = rows_in(24);
    assert!(usual.len() <= 18, "{usual:#?}");
    let low = rows_in(10);
    assert!(!low.iter().any(|row| row.contains("Tokens by turn")), "{low:#?}");
}

#[test]
fn unsent_prompts_are_shown_on_exit() {
    let mut bench = Bench::new(Layout::Inline);
    let exit_rows = |bench: &mut Bench| -> Vec<String> {
        info::exit_summary(&mut bench.app, false).iter().map(Line::text).collect()
    };
    assert!(!exit_rows(&mut bench).iter().any(|row| row.contains("Not sent")));
    bench.app.prompt_queue.turn_started("hooks still ran");
    bench.app.prompt_queue.push("for later\n\u{1b}[2Jand more".to_owned());
    bench.app.composer.set_text("given back");
    let rows = exit_rows(&mut bench);
    for text in ["Not sent:", "  hooks still ran", "  for later", "and more", "  given back"] {
        assert!(rows.iter().any(|row| row.contains(text)), "{text} in {rows:#?}");
    }
    assert!(!rows.concat().contains('\u{1b}'));
}
