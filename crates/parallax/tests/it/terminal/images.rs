//! Images in the conversation.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use testkit::pty::{Answers, Key};

use super::terminal_driver::{COMPOSER, StartOptions, TerminalDriver};
use crate::support::World;

/// A red image of 20×40 pixels.
const RED: &str = "iVBORw0KGgoAAAANSUhEUgAAABQAAAAoCAIAAABxU02MAAAAIklEQVR42u3LMQ0AAAwEofNvuvXwMwkrXc2SZVmWZVmWVw+gnx0OG6dhggAAAABJRU5ErkJggg==";
/// Its description.
const HEAD: &str = "PNG, 20×40, 91 bytes";

fn create_world(script: &str, setting: &str) -> World {
    let world = World::new(&script.replace("RED", RED));
    let settings = format!(r#"{{"ui":{{"inlineImages":"{setting}"}}}}"#);
    world.home.write_home(".gemini/settings.json", &settings).expect("settings");
    std::fs::write(world.home.project().join("shot.png"), STANDARD.decode(RED).expect("base64"))
        .expect("a picture");
    world
}

#[test]
fn images_and_drafts_of_an_encrypted_session_are_not_written_to_disk() {
    let world = create_world(r#"[{"text":"seen"}]"#, "off");
    std::fs::remove_file(world.home.project().join("shot.png")).expect("removed");
    let settings = r#"{"general": {"sessionEncryption": "file"}}"#;
    world.home.write_home(".parallax/settings.json", settings).expect("settings");
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *TARGETS*) echo image/png;; *) echo {RED} | base64 -d;; esac\n"
    );
    let program = world.home.write_home("bin/xclip", &script).expect("file");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, mode).expect("mode");
    let editor = world.home.write_home("bin/ed.sh", "#!/bin/sh\necho \"$1\" > \"$HOME/where\"\n");
    let editor = editor.expect("file");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&editor, mode).expect("mode");
    let editor = editor.to_string_lossy().into_owned();
    let path = format!("{}:/usr/bin:/bin", world.home.home().join("bin").display());
    let runtime = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let memory = runtime.path().to_string_lossy().into_owned();
    let start =
        StartOptions::sized(100, 24).with_variable("PATH", &path).with_variable("DISPLAY", ":9");
    let start = start.with_variable("XDG_RUNTIME_DIR", &memory).without_variable("WAYLAND_DISPLAY");
    let start = start.with_variable("VISUAL", &editor).with_variable("EDITOR", &editor);
    let seat = TerminalDriver::start_in(world, &start);
    seat.press(Key::Ctrl('v'));
    seat.wait_for_text("[Image");
    seat.type_text("what is");
    seat.press(Key::Ctrl('g'));
    seat.wait_for_request_delay();
    seat.prompts(" this?");
    seat.wait_for_text("seen");
    let sent = String::from_utf8_lossy(&seat.world.server.requests()[0].body).into_owned();
    assert!(sent.contains(RED), "the model already has this message");
    let picture = STANDARD.decode(RED).expect("base64");
    assert_eq!(crate::encryption::files_containing(seat.world.home.root(), &picture), [""; 0]);
    let draft = std::fs::read_to_string(seat.world.home.home().join("where")).expect("edited");
    assert!(draft.starts_with(&memory), "{draft}");
    seat.is_idle();
    seat.prompts("/quit");
    seat.ends();
    assert!(runtime.path().read_dir().expect("folder").next().is_none(), "and gone with it");
}

/// Returns the files sent with the kitty protocol.
fn sent(seat: &TerminalDriver) -> Vec<Vec<u8>> {
    let output = String::from_utf8_lossy(&seat.terminal.output_since(0)).into_owned();
    let sequences = output.split("\x1b_G").skip(1).map(|rest| rest.split_once("\x1b\\").unwrap().0);
    let shown = sequences.filter(|sequence| sequence.starts_with("a=T,"));
    shown.map(|it| STANDARD.decode(it.split_once(';').unwrap().1).expect("base64")).collect()
}

/// Returns the rows that describe images.
fn image_rows(seat: &TerminalDriver) -> Vec<String> {
    let lines = seat.lines();
    let report = lines.iter().map(|line| line.trim()).filter(|line| line.contains(HEAD));
    report.map(str::to_owned).collect()
}

#[test]
fn images_are_drawn_once_in_place() {
    let script = r#"[
        {"text":"Seen."},
        {"calls":[{"name":"read_file","args":{"file_path":"shot.png"}}]},
        {"text":"Read."},
        {"chunks":[
            {"parts":[{"text":"Drawn."},{"inlineData":{"mimeType":"image/png","data":"RED"}}]},
            {"finish":"STOP"}]}]"#;
    let start = StartOptions::sized(100, 40);
    let seat = TerminalDriver::start_in(create_world(script, "kitty"), &start);
    seat.type_text("look at @shot.png now");
    seat.wait_for_text("now");
    seat.press(Key::Enter);
    seat.wait_for_text("Seen.");
    seat.prompts("read it");
    seat.wait_for_text("Read.");
    seat.prompts("draw one");
    seat.wait_for_text("Drawn.");
    seat.wait_for_text(COMPOSER);
    seat.wait_until_stable();
    let expected =
        [format!("↳ shot.png · {HEAD}"), format!("↳ Read shot.png · {HEAD}"), format!("↳ {HEAD}")];
    assert_eq!(image_rows(&seat), expected, "{:#?}", seat.lines());
    let pictures = sent(&seat);
    assert_eq!(pictures.len(), 3);
    assert!(pictures.iter().all(|file| file.starts_with(b"\x89PNG\r\n\x1a\n")));
    // Two rows are reserved for each image, and nothing else is drawn there.
    let lines = seat.lines();
    for (index, _) in lines.iter().enumerate().filter(|(_, line)| line.contains(HEAD)) {
        let below: Vec<&str> = lines[index + 1..index + 3].iter().map(|line| line.trim()).collect();
        assert_eq!(below, ["", ""], "{lines:#?}");
    }

    seat.prompts("/quit");
    seat.ends();
    let world = World::in_home(seat.world.home, "[]");
    let seat = TerminalDriver::start_in(world, &start.arguments(&["--resume", "latest"]));
    seat.wait_until_stable();
    assert_eq!(image_rows(&seat), expected, "{:#?}", seat.lines());
    assert_eq!(sent(&seat), pictures);
}

#[test]
fn unsupported_image_is_shown_as_a_row() {
    for (setting, arguments, row) in [
        ("off", &[][..], format!("↳ shot.png · {HEAD}")),
        ("auto", &[], format!("↳ shot.png · {HEAD}")),
        ("kitty", &["--screen-reader"], format!("Picture: shot.png · {HEAD}")),
    ] {
        let start =
            StartOptions::sized(100, 40).arguments(arguments).with_answers(Answers::basic());
        let seat = TerminalDriver::start_in(create_world(r#"[{"text":"Seen."}]"#, setting), &start);
        seat.type_text("look at @shot.png now");
        seat.wait_for_text("now");
        seat.press(Key::Enter);
        seat.wait_for_text("Seen.");
        seat.wait_for_text(&row);
        assert_eq!(sent(&seat).len(), 0, "{setting}");
    }
}

#[test]
fn damaged_image_is_reported_and_blocks_nothing() {
    let world = create_world(r#"[{"text":"Seen."}]"#, "sixel");
    let mut bytes = STANDARD.decode(RED).expect("base64");
    bytes[50] ^= 0xff;
    std::fs::write(world.home.project().join("shot.png"), bytes).expect("a picture");
    let seat = TerminalDriver::start_in(world, &StartOptions::sized(100, 40));
    seat.type_text("look at @shot.png now");
    seat.wait_for_text("now");
    seat.press(Key::Enter);
    seat.wait_for_text("↳ shot.png · PNG, 20×40, 91 bytes · not shown: damaged");
    seat.wait_for_text("Seen.");
    seat.wait_for_text(COMPOSER);
}
