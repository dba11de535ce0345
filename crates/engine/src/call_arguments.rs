//! Reads the arguments of a call as the model wrote them.

use parallax_protocol::Object;
use parallax_protocol::content::FunctionCall;
use serde_json::Value;

/// Returns the arguments of a call; missing arguments are an empty object.
///
/// # Errors
/// Returns what is wrong with arguments that are not an object.
pub(crate) fn call_arguments(call: &FunctionCall<'_>) -> Result<Object, String> {
    match call.malformed_args {
        Some(args) => Err(describe_malformed(args)),
        None => Ok(call.args.cloned().unwrap_or_default()),
    }
}

/// The number of characters of malformed arguments shown before and after the error.
const EXCERPT: usize = 30;

/// Says what is wrong with arguments, and where.
fn describe_malformed(args: &Value) -> String {
    let Value::String(text) = args else { return "are not a JSON object".to_owned() };
    let Err(error) = serde_json::from_str::<Value>(text) else {
        return "are not a JSON object".to_owned();
    };
    // The column counts bytes of the line, from 1.
    let line = text.lines().nth(error.line().saturating_sub(1)).unwrap_or_default();
    let at = line.floor_char_boundary(error.column().saturating_sub(1).min(line.len()));
    let (before, after) = line.split_at(at);
    let start = before.char_indices().rev().take(EXCERPT).last().map_or(at, |(start, _)| start);
    let near: String = before[start..].chars().chain(after.chars().take(EXCERPT)).collect();
    format!("are not valid JSON: {error}, near `{near}`")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problem(args: Value) -> Option<String> {
        let call = FunctionCall { id: None, name: "t", args: None, malformed_args: Some(&args) };
        call_arguments(&call).err()
    }

    #[test]
    fn malformed_arguments_are_described_with_their_position() {
        let output = problem(json!(r#"{"path": "a.txt", "line" 3}"#)).expect("a problem");
        assert_eq!(
            output,
            "are not valid JSON: expected `:` at line 1 column 26, near \
             `{\"path\": \"a.txt\", \"line\" 3}`"
        );
        let long = format!("{{\"text\": \"{}", "ä".repeat(500));
        let output = problem(json!(long)).expect("a problem");
        assert!(output.contains("EOF while parsing a string") && output.len() < 200, "{output}");
        assert!(problem(json!("{\n\"a\": 1,\n}")).is_some_and(|it| it.contains("line 3")));
    }

    #[test]
    fn non_object_arguments_are_rejected() {
        for value in [json!([1]), json!(3), json!("[1]"), json!(true)] {
            assert_eq!(problem(value).as_deref(), Some("are not a JSON object"));
        }
        let missing = FunctionCall { id: None, name: "t", args: None, malformed_args: None };
        assert_eq!(call_arguments(&missing), Ok(Object::new()));
    }
}
