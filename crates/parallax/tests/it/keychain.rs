//! Secrets in the system keychain: a fake `secret-tool` on the search path, and files if there is
//! none or it must not be used.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::keychain as fake;
use testkit::measure::run;
use testkit::pty::Key;

use crate::mcp::answer;
use crate::support::{LIMIT, World, finish};
use crate::terminal::terminal_driver::{COMPOSER, StartOptions, TerminalDriver};

fn create_world(script: &Value, hangs: bool) -> World {
    let world = World::new(&script.to_string());
    let folder = folder(&world);
    let created = match hangs {
        true => fake::program(&folder, "secret-tool", fake::HANGS),
        false => fake::secret_tool(&folder),
    };
    created.expect("a program");
    world
}

/// Returns the directory of the `secret-tool` and its secrets.
fn folder(world: &World) -> PathBuf {
    world.home.home().join("bin")
}

fn path(world: &World) -> String {
    let rest = std::env::var("PATH").unwrap_or_default();
    format!("{}:{rest}", folder(world).display())
}

/// Returns a command with that `secret-tool` and an apparent session bus.
fn command(world: &World, args: &[&str]) -> Command {
    let mut command = world.command(args);
    command.env("PATH", path(world)).env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/none");
    command
}

fn calls(world: &World) -> String {
    fake::calls(&folder(world))
}

fn values(world: &World) -> String {
    let file = world.home.parallax().join("extension-settings.json");
    std::fs::read_to_string(file).unwrap_or_default()
}

/// Installs an extension with a plain and a sensitive setting, and a server that reports its
/// variables.
fn with_extension(world: &World) {
    let server = crate::mcp::stdio(world, "");
    let manifest = json!({"name": "vault", "version": "1.0.0", "mcpServers": {"vault": server},
    "settings": [
        {"name": "Open", "description": "d", "envVar": "VAULT_OPEN"},
        {"name": "Key", "description": "d", "envVar": "VAULT_KEY", "sensitive": true}
    ]});
    let file = ".parallax/extensions/vault/gemini-extension.json";
    world.home.write_home(file, &manifest.to_string()).unwrap();
}

fn configure(world: &World, mut command: Command, value: &str) {
    command.current_dir(world.home.project());
    let output = run(command, Some(format!("{value}\n").as_bytes()), LIMIT).expect("run");
    assert_eq!(output.code(), 0, "{}", output.err());
}

const CONFIG: [&str; 4] = ["extensions", "config", "vault", "VAULT_KEY"];

#[test]
fn sensitive_setting_is_saved_in_the_keychain_and_reaches_the_server() {
    let script = json!([
        {"calls": [{"name": "mcp_vault_env", "args": {}}]}, {"text": "done"}
    ]);
    let world = create_world(&script, false);
    with_extension(&world);
    // The keychain is not accessed before a secret is stored or needed.
    assert_eq!(finish(command(&world, &["extensions", "list"])).code(), 0);
    assert_eq!(calls(&world), "");
    let open = ["extensions", "config", "vault", "VAULT_OPEN"];
    configure(&world, command(&world, &open), "open-value");
    configure(&world, command(&world, &CONFIG), "hidden-value");
    let kept = values(&world);
    assert!(kept.contains("open-value") && !kept.contains("hidden-value"), "{kept}");
    assert!(calls(&world).contains("store --label=Parallax: VAULT_KEY"), "{}", calls(&world));
    assert!(!calls(&world).contains("hidden-value"), "a secret is not passed as an argument");
    let settings = json!({"mcp": {"firstWaitMs": 15_000}}).to_string();
    world.home.write_home(".parallax/settings.json", &settings).unwrap();
    let done = finish(command(&world, &["-y", "-p", "go"]));
    assert_eq!(done.code(), 0, "{}", done.err());
    let report = answer(&world, 1)["output"].as_str().map(str::to_owned).expect("an output");
    assert!(report.contains(r#""VAULT_OPEN": "open-value""#), "{report}");
    assert!(report.contains(r#""VAULT_KEY": "hidden-value""#), "{report}");
    let removed = finish(command(&world, &["extensions", "uninstall", "vault"]));
    assert_eq!(removed.code(), 0, "{}", removed.err());
    assert!(calls(&world).contains("clear service parallax account extension vault VAULT_KEY"));
}

#[test]
fn extension_settings_saved_by_gemini_cli_reach_its_server() {
    let script = json!([
        {"calls": [{"name": "mcp_vault_env", "args": {}}]}, {"text": "done"}
    ]);
    let world = create_world(&script, false);
    let manifest = json!({"name": "vault", "version": "1.0.0",
    "mcpServers": {"vault": crate::mcp::stdio(&world, "")},
    "settings": [
        {"name": "Key", "description": "d", "envVar": "VAULT_KEY", "sensitive": true},
        {"name": "Own", "description": "d", "envVar": "VAULT_OWN", "sensitive": true}
    ]});
    let file = ".gemini/extensions/vault/gemini-extension.json";
    world.home.write_home(file, &manifest.to_string()).unwrap();
    let listed = finish(command(&world, &["extensions", "list", "-o", "json"]));
    let listed: Value = serde_json::from_str(&listed.stdout()).expect("JSON");
    let service = format!("Gemini CLI Extensions vault {}", listed[0]["id"].as_str().expect("id"));
    let here = format!("{service} {}", world.home.project().canonicalize().unwrap().display());
    for (service, account, secret) in [
        (&service, "__secret__VAULT_KEY", "of-the-user"),
        (&service, "__secret__VAULT_OWN", "of-the-user"),
        (&here, "__secret__VAULT_OWN", "of-the-project"),
    ] {
        let mut keep = world.home.command(&folder(&world).join("secret-tool"), "");
        keep.args(["store", "--label=x", "service", service, "account", account]);
        assert_eq!(run(keep, Some(secret.as_bytes()), LIMIT).expect("run").code(), 0);
    }
    let settings = json!({"mcp": {"firstWaitMs": 15_000}}).to_string();
    world.home.write_home(".parallax/settings.json", &settings).unwrap();
    let done = finish(command(&world, &["-y", "-p", "go"]));
    assert_eq!(done.code(), 0, "{}", done.err());
    let report = answer(&world, 1)["output"].as_str().map(str::to_owned).expect("an output");
    assert!(report.contains(r#""VAULT_KEY": "of-the-user""#), "{report}");
    assert!(report.contains(r#""VAULT_OWN": "of-the-project""#), "{report}");
    // The entry is read, but nothing is stored or removed there.
    let orders = calls(&world).lines().filter(|line| line.starts_with("store")).count();
    assert_eq!((orders, calls(&world).contains("clear")), (3, false));
}

#[test]
fn unresponsive_keychain_falls_back_to_the_file() {
    let hanging = create_world(&json!([]), true);
    with_extension(&hanging);
    let started_at = Instant::now();
    configure(&hanging, command(&hanging, &CONFIG), "hidden-value");
    assert!(started_at.elapsed() < Duration::from_secs(5), "{:?}", started_at.elapsed());
    assert!(values(&hanging).contains("hidden-value"));
    let file = hanging.home.parallax().join("extension-settings.json");
    let mode = std::fs::metadata(file).expect("the file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // The same if files are preferred, and without a session bus.
    for what in ["variable", "setting", "no bus"] {
        let world = create_world(&json!([]), false);
        with_extension(&world);
        let mut command = command(&world, &CONFIG);
        match what {
            "variable" => drop(command.env("PARALLAX_FORCE_FILE_STORAGE", "true")),
            "setting" => {
                let settings = r#"{"security": {"secretStorage": "file"}}"#;
                world.home.write_home(".parallax/settings.json", settings).unwrap();
            }
            _ => drop(command.env_remove("DBUS_SESSION_BUS_ADDRESS")),
        }
        configure(&world, command, "hidden-value");
        assert!(values(&world).contains("hidden-value"), "{what}");
        assert_eq!(calls(&world), "", "{what}");
    }
}

#[test]
fn pasted_key_is_saved_in_the_keychain_and_reused() {
    let world = create_world(&json!([{"text": "heard"}]), false);
    let path = path(&world);
    let start = StartOptions::default()
        .without_variable("GEMINI_API_KEY")
        .with_variable("PATH", &path)
        .with_variable("DBUS_SESSION_BUS_ADDRESS", "unix:path=/none");
    let seat = TerminalDriver::start_in(world, &start);
    seat.prompts("/auth");
    seat.wait_for_text("Enter a Gemini API key");
    seat.press(Key::Char('1'));
    seat.wait_for_text("API key");
    seat.type_text("pasted-key");
    seat.press(Key::Enter);
    seat.has_seen("API key verified and saved.");
    seat.wait_for_text(COMPOSER);
    let TerminalDriver { terminal, world } = seat;
    drop(terminal);
    let file = world.home.parallax().join("credentials.json");
    let kept = std::fs::read_to_string(&file).expect("the file");
    assert!(kept.contains("\"keychain\": true") && !kept.contains("pasted-key"), "{kept}");
    let mut later = command(&world, &["-p", "go"]);
    later.env_remove("GEMINI_API_KEY");
    let output = finish(later);
    assert_eq!((output.code(), output.stdout().trim()), (0, "heard"), "{}", output.err());
    let sent = world.server.requests().pop().expect("a request");
    assert_eq!(sent.header("x-goog-api-key"), Some("pasted-key"));
    // With a key in the environment, the stored one is not read.
    let world = World::in_home(world.home, r#"[{"text": "heard"}]"#);
    let before = calls(&world);
    assert_eq!(finish(command(&world, &["-p", "go"])).code(), 0);
    assert_eq!(calls(&world), before);
    // If the keychain is unreachable, the error says what to do.
    let mut unreachable = world.command(&["-p", "go"]);
    unreachable.env_remove("GEMINI_API_KEY");
    let output = finish(unreachable);
    assert!(output.code() != 0 && output.err().contains("enter the key again"), "{}", output.err());
}
