//! Completion in real shells: the scripts ask the program, which knows the names that exist now.

use std::path::Path;

use crate::support::{PROGRAM, World, finish};

/// Returns the candidates that bash offers for the last of the words.
fn offered_candidates(world: &World, words: &[&str]) -> Vec<String> {
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let script = format!(
        "source <(parallax completions bash); COMP_WORDS=(parallax {0}); COMP_CWORD={1}; \
         COMP_TYPE=9; _clap_complete_parallax parallax {2} ''; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        quoted.join(" "),
        words.len(),
        quoted.last().map_or("''", String::as_str)
    );
    let mut bash = world.home.command(Path::new("bash"), &world.server.url());
    let folder = Path::new(PROGRAM).parent().expect("a directory");
    let path = std::env::var("PATH").expect("PATH");
    bash.env("PATH", format!("{}:{path}", folder.display())).args(["-c", &script]);
    bash.current_dir(world.home.project());
    let output = finish(bash);
    assert_eq!(output.err(), "", "{words:?}");
    output.stdout().lines().map(str::to_owned).collect()
}

#[test]
fn current_names_are_completed() {
    let world = World::new("[]");
    let agent = "---\nname: mine\ndescription: Does it\n---\nDo it.\n";
    world.home.write_home(".gemini/agents/mine.md", agent).expect("written");
    let text = r#"{"mcpServers": {"tracker": {"command": "true"}}}"#;
    world.home.write_home(".gemini/settings.json", text).expect("written");
    let has = |words: &[&str], candidate: &str| {
        let found = offered_candidates(&world, words);
        assert!(found.iter().any(|it| it.trim() == candidate), "{words:?} {candidate}: {found:?}");
    };
    has(&["sess"], "sessions");
    has(&["--appro"], "--approval-mode");
    has(&["--approval-mode", ""], "plan");
    has(&["--model", ""], "flash");
    has(&["mcp", "remove", ""], "tracker");
    has(&["agents", "accept", ""], "mine");
    assert_eq!(offered_candidates(&world, &["--model", "no-such"]), [""]);
}

#[test]
fn sessions_of_all_kinds_are_completed() {
    let world = World::new(r#"[{"text":"Hello"},{"text":"Hello again"}]"#);
    world.run_ok(&["-p", "hello"]);
    let started = world.run_ok(&["--bg", "-p", "hello again"]).stdout();
    let id = started.trim();
    let offered = |words: &[&str]| -> Vec<String> {
        let found = offered_candidates(&world, words);
        found.iter().map(|it| it.trim().to_owned()).collect()
    };
    assert!(offered(&["logs", ""]).iter().any(|it| it == id), "{:?}", offered(&["logs", ""]));
    let resumed = offered(&["--resume", ""]);
    for word in ["latest", "pick"] {
        assert!(resumed.iter().any(|it| it == word), "{word}: {resumed:?}");
    }
    let shown = offered(&["sessions", "show", ""]);
    assert!(shown.iter().any(|it| resumed.contains(it) && it.len() > 8), "{shown:?}");
    assert!(offered(&["answer", id, ""]).iter().any(|it| it == "deny"));
}

#[test]
fn scripts_are_valid_in_the_shells_of_this_machine() {
    let world = World::new("[]");
    for (shell, check) in
        [("bash", ["-n"].as_slice()), ("zsh", &["-n"]), ("fish", &["--no-execute"])]
    {
        let script = world.run_ok(&["completions", shell]).stdout();
        let file = world.home.root().join(shell);
        std::fs::write(&file, &script).expect("written");
        let path = std::env::var_os("PATH").unwrap_or_default();
        if !std::env::split_paths(&path).any(|folder| folder.join(shell).exists()) {
            eprintln!("{shell} is not installed");
            continue;
        }
        let mut command = world.home.command(Path::new(shell), "");
        command.args(check).arg(&file);
        let output = finish(command);
        assert_eq!(output.code(), 0, "{shell}: {}", output.err());
    }
}
