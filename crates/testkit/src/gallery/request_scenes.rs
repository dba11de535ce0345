//! Scenes in which the program needs an answer of the user.

use serde_json::json;

use super::conversation::{
    ASK, calls, documented, edit, ends_with, last, prompts, scene, shell, text_reply, wait_for_text,
};
use super::{Scene, Step};

pub(super) fn all() -> Vec<Scene> {
    vec![first_run(), trust(), shell_question(), edit_question(), user_question()]
}

fn first_run() -> Scene {
    let removed_variables = &["GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL"];
    let texts = &["How do you want to connect to a model?", "Gemini API key"];
    let steps = wait_for_text("How do you want to connect to a model?");
    documented(30, Scene { removed_variables, ..scene("first-run", Vec::new(), steps, texts) })
}

fn trust() -> Scene {
    let texts = &["Do you trust this folder?", "context files: GEMINI.md", "Do not trust it"];
    let scene = scene("trust", Vec::new(), wait_for_text("Do not trust it"), texts);
    documented(30, Scene { removed_variables: &["GEMINI_CLI_TRUST_WORKSPACE"], ..scene })
}

fn shell_question() -> Scene {
    let command = "cargo test --quiet retry 2>&1 | tail -20 && git diff --stat";
    let script = vec![
        text_reply(
            "The loop never waits. I run its tests first, to see what they cover.",
            9_400,
            0,
            40,
        ),
        calls(&[shell(command, "Tests the retry loop")], 9_900, 8_100),
    ];
    let steps = [
        prompts(ASK),
        ends_with("what they cover"),
        prompts("Go on"),
        wait_for_text("Allow execution of this command?"),
    ]
    .concat();
    let texts = &[
        "Allow execution of this command?",
        "cargo test --quiet retry 2>&1 | tail -20 && git diff --stat",
        "Yes, allow once",
        "requires approval in default mode",
    ];
    documented(26, scene("shell-question", script, steps, texts))
}

fn edit_question() -> Scene {
    let script = vec![json!({"chunks": [last(&json!([
            {"text": "The delay is computed and dropped. I wait for it, and keep it below a limit."},
            {"functionCall": edit()},
        ]), 10_400, 9_000, 120)]})];
    let steps = [prompts("Fix it"), wait_for_text("Apply this change?")].concat();
    let texts = &[
        "Apply this change?",
        "src/retry.rs",
        "std::thread::sleep(delay.min(LONGEST));",
        "Yes, allow once",
    ];
    documented(32, scene("edit-question", script, steps, texts))
}

fn user_question() -> Scene {
    let questions = json!([{
        "question": "How long may an attempt wait at most?",
        "header": "Limit",
        "type": "choice",
        "options": [
            {"label": "One second", "description": "Fast, but hard on the host"},
            {"label": "Ten seconds", "description": "What most clients do"},
        ],
    }]);
    let ask = json!({"name": "ask_user", "args": {"questions": questions}});
    let steps = [prompts("Fix it"), vec![Step::See("Ten seconds")]].concat();
    let texts = &[
        "How long may an attempt wait at most?",
        "One second",
        "Fast, but hard on the host",
        "Ten seconds",
        "What most clients do",
    ];
    Scene { size: (96, 24), ..scene("user-question", vec![calls(&[ask], 9_120, 0)], steps, texts) }
}
