//! Slash commands: their names and their output.

use testkit::pty::Key;

use super::seat::{COMPOSER, Seat, Start};
use crate::support::World;

#[test]
fn unknown_command_is_an_error_with_suggestions() {
    let seat = Seat::ready("[]");
    seat.prompts("/hepl");
    seat.sees("Unknown command `/hepl`");
    seat.sees("/help");
    seat.sees(COMPOSER);
    assert!(seat.world.server.requests().is_empty(), "it went to the model");
}

#[test]
fn command_file_overrides_commands_unknown_to_gemini_cli() {
    let world = World::new(r#"[{"text":"Done.","repeat":0}]"#);
    world.home.write_home(".gemini/commands/commit.toml", "prompt = 'Mine.'").expect("file");
    let seat = Seat::in_world(world, &Start::sized(100, 40));
    seat.has_seen("`/parallax:commit`");
    seat.prompts("/commit");
    seat.sees("Done.");
    let request = seat.world.server.requests().remove(0);
    let body = String::from_utf8_lossy(&request.body).into_owned();
    assert!(body.contains("Mine.") && !body.contains("git push"), "{body}");
}

#[test]
fn info_commands_print_their_output() {
    let seat = Seat::in_world(World::new(r#"[{"text":"An answer."}]"#), &Start::sized(100, 40));
    seat.prompts("hello");
    seat.sees("An answer.");
    seat.is_idle();
    for (command, says) in [
        ("/stats", "Tokens by turn"),
        ("/about", "sign-in"),
        ("/tools", "(run_shell_command)"),
        ("/help", "Basics   Commands   Subcommands   Keys   About"),
        ("/privacy", "rivacy"),
        ("/docs", "Documentation"),
    ] {
        seat.sees(COMPOSER);
        seat.prompts(command);
        seat.has_seen(says);
        // Close panels.
        if matches!(command, "/help" | "/docs" | "/stats") {
            seat.press(Key::Esc);
        }
    }
    assert_eq!(seat.world.server.requests().len(), 1);
}

#[test]
fn context_view_shows_usage_and_drops_a_result() {
    let script = r#"[{"calls":[{"name":"read_file","args":{"file_path":"long.txt"}}]},
                     {"text":"It is long."},{"text":"Short now."}]"#;
    let world = World::new(script);
    let long = "one more line of it\n".repeat(400);
    world.home.write("long.txt", &long).expect("file");
    let seat = Seat::in_world(world, &Start::sized(110, 40));
    seat.prompts("read it");
    seat.sees("It is long.");
    seat.is_idle();
    seat.prompts("/context");
    seat.sees("Tool results in the context");
    seat.sees("system prompt");
    seat.sees("read_file {");
    seat.types("p");
    seat.sees("pinned");
    seat.types("x");
    seat.sees("tokens · dropped");
    seat.press(Key::Esc);
    seat.prompts("and now?");
    seat.sees("Short now.");
    let last = seat.world.server.requests().pop().expect("a request");
    let sent = String::from_utf8_lossy(&last.body).into_owned();
    assert!(sent.contains("dropped this result") && !sent.contains("one more line"), "{sent}");
}

#[test]
fn result_too_short_to_drop_is_reported() {
    let script = r#"[{"calls":[{"name":"read_file","args":{"file_path":"short.txt"}}]},
                     {"text":"It is short."}]"#;
    let world = World::new(script);
    world.home.write("short.txt", "one line\n").expect("file");
    world.run_well(&["-m", "gemini-2.5-flash", "-p", "read it"]);
    let arguments = ["-m", "gemini-2.5-flash", "-r"];
    let seat = Seat::in_world(world, &Start::sized(110, 40).arguments(&arguments));
    seat.sees("It is short.");
    seat.prompts("/model why");
    seat.sees("`gemini-2.5-flash` is selected and answers.");
    seat.prompts("/context");
    seat.sees("read_file {");
    seat.types("x");
    seat.sees("already short");
    seat.sees("Tool results in the context");
}

#[test]
fn completions_appear_while_typing_a_command() {
    let seat = Seat::in_world(World::new("[]"), &Start::sized(100, 30));
    seat.types("/the");
    seat.sees("/the");
    seat.sees("theme");
    seat.press(Key::Tab);
    seat.sees("> /theme");
}

#[test]
fn theme_preview_follows_the_cursor_and_escape_reverts() {
    let seat = Seat::in_world(World::new("[]"), &Start::sized(100, 34));
    seat.prompts("/theme");
    seat.sees("❯ Default");
    let colours = |seat: &Seat| -> Vec<String> {
        seat.settles();
        seat.terminal.with_emulator(|shown| {
            let rows = (0..34).filter(|row| shown.rows()[*row].contains("fn greet"));
            rows.flat_map(|row| {
                shown.cells(row).iter().map(|cell| format!("{:?}", cell.pen())).collect::<Vec<_>>()
            })
            .collect()
        })
    };
    let before = colours(&seat);
    for _ in 0..4 {
        seat.press(Key::Down);
    }
    seat.sees("❯ Dracula");
    assert_ne!(colours(&seat), before, "no preview");
    seat.press(Key::Esc);
    seat.sees(COMPOSER);
    seat.prompts("/theme");
    seat.sees("❯ Default");
    assert_eq!(colours(&seat), before);
}

#[test]
fn cleared_session_resets_counters_and_hides_the_old_transcript() {
    let seat = Seat::in_world(World::new(r#"[{"text":"An answer."}]"#), &Start::sized(100, 24));
    seat.prompts("hello");
    seat.sees("An answer.");
    seat.is_idle();
    seat.prompts("/clear");
    seat.sees_no("An answer.");
    seat.has_seen("An answer.");
    seat.sees(COMPOSER);
    seat.prompts("/stats");
    seat.sees("in total, agent 0.0s");
    assert!(!seat.window().contains("Tokens by turn"), "{}", seat.window());
    seat.press(Key::Tab);
    seat.press(Key::Tab);
    seat.press(Key::Tab);
    seat.sees("1 session: 1 request");
    seat.press(Key::Esc);
    seat.sees(COMPOSER);
    // The hint at the end names the session to resume.
    seat.prompts("/quit");
    seat.has_seen("Agent powering down. Goodbye!");
    seat.has_seen("To resume it, run: parallax --resume");
}

#[test]
fn argument_names_are_completed() {
    let seat = Seat::in_world(World::new("[]"), &Start::sized(100, 30));
    seat.types("/skills disable sk");
    seat.sees("skill-creator");
    seat.press(Key::Tab);
    seat.sees("> /skills disable skill-creator");
    for _ in 0..40 {
        seat.press(Key::Backspace);
    }
    seat.sees(COMPOSER);
    seat.types("/chat ");
    seat.sees("checkpoints");
    seat.sees("auto");
}

#[test]
fn setting_is_saved_for_the_project_only() {
    let seat = Seat::in_world(World::new("[]"), &Start::sized(100, 30));
    seat.prompts("/settings");
    seat.sees("user: all projects");
    seat.press(Key::Tab);
    seat.sees("workspace: this project");
    seat.types("vim mode");
    seat.sees("im");
    seat.press(Key::Enter);
    let file = seat.world.home.project().join(".parallax/settings.json");
    seat.terminal.wait("the file", |_| file.exists()).expect("written");
}

#[test]
fn untrusted_directory_requires_approval_before_it_is_added() {
    let start = Start::sized(100, 30).without("GEMINI_CLI_TRUST_WORKSPACE");
    let other = tempfile::tempdir().expect("folder");
    let seat = Seat::started(World::new("[]"), &start);
    seat.sees("Do you trust this folder");
    seat.press(Key::Char('1'));
    seat.sees(COMPOSER);
    let path = other.path().canonicalize().expect("path");
    seat.prompts(&format!("/directory add {}", path.display()));
    seat.sees("Do you want to trust this folder");
    seat.press(Key::Char('1'));
    seat.sees("Added");
}

#[test]
fn copy_inside_tmux_uses_the_tmux_buffer() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new(r#"[{"text":"The **answer** to copy."}]"#);
    let script = "#!/bin/sh\n[ \"$*\" = 'load-buffer -w -' ] && exec cat > \"$HOME/buffer\"\n";
    let program = world.home.write_home("bin/tmux", script).expect("file");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&program, mode).expect("mode");
    let path = format!("{}:/usr/bin:/bin", world.home.home().join("bin").display());
    let start = Start::sized(100, 24).with("PATH", &path).with("TMUX", "/tmp/tmux-0/default,1,0");
    let seat = Seat::in_world(world, &start);
    seat.prompts("hello");
    seat.sees("to copy.");
    seat.is_idle();
    seat.prompts("/copy");
    seat.sees("to the tmux buffer and, if your terminal allows it, to the clipboard");
    let buffer = std::fs::read_to_string(seat.world.home.home().join("buffer"));
    assert_eq!(buffer.expect("a buffer").trim_end(), "The **answer** to copy.");
}

#[test]
fn reloaded_files_are_reported() {
    let seat = Seat::ready("[]");
    seat.prompts("/memory add remember the milk");
    seat.sees("or after `/memory reload`");
    seat.prompts("/memory reload");
    seat.sees("Reloaded: one context file.");
    seat.prompts("/memory show");
    seat.sees("- remember the milk");
    seat.prompts("/skills reload");
    seat.sees(" skills are enabled.");
}

#[test]
fn session_settings_survive_a_reload() {
    let seat = Seat::ready("[]");
    let folder = seat.world.home.home().join("more");
    std::fs::create_dir(&folder).expect("folder");
    seat.prompts("/model set gemini-2.5-flash");
    seat.sees("Model: gemini-2.5-flash");
    seat.prompts("/budget cost 7");
    seat.sees("The budget for this session is");
    seat.prompts(&format!("/dir add {}", folder.display()));
    seat.sees("Trust it and add it");
    seat.looks();
    seat.press(Key::Enter);
    seat.sees("Added ");
    seat.prompts("/memory reload");
    seat.sees("Reloaded");
    seat.prompts("/model why");
    seat.sees("`gemini-2.5-flash` is selected;");
    seat.prompts("/budget");
    seat.sees("$0.0000 of $7.00");
    seat.prompts("/dir show");
    seat.sees(&format!("  {}", folder.display()));
    seat.prompts("/debug");
    seat.sees("requests");
}
