//! Everything before the first prompt.

use serde_json::json;
use testkit::pty::Key;

use super::terminal_driver::{COMPOSER, StartOptions, TerminalDriver};
use crate::support::World;

#[test]
fn missing_key_opens_a_dialog_with_a_demo() {
    let start = StartOptions::default()
        .without_variable("GEMINI_API_KEY")
        .without_variable("GOOGLE_GEMINI_BASE_URL");
    let seat = TerminalDriver::started(World::new("[]"), &start);
    seat.wait_for_text("How do you want to connect to a model?");
    seat.wait_for_text("1. Enter a Gemini API key");
    seat.press(Key::Char('3'));
    seat.wait_for_text("The model's answers are scripted.");
    // The tour starts automatically and ends with the next steps.
    seat.has_seen("Show me around");
    seat.has_seen("What to do next");
    seat.wait_for_text(COMPOSER);
}

#[test]
fn key_of_another_provider_is_offered_without_asking_for_it() {
    let list = json!({"object": "list", "data": [{"id": "gpt-test", "object": "model"}]});
    let script = json!({"documents": {"/v1/models": list},
        "replies": [{"text": "answered by gpt"}]});
    let world = World::new(&script.to_string());
    let base = format!("{}/v1", world.server.url());
    let start = StartOptions::default()
        .without_variable("GEMINI_API_KEY")
        .without_variable("GOOGLE_GEMINI_BASE_URL")
        .with_variable("OPENAI_API_KEY", "sk-of-the-environment")
        .with_variable("OPENAI_BASE_URL", &base);
    let seat = TerminalDriver::started(world, &start);
    seat.wait_for_text("another provider is set up: choose it below");
    seat.wait_for_text("1. Use OpenAI");
    assert!(seat.window().contains("with the key in OPENAI_API_KEY"), "{}", seat.window());
    assert!(!seat.window().contains("Enter an OpenAI API key"), "{}", seat.window());
    seat.wait_for_request_delay();
    seat.press(Key::Enter);
    seat.wait_for_text("Select a model");
    seat.type_text("gpt-test");
    seat.wait_for_text("openai:gpt-test");
    seat.press(Key::Enter);
    seat.wait_for_text(COMPOSER);
    seat.prompts("hello");
    seat.wait_for_text("answered by gpt");
}

/// Returns a terminal without a model, whose service has one of OpenAI.
fn without_model(has_key: bool) -> TerminalDriver {
    let list = json!({"object": "list", "data": [{"id": "gpt-test", "object": "model"}]});
    let script = json!({"documents": {"/v1/models": list},
        "replies": [{"text": "answered by gpt"}]});
    let world = World::new(&script.to_string());
    let base = format!("{}/v1", world.server.url());
    let mut start = StartOptions::default()
        .without_variable("GEMINI_API_KEY")
        .without_variable("GOOGLE_GEMINI_BASE_URL")
        .with_variable("OPENAI_BASE_URL", &base);
    if has_key {
        start = start.with_variable("OPENAI_API_KEY", "sk-of-the-environment");
    }
    let seat = TerminalDriver::started(world, &start);
    seat.wait_for_text("How do you want to connect to a model?");
    seat
}

/// Types a prompt, which waits for a model.
fn type_waiting_prompt(seat: &TerminalDriver) {
    seat.wait_for_request_delay();
    seat.press(Key::Esc);
    seat.wait_for_text(COMPOSER);
    seat.prompts("waiting prompt");
    seat.wait_for_text("The prompt will be sent once you choose a model");
    seat.wait_for_request_delay();
}

#[test]
fn waiting_prompt_is_sent_with_a_key_of_the_environment() {
    let seat = without_model(true);
    type_waiting_prompt(&seat);
    seat.press(Key::Enter);
    seat.wait_for_text("openai:gpt-test");
    seat.wait_for_request_delay();
    seat.press(Key::Enter);
    seat.wait_for_text("answered by gpt");
    assert_eq!(seat.window().matches("waiting prompt").count(), 1, "{}", seat.window());
}

#[test]
fn waiting_prompt_is_sent_with_a_typed_key() {
    let seat = without_model(false);
    type_waiting_prompt(&seat);
    seat.press(Key::Char('4'));
    seat.wait_for_text("API key for openai");
    seat.type_text("sk-typed-key-4711");
    seat.press(Key::Enter);
    seat.wait_for_text("openai:gpt-test");
    seat.wait_for_request_delay();
    seat.press(Key::Enter);
    seat.wait_for_text("answered by gpt");
}

#[test]
fn waiting_prompt_is_sent_with_a_model_of_the_model_dialog() {
    let seat = without_model(true);
    type_waiting_prompt(&seat);
    seat.press(Key::Esc);
    seat.wait_for_text("> waiting prompt");
    seat.press(Key::Alt('p'));
    seat.wait_for_text("Select a model");
    seat.type_text("gpt-test");
    seat.wait_for_text("openai:gpt-test");
    seat.wait_for_request_delay();
    seat.press(Key::Enter);
    seat.wait_for_text("answered by gpt");
}

#[test]
fn untrusted_folder_dialog_precedes_reading_its_files() {
    let world = World::new(r#"[{"text":"read"}]"#);
    world.home.write("GEMINI.md", "Say MARKER-OF-THE-FOLDER.").expect("file");
    world
        .home
        .write(".gemini/settings.json", r#"{"mcpServers":{"notes":{"command":"touch"}}}"#)
        .expect("file");
    let seat = TerminalDriver::started(
        world,
        &StartOptions::default().without_variable("GEMINI_CLI_TRUST_WORKSPACE"),
    );
    seat.wait_for_text("Do you trust");
    for brings in [
        "It would run programs: 1 MCP server.",
        "MCP server notes: touch",
        "context files: GEMINI.md",
    ] {
        assert!(seat.window().contains(brings), "{}", seat.window());
    }
    seat.press(Key::Char('3'));
    seat.wait_for_text(COMPOSER);
    seat.wait_for_text("untrusted");
    seat.prompts("hello");
    seat.wait_for_text("✦ read");
    let request = seat.world.server.requests().remove(0);
    assert!(!String::from_utf8_lossy(&request.body).contains("MARKER-OF-THE-FOLDER"));
}

#[test]
fn trust_decision_is_saved() {
    let world = World::new(r#"[{"text":"read"}]"#);
    world.home.write("GEMINI.md", "Say MARKER-OF-THE-FOLDER.").expect("file");
    let start = StartOptions::default().without_variable("GEMINI_CLI_TRUST_WORKSPACE");
    let seat = TerminalDriver::started(world, &start);
    seat.wait_for_text("Do you trust");
    seat.press(Key::Char('1'));
    seat.wait_for_text(COMPOSER);
    seat.prompts("hello");
    seat.wait_for_text("✦ read");
    let request = seat.world.server.requests().remove(0);
    assert!(String::from_utf8_lossy(&request.body).contains("MARKER-OF-THE-FOLDER"));
    let TerminalDriver { terminal, world } = seat;
    drop(terminal);
    let again = TerminalDriver::start_in(World::in_home(world.home, "[]"), &start);
    assert!(!again.window().contains("Do you trust"));
}

#[test]
fn enter_typed_before_the_first_frame_does_not_trust_the_folder() {
    let world = World::new("[]");
    world.home.write("GEMINI.md", "Say this.").expect("file");
    let start = StartOptions::default().without_variable("GEMINI_CLI_TRUST_WORKSPACE");
    let seat = TerminalDriver::started(world, &start);
    seat.press(Key::Enter);
    seat.wait_for_text("Do you trust");
    std::thread::sleep(std::time::Duration::from_millis(400));
    assert!(seat.window().contains("Do you trust"));
    seat.press(Key::Enter);
    seat.wait_for_text(COMPOSER);
}

#[test]
fn keys_typed_before_the_first_frame_are_kept() {
    let seat =
        TerminalDriver::started(World::new(r#"[{"text":"heard"}]"#), &StartOptions::default());
    // Typed immediately, before the program is loaded.
    seat.type_text("typed early");
    seat.wait_for_text("> typed early");
    seat.press(Key::Enter);
    seat.wait_for_text("✦ heard");
}

#[test]
fn unresponsive_terminal_does_not_delay_startup() {
    let start = StartOptions::default().with_answers(testkit::pty::Answers::silent());
    let seat = TerminalDriver::start_in(World::new(r#"[{"text":"heard"}]"#), &start);
    seat.prompts("h");
    seat.wait_for_text("✦ heard");
}

#[test]
fn unbracketed_multiline_paste_is_one_prompt() {
    let start = StartOptions::default().with_answers(testkit::pty::Answers::silent());
    let seat = TerminalDriver::start_in(World::new(r#"[{"text":"heard"}]"#), &start);
    seat.type_text("one\rtwo\r");
    seat.wait_for_text("> one");
    seat.wait_for_text("  two");
    assert!(seat.world.server.requests().is_empty());
}

#[test]
fn welcome_shows_tips_for_the_project() {
    let world = World::new("[]");
    let seat = TerminalDriver::start_in(world, &StartOptions::sized(100, 30));
    seat.wait_for_text("/init writes a GEMINI.md");
    seat.wait_for_text("Not a git repository");
    let world = World::new("[]");
    world.home.write("GEMINI.md", "# Rules\n").expect("a context file");
    world.home.write(".git/HEAD", "ref: refs/heads/main\n").expect("a repository");
    let seat = TerminalDriver::start_in(world, &StartOptions::sized(100, 30));
    seat.wait_until_stable();
    let window = seat.window();
    assert!(!window.contains("/init writes") && !window.contains("git repository"), "{window}");
}

#[test]
fn update_shows_release_notes_once() {
    let world = World::new("[]");
    let file = world.home.parallax().join("last-version");
    std::fs::create_dir_all(world.home.parallax()).expect("a directory");
    std::fs::write(&file, "0.0.9\n").expect("a version");
    let seat = TerminalDriver::start_in(world, &StartOptions::sized(100, 30));
    seat.has_seen(concat!("Updated from 0.0.9 to ", env!("CARGO_PKG_VERSION")));
    seat.prompts("/quit");
    seat.ends();
    let version = std::fs::read_to_string(&file).expect("the version");
    assert_eq!(version.trim(), env!("CARGO_PKG_VERSION"));
    let seat = TerminalDriver::start_in(
        World::in_home(seat.world.home, "[]"),
        &StartOptions::sized(100, 30),
    );
    seat.wait_until_stable();
    assert!(!seat.window().contains("Updated from"), "{}", seat.window());
}
