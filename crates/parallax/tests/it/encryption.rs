//! Sessions that are encrypted at rest.

use std::path::Path;
use std::process::Command;

use serde_json::json;
use testkit::keychain as fake;

use crate::support::{World, finish, raw_contents};

/// Text that must not occur in plain form on disk.
const MARKER: &str = "xyzzymarker";

fn encrypted(world: &World, place: &str) {
    let settings = json!({"general": {"sessionEncryption": place}}).to_string();
    world.home.write_home(".parallax/settings.json", &settings).unwrap();
}

/// Returns a command with access to a keychain.
fn command(world: &World, args: &[&str]) -> Command {
    let folder = world.home.home().join("bin");
    fake::secret_tool(&folder).expect("a program");
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let mut command = world.command(args);
    command.env("PATH", path).env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/none");
    command
}

/// Returns the files below a directory that contain these bytes.
pub fn files_containing(folder: &Path, text: impl AsRef<[u8]>) -> Vec<String> {
    let text = text.as_ref();
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_containing(&path, text));
        } else if let Ok(bytes) = std::fs::read(&path)
            && bytes.windows(text.len()).any(|window| window == text)
        {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
fn encrypted_session_leaves_no_plain_text_on_disk() {
    let script = json!([
        {"calls": [{"name": "run_shell_command",
            "args": {"command": format!("seq -f '{MARKER} %g' 9000")}}]},
        {"text": format!("{MARKER} answered")},
        {"text": "second"},
        {"text": "third"}
    ]);
    let world = World::new(&script.to_string());
    encrypted(&world, "keychain");
    let ask = format!("say {MARKER}");
    let first = ["-y", "-p", &ask, "--session-id", "first"];
    let output = finish(command(&world, &first));
    assert_eq!(output.code(), 0, "{}", output.err());
    let home = world.home.home();
    assert_eq!(files_containing(&home, MARKER), Vec::<String>::new());
    // Every command that reads sessions can read it.
    let report = |args: &[&str]| {
        let output = finish(command(&world, args));
        assert_eq!(output.code(), 0, "{args:?}: {}", output.err());
        output.stdout()
    };
    assert!(report(&["sessions", "list"]).contains(&ask));
    assert!(report(&["sessions", "search", MARKER]).contains(MARKER));
    assert!(report(&["sessions", "show", "first"]).contains("answered"));
    assert!(report(&["sessions", "export", "first", "--format", "md"]).contains("answered"));
    report(&["sessions", "fork", "first"]);
    assert_eq!(files_containing(&home, MARKER), Vec::<String>::new());
    assert_eq!(report(&["-r", "first", "-p", "on"]), "second\n");
    let requests = world.server.requests();
    let (before, after) = (raw_contents(&requests[1]), raw_contents(&requests[2]));
    assert_eq!(after[..before.len()], before, "byte for byte");
    // After encryption is disabled, the session can still be opened, and stays encrypted.
    encrypted(&world, "off");
    assert_eq!(report(&["-r", "first", "-p", "and on"]), "third\n");
    assert_eq!(files_containing(&home, MARKER), Vec::<String>::new());
}

#[test]
fn encrypted_long_output_is_readable_after_resume() {
    // The path of the saved file is in the output; the model passes it back.
    let first = json!([
        {"calls": [{"name": "run_shell_command",
            "args": {"command": format!("seq -f '{MARKER} %g' 9000")}}]},
        {"text": "done"}
    ]);
    let world = World::new(&first.to_string());
    encrypted(&world, "file");
    let first_run = world.run(&["-y", "-p", "go", "--session-id", "long"]);
    assert_eq!(first_run.code(), 0, "{}", first_run.err());
    let report = String::from_utf8_lossy(&world.server.requests()[1].body).into_owned();
    let path = report.split('`').find(|word| word.contains("/tool-outputs/"));
    let path = path.expect("where the whole is").to_owned();
    if path.starts_with(&*world.home.home().to_string_lossy()) {
        // There is no memory-backed directory here.
        return;
    }
    assert!(!Path::new(&path).exists(), "nothing is left in memory");
    assert_eq!(files_containing(&world.home.home(), MARKER), Vec::<String>::new());
    let then = json!([
        {"calls": [{"name": "read_file",
            "args": {"file_path": path, "start_line": 5000, "end_line": 5000}}]},
        {"text": "read"}
    ]);
    let world = World::in_home(world.home, &then.to_string());
    let read = world.run(&["-r", "long", "-p", "read on"]);
    assert_eq!((read.code(), read.stdout().as_str()), (0, "read\n"), "{}", read.err());
    let report = String::from_utf8_lossy(&world.server.requests()[1].body).into_owned();
    assert!(report.contains(&format!("{MARKER} 5000")), "{}", &report[report.len() - 2000..]);
    assert!(!Path::new(&path).exists());
}

#[test]
fn encrypted_session_requires_the_keychain() {
    let world = World::new(&json!([{"text": "never"}, {"text": "kept"}]).to_string());
    encrypted(&world, "keychain");
    let output = world.run(&["-p", MARKER]);
    assert_ne!(output.code(), 0);
    let report = output.err();
    assert!(
        report.contains("keychain") && report.contains("general.sessionEncryption"),
        "{report}"
    );
    assert_eq!(world.server.requests().len(), 0);
    assert_eq!(files_containing(&world.home.home(), MARKER), Vec::<String>::new());
    // A session whose key is lost is still listed, with the reason why it cannot be read.
    encrypted(&world, "file");
    assert_eq!(world.run(&["-p", MARKER, "--session-id", "one"]).code(), 0);
    assert_eq!(files_containing(&world.home.home(), MARKER), Vec::<String>::new());
    std::fs::remove_file(world.home.parallax().join("session-key")).expect("the key");
    encrypted(&world, "off");
    assert!(
        world.run(&["sessions", "list"]).stdout().contains("encrypted; its key cannot be read")
    );
    let finished = world.run(&["sessions", "show", "one"]);
    assert!(
        finished.code() != 0 && finished.err().contains("is encrypted and cannot be decrypted")
    );
    let gone = world.run(&["sessions", "gc"]);
    assert!(gone.stdout().contains("0") || gone.code() == 0, "{}", gone.err());
    assert!(world.run(&["sessions", "list"]).stdout().contains("encrypted"));
}

#[test]
fn read_only_commands_create_no_directory_and_list_readable_sessions() {
    let world = World::new(&json!([{"text": "in the clear"}, {"text": "closed"}]).to_string());
    let plain = world.run(&["-p", "the first wish", "--session-id", "open"]);
    assert_eq!(plain.code(), 0, "{}", plain.err());
    encrypted(&world, "file");
    // Without a memory-backed directory, the home directory is used.
    let runtime = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let run = |args: &[&str]| {
        let mut command = world.command(args);
        command.env("XDG_RUNTIME_DIR", runtime.path());
        finish(command)
    };
    let is_empty = || runtime.path().read_dir().expect("folder").next().is_none();
    assert!(run(&["sessions", "list"]).stdout().contains("the first wish") && is_empty());
    assert_eq!(run(&["-p", "the second wish", "--session-id", "closed"]).code(), 0);
    assert!(is_empty());
    let both = run(&["sessions", "search", "wish"]);
    assert!(both.stdout().contains("first [wish]") && both.stdout().contains("second [wish]"));
    let key = world.home.parallax().join("session-key");
    std::fs::remove_file(&key).expect("the key");
    let one = run(&["sessions", "search", "wish"]);
    assert_eq!(one.code(), 0, "{}", one.err());
    assert!(
        one.stdout().contains("first [wish]") && !one.stdout().contains("second"),
        "{}",
        one.stdout()
    );
    let report = one.err();
    assert!(report.contains("one session was not searched"), "{report}");
    assert!(
        report.contains(&*key.to_string_lossy()) && report.contains("file not found"),
        "{report}"
    );
    assert!(is_empty());
}

#[test]
fn project_cannot_change_session_encryption() {
    let world = World::new(&json!([{"text": "done"}]).to_string());
    let settings = json!({"general": {"sessionEncryption": "keychain"}}).to_string();
    let folder = world.home.project().join(".parallax");
    std::fs::create_dir_all(&folder).expect("folder");
    std::fs::write(folder.join("settings.json"), settings).expect("settings");
    let output = world.run(&["-p", MARKER]);
    assert_eq!(output.code(), 0, "{}", output.err());
    assert!(output.err().contains("only in user settings"), "{}", output.err());
    assert!(!files_containing(&world.home.parallax().join("sessions"), MARKER).is_empty());
}

#[test]
fn damaged_encrypted_session_is_listed_and_never_deleted_as_empty() {
    let world = World::new(r#"[{"text": "answered"}, {"text": "again"}, {"text": "more"}]"#);
    encrypted(&world, "file");
    world.run_ok(&["-p", "the first prompt", "--session-id", "hurt"]);
    let journal =
        files_containing(&world.home.home().join(".parallax/sessions"), "encrypted").remove(0);
    let whole = std::fs::read_to_string(&journal).expect("journal");
    let lines: Vec<&str> = whole.lines().collect();
    let without = |at: usize| {
        let left = lines.iter().enumerate().filter(|(line, _)| *line != at);
        left.map(|(_, line)| format!("{line}\n")).collect::<String>()
    };
    let changed =
        whole.replace(lines[3], &lines[3].replace("\"encrypted\":\"", "\"encrypted\":\"A"));
    // The session was kept until the cleanup.
    let age = std::time::SystemTime::now() - std::time::Duration::from_secs(3 * 24 * 60 * 60);
    let text = |args: &[&str]| {
        let done = world.run(args);
        done.stdout() + &done.err()
    };
    for (what, damaged, resumed) in [
        ("its key", without(0), "is not a session file"),
        ("the head", without(2), "damaged from the first record"),
        ("the first prompt", without(3), "dropped"),
        ("a byte", changed, "dropped"),
        ("the end", whole[..lines[..3].join("\n").len() + 40].to_owned(), "truncated"),
    ] {
        std::fs::write(&journal, &damaged).expect("damaged");
        let file = std::fs::File::options().append(true).open(&journal).expect("file");
        file.set_modified(age).expect("older");
        let listed = text(&["sessions", "list"]);
        assert!(listed.contains("hurt") && listed.contains("(damaged"), "{what}: {listed}");
        let gone = text(&["sessions", "gc"]);
        assert!(gone.contains("0 sessions moved to the trash"), "{what}: {gone}");
        let output = text(&["-r", "hurt", "-p", "on"]);
        assert!(output.contains(resumed) && !output.contains("no previous"), "{what}: {output}");
        assert_eq!(std::fs::read_to_string(&journal).expect("journal"), damaged, "{what}");
    }
}
