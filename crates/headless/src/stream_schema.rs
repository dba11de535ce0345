//! The JSON Schema of stream-json, derived from the types that write and read the lines.

use parallax_protocol::context::ContextBreakdown;
use parallax_protocol::event::{Compaction, UndoResult};
use parallax_protocol::routing::{Fallback, Route};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::input_line::InputLine;
use crate::stream_lines::{
    AgentLine, ApprovalClosedLine, ApprovalRequestLine, Init, MessageLine, NoticeLine,
    ProgressLine, ResultLine, RetryLine, SessionLine, Thought, ToolResultLine, ToolUse, UsageLine,
};

/// Returns the JSON Schema (draft 2020-12) of an output line, in versions 1 and 2. Each line type
/// has its own definition (`$defs`), and `InputLine` is the definition of an input line.
pub fn stream_schema() -> Value {
    let settings = SchemaSettings::draft2020_12();
    let mut output = settings.clone().for_serialize().into_generator();
    let lines = [
        line::<Init>(&mut output, "Init", "init"),
        line::<MessageLine<'_>>(&mut output, "Message", "message"),
        line::<ToolUse<'_>>(&mut output, "ToolUse", "tool_use"),
        line::<ToolResultLine>(&mut output, "ToolResult", "tool_result"),
        line::<NoticeLine<'_>>(&mut output, "Error", "error"),
        line::<ResultLine<'_>>(&mut output, "Result", "result"),
        line::<ApprovalRequestLine<'_>>(&mut output, "Ask", "ask"),
        line::<ApprovalClosedLine<'_>>(&mut output, "AskClosed", "ask_closed"),
        line::<UndoResult>(&mut output, "Undone", "undone"),
        line::<ContextBreakdown>(&mut output, "Context", "context"),
        line::<Thought<'_>>(&mut output, "Thought", "thought"),
        line::<ProgressLine<'_>>(&mut output, "ToolProgress", "tool_progress"),
        line::<AgentLine<'_>>(&mut output, "Agent", "agent"),
        line::<UsageLine<'_>>(&mut output, "Usage", "usage"),
        line::<SessionLine<'_>>(&mut output, "Session", "session"),
        line::<Compaction>(&mut output, "Compaction", "compaction"),
        line::<Route>(&mut output, "Model", "model"),
        line::<Fallback>(&mut output, "Fallback", "fallback"),
        line::<RetryLine<'_>>(&mut output, "Retry", "retry"),
    ];
    let mut input = settings.for_deserialize().into_generator();
    let input_line = InputLine::json_schema(&mut input).to_value();
    // Types used in both directions have the same form.
    let mut definitions = input.take_definitions(true);
    definitions.extend(output.take_definitions(true));
    definitions.insert("InputLine".to_owned(), input_line);
    let mut one_of = Vec::new();
    for (name, schema) in lines {
        one_of.push(json!({"$ref": format!("#/$defs/{name}")}));
        definitions.insert(name, schema);
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A line of Parallax's stream-json output",
        "oneOf": one_of,
        "$defs": definitions,
    })
}

/// Returns the schema of a line type: its body, with `type` and `timestamp`.
fn line<T: JsonSchema>(
    generator: &mut SchemaGenerator,
    name: &str,
    r#type: &str,
) -> (String, Value) {
    let mut schema = T::json_schema(generator).to_value();
    if let Value::Object(schema) = &mut schema {
        schema.insert("type".to_owned(), json!("object"));
        let mut properties: Map<String, Value> = Map::new();
        properties.insert("type".to_owned(), json!({"type": "string", "const": r#type}));
        properties.insert("timestamp".to_owned(), json!({"type": "string"}));
        if let Some(Value::Object(body)) = schema.shift_remove("properties") {
            properties.extend(body);
        }
        schema.insert("properties".to_owned(), Value::Object(properties));
        let mut required = vec![json!("type"), json!("timestamp")];
        if let Some(Value::Array(body)) = schema.shift_remove("required") {
            required.extend(body);
        }
        schema.insert("required".to_owned(), Value::Array(required));
    }
    (name.to_owned(), schema)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::stream_schema;
    use crate::OutputFormat;
    use crate::harness::{SessionScript, run};

    #[test]
    fn every_line_of_a_run_matches_exactly_one_definition() {
        let schema = stream_schema();
        let validator = jsonschema::validator_for(&schema).expect("a schema");
        for version in [1, 2] {
            let mut script = SessionScript::new(OutputFormat::StreamJson);
            script.options.stream_version = version;
            let result = run(script
                .thought("**Plan** it well")
                .dropped(&["Öne"])
                .retry()
                .tools_done_in_reverse(&[("a", Ok("one")), ("b", Err("gone"))])
                .model_call("m1", 100, 40, 7)
                .text(&["Done"])
                .done());
            for line in result.stdout.lines() {
                let value: Value = serde_json::from_str(line).expect("JSON");
                if let Err(error) = validator.validate(&value) {
                    panic!("{error}: {line}");
                }
            }
        }
        for bad in ["{}", r#"{"type":"init"}"#, r#"{"type":"dance","timestamp":"x"}"#] {
            assert!(!validator.is_valid(&serde_json::from_str(bad).expect("JSON")), "{bad}");
        }
    }

    #[test]
    fn input_lines_of_the_documentation_match_the_definition() {
        let mut schema = stream_schema();
        let fields = schema.as_object_mut().expect("an object");
        fields.shift_remove("oneOf");
        fields.insert("$ref".to_owned(), Value::from("#/$defs/InputLine"));
        let validator = jsonschema::validator_for(&schema).expect("a schema");
        for line in [
            r#"{"type":"message","content":"a"}"#,
            r#"{"type":"interrupt"}"#,
            r#"{"type":"undo"}"#,
            r#"{"type":"decide","id":"a","outcome":"proceed_once"}"#,
            r#"{"type":"decide","id":"a","outcome":"proceed_always","scope":"project",
                "rule":{"toolName":"run_shell_command","commandPrefix":["npm run"]}}"#,
            r#"{"type":"answer","id":"a","value":null}"#,
            r#"{"type":"set_mode","mode":"plan"}"#,
        ] {
            let value: Value = serde_json::from_str(line).expect("JSON");
            if let Err(error) = validator.validate(&value) {
                panic!("{error}: {line}");
            }
        }
        for bad in [r#"{"type":"message"}"#, r#"{"type":"dance"}"#] {
            assert!(!validator.is_valid(&serde_json::from_str(bad).expect("JSON")), "{bad}");
        }
    }
}
