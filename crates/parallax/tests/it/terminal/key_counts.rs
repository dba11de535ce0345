//! How many keys five common tasks need. The comparison with other agents is in
//! `docs/decisions/0006-comparison-with-other-terminal-agents.md`; a task that needs more keys than
//! the best of them fails here.

use std::cell::Cell;

use serde_json::json;
use testkit::pty::Key;

use super::terminal_driver::{COMPOSER, StartOptions, TerminalDriver};
use crate::support::World;

/// Counts the keys that are pressed. A key with a modifier counts as one.
struct KeyCounter<'s> {
    seat: &'s TerminalDriver,
    pressed: Cell<usize>,
}

impl<'s> KeyCounter<'s> {
    fn on(seat: &'s TerminalDriver) -> Self {
        Self { seat, pressed: Cell::new(0) }
    }

    fn press(&self, key: Key) {
        self.pressed.set(self.pressed.get() + 1);
        self.seat.press(key);
    }

    fn type_text(&self, text: &str) {
        self.pressed.set(self.pressed.get() + text.chars().count());
        self.seat.type_text(text);
    }

    /// Checks the number of keys against that of the best peer.
    #[track_caller]
    fn needs(&self, keys: usize, best_peer: usize) {
        assert_eq!(self.pressed.get(), keys);
        assert!(keys <= best_peer, "{keys} keys, a peer needs {best_peer}");
    }
}

const START: (u16, u16) = (100, 40);

fn start_terminal(script: &str) -> TerminalDriver {
    let seat = TerminalDriver::start_in(World::new(script), &StartOptions::sized(START.0, START.1));
    seat.wait_until_stable();
    seat
}

#[test]
fn remembering_a_command_takes_one_key() {
    let call = |command: &str| {
        format!(
            r#"{{"calls":[{{"name":"run_shell_command","args":{{"command":"{command}","description":"Makes it"}}}}]}}"#
        )
    };
    for (key, text, is_saved) in [
        ('2', "Yes, allow for this session", false),
        ('3', "Yes, always allow in this project", true),
    ] {
        let script =
            format!("[{},{},{{\"text\":\"Both run.\"}}]", call("touch a"), call("touch a"));
        let world = World::new(&script);
        // Rules are saved only if the user wants it.
        let settings = json!({"security": {"enablePermanentToolApproval": is_saved}});
        world.home.write_home(".parallax/settings.json", &settings.to_string()).expect("settings");
        let seat = TerminalDriver::start_in(world, &StartOptions::sized(START.0, START.1));
        seat.wait_until_stable();
        seat.prompts("go");
        seat.wait_for_text(text);
        seat.wait_for_request_delay();
        let hand = KeyCounter::on(&seat);
        hand.press(Key::Char(key));
        seat.wait_for_text("Both run.");
        hand.needs(1, 1);
        let place = if is_saved { "in this project" } else { "in this session" };
        seat.has_seen(&format!("Approval is no longer required {place} for `touch"));
        let rules = seat.world.home.project().join(".parallax/policies/auto-saved.toml");
        assert_eq!(rules.exists(), is_saved, "{key}");
    }
}

#[test]
fn changing_the_model_takes_two_keys() {
    let seat = start_terminal("[]");
    let hand = KeyCounter::on(&seat);
    hand.press(Key::Alt('p'));
    seat.wait_for_text("2. pro");
    hand.press(Key::Char('2'));
    seat.wait_for_text("Model: pro");
    hand.needs(2, 2);
}

#[test]
fn resuming_the_session_before_takes_four_keys() {
    let seat = start_terminal(r#"[{"text":"The moon."}]"#);
    seat.prompts("What is above?");
    seat.wait_for_text("The moon.");
    seat.is_idle();
    seat.prompts("/quit");
    seat.ends();
    let world = World::in_home(seat.world.home, r#"[{"text":"x"}]"#);
    let seat = TerminalDriver::start_in(world, &StartOptions::sized(START.0, START.1));
    seat.wait_until_stable();
    let hand = KeyCounter::on(&seat);
    hand.type_text("/r");
    seat.wait_for_text("❯ resume");
    hand.press(Key::Enter);
    seat.wait_for_text("❯ What is above?");
    hand.press(Key::Enter);
    seat.has_seen("The moon.");
    seat.wait_for_text(COMPOSER);
    hand.needs(4, 6);
}

#[test]
fn undoing_the_last_turn_takes_four_keys() {
    let seat = start_terminal(
        r#"[{"calls":[{"name":"write_file","args":{"file_path":"a.txt","content":"new\n"}}]},
            {"text":"Made it."}]"#,
    );
    seat.prompts("Make it");
    seat.wait_for_text("Apply this change?");
    seat.wait_for_request_delay();
    seat.press(Key::Char('1'));
    seat.wait_for_text("Made it.");
    seat.is_idle();
    let file = seat.world.home.project().join("a.txt");
    assert!(file.exists());
    let hand = KeyCounter::on(&seat);
    hand.press(Key::Esc);
    seat.wait_for_text("press esc again");
    hand.press(Key::Esc);
    seat.wait_for_text("❯ Make it");
    hand.press(Key::Enter);
    seat.wait_for_text("❯ 1. ");
    hand.press(Key::Enter);
    crate::support::wait_until("the file is gone", || !file.exists());
    hand.needs(4, 5);
}

#[test]
fn adding_a_file_takes_three_keys() {
    let world = World::new("[]");
    world.home.write("greet.py", "print()\n").expect("a file");
    let seat = TerminalDriver::start_in(world, &StartOptions::sized(START.0, START.1));
    seat.wait_until_stable();
    let hand = KeyCounter::on(&seat);
    hand.type_text("@g");
    seat.wait_for_text("❯ greet.py");
    hand.press(Key::Tab);
    seat.wait_for_text("@greet.py");
    hand.needs(3, 3);
}
