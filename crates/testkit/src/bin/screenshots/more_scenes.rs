//! The scenes that only the gallery shows.

use serde_json::{Value, json};
use testkit::pty::Key;

use super::conversation::{COMPOSER, calls, edit, prompts, read, says, scene, shell, steps};
use super::stage::{Scene, StageAction};

const ASK: &str = "Why does a lost link make us hammer the host?";

pub fn all() -> Vec<Scene> {
    vec![
        welcome(),
        settings(),
        settings_search(),
        help(),
        models(),
        reads(),
        edited(),
        failed_command(),
        steering(),
        user_question(),
        auto_edit(),
        refused_request(),
        transcript(),
    ]
}

fn welcome() -> Scene {
    Scene { size: (96, 18), ..scene("welcome", Vec::new(), vec![StageAction::See(COMPOSER)]) }
}

fn settings() -> Scene {
    let steps = steps(vec![
        prompts("/settings"),
        vec![
            StageAction::See("General"),
            StageAction::Press(Key::Right),
            StageAction::See("Theme"),
        ],
    ]);
    scene("settings", Vec::new(), steps)
}

fn settings_search() -> Scene {
    let steps = steps(vec![
        prompts("/settings"),
        vec![
            StageAction::See("General"),
            StageAction::Type("footer"),
            StageAction::See("Footer items"),
        ],
    ]);
    scene("settings-search", Vec::new(), steps)
}

fn help() -> Scene {
    scene("help", Vec::new(), steps(vec![prompts("/help"), vec![StageAction::See("Commands")]]))
}

fn models() -> Scene {
    scene(
        "models",
        Vec::new(),
        steps(vec![prompts("/model"), vec![StageAction::See("gemini-2.5-pro")]]),
    )
}

fn reads() -> Scene {
    let files = ["src/retry.rs", "tests/retry.rs", "src/main.rs", "Cargo.toml"].map(read);
    let script = vec![calls(&files, 9_120, 0), says("The loop never waits.", 10_200, 8_900, 420)];
    let steps = steps(vec![prompts(ASK), vec![StageAction::See("never waits"), StageAction::Idle]]);
    Scene { size: (96, 22), ..scene("reads", script, steps) }
}

fn edited() -> Scene {
    let script = vec![
        calls(&[edit()], 9_120, 0),
        says("It waits now, at most ten seconds.", 10_200, 8_900, 420),
    ];
    let steps = steps(vec![
        prompts("Fix it"),
        vec![
            StageAction::See("Apply this change?"),
            StageAction::Rest,
            StageAction::Press(Key::Char('1')),
            StageAction::See("ten seconds"),
            StageAction::Idle,
        ],
    ]);
    Scene { size: (96, 32), ..scene("edited", script, steps) }
}

fn failed_command() -> Scene {
    let command = "ls src && grep -n 'sleep' src/retry.rs";
    let script = vec![
        calls(&[shell(command, "Looks for a wait")], 9_120, 0),
        says("Nothing in `retry.rs` sleeps.", 10_200, 8_900, 420),
    ];
    let steps = steps(vec![prompts(ASK), vec![StageAction::See("sleeps."), StageAction::Idle]]);
    Scene { size: (96, 28), ..scene("failed-command", script, steps) }
}

fn steering() -> Scene {
    let thought = json!({"text": "**Reading the loop**\n\nDoes it sleep?", "thought": true});
    let script = vec![json!({"chunks": [{"parts": [thought]}, {"gate": "never"}]})];
    let steps = steps(vec![
        prompts(ASK),
        vec![
            StageAction::See("Reading the loop"),
            StageAction::Type("look at the tests, too"),
            StageAction::Press(Key::Enter),
            StageAction::See("For this turn"),
            StageAction::Type("then write one"),
            StageAction::Press(Key::Tab),
            StageAction::See("For after it"),
        ],
    ]);
    Scene { size: (96, 22), ..scene("steering", script, steps) }
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
    let script: Vec<Value> = vec![calls(&[ask], 9_120, 0)];
    let steps = steps(vec![prompts("Fix it"), vec![StageAction::See("Ten seconds")]]);
    Scene { size: (96, 24), ..scene("user-question", script, steps) }
}

fn auto_edit() -> Scene {
    let steps = vec![
        StageAction::See(COMPOSER),
        StageAction::Press(Key::BackTab),
        StageAction::See("auto-edit"),
    ];
    Scene { size: (96, 18), ..scene("auto-edit", Vec::new(), steps) }
}

fn refused_request() -> Scene {
    let script = vec![json!({"status": 403, "repeat": 0,
        "error": {"code": 403, "message": "The caller does not have permission", "status": "PERMISSION_DENIED"}})];
    let steps = steps(vec![prompts(ASK), vec![StageAction::See("permission"), StageAction::Idle]]);
    Scene { size: (96, 22), ..scene("refused-request", script, steps) }
}

fn transcript() -> Scene {
    let files = ["src/retry.rs", "tests/retry.rs", "src/main.rs"].map(read);
    let script = vec![calls(&files, 9_120, 0), says("The loop never waits.", 10_200, 8_900, 420)];
    let steps = steps(vec![
        prompts(ASK),
        vec![StageAction::See("never waits"), StageAction::Idle],
        prompts("/transcript"),
        vec![StageAction::See("Transcript")],
    ]);
    Scene { size: (96, 24), ..scene("transcript", script, steps) }
}
