//! Slash commands: their names and their output.

use testkit::pty::Key;

use super::terminal_driver::{COMPOSER, StartOptions, TerminalDriver};
use crate::support::World;

#[test]
fn unknown_command_is_an_error_with_suggestions() {
    let seat = TerminalDriver::ready("[]");
    seat.prompts("/hepl");
    seat.wait_for_text("Unknown command `/hepl`");
    seat.wait_for_text("/help");
    seat.wait_for_text(COMPOSER);
    assert!(seat.world.server.requests().is_empty(), "it went to the model");
}

#[test]
fn command_file_overrides_commands_unknown_to_gemini_cli() {
    let world = World::new(r#"[{"text":"Done.","repeat":0}]"#);
    world.home.write_home(".gemini/commands/commit.toml", "prompt = 'Mine.'").expect("file");
    let seat = TerminalDriver::start_in(world, &StartOptions::sized(100, 40));
    seat.has_seen("`/parallax:commit`");
    seat.prompts("/commit");
    seat.wait_for_text("Done.");
    let request = seat.world.server.requests().remove(0);
    let body = String::from_utf8_lossy(&request.body).into_owned();
    assert!(body.contains("Mine.") && !body.contains("git push"), "{body}");
}

#[test]
fn info_commands_print_their_output() {
    let seat = TerminalDriver::start_in(
        World::new(r#"[{"text":"An answer."}]"#),
        &StartOptions::sized(100, 40),
    );
    seat.prompts("hello");
    seat.wait_for_text("An answer.");
    seat.is_idle();
    for (command, says) in [
        ("/stats", "Tokens by turn"),
        ("/about", "sign-in"),
        ("/tools", "(run_shell_command)"),
        ("/policies list", "allow reading and searching"),
        ("/help", "Basics   Commands   Subcommands   Keys   About"),
        ("/privacy", "rivacy"),
        ("/docs", "Documentation"),
    ] {
        seat.wait_for_text(COMPOSER);
        seat.prompts(command);
        seat.has_seen(says);
        // Close panels.
        if matches!(command, "/help" | "/docs" | "/stats" | "/tools") {
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
    let seat = TerminalDriver::start_in(world, &StartOptions::sized(110, 40));
    seat.prompts("read it");
    seat.wait_for_text("It is long.");
    seat.is_idle();
    seat.prompts("/context");
    seat.wait_for_text("compacted at");
    seat.wait_for_text("system prompt");
    seat.wait_for_text("read_file {");
    seat.type_text("p");
    seat.wait_for_text("pinned");
    seat.type_text("x");
    seat.wait_for_text("tokens · dropped");
    seat.press(Key::Esc);
    seat.prompts("and now?");
    seat.wait_for_text("Short now.");
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
    world.run_ok(&["-m", "gemini-2.5-flash", "-p", "read it"]);
    let arguments = ["-m", "gemini-2.5-flash", "-r"];
    let seat = TerminalDriver::start_in(world, &StartOptions::sized(110, 40).arguments(&arguments));
    seat.wait_for_text("It is short.");
    seat.prompts("/model why");
    seat.wait_for_text("`gemini-2.5-flash` is selected.");
    seat.prompts("/context");
    seat.wait_for_text("read_file {");
    seat.type_text("x");
    seat.wait_for_text("already short");
    seat.wait_for_text("compacted at");
}

#[test]
fn completions_appear_while_typing_a_command() {
    let seat = TerminalDriver::start_in(World::new("[]"), &StartOptions::sized(100, 30));
    seat.type_text("/the");
    seat.wait_for_text("/the");
    seat.wait_for_text("theme");
    seat.press(Key::Tab);
    seat.wait_for_text("> /theme");
}

#[test]
fn theme_preview_follows_the_cursor_and_escape_reverts() {
    let seat = TerminalDriver::start_in(World::new("[]"), &StartOptions::sized(100, 34));
    seat.prompts("/theme");
    seat.wait_for_text("❯ Default");
    let colours = |seat: &TerminalDriver| -> Vec<String> {
        seat.wait_until_stable();
        seat.terminal.with_emulator(|emulator| {
            let rows = (0..34).filter(|row| emulator.rows()[*row].contains("let total: u64"));
            rows.flat_map(|row| {
                emulator
                    .cells(row)
                    .iter()
                    .map(|cell| format!("{:?}", cell.pen()))
                    .collect::<Vec<_>>()
            })
            .collect()
        })
    };
    let before = colours(&seat);
    for _ in 0..4 {
        seat.press(Key::Down);
    }
    seat.wait_for_text("❯ Dracula");
    assert_ne!(colours(&seat), before, "no preview");
    seat.press(Key::Esc);
    seat.wait_for_text(COMPOSER);
    seat.prompts("/theme");
    seat.wait_for_text("❯ Default");
    assert_eq!(colours(&seat), before);
}

#[test]
fn cleared_session_resets_counters_and_hides_the_old_transcript() {
    let seat = TerminalDriver::start_in(
        World::new(r#"[{"text":"An answer."}]"#),
        &StartOptions::sized(100, 24),
    );
    seat.prompts("hello");
    seat.wait_for_text("An answer.");
    seat.is_idle();
    seat.prompts("/clear");
    seat.wait_until_gone("An answer.");
    seat.has_seen("An answer.");
    seat.wait_for_text(COMPOSER);
    seat.prompts("/stats");
    seat.wait_for_text("in total, agent 0.0s");
    assert!(!seat.window().contains("Tokens by turn"), "{}", seat.window());
    seat.press(Key::Tab);
    seat.press(Key::Tab);
    seat.press(Key::Tab);
    seat.wait_for_text("1 session: 1 request");
    seat.press(Key::Esc);
    seat.wait_for_text(COMPOSER);
    // The hint at the end names the session to resume.
    seat.prompts("/quit");
    seat.has_seen("Goodbye!");
    seat.has_seen("To resume it, run: parallax --resume");
}

#[test]
fn argument_names_are_completed() {
    let seat = TerminalDriver::start_in(World::new("[]"), &StartOptions::sized(100, 30));
    seat.type_text("/skills disable sk");
    seat.wait_for_text("skill-creator");
    seat.press(Key::Tab);
    seat.wait_for_text("> /skills disable skill-creator");
    for _ in 0..40 {
        seat.press(Key::Backspace);
    }
    seat.wait_for_text(COMPOSER);
    seat.type_text("/chat ");
    seat.wait_for_text("checkpoints");
    seat.wait_for_text("auto");
}

#[test]
fn setting_is_saved_for_the_project_only() {
    let seat = TerminalDriver::start_in(World::new("[]"), &StartOptions::sized(100, 30));
    seat.prompts("/settings");
    seat.wait_for_text("user: all projects");
    seat.press(Key::Tab);
    seat.wait_for_text("workspace: this project");
    seat.type_text("vim mode");
    seat.wait_for_text("im");
    seat.press(Key::Enter);
    let file = seat.world.home.project().join(".parallax/settings.json");
    seat.terminal.wait("the file", |_| file.exists()).expect("written");
}

#[test]
fn untrusted_directory_requires_approval_before_it_is_added() {
    let start = StartOptions::sized(100, 30).without_variable("GEMINI_CLI_TRUST_WORKSPACE");
    let other = tempfile::tempdir().expect("folder");
    let seat = TerminalDriver::started(World::new("[]"), &start);
    seat.wait_for_text("Do you trust this folder");
    seat.press(Key::Char('1'));
    seat.wait_for_text(COMPOSER);
    let path = other.path().canonicalize().expect("path");
    seat.prompts(&format!("/directory add {}", path.display()));
    seat.wait_for_text("Do you want to trust this folder");
    seat.press(Key::Char('1'));
    seat.wait_for_text("Added");
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
    let start = StartOptions::sized(100, 24)
        .with_variable("PATH", &path)
        .with_variable("TMUX", "/tmp/tmux-0/default,1,0");
    let seat = TerminalDriver::start_in(world, &start);
    seat.prompts("hello");
    seat.wait_for_text("to copy.");
    seat.is_idle();
    seat.prompts("/copy");
    seat.wait_for_text("to the tmux buffer and, if your terminal allows it, to the clipboard");
    let buffer = std::fs::read_to_string(seat.world.home.home().join("buffer"));
    assert_eq!(buffer.expect("a buffer").trim_end(), "The **answer** to copy.");
}

#[test]
fn reloaded_files_are_reported() {
    let seat = TerminalDriver::ready("[]");
    seat.prompts("/memory add remember the milk");
    seat.wait_for_text("or after `/memory reload`");
    seat.prompts("/memory reload");
    seat.wait_for_text("Reloaded: one context file.");
    seat.prompts("/memory show");
    seat.wait_for_text("- remember the milk");
    seat.prompts("/skills reload");
    seat.wait_for_text(" skills are enabled.");
}

#[test]
fn session_settings_survive_a_reload() {
    let seat = TerminalDriver::ready("[]");
    let folder = seat.world.home.home().join("more");
    std::fs::create_dir(&folder).expect("folder");
    seat.prompts("/model set gemini-2.5-flash");
    seat.wait_for_text("Model: gemini-2.5-flash");
    seat.prompts("/budget cost 7");
    seat.wait_for_text("The budget for this session is");
    seat.prompts(&format!("/dir add {}", folder.display()));
    seat.wait_for_text("Trust it and add it");
    seat.wait_for_request_delay();
    seat.press(Key::Enter);
    seat.wait_for_text("Added ");
    seat.prompts("/memory reload");
    seat.wait_for_text("Reloaded");
    seat.prompts("/model why");
    seat.wait_for_text("`gemini-2.5-flash` is selected;");
    seat.prompts("/budget");
    seat.wait_for_text("$0.00 of $7.00");
    seat.prompts("/dir show");
    seat.wait_for_text(&format!("  {}", folder.display()));
    seat.prompts("/debug");
    seat.wait_for_text("requests");
}

#[test]
fn shell_command_of_a_custom_command_requires_approval_like_one_of_the_model() {
    let world = World::new(r#"[{"text":"First."},{"text":"Second."}]"#);
    let command = "prompt = 'Look: !{rm -rf made}'";
    world.home.write_home(".gemini/commands/clear-all.toml", command).expect("file");
    let seat = TerminalDriver::start_in(world, &StartOptions::sized(100, 30));
    for answer in ["First.", "Second."] {
        // The second time, too: what destroys something is never allowed for a session.
        seat.prompts("/clear-all");
        seat.wait_for_text("The command /clear-all runs it.");
        let window = seat.window();
        assert!(window.contains("rm -rf made"), "{window}");
        assert!(!window.contains("session"), "{window}");
        seat.wait_for_request_delay();
        seat.press(Key::Char('1'));
        seat.wait_for_text(answer);
        seat.is_idle();
    }
}
