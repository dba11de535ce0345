//! Tests of dialogs that say in words what needs care.

use super::*;
use crate::app::commands::{outside_files, startup_questions};
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
