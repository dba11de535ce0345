//! Scenes of dialogs that are browsed.

use super::conversation::{
    ASK, calls, documented, ends_with, prompts, read, scene, shell, text_reply, wait_for_text,
};
use super::{Scene, Step};
use crate::pty::Key;

pub(super) fn all() -> Vec<Scene> {
    vec![
        stats(),
        themes(),
        rewind(),
        settings(),
        settings_search(),
        help(),
        help_search(),
        models(),
        transcript(),
    ]
}

fn stats() -> Scene {
    let script = vec![
        calls(&[read("src/retry.rs")], 9_100, 0),
        text_reply("The loop never waits.", 10_300, 8_900, 420),
        calls(&[shell("ls src tests", "Lists the files"), read("tests/retry.rs")], 12_800, 10_100),
        text_reply("No test covers it.", 14_500, 12_600, 650),
        text_reply("A limit of ten seconds is common.", 15_900, 14_400, 300),
    ];
    let steps = [
        prompts("Why does it hammer the host?"),
        ends_with("never waits"),
        prompts("Is that tested?"),
        ends_with("No test covers it"),
        prompts("What is a good limit?"),
        ends_with("ten seconds"),
        prompts("/stats"),
        wait_for_text("tool calls"),
    ]
    .concat();
    let texts = &["Gemini API key", "3 succeeded, 0 failed", "$0.0414", "73% of the input"];
    documented(30, scene("stats", script, steps, texts))
}

fn themes() -> Scene {
    let steps = [
        prompts("/theme"),
        wait_for_text("Default"),
        vec![
            // Where it is in the list depends on the background.
            Step::Type("Dracula"),
            Step::WithoutScreenReader(wait_for_text("❯ Dracula")),
            Step::Listening(wait_for_text("selected: Dracula")),
        ],
    ]
    .concat();
    documented(30, scene("themes", Vec::new(), steps, &["Dracula", "enter save"]))
}

fn rewind() -> Scene {
    let script = vec![
        text_reply("The loop never waits.", 9_100, 0, 80),
        text_reply("No test covers it.", 10_200, 8_800, 70),
    ];
    let steps = [
        prompts("Why does it hammer the host?"),
        ends_with("never waits"),
        prompts("Is that tested?"),
        ends_with("No test covers it"),
        prompts("/rewind"),
        wait_for_text("Why does it hammer the host?"),
    ]
    .concat();
    let texts = &["Why does it hammer the host?", "Is that tested?"];
    documented(26, scene("rewind", script, steps, texts))
}

fn settings() -> Scene {
    let steps =
        [prompts("/settings"), wait_for_text("General"), vec![Step::Press(Key::Right)]].concat();
    let steps = [steps, wait_for_text("Theme")].concat();
    scene(
        "settings",
        Vec::new(),
        steps,
        &["Appearance", "Name of a theme, or path of a theme file", "ui.theme"],
    )
}

fn settings_search() -> Scene {
    let search = vec![Step::See("General"), Step::Type("footer"), Step::See("Status line items")];
    let steps = [prompts("/settings"), search].concat();
    let texts = &["Hide the status line", "Status line items", "ui.hideFooter"];
    scene("settings-search", Vec::new(), steps, texts)
}

fn help() -> Scene {
    let steps =
        [prompts("/help"), wait_for_text("to add a file or directory to the prompt")].concat();
    let texts = &["to add a file or directory to the prompt", "/undo", "Commands"];
    scene("help", Vec::new(), steps, texts)
}

fn help_search() -> Scene {
    let search = vec![
        Step::Press(Key::Char('/')),
        Step::Type("undo"),
        Step::See("Undo the file changes of a turn"),
        Step::Listening(wait_for_text("/undo [TURN]")),
    ];
    let steps =
        [prompts("/help"), wait_for_text("to add a file or directory to the prompt"), search]
            .concat();
    scene("help-search", Vec::new(), steps, &["/undo [TURN] [--force]"])
}

fn models() -> Scene {
    let steps = [prompts("/model"), wait_for_text("gemini-2.5-pro")].concat();
    scene("models", Vec::new(), steps, &["Select a model", "auto", "gemini-2.5-pro", "current"])
}

fn transcript() -> Scene {
    let files = ["src/retry.rs", "tests/retry.rs", "src/main.rs"].map(read);
    let script =
        vec![calls(&files, 9_120, 0), text_reply("The loop never waits.", 10_200, 8_900, 420)];
    let opens = vec![
        Step::WithoutScreenReader(wait_for_text("Transcript")),
        Step::Listening(wait_for_text("the terminal already shows the whole transcript")),
    ];
    let steps = [prompts(ASK), ends_with("never waits"), prompts("/transcript"), opens].concat();
    let texts = &["Why does a lost link", "The loop never waits."];
    Scene { size: (96, 24), ..scene("transcript", script, steps, texts) }
}
