//! What the model says in a scene, and what the user types.

use serde_json::{Value, json};

use super::{Scene, Step};
use crate::pty::Key;

/// The placeholder of the empty composer.
pub(super) const COMPOSER: &str = "Type your message";

/// The question of most scenes.
pub(super) const ASK: &str = "Why does a lost link make us hammer the host?";

/// Returns a scene that the documentation does not show.
pub(super) fn scene(
    name: &'static str,
    script: Vec<Value>,
    steps: Vec<Step>,
    texts: &'static [&'static str],
) -> Scene {
    Scene {
        name,
        is_documented: false,
        size: (96, 30),
        script,
        home_files: &[],
        removed_variables: &[],
        steps,
        texts,
    }
}

/// Returns a scene that the documentation shows with this many rows.
pub(super) fn documented(rows: u16, scene: Scene) -> Scene {
    Scene { is_documented: true, size: (96, rows), ..scene }
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

pub(super) fn text_reply(text: &str, prompt: u64, cached: u64, answer: u64) -> Value {
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

/// Types a prompt and sends it.
pub(super) fn prompts(text: &'static str) -> Vec<Step> {
    vec![Step::Ready, Step::Type(text), Step::See(text), Step::Press(Key::Enter)]
}

/// Waits for the answer and the end of the turn.
pub(super) fn ends_with(text: &'static str) -> Vec<Step> {
    vec![Step::See(text), Step::Idle]
}

pub(super) fn wait_for_text(text: &'static str) -> Vec<Step> {
    vec![Step::See(text)]
}
