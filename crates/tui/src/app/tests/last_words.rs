//! What is printed when the program ends.

use parallax_protocol::event::ModelCall;
use parallax_protocol::model::Usage;

use super::*;

#[test]
fn the_last_words_leave_room_to_what_was_said() {
    let mut bench = Bench::new(Layout::Inline);
    for turn in 1..=12 {
        let body = EventBody::TurnStarted { prompt: "hi".to_owned() };
        bench.app.engine(&Event { seq: 0, turn, body });
        let call = ModelCall {
            model: "gemini-3-pro".to_owned(),
            role: "main".to_owned(),
            usage: Usage { prompt_token_count: 12_000, ..Usage::default() },
            cost: None,
            latency_ms: 1_500,
            request_bytes: 10,
            error: None,
        };
        bench.app.engine(&Event { seq: 0, turn, body: EventBody::ModelCall(call) });
    }
    let mut rows_in = |rows| -> Vec<String> {
        bench.app.size = (80, rows);
        bench.app.farewell(false).iter().map(Line::text).collect()
    };
    let high = rows_in(50);
    assert!(high.iter().any(|row| row.contains("(the last 8 of 12)")), "{high:#?}");
    let usual = rows_in(24);
    assert!(usual.len() <= 18, "{usual:#?}");
    let low = rows_in(10);
    assert!(!low.iter().any(|row| row.contains("Tokens by turn")), "{low:#?}");
}
