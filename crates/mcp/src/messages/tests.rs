use super::*;

/// With these requests open.
fn open(ids: &[i64]) -> Open {
    let open = Open::default();
    for id in ids {
        let ping = json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
        open.sent(&serde_json::from_value(ping).expect("a request"));
    }
    open
}

fn read(open: &Open, text: &[u8]) -> Vec<Value> {
    let messages = open.read(text);
    messages.iter().map(|it| serde_json::to_value(it).expect("JSON")).collect()
}

#[test]
fn messages_are_found_in_what_servers_write() {
    let count = |line: &str| open(&[]).read(line.as_bytes()).len();
    let pong = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    assert_eq!(count(pong), 1);
    assert_eq!(count(r#"{"id":1,"result":{}}"#), 1);
    assert_eq!(count(&format!("[{pong},{pong},3]")), 2);
    for noise in ["", "listening on stdio", "[]", "3", "{\"a\"", "{\"a\":1}"] {
        assert_eq!(count(noise), 0, "{noise}");
        assert!(open(&[1]).read(noise.as_bytes()).is_empty(), "{noise}");
    }
}

#[test]
fn a_wrong_byte_or_half_a_letter_spoils_a_letter() {
    for text in [
        &b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"odd\":\"a\xe9\"}}"[..],
        br#"{"jsonrpc":"2.0","id":1,"result":{"odd":"a\ud83d"}}"#,
        br#"{"jsonrpc":"2.0","id":1,"result":{"odd":"a\udc01"}}"#,
    ] {
        let got = read(&open(&[1]), text).remove(0).to_string();
        assert!(got.contains("a\u{fffd}"), "{got}");
    }
    let marked = "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}";
    assert_eq!(read(&open(&[1]), marked.as_bytes()).len(), 1);
    let whole = r#""\\ud83d \ud83d\ude00 \"\u00e9""#;
    assert_eq!(with_whole_letters(whole), whole);
}

#[test]
fn what_cannot_be_read_ends_its_request() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for (text, why) in [
        (format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"x":{deep}}}}}"#), "nested too deeply"),
        (format!(r#"{{"result":{{"x":{deep}}},"jsonrpc":"2.0","id":"7"}}"#), "nested too deeply"),
        (r#"{"jsonrpc":"2.0","id":7,"result":{"x":NaN}}"#.into(), "not valid JSON"),
        (r#"{"jsonrpc":"2.0","id":7,"result":{"x":["#.into(), "not valid JSON"),
        (r#"{"jsonrpc":"2.0","id":7,"error":"oops"}"#.into(), "neither a result nor an error"),
        (r#"{"jsonrpc":"2.0","id":7}"#.into(), "neither a result nor an error"),
    ] {
        let got = read(&open(&[6, 7]), text.as_bytes()).remove(0);
        assert_eq!((&got["id"], &got["error"]["code"]), (&json!(7), &json!(UNREADABLE)), "{got}");
        let message = got["error"]["message"].as_str().expect("a text");
        assert!(message.contains(why), "{message}");
        assert!(open(&[8]).read(text.as_bytes()).is_empty(), "a late answer is nobody's");
    }
    let anonymous = br#"{"result":{"x":NaN},"jsonrpc":"2.0","id":7}"#;
    assert_eq!(read(&open(&[9]), anonymous).remove(0)["id"], 9);
    assert!(open(&[8, 9]).read(anonymous).is_empty());
    let call = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"x","params":{deep}}}"#);
    assert!(open(&[7]).read(call.as_bytes()).is_empty());
}

#[test]
fn a_list_keeps_the_entries_that_can_be_read() {
    let deep = format!("{}{}", "[".repeat(1_000), "]".repeat(1_000));
    let text = format!(
        r#"{{"jsonrpc":"2.0","id":1,"result":{{"nextCursor":"b","odd":{deep},"tools":[
            {{"name":"good"}},{{"name":"deep","inputSchema":{deep}}},{deep}]}}}}"#
    );
    let got = read(&open(&[1]), text.as_bytes()).remove(0);
    assert_eq!(
        got["result"],
        json!({"nextCursor": "b",
            "tools": [{"name": "good"}, {"unreadable": "deep"}, {"unreadable": null}]})
    );
}

#[test]
fn an_answer_finds_its_request_and_ends_it() {
    let open = open(&[1, 2]);
    assert_eq!(open.mend(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#), None);
    let mended = open.mend(r#"{"jsonrpc":"2.0","id":"2","result":{}}"#).expect("another id");
    assert_eq!(mended, [r#"{"jsonrpc":"2.0","id":2,"result":{}}"#]);
    assert!(open.ids().is_empty());
    open.ids().insert(RequestId::Number(3));
    let given_up = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": {"requestId": 3}});
    open.sent(&serde_json::from_value(given_up).expect("a notice"));
    assert!(open.ids().is_empty());
}
