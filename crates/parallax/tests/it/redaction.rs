//! Redaction of secrets in stored sessions, if enabled.

use serde_json::json;

use crate::encryption::files_containing;
use crate::support::{World, finish, raw_contents};

#[test]
fn no_secret_of_a_session_is_on_the_disk() {
    let token = format!("ghp_{}", "b7".repeat(18));
    let (one, two) = token.split_at(20);
    // In the prompt, in chunks of an answer, in arguments, in short and long output, and in a line
    // that arrives in pieces.
    let line = "head -c 20 t; sleep 0.2; tail -c +21 t; echo; seq 9000; echo T=$(cat t)";
    let script = json!([
        {"chunks": [
            {"parts": [{"text": format!("I saw {one}"), "thoughtSignature": "c2ln"}]},
            {"parts": [{"text": format!("{two}, and go on")},
                {"functionCall": {"name": "run_shell_command", "args": {"command": line}}}]},
            {"finish": "STOP"}]},
        {"calls": [{"name": "run_shell_command",
            "args": {"command": format!("cat key.pem; : TOKEN={token}")}}]},
        {"text": format!("kept {token}")},
        {"text": "second"}
    ]);
    let world = World::new(&script.to_string());
    let settings = json!({"general": {"sessionRedaction": true}}).to_string();
    world.home.write_home(".parallax/settings.json", &settings).unwrap();
    let key = "-----BEGIN PRIVATE KEY-----\nMIIfromthekey\n-----END PRIVATE KEY-----\n";
    std::fs::write(world.home.project().join("key.pem"), key).unwrap();
    std::fs::write(world.home.project().join("t"), &token).unwrap();
    let ask = format!("use {token} and passphrase99");
    let mut command = world.command(&["-y", "-p", &ask, "--session-id", "first"]);
    command.env("MY_PASSPHRASE", "passphrase99");
    let done = finish(command);
    assert_eq!(done.code(), 0, "{}", done.err());
    // The model and the user have the original text.
    assert!(done.stdout().ends_with(&format!("kept {token}\n")), "{}", done.stdout());
    let requests = world.server.requests();
    let sent = String::from_utf8_lossy(&requests[2].body);
    assert!(sent.contains(token.as_str()) && sent.contains("MIIfromthekey"), "{sent}");
    let home = world.home.home().join(".parallax");
    // Checkpoints must contain the original bytes.
    std::fs::remove_dir_all(home.join("checkpoints/objects")).unwrap();
    for secret in [token.as_str(), two, "MIIfromthekey", "passphrase99"] {
        assert_eq!(files_containing(&home, secret), Vec::<String>::new(), "{secret}");
    }
    assert!(!files_containing(&home, "use [redacted] and [redacted]").is_empty());
    assert!(!files_containing(&home, "[redacted]\n1\n2\n").is_empty(), "the copy of a long output");
    // The session continues without them.
    let done = finish(world.command(&["-r", "first", "-p", "on"]));
    assert_eq!((done.code(), done.stdout().as_str()), (0, "second\n"), "{}", done.err());
    let contents = raw_contents(&world.server.requests()[3]);
    assert!(contents.concat().contains("I saw [redacted], and go on"), "{contents:?}");
}

#[test]
fn project_cannot_change_secret_redaction() {
    let token = format!("ghp_{}", "c9".repeat(18));
    let world = World::new(&json!([{"text": "ok"}]).to_string());
    let settings = json!({"general": {"sessionRedaction": true}}).to_string();
    world.home.write_home(".parallax/settings.json", &settings).unwrap();
    let theirs = json!({"general": {"sessionRedaction": false}}).to_string();
    let project = world.home.project().join(".gemini");
    std::fs::create_dir_all(&project).unwrap();
    std::fs::write(project.join("settings.json"), theirs).unwrap();
    let output = finish(world.command(&["-p", &format!("use {token}"), "--skip-trust"]));
    assert_eq!(output.code(), 0, "{}", output.err());
    assert_eq!(
        files_containing(&world.home.home().join(".parallax"), &token),
        Vec::<String>::new()
    );
}
