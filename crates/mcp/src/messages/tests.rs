use super::*;

/// Creates an [`OpenRequests`] with these requests open.
fn open(ids: &[i64]) -> OpenRequests {
    let open = OpenRequests::default();
    for id in ids {
        let ping = json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
        open.record_sent(&serde_json::from_value(ping).expect("a request"));
    }
    open
}

fn read(open: &OpenRequests, text: &[u8]) -> Vec<Value> {
    read_from(open, text, None)
}

/// Like [`read`], for the HTTP response to the request with this id.
fn read_from(open: &OpenRequests, text: &[u8], posted: Option<i64>) -> Vec<Value> {
    let posted = posted.map(RequestId::Number);
    open.read(text, posted.as_ref())
        .messages
        .iter()
        .map(|it| serde_json::to_value(it).expect("JSON"))
        .collect()
}

#[test]
fn messages_are_found_in_noisy_output() {
    let count = |line: &str| read(&open(&[1, 2]), line.as_bytes()).len();
    let pong = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    assert_eq!(count(pong), 1);
    assert_eq!(count(r#"{"id":1,"result":{}}"#), 1);
    assert_eq!(count(&format!("[{pong},{},3]", pong.replace('1', "2"))), 2);
    assert_eq!(count(&format!("[{pong},{pong}]")), 1, "a request is answered once");
}

#[test]
fn messages_without_a_line_ending_between_them_are_all_read() {
    let note = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}"#;
    let (first, second) =
        (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, r#"{"jsonrpc":"2.0","id":2,"result":{}}"#);
    let foreign = r#"{"jsonrpc":"2.0","id":900,"result":{}}"#;
    let log = r#"{"level":"warn","error":"ENOENT"}"#;
    let ids = |line: &str| -> Vec<Value> {
        let read = read(&open(&[1, 2]), line.as_bytes());
        read.iter().filter_map(|message| message.get("id").cloned()).collect()
    };
    assert_eq!(ids(&format!("{first}{second}")), [json!(1), json!(2)]);
    assert_eq!(ids(&format!("{note} {second}")), [json!(2)]);
    assert_eq!(ids(&format!("{foreign}{second}")), [json!(2)]);
    assert_eq!(ids(&format!("{log}{second}{log}")), [json!(2)]);
    // What is cut off fails its call.
    assert_eq!(ids(&format!("{note}{}", &second[..second.len() - 3])), [json!(2)]);
    assert_eq!(ids(&format!("{foreign}{}", &second[..second.len() - 3])), [json!(2)]);
}

#[test]
fn line_that_is_not_a_message_does_not_affect_calls() {
    for line in [
        r#"{"msg":"upstream","body":{"jsonrpc":"2.0","id":1,"result":{"a":"wrong"}}}"#,
        "",
        "listening on stdio",
        "[]",
        "3",
        "{\"a\"",
        "{\"a\":1}",
        r#"{"level":"warn","error":"ENOENT"}"#,
        r#"{"level":"warn","error":"ENOENT","id":1}"#,
        r#"{"id":1,"result":"ok","time":"12:00"}"#,
        r#"{"level":30,"id":1,"error":{"code":1,"message":"x"}}"#,
        r#"{"level":"info","method":"GET","path":"/"}"#,
        r#"INFO {"b":{"jsonrpc":"2.0","id":1,"result":{}}}"#,
        "\u{1b}[2m{\"b\":{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}}\u{1b}[0m",
        r#"{"x":NaN,"b":{"jsonrpc":"2.0","id":1,"result":{}}}"#,
        r#"{'b':{"jsonrpc":"2.0","id":1,"result":{}}}"#,
        r#"INFO {'a': [{"jsonrpc":"2.0","id":1,"result":{}}, 1]}"#,
        r#"{"b":{"jsonrpc":"2.0","id":1,"result":{}}"#,
        r#"got {"a":1,"b": {"jsonrpc":"2.0","id":1,"result":{}},"c":"x"#,
        r#"INFO {"text":"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}","b":{"c":{"jsonrpc":"2.0","id":1,"result":{}}}}"#,
        r#"ctx={a={"jsonrpc":"2.0","id":1,"result":{}}}"#,
        r#"{"level":"warn","id":1,"error":"EN"#,
        r#"{"jsonrpc":"2.0","result":{"content":[{"type":"te"#,
        r#"{"jsonrpc":"2.0","id":9,"result":{"content":[{"type":"te"#,
    ] {
        let received = open(&[1]).read(line.as_bytes(), None);
        assert!(received.messages.is_empty() && !received.is_message, "{line}: {received:?}");
    }
    for line in [
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse"}}"#,
        r#"{"jsonrpc":"2.0","id":9,"result":{}}"#,
        r#"{"error":"oops"}"#,
    ] {
        let received = open(&[1]).read(line.as_bytes(), None);
        assert!(received.messages.is_empty() && received.is_message, "{line}: {received:?}");
    }
}

#[test]
fn response_after_other_text_completes_its_call() {
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#;
    for line in [
        format!("DEBUG {answer}"),
        format!("loading {{x}} {{\"a\":1}}{answer}"),
        format!("{{\"level\":\"info\"}}{answer}"),
        format!("sent {answer} in 3 ms"),
        format!("it's {{a}} \"open {answer}"),
        format!("open {{ brace {answer}"),
        format!("\u{1b}[2m[debug]\u{1b}[0m {answer}"),
    ] {
        let got = read(&open(&[1]), line.as_bytes()).remove(0);
        assert_eq!((&got["id"], &got["result"]), (&json!(1), &json!({"content": []})), "{line}");
        assert!(read(&open(&[2]), line.as_bytes()).is_empty(), "{line}");
    }
    for line in [
        r#"DEBUG {"jsonrpc":"2.0","id":1,"result":{"content":[{"te"#,
        r#"DEBUG {"jsonrpc":"2.0","id":1,"result":{"x":NaN}}"#,
        r#"DEBUG {"result":{"x":NaN},"jsonrpc":"2.0","id":1}"#,
    ] {
        let got = read(&open(&[1]), line.as_bytes()).remove(0);
        assert_eq!((&got["id"], &got["error"]["code"]), (&json!(1), &json!(UNREADABLE)), "{line}");
    }
    for line in [
        r#"received {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}"#,
        r#"received {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"na"#,
        r#"notice {"jsonrpc":"2.0","method":"notifications/message","params":{}}"#,
        r#"DEBUG {"id":1,"result":"ok"}"#,
        r#"{"level":"info","message":"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}"}"#,
    ] {
        let received = open(&[1]).read(line.as_bytes(), None);
        assert!(received.messages.is_empty() && !received.is_message, "{line}: {received:?}");
    }
}

#[test]
fn response_without_id_belongs_to_the_posted_request() {
    for text in [
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"broken"}}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32603,"message":"broken"}}"#,
        r#"{"error":{"code":-32603,"message":"broken"},"id":null}"#,
    ] {
        let got = read_from(&open(&[6, 7]), text.as_bytes(), Some(7)).remove(0);
        assert_eq!((&got["id"], &got["error"]["message"]), (&json!(7), &json!("broken")), "{text}");
        assert!(read(&open(&[7]), text.as_bytes()).is_empty(), "{text}");
    }
    let result = br#"{"jsonrpc":"2.0","id":null,"result":{"x":1}}"#;
    assert_eq!(read_from(&open(&[7]), result, Some(7)).remove(0)["result"], json!({"x": 1}));
    // The same stream may answer another open request, but not a closed one.
    let other = br#"{"jsonrpc":"2.0","id":6,"result":{}}"#;
    assert_eq!(read_from(&open(&[6, 7]), other, Some(7)).remove(0)["id"], 6);
    assert!(read_from(&open(&[7]), other, Some(7)).is_empty());
}

#[test]
fn single_message_in_http_response_is_assigned_to_its_request() {
    for text in [
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"broken"}}"#,
        r#"{"jsonrpc":"2.0","id":"server-error","error":{"code":-32603,"message":"broken"}}"#,
        r#"{"jsonrpc":"2.0","id":99,"result":{}}"#,
    ] {
        let open = open(&[7]);
        let mut message = serde_json::from_str(text).expect("a message");
        open.assign_to_request(&mut message, &RequestId::Number(7));
        assert_eq!(serde_json::to_value(&message).expect("JSON")["id"], 7, "{text}");
        assert!(open.ids().is_empty());
    }
}

#[test]
fn null_field_beside_the_other_field_of_an_answer_is_ignored() {
    let text = br#"{"jsonrpc":"2.0","id":7,"result":{"x":1},"error":null}"#;
    assert_eq!(read(&open(&[7]), text).remove(0)["result"], json!({"x": 1}));
    let text = br#"{"jsonrpc":"2.0","id":7,"result":null,"error":{"code":-1,"message":"no"}}"#;
    assert_eq!(read(&open(&[7]), text).remove(0)["error"]["message"], "no");
}

#[test]
fn invalid_byte_or_lone_surrogate_is_replaced() {
    for text in [
        &b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"odd\":\"a\xe9\"}}"[..],
        br#"{"jsonrpc":"2.0","id":1,"result":{"odd":"a\ud83d"}}"#,
        br#"{"jsonrpc":"2.0","id":1,"result":{"odd":"a\udc01"}}"#,
    ] {
        let message = read(&open(&[1]), text).remove(0).to_string();
        assert!(message.contains("a\u{fffd}"), "{message}");
    }
    let marked = "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}";
    assert_eq!(read(&open(&[1]), marked.as_bytes()).len(), 1);
    let whole = r#""\\ud83d \ud83d\ude00 \"\u00e9""#;
    assert_eq!(replace_lone_surrogates(whole), whole);
}

#[test]
fn unreadable_response_fails_its_request() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for (text, reason) in [
        (format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"x":{deep}}}}}"#), "nested too deeply"),
        (format!(r#"{{"result":{{"x":{deep}}},"jsonrpc":"2.0","id":7}}"#), "nested too deeply"),
        (r#"{"jsonrpc":"2.0","id":7,"result":{"x":NaN}}"#.into(), "not valid JSON"),
        (r#"{"jsonrpc":"2.0","id":7,"result":{"x":["#.into(), "not valid JSON"),
        (r#"{"jsonrpc":"2.0","id":7,"error":"oops"}"#.into(), "neither a result nor an error"),
        (r#"{"jsonrpc":"2.0","id":7}"#.into(), "neither a result nor an error"),
    ] {
        let got = read(&open(&[6, 7]), text.as_bytes()).remove(0);
        assert_eq!((&got["id"], &got["error"]["code"]), (&json!(7), &json!(UNREADABLE)), "{got}");
        let message = got["error"]["message"].as_str().expect("a text");
        assert!(message.contains(reason), "{message}");
        assert!(read(&open(&[8]), text.as_bytes()).is_empty(), "a late answer is nobody's");
    }
    let behind = br#"{"result":{"x":NaN,"id":8,"y":"\"id\":9"},"jsonrpc":"2.0","id":7}"#;
    assert_eq!(read(&open(&[7, 8, 9]), behind).remove(0)["id"], 7);
    assert!(read(&open(&[8, 9]), behind).is_empty());
    let anonymous = br#"{"result":{"x":NaN},"jsonrpc":"2.0"}"#;
    assert!(read(&open(&[7]), anonymous).is_empty());
    assert_eq!(read_from(&open(&[7]), anonymous, Some(7)).remove(0)["id"], 7);
    let call = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"x","params":{deep}}}"#);
    assert!(read(&open(&[7]), call.as_bytes()).is_empty());
}

#[test]
fn list_keeps_its_readable_entries() {
    let deep = format!("{}{}", "[".repeat(1_000), "]".repeat(1_000));
    let text = format!(
        r#"{{"jsonrpc":"2.0","id":1,"result":{{"nextCursor":"b","odd":{deep},"tools":[
            {{"name":"good"}},{{"name":"deep","inputSchema":{deep}}},{deep}]}}}}"#
    );
    let message = read(&open(&[1]), text.as_bytes()).remove(0);
    assert_eq!(
        message["result"],
        json!({"nextCursor": "b",
            "tools": [{"name": "good"}, {"unreadable": "deep"}, {"unreadable": null}]})
    );
}

#[test]
fn response_completes_its_request() {
    let open = open(&[1, 2]);
    assert_eq!(open.repair_event(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, None), None);
    // Over HTTP, the posted request resolves a string id.
    let text = r#"{"jsonrpc":"2.0","id":"2","result":{}}"#;
    assert_eq!(open.repair_event(text, None), Some(vec![]));
    let other = open.repair_event(text, Some(&RequestId::Number(2)));
    assert_eq!(other.expect("another id"), [r#"{"jsonrpc":"2.0","id":2,"result":{}}"#]);
    assert!(open.ids().is_empty());
    open.ids().insert(RequestId::Number(3));
    let given_up = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": {"requestId": 3}});
    open.record_sent(&serde_json::from_value(given_up).expect("a notice"));
    assert!(open.ids().is_empty());
}

#[test]
fn json_that_is_not_a_message_is_not_reported_as_invalid() {
    let error = r#"unrecognized JSON-RPC message: [{"error": {"message": "no"}}]"#;
    let expected = r#"it is not a JSON-RPC message: [{"error": {"message": "no"}}]"#;
    assert_eq!(no_json(error), expected);
}
