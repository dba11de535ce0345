//! The scenes of the screenshots, with their scripts and input.

use serde_json::json;
use testkit::pty::Key;

use super::conversation::{COMPOSER, calls, edit, last, prompts, read, says, scene, shell, steps};
use super::more_scenes;
use super::stage::{Scene, StageAction};

/// Returns all scenes.
pub fn all() -> Vec<Scene> {
    let mut documented = vec![
        first_run(),
        trust(),
        answer(),
        shell_question(),
        edit_question(),
        todos(),
        completion(),
        files(),
        stats(),
        themes(),
        rewind(),
    ];
    for scene in &mut documented {
        scene.is_documented = true;
    }
    documented.extend(more_scenes::all());
    documented
}

const FINDING: &str = "## Why it hammers the host

`send` computes a delay and **drops it**: the loop goes round at once.

1. `delay` doubles with each attempt, as it should.
2. Nothing sleeps, so all attempts are over in a millisecond.
   - `2_u32.pow` overflows at attempt 32, too

| attempt | delay now | delay meant |
|--------:|----------:|------------:|
|       1 |      0 ms |      100 ms |
|       2 |      0 ms |      200 ms |
|       3 |      0 ms |      400 ms |

";

/// How long a slow build takes to load the grammars.
const LOADING_MS: u64 = 4_000;

/// The end of it.
const CODE: &str = "\
```rust
Err(_) => {
    let delay = Duration::from_millis(100) * 2_u32.pow(attempt);
    std::thread::sleep(delay); // what is missing
    attempt += 1;
}
```
";

fn first_run() -> Scene {
    let steps = vec![StageAction::See("How do you want to connect to a model?")];
    let without = &["GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL"];
    Scene { without, ..scene("first-run", Vec::new(), steps) }
}

fn trust() -> Scene {
    let steps = vec![StageAction::See("Do you trust")];
    Scene { without: &["GEMINI_CLI_TRUST_WORKSPACE"], ..scene("trust", Vec::new(), steps) }
}

fn answer() -> Scene {
    let script = vec![
        calls(&[read("src/retry.rs"), read("tests/retry.rs")], 9_120, 0),
        json!({"chunks": [{"text": FINDING}, {"wait_ms": LOADING_MS}, {"text": CODE}, {"gate": "never"}]}),
    ];
    let steps = steps(vec![
        prompts("Why does a lost link make us hammer the host?"),
        vec![StageAction::See("attempt += 1")],
    ]);
    Scene { size: (96, 40), ..scene("answer", script, steps) }
}

fn shell_question() -> Scene {
    let script = vec![
        says("The loop never waits. I run its tests first, to see what they cover.", 9_400, 0, 40),
        calls(
            &[shell(
                "cargo test --quiet retry 2>&1 | tail -20 && git diff --stat",
                "Tests the retry loop",
            )],
            9_900,
            8_100,
        ),
    ];
    let steps = steps(vec![
        prompts("Why does a lost link make us hammer the host?"),
        vec![StageAction::See("what they cover"), StageAction::Idle],
        prompts("Go on"),
        vec![StageAction::See("Allow execution of this command?")],
    ]);
    Scene { size: (96, 26), ..scene("shell-question", script, steps) }
}

fn edit_question() -> Scene {
    let script = vec![json!({"chunks": [last(&json!([
            {"text": "The delay is computed and dropped. I wait for it, and keep it below a limit."},
            {"functionCall": edit()},
        ]), 10_400, 9_000, 120)]})];
    let steps = steps(vec![prompts("Fix it"), vec![StageAction::See("Apply this change?")]]);
    Scene { size: (96, 32), ..scene("edit-question", script, steps) }
}

fn todos() -> Scene {
    let todo =
        |description: &str, status: &str| json!({"description": description, "status": status});
    let plan = json!({"name": "write_todos", "args": {"todos": [
        todo("Reproduce: a link that fails three times", "completed"),
        todo("Wait between attempts", "in_progress"),
        todo("Limit the delay", "pending"),
        todo("Test both", "pending"),
    ]}});
    let script = vec![
        calls(&[plan], 9_400, 0),
        calls(&[read("src/retry.rs"), read("tests/retry.rs"), read("src/main.rs")], 9_900, 9_000),
        json!({"chunks": [{"text": "`send` has no way to wait for now. I begin with the delay."}, {"gate": "never"}]}),
    ];
    let steps = steps(vec![
        prompts("Fix the retry loop, step by step"),
        vec![
            StageAction::See("begin with the delay"),
            StageAction::Press(Key::Ctrl('t')),
            StageAction::See("Limit the delay"),
        ],
    ]);
    scene("plan", script, steps)
}

fn completion() -> Scene {
    let steps =
        vec![StageAction::See(COMPOSER), StageAction::Type("/"), StageAction::See("about ")];
    Scene { size: (96, 22), ..scene("commands", Vec::new(), steps) }
}

fn files() -> Scene {
    let steps = vec![
        StageAction::See(COMPOSER),
        StageAction::Idle,
        StageAction::Type("Is @ret"),
        StageAction::See("tests/retry.rs"),
    ];
    Scene { size: (96, 18), ..scene("files", Vec::new(), steps) }
}

fn stats() -> Scene {
    let script = vec![
        calls(&[read("src/retry.rs")], 9_100, 0),
        says("The loop never waits.", 10_300, 8_900, 420),
        calls(&[shell("ls src tests", "Lists the files"), read("tests/retry.rs")], 12_800, 10_100),
        says("No test covers it.", 14_500, 12_600, 650),
        says("A limit of ten seconds is common.", 15_900, 14_400, 300),
    ];
    let steps = steps(vec![
        prompts("Why does it hammer the host?"),
        vec![StageAction::See("never waits"), StageAction::Idle],
        prompts("Is that tested?"),
        vec![StageAction::See("No test covers it"), StageAction::Idle],
        prompts("What is a good limit?"),
        vec![StageAction::See("ten seconds"), StageAction::Idle],
        prompts("/stats"),
        vec![StageAction::See("Tokens by turn")],
    ]);
    scene("stats", script, steps)
}

fn themes() -> Scene {
    let down = vec![StageAction::Press(Key::Down); 4];
    let steps = steps(vec![
        prompts("/theme"),
        vec![StageAction::See("❯ Default")],
        down,
        vec![StageAction::See("good day")],
    ]);
    Scene { size: (96, 30), ..scene("themes", Vec::new(), steps) }
}

fn rewind() -> Scene {
    let script = vec![
        says("The loop never waits.", 9_100, 0, 80),
        says("No test covers it.", 10_200, 8_800, 70),
    ];
    let steps = steps(vec![
        prompts("Why does it hammer the host?"),
        vec![StageAction::See("never waits"), StageAction::Idle],
        prompts("Is that tested?"),
        vec![StageAction::See("No test covers it"), StageAction::Idle],
        prompts("/rewind"),
        vec![StageAction::See("Why does it hammer the host?")],
    ]);
    Scene { size: (96, 26), ..scene("rewind", script, steps) }
}
