//! Tests of dialogs that say in words what needs care.

use parallax_protocol::policy::ApprovalMode;

use super::*;
use crate::app::commands::{outside_files, sign_in, startup_questions};
use crate::test_launch::TestHome;

#[test]
fn secret_file_in_a_prompt_is_reported_as_secret() {
    let (mut bench, test) = (Bench::new(Layout::Inline), TestHome::new());
    let home = test.path().to_owned();
    bench.app.launch = Some(test.launch(&[]));
    let paths = vec![home.join(".ssh/id_rsa"), "/elsewhere/notes.txt".into()];
    outside_files::ask(&mut bench.app, "look".to_owned(), None, paths);
    let rows = bench.rows();
    let at = |text: &str| rows.iter().position(|row| row.contains(text)).expect(text);
    assert!(rows[at("id_rsa")].starts_with("Keys or passwords: "), "{rows:#?}");
    assert!(at("id_rsa") < at("notes.txt"), "{rows:#?}");
    assert_eq!(rows.iter().filter(|row| row.contains("id_rsa")).count(), 1, "{rows:#?}");
}

#[test]
fn settings_that_lower_security_have_the_danger_color_and_a_hanging_indent() {
    let mut bench = Bench::new(Layout::Inline);
    let settings = parallax_sdk::trust::IgnoredSettings {
        file: "/p/.gemini/settings.json".into(),
        keys: vec!["tools.allowed".to_owned()],
        values: vec![format!("[\"{}\"]", "run_shell_command ".repeat(12))],
        acceptance: parallax_sdk::trust::Acceptance::Undecided,
    };
    startup_questions::ask_about_loosened_settings(&mut bench.app, &[settings]);
    let danger = bench.app.theme.error.bold();
    let frame = bench.app.frame(Layout::Inline);
    let rows = frame.live.iter().filter(|row| row.spans.iter().any(|span| span.style == danger));
    let rows: Vec<String> = rows.map(Line::text).collect();
    assert!(rows.len() > 1 && rows[0].starts_with("    tools.allowed: "), "{rows:#?}");
    assert!(rows[1..].iter().all(|row| row.starts_with("      ")), "{rows:#?}");
}

#[test]
fn request_that_waits_for_a_pause_in_typing_is_named_once() {
    let mut bench = bench_with_draft_request("");
    bench.keys("hello");
    let rows = bench.rows();
    let named: Vec<&String> = rows.iter().filter(|row| row.starts_with('?')).collect();
    let [row] = named.as_slice() else { panic!("{rows:#?}") };
    assert!(row.starts_with("? A request waits until you stop typing: Shell "), "{row}");
}

#[test]
fn yolo_mode_has_a_row_only_if_the_status_line_does_not_show_it() {
    let row = "YOLO mode: destructive actions still ask";
    let mut bench = Bench::new(Layout::Inline);
    bench.app.status_data.mode = ApprovalMode::Yolo;
    bench.assert_hidden(row);
    bench.assert_visible("YOLO (shift+tab)");
    bench.app.settings.footer = None;
    bench.assert_visible(row);
}

#[test]
fn reason_for_signing_in_stays_until_a_key_is_entered() {
    let mut bench = Bench::new(Layout::Inline);
    bench.app.session.set_keyless(Some("No API key found."));
    sign_in::open(&mut bench.app, None);
    bench.assert_visible("No API key found.");
    bench.app.clock.advance(std::time::Duration::from_secs(5));
    bench.keys("1");
    bench.assert_visible("Gemini API key");
    bench.keys("\u{1b}");
    bench.assert_visible("No API key found.");
    bench.keys("\u{1b}");
    bench.assert_visible("Not signed in. Run /auth to connect to a model.");
}
