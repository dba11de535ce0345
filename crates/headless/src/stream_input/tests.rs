use serde_json::Value;

use crate::harness::{SessionScript, run_conversation};
use crate::{OutputFormat, OutputSchema};

fn script() -> SessionScript {
    SessionScript::new(OutputFormat::StreamJson)
}

fn lines(stdout: &str) -> Vec<Value> {
    stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn lines_of_type<'a>(lines: &'a [Value], r#type: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["type"] == r#type).collect()
}

#[test]
fn several_prompts_run_over_one_process() {
    let done = run_conversation(
        script().text(&["one"]).done().text(&["two"]).done(),
        "{\"type\":\"message\",\"content\":\"a\"}\n\n{\"type\":\"message\",\"content\":\"b\"}",
    );
    assert_eq!((done.code, done.stderr.as_str()), (0, ""));
    assert_eq!(done.prompts, ["a", "b"]);
    let lines = lines(&done.stdout);
    assert_eq!(lines_of_type(&lines, "init").len(), 1);
    assert_eq!(lines_of_type(&lines, "result").len(), 2);
    assert_eq!(lines.last().unwrap()["type"], "result");
}

#[test]
fn each_answer_is_corrected_to_match_the_schema() {
    let mut script = script().text(&["no json"]).done();
    script = script.text(&["{\"n\":1}"]).done().text(&["{\"n\":2}"]).done();
    script.options.schema = OutputSchema::parse(r#"{"type":"object","required":["n"]}"#).ok();
    let done = run_conversation(
        script,
        "{\"type\":\"message\",\"content\":\"a\"}\n{\"type\":\"message\",\"content\":\"b\"}",
    );
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert_eq!((done.prompts.len(), done.prompts[2].as_str()), (3, "b"));
    assert!(done.prompts[1].contains("invalid JSON"), "{:?}", done.prompts);
    let lines = lines(&done.stdout);
    let values: Vec<_> = lines_of_type(&lines, "result")
        .into_iter()
        .map(|line| line["structured"].clone())
        .collect();
    assert_eq!(values, [serde_json::json!({"n": 1}), serde_json::json!({"n": 2})]);
}

#[test]
fn invalid_line_is_reported_and_the_conversation_continues() {
    let result = run_conversation(
        script().text(&["one"]).done(),
        "nonsense\n{\"type\":\"dance\"}\n{\"type\":\"message\"}\n{\"type\":\"command\",\"text\":\"/frobnicate\"}\n{\"type\":\"answer\",\"id\":\"q\",\"value\":1}\n{\"type\":\"decide\",\"id\":\"q\",\"outcome\":\"cancel\"}\n{\"type\":\"message\",\"content\":\" \
         \"}\n{\"type\":\"message\",\"content\":\"a\"}\n",
    );
    assert_eq!((result.code, result.prompts), (0, vec!["a".to_owned()]));
    let lines = lines(&result.stdout);
    let errors = lines_of_type(&lines, "error");
    let expected = [
        ("line 1: ", "expected one JSON object"),
        ("line 2: ", "unknown variant `dance`"),
        ("line 3: ", "missing field `content`"),
        ("line 4: ", "unknown command `/frobnicate`"),
        ("line 5: ", "no pending"),
        ("line 6: ", "no pending"),
        ("line 7: ", "empty"),
    ];
    assert_eq!(errors.len(), expected.len());
    for (error, (start, part)) in errors.iter().zip(expected) {
        let message = error["message"].as_str().unwrap();
        assert!(message.starts_with(start) && message.contains(part), "{message}");
    }
}

#[test]
fn approval_request_is_denied_when_the_input_has_ended() {
    let result = run_conversation(
        script().ask("a1").text(&["no"]).done(),
        "{\"type\":\"message\",\"content\":\"a\"}\n",
    );
    let lines = lines(&result.stdout);
    let ask = lines_of_type(&lines, "ask")[0];
    assert_eq!((&ask["id"], &ask["kind"]), (&Value::from("a1"), &Value::from("approval")));
    assert_eq!(result.decisions, ["a1"]);
    assert_eq!(result.code, 0);
}

#[test]
fn answers_are_matched_by_position() {
    use super::line_handlers::answers_of;
    use serde_json::json;
    let answers = json!({"0": "a"});
    for value in [json!({"0": "a"}), json!({"answers": {"0": "a"}}), json!("a")] {
        assert_eq!(answers_of(value.clone()).map(Value::Object), Some(answers.clone()), "{value}");
    }
    assert_eq!(answers_of(Value::Null), None);
}

#[test]
fn exit_code_is_that_of_the_last_turn() {
    let input =
        "{\"type\":\"message\",\"content\":\"a\"}\n{\"type\":\"message\",\"content\":\"b\"}\n";
    let result = run_conversation(script().done().failed(), input);
    assert_eq!((result.code, result.stderr.lines().count()), (1, 1));
    let result = run_conversation(script().failed().done(), input);
    assert_eq!((result.code, result.stderr.as_str()), (0, ""));
}

#[test]
fn steering_reaches_the_turn_and_interrupt_ends_it() {
    let result = run_conversation(
        script().text(&["x"]).end_on_interrupt(),
        "{\"type\":\"message\",\"content\":\"a\"}\n{\"type\":\"steer\",\"content\":\"left\"}\n{\"type\":\"interrupt\"}\n",
    );
    assert_eq!(result.steering, ["left"]);
    assert_eq!(result.code, 130);
    let result = run_conversation(
        script().user("a").text(&["x"]).user("left").done(),
        "{\"type\":\"message\",\"content\":\"a\"}\n",
    );
    let lines = lines(&result.stdout);
    let users: Vec<_> = lines_of_type(&lines, "message")
        .into_iter()
        .filter(|line| line["role"] == "user")
        .map(|line| line["content"].clone())
        .collect();
    assert_eq!(users, ["a", "left"]);
}

#[test]
fn signal_ends_the_conversation_with_a_result() {
    let mut script = script().text(&["x"]).end_on_interrupt();
    script.signals = vec![15];
    let result = run_conversation(script, "{\"type\":\"message\",\"content\":\"a\"}\n");
    assert_eq!(result.code, 143);
    let lines = lines(&result.stdout);
    assert_eq!(lines.last().unwrap()["error"]["type"], "FatalCancellationError");
}
