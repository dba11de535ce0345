use parallax_model_http::SseDecoder;
use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Returns the chunks of a stream that arrives in these pieces.
fn read(pieces: &[&[u8]]) -> (Vec<String>, Result<(), EventError>) {
    let mut sse = SseDecoder::default();
    let mut decoder = MessagesDecoder::new(Arc::default());
    let mut chunks = VecDeque::new();
    let mut events = Vec::new();
    for piece in pieces {
        if sse.push(piece, |event| events.push(event)).is_err() {
            break;
        }
    }
    events.extend(sse.finish().ok().flatten());
    let read = events.iter().try_for_each(|event| decoder.event(event, &mut chunks));
    let end = read.and_then(|()| decoder.end(&mut chunks));
    // The `Debug` output of `Part` includes opaque data.
    (chunks.iter().map(|chunk| format!("{chunk:?}")).collect(), end)
}

fn sample() -> Vec<u8> {
    let block = |index: u64, start: Value, delta: Value| {
        [
            json!({"type": "content_block_start", "index": index, "content_block": start}),
            json!({"type": "content_block_delta", "index": index, "delta": delta}),
            json!({"type": "content_block_stop", "index": index}),
        ]
    };
    let mut events = vec![json!({"type": "message_start",
        "message": {"id": "m", "usage": {"input_tokens": 5, "output_tokens": 1}}})];
    events.extend(block(
        0,
        json!({"type": "thinking", "thinking": "Grüße 🦀", "signature": "cw"}),
        json!({"type": "thinking_delta", "thinking": "!"}),
    ));
    events.extend(block(
        1,
        json!({"type": "text", "text": "é"}),
        json!({"type": "text_delta", "text": "🦀"}),
    ));
    events.extend(block(
        2,
        json!({"type": "tool_use", "id": "t", "name": "a", "input": {}}),
        json!({"type": "input_json_delta", "partial_json": "{\"ü\":1}"}),
    ));
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"},
        "usage": {"output_tokens": 9}}));
    events.push(json!({"type": "message_stop"}));
    let text = |event: &Value| format!("event: x\r\ndata: {event}\r\n\r\n");
    events.iter().map(text).collect::<String>().into_bytes()
}

#[test]
fn stream_split_at_any_byte_is_decoded() {
    let bytes = sample();
    let whole = read(&[&bytes]);
    assert_eq!(whole.1, Ok(()));
    assert!(whole.0.iter().any(|chunk| chunk.contains("ü")), "{:?}", whole.0);
    for index in 0..bytes.len() {
        let (head, tail) = bytes.split_at(index);
        assert_eq!(read(&[head, tail]), whole, "{index}");
    }
}

#[test]
fn stream_truncated_at_any_byte_is_incomplete() {
    let bytes = sample();
    let finish = bytes.windows(13).position(|window| window == b"message_delta");
    let finish = finish.unwrap_or_default();
    for index in 1..finish {
        let (head, _) = bytes.split_at(index);
        assert!(read(&[head]).1.is_err(), "{index}");
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z{\"]{0,6}".prop_map(Value::from),
    ];
    let key = prop_oneof![
        Just("type"),
        Just("text"),
        Just("thinking"),
        Just("signature"),
        Just("input"),
        Just("usage"),
        Just("input_tokens"),
        Just("cache_read_input_tokens"),
        Just("output_tokens"),
        Just("output_tokens_details"),
        Just("thinking_tokens"),
        Just("content"),
        Just("stop_reason"),
        Just("stop_details"),
    ];
    leaf.prop_recursive(3, 12, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..5).prop_map(|fields| {
                Value::Object(fields.into_iter().map(|(key, it)| (key.to_owned(), it)).collect())
            }),
        ]
    })
}

fn any_event() -> impl Strategy<Value = Value> {
    let kind = prop_oneof![
        Just("message_start"),
        Just("content_block_start"),
        Just("content_block_delta"),
        Just("content_block_stop"),
        Just("message_delta"),
        Just("message_stop"),
        Just("ping"),
        Just("error"),
    ];
    let block = prop_oneof![
        Just("text"),
        Just("tool_use"),
        Just("thinking"),
        Just("redacted_thinking"),
        Just("server_tool_use"),
        Just("text_delta"),
        Just("thinking_delta"),
        Just("signature_delta"),
        Just("input_json_delta"),
        Just("citations_delta"),
    ];
    (kind, 0u64..3, block, any_value(), any_value()).prop_map(|(kind, index, block, one, two)| {
        let typed = |value: &Value| {
            let mut fields = value.as_object().cloned().unwrap_or_default();
            fields.insert("type".to_owned(), block.into());
            Value::Object(fields)
        };
        json!({"type": kind, "index": index, "content_block": typed(&one), "delta": typed(&two),
            "message": one, "usage": two})
    })
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = read(&[&bytes]);
        let _ = MessagesDecoder::new(Arc::default()).event(&bytes, &mut VecDeque::new());
    }

    #[test]
    fn arbitrary_events_do_not_panic(events in prop::collection::vec(any_event(), 0..24)) {
        let mut decoder = MessagesDecoder::new(Arc::default());
        let mut chunks = VecDeque::new();
        for event in &events {
            let _ = decoder.event(event.to_string().as_bytes(), &mut chunks);
        }
        let _ = decoder.end(&mut chunks);
    }
}
