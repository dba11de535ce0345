//! The arguments of a tool call as the text that patterns are matched against.

use std::fmt::Write as _;

use parallax_protocol::Object;
use serde_json::Value;

/// Returns the arguments as JSON with sorted keys and no whitespace.
///
/// Each pair of the outermost object is enclosed in NUL bytes, so that a pattern can match a whole
/// value. `command` replaces the value of the `command` argument.
pub(crate) fn arguments_text(args: &Object, command: Option<&str>) -> String {
    let mut keys: Vec<&str> = args.keys().map(String::as_str).collect();
    if command.is_some() && !keys.contains(&"command") {
        keys.push("command");
    }
    keys.sort_unstable();
    let mut out = String::from("{");
    for (index, key) in keys.into_iter().enumerate() {
        out.push_str(if index == 0 { "\0" } else { ",\0" });
        quote(key, &mut out);
        out.push(':');
        match (command, args.get(key)) {
            (Some(command), _) if key == "command" => quote(command, &mut out),
            (_, Some(value)) => write_value(value, &mut out),
            (_, None) => out.push_str("null"),
        }
        out.push('\0');
    }
    out.push('}');
    out
}

fn write_value(value: &Value, out: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut keys: Vec<&String> = fields.keys().collect();
            keys.sort_unstable();
            out.push('{');
            for (index, key) in keys.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                quote(key, out);
                out.push(':');
                if let Some(value) = fields.get(key) {
                    write_value(value, out);
                }
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_value(item, out);
            }
            out.push(']');
        }
        Value::String(text) => quote(text, out),
        // Writing to a `String` cannot fail.
        other => drop(write!(out, "{other}")),
    }
}

/// Returns the text as a JSON string. A NUL is escaped, so a value cannot imitate the end of its
/// pair.
pub(crate) fn quote(text: &str, out: &mut String) {
    out.push_str(&Value::from(text).to_string());
}

#[cfg(test)]
mod tests {
    use super::arguments_text;

    #[test]
    fn argument_keys_are_sorted_and_pairs_are_stable() {
        let args =
            serde_json::json!({"b": {"d": [1, "x"], "c": null}, "a": "\0\"", "command": "ls"});
        let args = args.as_object().expect("object");
        assert_eq!(
            arguments_text(args, None),
            "{\0\"a\":\"\\u0000\\\"\"\0,\0\"b\":{\"c\":null,\"d\":[1,\"x\"]}\0,\0\"command\":\"ls\"\0}"
        );
        assert!(arguments_text(args, Some("rm")).ends_with("\0\"command\":\"rm\"\0}"));
    }
}
