//! Scenes of turns: answers, tool calls, and what the user does meanwhile.

use serde_json::{Value, json};

use super::conversation::{
    ASK, calls, documented, edit, ends_with, prompts, read, scene, shell, text_reply,
};
use super::{Scene, Step};
use crate::pty::Key;

pub(super) fn all() -> Vec<Scene> {
    vec![
        answer(),
        todos(),
        read_scene(),
        edited(),
        failed_command(),
        steering(),
        refused_request(),
        diagram(),
    ]
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

fn answer() -> Scene {
    let script = vec![
        calls(&[read("src/retry.rs"), read("tests/retry.rs")], 9_120, 0),
        json!({"chunks": [{"text": FINDING}, {"gate": "code"}, {"text": CODE}, {"gate": "never"}]}),
    ];
    let steps =
        [prompts(ASK), vec![Step::See("400 ms"), Step::Open("code"), Step::See("attempt += 1")]]
            .concat();
    let texts = &[
        "Why it hammers the host",
        "delay doubles with each attempt, as it should.",
        "std::thread::sleep(delay); // what is missing",
    ];
    documented(40, scene("answer", script, steps, texts))
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
        json!({"chunks": [{"text": "`send` has no way to wait for now. I begin with the delay.\n\n"}, {"gate": "never"}]}),
    ];
    let steps =
        [prompts("Fix the retry loop, step by step"), vec![Step::See("begin with the delay")]]
            .concat();
    let texts = &["Reproduce: a link that fails three times", "Wait between attempts", "Test both"];
    documented(30, scene("plan", script, steps, texts))
}

fn read_scene() -> Scene {
    let files = ["src/retry.rs", "tests/retry.rs", "src/main.rs", "Cargo.toml"].map(read);
    let script =
        vec![calls(&files, 9_120, 0), text_reply("The loop never waits.", 10_200, 8_900, 420)];
    let steps = [prompts(ASK), ends_with("never waits")].concat();
    let texts = &["Why does a lost link", "retry.rs", "Cargo.toml", "The loop never waits."];
    Scene { size: (96, 22), ..scene("reads", script, steps, texts) }
}

fn edited() -> Scene {
    let script = vec![
        calls(&[edit()], 9_120, 0),
        text_reply("It waits now, at most ten seconds.", 10_200, 8_900, 420),
    ];
    let approves = vec![Step::See("Apply this change?"), Step::Rest, Step::Press(Key::Char('1'))];
    let steps = [prompts("Fix it"), approves, ends_with("ten seconds")].concat();
    let texts = &["src/retry.rs", "+2", "−1", "sleep(delay.min(LONGEST));", "It waits now"];
    Scene { size: (96, 32), ..scene("edited", script, steps, texts) }
}

fn failed_command() -> Scene {
    let command = "ls src && grep -n 'sleep' src/retry.rs";
    let script = vec![
        calls(&[shell(command, "Looks for a wait")], 9_120, 0),
        text_reply("Nothing in `retry.rs` sleeps.", 10_200, 8_900, 420),
    ];
    let steps = [prompts(ASK), ends_with("sleeps.")].concat();
    let texts = &["ls src && grep -n 'sleep' src/retry.rs", "exit code 1", "main.rs", "sleeps."];
    Scene { size: (96, 28), ..scene("failed-command", script, steps, texts) }
}

fn steering() -> Scene {
    let thought = json!({"text": "**Reading the loop**\n\nDoes it sleep?", "thought": true});
    let script = vec![json!({"chunks": [{"parts": [thought]}, {"gate": "never"}]})];
    let steps = [
        prompts(ASK),
        vec![
            Step::See("Reading the loop"),
            Step::Type("look at the tests, too"),
            Step::Press(Key::Enter),
            Step::See("Steering this turn"),
            Step::Type("then write one"),
            Step::Press(Key::Tab),
            Step::See("After this turn"),
        ],
    ]
    .concat();
    let texts = &["Reading the loop", "look at the tests, too", "then write one"];
    Scene { size: (96, 22), ..scene("steering", script, steps, texts) }
}

fn refused_request() -> Scene {
    let script = vec![json!({"status": 403, "repeat": 0,
        "error": {"code": 403, "message": "The caller does not have permission", "status": "PERMISSION_DENIED"}})];
    let steps = [prompts(ASK), ends_with("permission")].concat();
    let texts = &["The caller does not have permission"];
    Scene { size: (96, 22), ..scene("refused-request", script, steps, texts) }
}

fn diagram() -> Scene {
    let text = |text: &str| json!({"text": text});
    let chunks: Vec<Value> = vec![
        text("So it goes:\n\n```mermaid\ngraph TD\n  A[Send] --> B{Answer?}\n"),
        text("  B -->|yes| C[Done]\n  B -->|no| D[Wait]\n  D --> A\n```\n\nThat is all.\n"),
        json!({"finish": "STOP"}),
    ];
    let steps = [prompts("Draw it"), ends_with("That is all.")].concat();
    let texts = &["Send", "Answer?", "yes", "Done", "Wait", "That is all."];
    scene("diagram", vec![json!({"chunks": chunks})], steps, texts)
}
