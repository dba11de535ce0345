//! The scripted model.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use parallax_protocol::CancellationToken;
use parallax_protocol::content::{Content, Part};
use parallax_protocol::model::{Model, ModelError, Request, StreamEvent};
use parallax_replay::{ScriptError, ScriptMode, ScriptedModel};
use serde_json::{Value, json};

use crate::support::{drain, request};

fn model(text: &str) -> ScriptedModel {
    let model = ScriptedModel::from_text("s.jsonl", text, ScriptMode::Strict).expect("a script");
    model.with_cwd(PathBuf::from("/place"))
}

fn text_reply(text: &str) -> String {
    json!({"method": "generateContentStream", "response":
        [{"candidates": [{"content": {"parts": [{"text": text}]}, "finishReason": "STOP"}]}]})
    .to_string()
}

fn after_results(outputs: &[Value]) -> Request {
    let mut request = request();
    for output in outputs {
        let Value::Object(response) = json!({"output": output}) else { unreachable!("an object") };
        let part = Part::function_response(None, "read", response, Vec::new());
        request.contents.push(Content::user(vec![part]).seal());
    }
    request
}

async fn parts(model: &ScriptedModel, request: Request) -> Value {
    let mut stream = model.stream(request, CancellationToken::new());
    match stream.next().await {
        Some(Ok(StreamEvent::Chunk(chunk))) => serde_json::to_value(&chunk.parts).expect("json"),
        other => unreachable!("a chunk, not {other:?}"),
    }
}

#[tokio::test]
async fn each_method_uses_its_own_lines_in_order() {
    let side = r#"{"method":"generateContent","response":{"candidates":[{"content":{"parts":[{"text":"side"}]}}]}}"#;
    let model = model(&[&text_reply("one"), "", side, &text_reply("two")].join("\n"));
    assert!(model.catalog().is_scripted());
    assert_eq!(model.catalog().utility("web-search", "gemini-3-x"), "gemini-3-x");
    assert_eq!(drain(&model, request()).await.text, "one");
    assert_eq!(drain(&model, request()).await.text, "two");
    let answer = model.generate(request(), CancellationToken::new()).await.expect("an answer");
    assert_eq!(answer.text(), "side");
    let error = drain(&model, request()).await.end.expect_err("no line").to_string();
    assert!(error.contains("s.jsonl") && error.contains("`generateContentStream`"), "{error}");
    assert!(error.contains(r#""text":"hi""#), "{error}");
}

#[tokio::test]
async fn conditions_skip_a_line_without_using_it() {
    let with = |when: &str, text: &str| {
        let line = text_reply(text);
        format!(r#"{{"when":{when},{}"#, line.trim_start_matches('{'))
    };
    let model = model(
        &[
            with(r#"{"lastToolResultContains":"fail"}"#, "repair"),
            with(r#"{"lastToolResultLacks":"fail","promptContains":"hi"}"#, "fine"),
            text_reply("else"),
        ]
        .join("\n"),
    );
    assert_eq!(drain(&model, request()).await.text, "fine");
    assert_eq!(drain(&model, request()).await.text, "else");
    assert_eq!(drain(&model, after_results(&[json!("1 test failed")])).await.text, "repair");
}

#[tokio::test]
async fn placeholders_and_variables_are_replaced() {
    let line = json!({"method": "generateContentStream",
        "vars": {"id": "id=(\\d+)", "who": {"from": "prompt", "regex": "h."}},
        "response": [{"candidates": [{"content": {"parts": [{"functionCall": {"name": "x", "args": {
            "a": "${cwd}/f", "b": "${prompt}!", "c": "${result.1.path}", "d": "${result.last}",
            "e": "${result.1.lines}", "f": "${HOME} $${cwd}", "g": "${var.id}-${var.who}"}}}]}}]}]});
    let model = model(&line.to_string());
    let request = after_results(&[json!(r#"{"path": "/a b", "lines": [1, 2]}"#), json!("id=42")]);
    let call = parts(&model, request).await;
    assert_eq!(
        call.pointer("/0/functionCall/args"),
        Some(&json!({"a": "/place/f", "b": "hi!", "c": "/a b", "d": "id=42", "e": [1, 2],
            "f": "${HOME} ${cwd}", "g": "42-hi"}))
    );
}

#[tokio::test]
async fn prompt_variable_is_the_typed_text() {
    let mut request = request();
    request.contents = vec![
        Content::user(vec![
            Part::text("<session_context>\nDate: Sunday\n</session_context>"),
            Part::text("look at @a.txt"),
            Part::text("\n--- Content from referenced files ---"),
            Part::text("\nContent from @a.txt:\n"),
            Part::text("Sunday"),
        ])
        .seal(),
    ];
    let unfit = format!(r#"{{"when":{{"promptContains":"Sunday"}},{}"#, &text_reply("unfit")[1..]);
    let model = model(&[unfit, text_reply("<${prompt}>")].join("\n"));
    assert_eq!(drain(&model, request).await.text, "<look at @a.txt>");
}

#[tokio::test]
async fn placeholder_without_a_value_names_its_line() {
    let model = model(&format!("\n{}", text_reply("${result.3}")));
    let error = drain(&model, request()).await.end.expect_err("no result").to_string();
    assert!(error.contains("s.jsonl:2:") && error.contains("${result.3}"), "{error}");
}

#[test]
fn invalid_script_lines_are_reported() {
    for (line, word) in [
        ("{", "this is not JSON: EOF while parsing an object at column 1"),
        ("[]", "must be a JSON object, not a list"),
        (r#"{"response":{}}"#, "`method` is missing"),
        (r#"{"method":7,"response":{}}"#, "`method` must be a string, not a number"),
        (
            r#"{"method":"x","response":[]}"#,
            "unknown method `x`; known methods: `generateContentStream`",
        ),
        (r#"{"method":"generateContent"}"#, "`response` is missing"),
        (r#"{"method":"generateContent","response":7}"#, "must be an object, not a number"),
        (r#"{"method":"generateContent","response":[{}]}"#, "must be an object, not a list"),
        (r#"{"method":"generateContentStream","response":{}}"#, "list of chunks, not an object"),
        (r#"{"method":"generateContentStream","response":[]}"#, "at least one chunk"),
        (r#"{"method":"generateContentStream","response":[{},"x"]}"#, "chunk 2 of `response` must"),
        (
            r#"{"method":"generateContent","reponse":{}}"#,
            "unknown key `reponse` in this line; known",
        ),
        (r#"{"method":"generateContent","response":{},"when":7}"#, "`when` must be an object"),
        (
            r#"{"method":"generateContent","response":{},"when":{"x":"y"}}"#,
            "unknown key `x` in `when`",
        ),
        (
            r#"{"method":"generateContent","response":{},"when":{"promptContains":1}}"#,
            "`when.promptContains` must be a string",
        ),
        (r#"{"method":"generateContent","response":{},"vars":{"a":"("}}"#, "variable `a`"),
        (
            r#"{"method":"generateContent","response":{},"vars":{"a":7}}"#,
            "variable `a`: it must be",
        ),
        (
            r#"{"method":"generateContent","response":{},"delayMs":"1"}"#,
            "whole number of milliseconds",
        ),
        (r#"{"method":"generateContent","error":7}"#, "`error` must be an object with"),
        (
            r#"{"method":"generateContent","response":{},"request":7}"#,
            "`request` must be an object",
        ),
    ] {
        let text = format!("{}\n{line}", text_reply("x"));
        let error = ScriptedModel::from_text("s.jsonl", &text, ScriptMode::Strict)
            .expect_err(line)
            .to_string();
        assert!(error.starts_with("s.jsonl:2: ") && error.contains(word), "{error}");
    }
}

#[tokio::test]
async fn scripted_error_acts_as_a_service_error() {
    let model = model(
        r#"{"method":"generateContentStream","response":[{"error":{"code":429,"message":"limit: 0"}}]}"#,
    );
    let end = drain(&model, request()).await.end;
    assert!(matches!(end, Err(ModelError::Quota { status: 429, .. })), "{end:?}");
}

#[tokio::test]
async fn scripted_delay_is_applied_and_cancellable() {
    let line = text_reply("a").replacen('{', r#"{"delayMs":60000,"#, 1);
    let model = model(&line);
    let cancel = CancellationToken::new();
    let mut stream = model.stream(request(), cancel.clone());
    let start = Instant::now();
    let (next, ()) = tokio::join!(stream.next(), async {
        tokio::task::yield_now().await;
        cancel.cancel();
    });
    assert!(matches!(next, Some(Err(ModelError::Cancelled))));
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[test]
fn only_regular_script_files_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    let pipe = crate::support::pipe(folder.path());
    let device = PathBuf::from("/dev/zero");
    let folder = folder.path().to_owned();
    for (path, what) in
        [(folder, "a directory"), (socket, "a socket"), (pipe, "a pipe"), (device, "a device")]
    {
        let error = ScriptedModel::from_file(&path, ScriptMode::Strict).expect_err("no file");
        assert!(matches!(error, ScriptError::NotAFile { .. }), "{error}");
        let error = error.to_string();
        assert!(error.contains(&*path.display().to_string()) && error.contains(what), "{error}");
    }
}

#[test]
fn oversized_script_is_rejected() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("s.jsonl");
    let file = std::fs::File::create(&path).expect("a file");
    file.set_len((512 << 20) + 1).expect("a hole");
    let error = ScriptedModel::from_file(&path, ScriptMode::Strict).expect_err("too large");
    assert!(error.to_string().ends_with("larger than 512 MiB"), "{error}");
}

#[test]
fn invalid_utf8_is_reported_with_its_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("s.jsonl");
    let text = [text_reply("x").as_bytes(), b"\n\xff\n"].concat();
    std::fs::write(&path, text).expect("a file");
    let error = ScriptedModel::from_file(&path, ScriptMode::Strict).expect_err("no text");
    assert!(error.to_string().contains("s.jsonl:2: "), "{error}");
}

#[test]
fn empty_script_is_rejected() {
    for text in ["", "\u{feff}\n \n"] {
        let error =
            ScriptedModel::from_text("s.jsonl", text, ScriptMode::Strict).expect_err("empty");
        assert!(error.to_string().contains("`s.jsonl` is empty"), "{error}");
    }
}

#[tokio::test]
async fn script_file_is_not_reported_as_built_in() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("s.jsonl");
    std::fs::write(&path, text_reply("x")).expect("a file");
    let file = ScriptedModel::from_file(&path, ScriptMode::Embedded).expect("a script");
    let ours =
        ScriptedModel::from_text("demo", &text_reply("x"), ScriptMode::Embedded).expect("a script");
    for (model, name, origin) in
        [(file, &*path.display().to_string(), "`--model`"), (ours, "demo", "built in")]
    {
        drain(&model, request()).await.end.expect("the only line");
        let error = drain(&model, request()).await.end.expect_err("no line").to_string();
        assert!(error.contains(&format!("`{name}` ({origin})")), "{error}");
    }
}
