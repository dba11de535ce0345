//! The connection to the companion extension of an editor.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::json;
use testkit::companion::{CompanionFault, CompanionSetup, TestCompanion};

use crate::support::{LIMIT, World, raw_contents};
use crate::terminal::seat::{COMPOSER, Seat, Start};

const HELLO: &str = r#"[{"text":"Hello."},{"text":"Hello again."}]"#;

/// A world whose settings ask for the connection.
fn world(script: &str) -> World {
    let world = World::new(script);
    let settings = r#"{"ide": {"enabled": true}}"#;
    world.home.write_home(".gemini/settings.json", settings).expect("settings");
    world
}

fn temporary(world: &World) -> PathBuf {
    world.home.root().join("tmp")
}

fn setup(world: &World) -> CompanionSetup {
    CompanionSetup::new(&temporary(world), &world.home.project())
}

fn companion(world: &World, setup: CompanionSetup) -> TestCompanion {
    let companion = world.runtime.block_on(TestCompanion::start(setup)).expect("a companion");
    companion.opens(json!([
        {"path": "/p/main.rs", "timestamp": 2, "isActive": true, "selectedText": "fn main",
         "cursor": {"line": 3, "character": 7}},
        {"path": "/p/lib.rs", "timestamp": 1},
    ]));
    companion
}

/// Port files of editors that have ended.
fn stale_files(world: &World) {
    let directory = temporary(world).join("gemini/ide");
    std::fs::create_dir_all(&directory).expect("created");
    for number in 1..=10_u32 {
        let pid = i32::MAX.unsigned_abs() - number;
        let content = json!({"port": number, "workspacePath": world.home.project(),
            "authToken": "old"});
        let path = directory.join(format!("gemini-ide-server-{pid}-{number}.json"));
        std::fs::write(path, content.to_string()).expect("written");
    }
}

/// The contents of a request as one text.
fn sent(world: &World, number: usize) -> String {
    raw_contents(&world.server.requests()[number]).join("\n")
}

fn wait(
    seat: &Seat,
    companion: &TestCompanion,
    what: &str,
    holds: impl Fn(&TestCompanion) -> bool,
) {
    let waiting = companion.wait(LIMIT, holds);
    assert!(seat.world.runtime.block_on(waiting), "{what}");
}

#[test]
fn a_headless_prompt_has_the_open_files_and_opens_no_diff() {
    let world = world(
        r#"[{"calls":[{"name":"write_file","args":{"file_path":"a.txt","content":"new\n"}}]},
            {"text":"Done."}]"#,
    );
    stale_files(&world);
    let companion = companion(&world, setup(&world));
    world.run_well(&["-p", "go", "-y"]);
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
fn without_the_setting_nothing_connects() {
    let world = World::new(HELLO);
    let companion = companion(&world, setup(&world));
    world.run_well(&["-p", "go"]);
    assert!(!sent(&world, 0).contains("editor context"));
    assert_eq!(companion.requests(), 0);
}

#[test]
fn a_mute_port_does_not_delay_a_headless_prompt() {
    let world = world(HELLO);
    let mute = companion(&world, setup(&world).with_fault(CompanionFault::Mute));
    let since = Instant::now();
    world.run_well(&["-p", "go"]);
    let taken = since.elapsed();
    assert!(taken < Duration::from_millis(1_500), "{taken:?}");
    assert!(!sent(&world, 0).contains("editor context"));
    assert_eq!(mute.requests(), 1, "it was tried");
}

#[test]
fn the_terminal_is_usable_at_once_beside_a_mute_port() {
    let world = world(HELLO);
    let mute = companion(&world, setup(&world).with_fault(CompanionFault::Mute));
    let since = Instant::now();
    let seat = Seat::in_world(world, &Start::default());
    seat.prompts("go");
    seat.sees("Hello.");
    assert!(since.elapsed() < Duration::from_secs(4), "{:?}", since.elapsed());
    assert_eq!(mute.requests(), 1, "it was tried");
    drop(mute);
}

#[test]
fn a_prompt_in_the_terminal_has_the_open_files_once() {
    let world = world(HELLO);
    stale_files(&world);
    let companion = companion(&world, setup(&world));
    let seat = Seat::started(world, &Start::sized(100, 30));
    seat.sees(COMPOSER);
    seat.sees("2 open files");
    wait(&seat, &companion, "it is connected", TestCompanion::is_connected);
    seat.prompts("go");
    seat.sees("Hello.");
    companion.opens(json!([{"path": "/p/other.rs", "timestamp": 5, "isActive": true}]));
    seat.sees("1 open file");
    seat.prompts("more");
    seat.sees("Hello again.");
    let second = sent(&seat.world, 1);
    assert_eq!(second.matches("activeFile\\\"").count(), 1, "{second}");
    assert!(second.contains("filesClosed") && second.contains("activeFileChanged"), "{second}");
    companion.die();
    seat.sees_no("1 open file");
    assert_eq!(companion.violations(), Vec::<String>::new());
}
