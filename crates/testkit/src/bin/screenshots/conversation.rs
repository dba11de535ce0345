//! What the model says in a scene, and what the user types.

use serde_json::{Value, json};
use testkit::pty::Key;

use super::stage::{Scene, StageAction};

const SETTINGS: &str = r#"{"model":{"name":"gemini-2.5-pro"}}"#;

pub(super) const COMPOSER: &str = "Type your message";

pub(super) fn scene(name: &'static str, script: Vec<Value>, steps: Vec<StageAction>) -> Scene {
    Scene {
        name,
        size: (96, 30),
        script: Value::Array(script).to_string(),
        settings: SETTINGS,
        without: &[],
        is_documented: false,
        steps,
    }
}

/// Returns the parts as one document, the last of its response.
pub(super) fn last(parts: &Value, prompt: u64, cached: u64, answer: u64) -> Value {
    json!({
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {
            "promptTokenCount": prompt, "cachedContentTokenCount": cached,
            "candidatesTokenCount": answer, "totalTokenCount": prompt + answer,
        },
    })
}

pub(super) fn says(text: &str, prompt: u64, cached: u64, answer: u64) -> Value {
    json!({"chunks": [last(&json!([{"text": text}]), prompt, cached, answer)]})
}

pub(super) fn calls(calls: &[Value], prompt: u64, cached: u64) -> Value {
    let parts: Vec<Value> = calls.iter().map(|call| json!({"functionCall": call})).collect();
    json!({"chunks": [last(&Value::Array(parts), prompt, cached, 60)]})
}

pub(super) fn shell(command: &str, description: &str) -> Value {
    json!({"name": "run_shell_command", "args": {"command": command, "description": description}})
}

pub(super) fn read(path: &str) -> Value {
    json!({"name": "read_file", "args": {"file_path": path}})
}

pub(super) fn edit() -> Value {
    json!({"name": "replace", "args": {
        "file_path": "src/retry.rs",
        "instruction": "Wait before the next attempt",
        "old_string": "                let delay = Duration::from_millis(100) * 2_u32.pow(attempt);\n                attempt += 1;\n",
        "new_string": "                let delay = Duration::from_millis(100) * 2_u32.saturating_pow(attempt);\n                std::thread::sleep(delay.min(LONGEST));\n                attempt += 1;\n",
    }})
}

pub(super) fn prompts(text: &'static str) -> Vec<StageAction> {
    vec![
        StageAction::See(COMPOSER),
        StageAction::Type(text),
        StageAction::See(text),
        StageAction::Press(Key::Enter),
    ]
}

pub(super) fn steps(parts: Vec<Vec<StageAction>>) -> Vec<StageAction> {
    parts.concat()
}
