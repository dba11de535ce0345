//! Recording and replaying.

use std::path::Path;
use std::sync::Arc;

use parallax_protocol::CancellationToken;
use parallax_protocol::content::{Content, Part};
use parallax_protocol::model::{Model, ModelError};
use parallax_protocol::secret::Secret;
use parallax_replay::{RecordFormat, Recorder, ReplayModel, ScriptMode, ScriptedModel};
use serde_json::{Value, json};

use crate::support::{KEY, drain, request};

const SIGNED: &str = r#"{"thoughtSignature":"c2ln","functionCall":{"name":"x","args":{"n":1.50}}}"#;

fn script() -> Arc<dyn Model> {
    let text = [
        format!(r#"{{"method":"generateContentStream","response":[{{"candidates":[{{"content":{{"parts":[{SIGNED}]}},"finishReason":"STOP"}}],"usageMetadata":{{"totalTokenCount":4}},"modelVersion":"m"}}]}}"#),
        r#"{"method":"generateContentStream","response":[{"candidates":[{"content":{"parts":[{"text":"cut"}]}}]},{"error":{"code":503,"message":"away"}}]}"#.to_owned(),
        format!(r#"{{"method":"generateContent","response":{{"candidates":[{{"content":{{"parts":[{{"text":"{KEY}"}}]}}}}]}}}}"#),
    ];
    Arc::new(ScriptedModel::from_text("s", &text.join("\n"), ScriptMode::Strict).expect("a script"))
}

async fn record(path: &Path, format: RecordFormat) -> Vec<Value> {
    let recorder =
        Recorder::new(script(), path, format, vec![Secret::new(KEY)]).expect("a recorder");
    drain(&recorder, request()).await.end.expect("the first call");
    drain(&recorder, request()).await.end.expect_err("the second is cut");
    recorder.generate(request(), CancellationToken::new()).await.expect("the third call");
    let text = std::fs::read_to_string(path).expect("a recording");
    assert!(text.contains(SIGNED) && !text.contains(KEY), "{text}");
    text.lines().map(|line| serde_json::from_str(line).expect("json")).collect()
}

#[tokio::test]
async fn reference_format_keeps_only_complete_answers() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("r.jsonl");
    let lines = record(&path, RecordFormat::Reference).await;
    let methods: Vec<_> = lines.iter().map(|line| line["method"].as_str()).collect();
    assert_eq!(methods, [Some("generateContentStream"), Some("generateContent")]);
    let keys: Vec<_> = lines[0].as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["method", "response"]);
    let keys: Vec<_> = lines[0]["response"][0].as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["candidates", "usageMetadata"]);
    // The recording can be played as a script.
    let again = ScriptedModel::from_file(&path, ScriptMode::Strict).expect("a script");
    drain(&again, request()).await.end.expect("the first call");
}

#[tokio::test]
async fn full_format_replays_errors_too() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("r.jsonl");
    assert_eq!(record(&path, RecordFormat::Full).await.len(), 3);
    let replay = ReplayModel::from_file(&path, true).expect("a recording");
    drain(&replay, request()).await.end.expect("the first call");
    let cut = drain(&replay, request()).await;
    assert_eq!(cut.text, "cut");
    assert!(matches!(cut.end, Err(ModelError::Broken { status: Some(503), retryable: true, .. })));
}

#[tokio::test]
async fn strict_replay_reports_differences() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("r.jsonl");
    record(&path, RecordFormat::Full).await;
    let mut other = request();
    other.contents.push(Content::user(vec![Part::text("and more")]).seal());
    let replay = ReplayModel::from_file(&path, true).expect("a recording");
    let error = drain(&replay, other.clone()).await.end.expect_err("other contents").to_string();
    assert!(error.contains("content 2 of 2") && error.contains("and more"), "{error}");
    let loose = ReplayModel::from_file(&path, false).expect("a recording");
    drain(&loose, other).await.end.expect("in order");
}

#[tokio::test]
async fn strict_replay_ignores_session_specific_values() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("r.jsonl");
    let on = |day: &str, prompt: &str| {
        let mut request = request();
        let context = format!("<session_context>\nDate: {day}\n</session_context>");
        let parts = vec![Part::text(context), Part::text(prompt)];
        request.contents = vec![Content::user(parts).seal()];
        request
    };
    let recorder =
        Recorder::new(script(), &path, RecordFormat::Full, Vec::new()).expect("a recorder");
    drain(&recorder, on("Sunday", "hello")).await.end.expect("a call");
    let line: Value =
        serde_json::from_str(&std::fs::read_to_string(&path).expect("text")).expect("json");
    assert_eq!(line["request"]["lastUserText"], "hello");
    let replay = || ReplayModel::from_file(&path, true).expect("a recording");
    drain(&replay(), on("Monday", "hello")).await.end.expect("the same prompt");
    for model in [replay(), ReplayModel::from_file(&path, false).expect("a recording")] {
        drain(&model, on("Sunday", "hello")).await.end.expect("the only line");
        let end = drain(&model, on("Sunday", "bye")).await.end;
        let error = end.expect_err("another prompt").to_string();
        assert!(error.contains(r#"{"text":"bye"}"#) && !error.contains("Sunday"), "{error}");
    }
    let end = drain(&replay(), on("Sunday", "bye")).await.end;
    let error = end.expect_err("another prompt").to_string();
    assert!(error.contains("content 1 of 1") && !error.contains("Sunday"), "{error}");
}

#[tokio::test]
async fn strict_replay_ignores_what_differs_in_every_run() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("r.jsonl");
    let request_of_run = |run: &str, pid: u32, text: &str| {
        let mut request = request();
        let output = format!("{text} in {run}/a.txt and /home/{run}/x\nProcess Group PGID: {pid}");
        let result = json!({"output": output}).as_object().expect("an object").clone();
        let parts = vec![Part::function_response(None, "run_shell_command", result, Vec::new())];
        request.contents = vec![Content::user(parts).seal()];
        request
    };
    let recorder = Recorder::new(script(), &path, RecordFormat::Full, Vec::new())
        .expect("a recorder")
        .with_directories(Path::new("/tmp/one"), Path::new("/home//tmp/one"));
    drain(&recorder, request_of_run("/tmp/one", 17, "ok")).await.end.expect("a call");
    let replay = |run: &str| {
        ReplayModel::from_file(&path, true)
            .expect("a recording")
            .with_directories(Path::new(run), Path::new(&format!("/home/{run}")))
    };
    drain(&replay("/tmp/two"), request_of_run("/tmp/two", 4711, "ok")).await.end.expect("the same");
    let end = drain(&replay("/tmp/two"), request_of_run("/tmp/two", 17, "bad")).await.end;
    let error = end.expect_err("another result").to_string();
    assert!(error.contains("content 1 of 1") && error.contains("bad in /tmp/two"), "{error}");
    assert!(!error.contains("recorded prompt"), "{error}");
    // Recordings of earlier versions have exact hashes.
    let text = std::fs::read_to_string(&path).expect("text");
    let exact = text.replace(r#","form":1"#, "");
    assert_ne!(exact, text);
    std::fs::write(&path, exact).expect("written");
    let end = drain(&replay("/tmp/two"), request_of_run("/tmp/two", 4711, "ok")).await.end;
    end.expect_err("no longer the same bytes");
}

#[test]
fn recording_requires_a_regular_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let pipe = crate::support::pipe(directory.path());
    for (path, what) in [(pipe.as_path(), "a pipe"), (directory.path(), "a directory")] {
        for format in [RecordFormat::Full, RecordFormat::Reference] {
            let Err(error) = Recorder::new(script(), path, format, Vec::new()) else {
                unreachable!("{what} takes no recording")
            };
            assert!(error.to_string().contains(what), "{error}");
        }
    }
}

#[tokio::test]
async fn recording_never_appends_to_another() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("r.jsonl");
    std::fs::write(&path, "").expect("an empty file");
    record(&path, RecordFormat::Full).await;
    let before = std::fs::read(&path).expect("a recording");
    let again = Recorder::new(script(), &path, RecordFormat::Full, Vec::new());
    let error = again.err().expect("it is there already").to_string();
    assert!(error.contains("r.jsonl` already exists"), "{error}");
    assert_eq!(std::fs::read(&path).expect("a recording"), before);
    // Gemini CLI's format appends.
    let count = before.split(|byte| *byte == b'\n').count() + 1;
    record(&path, RecordFormat::Reference).await;
    assert_eq!(std::fs::read_to_string(&path).expect("a recording").lines().count(), count);
}

#[tokio::test]
async fn split_key_is_not_recorded_and_signatures_are_kept() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("r.jsonl");
    let (head, tail) = KEY.split_at(7);
    let chunk = |parts: Value| json!({"candidates": [{"content": {"parts": parts}}]});
    let call = |text: &str| json!({"functionCall": {"name": "x", "args": {"list": [text]}}});
    let script = json!({"method": "generateContentStream", "response": [
        chunk(json!([{"text": format!("the key {head}")}, {"thought": true, "text": head}])),
        chunk(json!([call(head), {"text": tail, "thoughtSignature": "c2ln"}])),
        chunk(json!([{"thought": true, "text": tail}, call(tail), {"text": " it is"}])),
    ]});
    // Another one with escapes, in a part with a signature, which keeps its bytes.
    let escaped = format!(r#"{{"text":"\u0041{}","thoughtSignature":"c2ln"}}"#, &KEY[1..]);
    let second = format!(
        r#"{{"method":"generateContentStream","response":[{{"candidates":[{{"content":{{"parts":[{escaped}]}}}}]}}]}}"#
    );
    let text = format!("{script}\n{second}");
    let model = ScriptedModel::from_text("s", &text, ScriptMode::Strict).expect("a script");
    let secrets = vec![Secret::new(KEY)];
    let recorder =
        Recorder::new(Arc::new(model), &path, RecordFormat::Full, secrets).expect("a recorder");
    let mut long = request();
    // Only the beginning of the key is in the part of the prompt that is kept.
    let prompt = format!("{}{KEY}", "x".repeat(290));
    long.contents = vec![Content::user(vec![Part::text(prompt)]).seal()];
    let description = drain(&recorder, long).await.text;
    assert!(description.contains(KEY), "the answer itself is whole: {description}");
    drain(&recorder, request()).await.end.expect("the second call");
    let text = std::fs::read_to_string(&path).expect("a recording");
    for piece in [tail, &head[..5]] {
        assert!(!text.contains(piece), "{piece} in {text}");
    }
    assert_eq!(text.matches(r#""thoughtSignature":"c2ln""#).count(), 2, "{text}");
    let replay = ReplayModel::from_file(&path, false).expect("a recording");
    assert_eq!(drain(&replay, request()).await.text, "the key [redacted] it is");
}

#[tokio::test]
async fn redacted_values_match_during_replay() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("r.jsonl");
    let after = |description: &str| {
        let mut request = request();
        request.contents.push(Content::model(vec![Part::text(description)]).seal());
        request
    };
    let recorder = Recorder::new(script(), &path, RecordFormat::Full, vec![Secret::new(KEY)])
        .expect("a recorder");
    drain(&recorder, after(&format!("<{KEY}>"))).await.end.expect("a call");
    let replay = ReplayModel::from_file(&path, true).expect("a recording");
    drain(&replay, after("<[redacted]>")).await.end.expect("the same");
}

#[tokio::test]
async fn recording_of_an_empty_response_can_be_loaded() {
    let directory = tempfile::tempdir().expect("a directory");
    let empty = directory.path().join("empty.jsonl");
    let line = r#"{"method":"generateContentStream","response":[],"request":{"model":"m","contents":"c"}}"#;
    std::fs::write(&empty, line).expect("a recording");
    let refused =
        r#"{"method":"generateContentStream","response":[{"error":{"code":401,"message":"no"}}]}"#;
    for format in [RecordFormat::Full, RecordFormat::Reference] {
        let path = directory.path().join(format!("{format:?}.jsonl"));
        let record = |model: Arc<dyn Model>| {
            Recorder::new(model, &path, format, Vec::new()).expect("a recorder")
        };
        let replay = ReplayModel::from_file(&empty, false).expect("an empty answer");
        drain(&record(Arc::new(replay)), request()).await.end.expect("nothing");
        assert_eq!(
            drain(&ReplayModel::from_file(&path, true).expect("it loads"), request()).await.text,
            ""
        );
        std::fs::remove_file(&path).expect("there is one");
        let refusing =
            ScriptedModel::from_text("s", refused, ScriptMode::Strict).expect("a script");
        drain(&record(Arc::new(refusing)), request()).await.end.expect_err("refused");
        if format == RecordFormat::Full {
            let replay = ReplayModel::from_file(&path, true).expect("it loads");
            drain(&replay, request()).await.end.expect_err("refused again");
        }
    }
}
