//! Scenes in which the program needs an answer from the user.

use serde_json::json;

use super::conversation::{
    ASK, calls, documented, edit, ends_with, last, prompts, scene, shell, text_reply, wait_for_text,
};
use super::{Scene, Step};

pub(super) fn all() -> Vec<Scene> {
    vec![
        first_run(),
        trust(),
        shell_question(),
        edit_question(),
        user_question(),
        destructive_question(),
        web_question(),
        plan_question(),
    ]
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

/// Returns a long command, of which the user sees the part that destroys data at once.
fn destructive_question() -> Scene {
    let mut lines: Vec<String> =
        (1..=36).map(|number| format!("cp src/part{number}.rs build/part{number}.rs")).collect();
    lines.insert(0, "mkdir -p build".to_owned());
    lines.extend(["rm -rf /".to_owned(), "ls build".to_owned()]);
    let script = vec![calls(&[shell(&lines.join("\n"), "Collects the parts")], 9_120, 0)];
    let steps = [prompts("Build it"), wait_for_text("Allow execution of this command?")].concat();
    let texts = &["Allow execution of this command?", "mkdir -p build", "rm -rf /", "ls build"];
    scene("destructive-question", script, steps, texts)
}

fn web_question() -> Scene {
    let prompt = "Compare http://169.254.169.254/latest/meta-data/ with https://example.com/docs";
    let fetch = json!({"name": "web_fetch", "args": {"prompt": prompt}});
    let steps = [prompts("Look it up"), wait_for_text("Allow this web request?")].concat();
    let texts = &[
        "Allow this web request?",
        "Address of a cloud's metadata, which contains credentials",
        "http://169.254.169.254/latest/meta-data/",
        "https://example.com/docs",
    ];
    scene("web-question", vec![calls(&[fetch], 9_120, 0)], steps, texts)
}

fn plan_question() -> Scene {
    let plan = "# Wait between attempts\n\n1. Sleep for `delay`, at most ten seconds\n2. Test \
                that the second attempt waits\n";
    let write = json!({"name": "write_file",
        "args": {"file_path": "plans/retry.md", "content": plan}});
    let leave = json!({"name": "exit_plan_mode", "args": {"plan_filename": "retry.md"}});
    let mut answer = calls(&[leave], 9_300, 9_000);
    if let Some(chunks) = answer["chunks"].as_array_mut() {
        // The written file is shown completely before the question needs its rows.
        chunks.insert(0, json!({"wait_ms": 400}));
    }
    let script = vec![calls(&[write], 9_120, 0), answer];
    let steps = [
        prompts("/plan make it wait"),
        wait_for_text("Start working on this plan?"),
        wait_for_text("waits"),
    ]
    .concat();
    let texts = &["Start working on this plan?", "Sleep for delay", "1. Yes", "No, keep planning"];
    let home_files = &[(
        ".gemini/settings.json",
        r#"{"model":{"name":"gemini-2.5-pro"},"general":{"plan":{"directory":"plans"}}}"#,
    )];
    Scene { home_files, ..scene("plan-question", script, steps, texts) }
}
