//! The connection to the companion extension of an editor.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::json;
use testkit::companion::{CompanionFault, CompanionSetup, TestCompanion};

use crate::support::{LIMIT, World, raw_contents, wait_until};
use crate::terminal::terminal_driver::{COMPOSER, StartOptions, TerminalDriver};

const HELLO: &str = r#"[{"text":"Hello."},{"text":"Hello again."}]"#;

/// Creates a world whose settings enable the IDE connection.
fn create_world(script: &str) -> World {
    let world = World::new(script);
    let settings = r#"{"ide": {"enabled": true}}"#;
    world.home.write_home(".gemini/settings.json", settings).expect("settings");
    world
}

fn temporary_directory(world: &World) -> PathBuf {
    world.home.root().join("tmp")
}

fn setup(world: &World) -> CompanionSetup {
    CompanionSetup::new(&temporary_directory(world), &world.home.project())
}

fn companion(world: &World, setup: CompanionSetup) -> TestCompanion {
    let companion = world.runtime.block_on(TestCompanion::start(setup)).expect("a companion");
    companion.set_open_files(json!([
        {"path": "/p/main.rs", "timestamp": 2, "isActive": true, "selectedText": "fn main",
         "cursor": {"line": 3, "character": 7}},
        {"path": "/p/lib.rs", "timestamp": 1},
    ]));
    companion
}

/// Creates port files of editors that have ended.
fn stale_files(world: &World) {
    let directory = temporary_directory(world).join("gemini/ide");
    std::fs::create_dir_all(&directory).expect("created");
    for number in 1..=10_u32 {
        let pid = i32::MAX.unsigned_abs() - number;
        let content = json!({"port": number, "workspacePath": world.home.project(),
            "authToken": "old"});
        let path = directory.join(format!("gemini-ide-server-{pid}-{number}.json"));
        std::fs::write(path, content.to_string()).expect("written");
    }
}

/// Returns the contents of a request as one text.
fn sent(world: &World, number: usize) -> String {
    raw_contents(&world.server.requests()[number]).join("\n")
}

fn wait(
    seat: &TerminalDriver,
    companion: &TestCompanion,
    what: &str,
    holds: impl Fn(&TestCompanion) -> bool,
) {
    let waiting = companion.wait(LIMIT, holds);
    assert!(seat.world.runtime.block_on(waiting), "{what}");
}

#[test]
fn headless_prompt_includes_open_files_and_opens_no_diff() {
    let world = create_world(
        r#"[{"calls":[{"name":"write_file","args":{"file_path":"a.txt","content":"new\n"}}]},
            {"text":"Done."}]"#,
    );
    stale_files(&world);
    let companion = companion(&world, setup(&world));
    world.run_ok(&["-p", "go", "-y"]);
    let first = sent(&world, 0);
    let places =
        ["editor context as a JSON object", "/p/main.rs", "fn main", "/p/lib.rs", "\"go\""];
    let places =
        places.map(|words| first.find(words).unwrap_or_else(|| panic!("{words}: {first}")));
    assert!(places.is_sorted(), "{first}");
    assert_eq!(companion.calls(), Vec::new());
    assert_eq!(companion.violations(), Vec::<String>::new());
    assert_eq!(world.read("a.txt"), "new\n");
}

#[test]
fn editor_is_not_connected_without_the_setting() {
    let world = World::new(HELLO);
    let companion = companion(&world, setup(&world));
    world.run_ok(&["-p", "go"]);
    assert!(!sent(&world, 0).contains("editor context"));
    assert_eq!(companion.requests(), 0);
}

#[test]
fn silent_editor_port_does_not_delay_a_headless_prompt() {
    let world = create_world(HELLO);
    let mute = companion(&world, setup(&world).with_fault(CompanionFault::Mute));
    let since = Instant::now();
    world.run_ok(&["-p", "go"]);
    let elapsed = since.elapsed();
    assert!(elapsed < Duration::from_millis(1_500), "{elapsed:?}");
    assert!(!sent(&world, 0).contains("editor context"));
    assert_eq!(mute.requests(), 1, "it was tried");
}

#[test]
fn terminal_is_usable_immediately_with_a_silent_editor_port() {
    let world = create_world(HELLO);
    let mute = companion(&world, setup(&world).with_fault(CompanionFault::Mute));
    let since = Instant::now();
    let seat = TerminalDriver::start_in(world, &StartOptions::default());
    seat.prompts("go");
    seat.wait_for_text("Hello.");
    assert!(since.elapsed() < Duration::from_secs(4), "{:?}", since.elapsed());
    assert_eq!(mute.requests(), 1, "it was tried");
    drop(mute);
}

#[test]
fn interactive_prompt_includes_open_files_once() {
    let world = create_world(HELLO);
    stale_files(&world);
    let companion = companion(&world, setup(&world));
    let seat = TerminalDriver::started(world, &StartOptions::sized(100, 30));
    seat.wait_for_text(COMPOSER);
    seat.wait_for_text("2 open files");
    wait(&seat, &companion, "it is connected", TestCompanion::is_connected);
    seat.prompts("go");
    seat.wait_for_text("Hello.");
    companion.set_open_files(json!([{"path": "/p/other.rs", "timestamp": 5, "isActive": true}]));
    seat.wait_for_text("1 open file");
    seat.prompts("more");
    seat.wait_for_text("Hello again.");
    let second = sent(&seat.world, 1);
    assert_eq!(second.matches("activeFile\\\"").count(), 1, "{second}");
    assert!(second.contains("filesClosed") && second.contains("activeFileChanged"), "{second}");
    companion.stop_abruptly();
    seat.wait_until_gone("1 open file");
    assert_eq!(companion.violations(), Vec::<String>::new());
}

const EDIT: &str = r#"[
    {"calls":[{"name":"replace","args":{"file_path":"a.txt","instruction":"Louder","old_string":"two\n","new_string":"TWO\n"}}]},
    {"text":"That is all."}]"#;

/// Starts a terminal with a connected editor, in which a change of `a.txt` requires approval.
fn request_change(fault: CompanionFault) -> (TerminalDriver, TestCompanion, PathBuf) {
    request_change_with(fault, false)
}

/// With `other_client`, another session has connected to the same editor window before.
fn request_change_with(
    fault: CompanionFault,
    other_client: bool,
) -> (TerminalDriver, TestCompanion, PathBuf) {
    let world = create_world(EDIT);
    world.home.write("a.txt", "one\ntwo\nthree\n").expect("file");
    let companion = companion(&world, setup(&world).with_fault(fault));
    let seat = TerminalDriver::started(world, &StartOptions::sized(100, 40));
    seat.wait_for_text("2 open files");
    if other_client {
        companion.connect_later_client();
    }
    seat.prompts("go");
    seat.wait_for_text("Apply this change?");
    let path = seat.world.home.project().join("a.txt");
    let name = path.display().to_string();
    let is_open =
        |editor: &TestCompanion| editor.calls().contains(&("openDiff".into(), name.clone()));
    wait(&seat, &companion, "the diff is opened", is_open);
    (seat, companion, path)
}

/// Part of the tool result when the user edited a change.
const CHANGED: &str = "The user changed this call";

/// Returns the tool result that the model received.
fn result(seat: &TerminalDriver) -> String {
    sent(&seat.world, 1)
}

#[test]
fn change_is_accepted_in_the_editor() {
    let (seat, companion, path) = request_change(CompanionFault::None);
    seat.wait_for_text("also open in");
    assert_eq!(companion.diffs().values().collect::<Vec<_>>(), ["one\nTWO\nthree\n"]);
    assert_eq!(seat.world.read("a.txt"), "one\ntwo\nthree\n");
    companion.accept_diff(&path);
    seat.wait_for_text("That is all.");
    assert_eq!(seat.world.read("a.txt"), "one\nTWO\nthree\n");
    assert!(!result(&seat).contains(CHANGED), "{}", result(&seat));
    seat.world.server.assert_clean();
    assert_eq!(companion.violations(), Vec::<String>::new());
}

#[test]
fn change_is_edited_and_accepted_in_the_editor() {
    let (seat, companion, path) = request_change(CompanionFault::None);
    companion.edits(&path, "one\nTwo, edited\nthree\n");
    companion.accept_diff(&path);
    // The change does not require approval again.
    seat.wait_for_text("That is all.");
    assert_eq!(seat.world.read("a.txt"), "one\nTwo, edited\nthree\n");
    assert!(result(&seat).contains("Two, edited"), "{}", result(&seat));
    assert!(result(&seat).contains(CHANGED), "{}", result(&seat));
    seat.world.server.assert_clean();
}

#[test]
fn change_is_rejected_in_the_editor() {
    let (seat, companion, path) = request_change(CompanionFault::None);
    companion.reject_diff(&path);
    seat.wait_until_gone("Apply this change?");
    seat.is_idle();
    assert_eq!(seat.world.read("a.txt"), "one\ntwo\nthree\n");
}

#[test]
fn change_accepted_in_the_terminal_includes_editor_edits() {
    let (seat, companion, path) = request_change(CompanionFault::None);
    companion.edits(&path, "one\nTwo, edited\nthree\n");
    seat.wait_for_request_delay();
    seat.type_text("1");
    seat.wait_for_text("That is all.");
    assert_eq!(seat.world.read("a.txt"), "one\nTwo, edited\nthree\n");
    assert!(companion.diffs().is_empty(), "it is closed");
    seat.world.server.assert_clean();
}

#[test]
fn edits_in_the_editor_are_used_even_if_another_session_gets_its_responses() {
    let (seat, companion, path) = request_change_with(CompanionFault::None, true);
    companion.edits(&path, "one\nTwo, edited\nthree\n");
    companion.accept_diff(&path);
    seat.wait_for_text("That is all.");
    assert_eq!(seat.world.read("a.txt"), "one\nTwo, edited\nthree\n");
    let (seat, companion, path) = request_change_with(CompanionFault::None, true);
    companion.edits(&path, "one\nTwo, edited\nthree\n");
    seat.wait_for_request_delay();
    seat.type_text("1");
    seat.wait_for_text("That is all.");
    assert_eq!(seat.world.read("a.txt"), "one\nTwo, edited\nthree\n");
    let (seat, companion, path) = request_change_with(CompanionFault::None, true);
    companion.reject_diff(&path);
    seat.wait_until_gone("Apply this change?");
    seat.is_idle();
    assert_eq!(seat.world.read("a.txt"), "one\ntwo\nthree\n");
}

#[test]
fn change_rejected_in_the_terminal_closes_the_editor_diff() {
    let (seat, companion, _) = request_change(CompanionFault::None);
    seat.wait_for_request_delay();
    seat.press(testkit::pty::Key::Esc);
    seat.is_idle();
    wait(&seat, &companion, "it is closed", |companion| companion.diffs().is_empty());
    assert_eq!(seat.world.read("a.txt"), "one\ntwo\nthree\n");
}

#[test]
fn change_can_be_decided_when_the_editor_has_died() {
    let (seat, companion, _) = request_change(CompanionFault::None);
    companion.stop_abruptly();
    seat.wait_until_gone("also open in");
    seat.wait_for_request_delay();
    seat.type_text("1");
    seat.wait_for_text("That is all.");
    assert_eq!(seat.world.read("a.txt"), "one\nTWO\nthree\n");
}

#[test]
fn change_can_be_decided_when_the_editor_hangs() {
    let (seat, _companion, _) = request_change(CompanionFault::HangsInTools);
    seat.wait_for_request_delay();
    let since = Instant::now();
    seat.type_text("1");
    seat.wait_for_text("That is all.");
    assert!(since.elapsed() < Duration::from_secs(3), "{:?}", since.elapsed());
    assert_eq!(seat.world.read("a.txt"), "one\nTWO\nthree\n");
    seat.has_seen("without edits made in the editor");
}

#[test]
fn change_that_the_editor_does_not_show_is_decided_in_the_terminal() {
    let (seat, _companion, _) = request_change(CompanionFault::RefusesDiffs);
    seat.wait_for_text("answer here");
    seat.wait_for_request_delay();
    seat.type_text("1");
    seat.wait_for_text("That is all.");
    assert_eq!(seat.world.read("a.txt"), "one\nTWO\nthree\n");
}

#[test]
fn commands_connect_show_explain_and_disconnect() {
    let world = World::new(HELLO);
    let companion = companion(&world, setup(&world));
    let seat = TerminalDriver::start_in(world, &StartOptions::sized(100, 40));
    seat.prompts("/ide status");
    seat.wait_for_text("Disconnected: turned off");
    assert_eq!(companion.requests(), 0);
    seat.prompts("/ide enable");
    seat.wait_for_text("Connected to");
    seat.wait_for_text("2 open files");
    seat.press(testkit::pty::Key::F(4));
    seat.wait_for_text("/p/main.rs (active)");
    seat.prompts("/ide doctor");
    seat.wait_for_text("works, with diffs");
    seat.prompts("/ide disable");
    seat.wait_for_text("is turned off.");
    seat.wait_until_gone("2 open files");
    wait(&seat, &companion, "it is disconnected", |companion| !companion.is_connected());
    let settings = seat.world.home.home().join(".parallax/settings.json");
    let settings = std::fs::read_to_string(settings).unwrap_or_default();
    assert!(settings.contains("\"enabled\": false"), "{settings}");
}

#[test]
fn connection_is_explained_without_a_terminal() {
    let world = create_world(HELLO);
    let own = companion(&world, setup(&world));
    let report = world.run(&["-p", "/ide status"]).stdout();
    assert!(report.contains("Connected to") && report.contains("/p/lib.rs"), "{report}");
    drop(own);
    stale_files(&world);
    let other = CompanionSetup::new(&temporary_directory(&world), world.home.root());
    let other = CompanionSetup { workspace: "/nowhere".into(), ..other };
    let _other = world.runtime.block_on(TestCompanion::start(other)).expect("a companion");
    let report = world.run(&["-p", "/ide doctor"]).stdout();
    assert!(report.contains("its folders do not contain this one: /nowhere"), "{report}");
    assert!(report.contains("127.0.0.1:7/mcp"), "{report}");
}

#[test]
fn terminal_of_an_editor_asks_once_whether_to_connect() {
    let world = World::new(HELLO);
    let companion = companion(&world, setup(&world));
    let start = StartOptions::sized(100, 40).with_variable("TERM_PROGRAM", "vscode");
    let seat = TerminalDriver::started(world, &start);
    seat.wait_for_text("Connect to VS Code?");
    seat.wait_for_request_delay();
    seat.press(testkit::pty::Key::Enter);
    seat.wait_for_text("2 open files");
    assert_eq!(companion.violations(), Vec::<String>::new());
    let settings = seat.world.home.home().join(".parallax/settings.json");
    // Written while the companion is connected.
    wait_until("the answer in the settings", || {
        std::fs::read_to_string(&settings).is_ok_and(|text| text.contains("hasSeenNudge"))
    });
}

/// Starts a terminal in a folder with unknown trust.
fn start_in_unknown_folder(is_trusted: bool) -> (TerminalDriver, TestCompanion) {
    let world = create_world(HELLO);
    world.home.write("GEMINI.md", "the rule of the project").expect("file");
    let setup = CompanionSetup { is_trusted: Some(is_trusted), ..setup(&world) };
    let companion = companion(&world, setup);
    let start = StartOptions::sized(100, 40).without_variable("GEMINI_CLI_TRUST_WORKSPACE");
    (TerminalDriver::started(world, &start), companion)
}

#[test]
fn editor_trust_applies_from_the_first_prompt() {
    let (seat, _companion) = start_in_unknown_folder(true);
    seat.has_seen("trusts this folder");
    seat.wait_for_text(COMPOSER);
    seat.prompts("go");
    seat.wait_for_text("Hello.");
    assert!(sent(&seat.world, 0).contains("the rule of the project"));
    assert!(!seat.world.home.parallax().join("trustedFolders.json").exists(), "for once");
}

#[test]
fn untrusting_editor_leaves_the_trust_dialog_to_the_user() {
    let (seat, companion) = start_in_unknown_folder(false);
    seat.wait_for_text("Do you trust this folder?");
    wait(&seat, &companion, "it is connected", TestCompanion::is_connected);
    seat.wait_for_request_delay();
    seat.wait_for_text("Do you trust this folder?");
    seat.press(testkit::pty::Key::Enter);
    // The user trusts the folder and is notified that the editor does not.
    seat.has_seen("does not trust this folder");
}
