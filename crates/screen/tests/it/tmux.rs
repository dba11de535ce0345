//! Tests in tmux, a real terminal that reflows.

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::child;

/// A separate tmux server.
struct Tmux {
    directory: tempfile::TempDir,
}

#[expect(clippy::disallowed_methods, reason = "tmux is the terminal of this test")]
fn command() -> Command {
    Command::new("tmux")
}

impl Tmux {
    /// Returns `None` if tmux is not installed.
    fn start(columns: u16, rows: u16, name: &str) -> Option<Self> {
        Self::start_with(columns, rows, "", name)
    }

    fn start_with(columns: u16, rows: u16, variable: &str, name: &str) -> Option<Self> {
        command().arg("-V").output().ok()?;
        let tmux = Self { directory: tempfile::tempdir().unwrap() };
        let program = std::env::current_exe().unwrap();
        let program = format!(
            "clear; {variable} {} --exact {name} --ignored --nocapture; sleep 100",
            program.display(),
        );
        let (columns, rows) = (columns.to_string(), rows.to_string());
        let started = tmux.run(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            &columns,
            "-y",
            &rows,
            &program,
            ";",
            "set",
            "-g",
            "history-limit",
            "50000",
        ]);
        assert!(started.status.success(), "{started:?}");
        Some(tmux)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        command()
            .arg("-S")
            .arg(self.directory.path().join("socket"))
            .args(arguments)
            .env("TERM", "xterm-256color")
            .env_remove("TMUX")
            .output()
            .unwrap()
    }

    fn resize(&self, columns: u16, rows: u16) {
        let (columns, rows) = (columns.to_string(), rows.to_string());
        let resized = self.run(&["resize-window", "-x", &columns, "-y", &rows]);
        assert!(resized.status.success(), "{resized:?}");
    }

    /// Returns the scrollback and the window with wrapped rows joined.
    fn contents(&self) -> String {
        let captured = self.run(&["capture-pane", "-p", "-J", "-S", "-"]);
        String::from_utf8(captured.stdout).unwrap()
    }

    fn wait_for(&self, text: &str) -> String {
        let started_at = Instant::now();
        loop {
            let contents = self.contents();
            if contents.contains(text) {
                return contents;
            }
            assert!(started_at.elapsed() < Duration::from_secs(20), "no {text} in:\n{contents}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.run(&["kill-server"]);
    }
}

/// Checks that everything streamed is there in order and once, and nothing of the live region.
fn assert_whole(contents: &str) {
    let end = contents.lines().find(|line| line.starts_with("END ")).unwrap();
    let mut numbers = end.split(' ').skip(1).map(|number| number.parse::<usize>().unwrap());
    let (lines, words) = (numbers.next().unwrap(), numbers.next().unwrap());
    let mut expected: Vec<String> = (0..lines).flat_map(child::words).collect();
    expected.extend(child::words(lines).into_iter().take(words));
    let start = contents.find("BEGIN").unwrap();
    let seen: Vec<&str> =
        contents[start..].split_whitespace().filter(|word| *word != "BEGIN").collect();
    let seen = &seen[..seen.iter().position(|word| *word == "END").unwrap()];
    for (at, (seen, expected)) in seen.iter().zip(&expected).enumerate() {
        assert_eq!(seen, expected, "word {at} in:\n{contents}");
    }
    assert_eq!(seen.len(), expected.len(), "{contents}");
}

#[test]
fn no_rows_are_lost_or_duplicated_on_resize() {
    let Some(tmux) = Tmux::start(120, 40, child::NAME) else {
        println!("no tmux here: not tested");
        return;
    };
    tmux.wait_for("L20w0");
    for pause in [90, 30, 300, 60, 10, 150, 45, 5, 80, 20] {
        tmux.resize(60, 20);
        std::thread::sleep(Duration::from_millis(pause));
        tmux.resize(120, 40);
        std::thread::sleep(Duration::from_millis(pause));
    }
    tmux.run(&["send-keys", "q"]);
    assert_whole(&tmux.wait_for("END "));
}

#[test]
fn no_rows_are_lost_or_duplicated_when_only_the_height_changes() {
    let Some(tmux) = Tmux::start(120, 40, child::NAME) else {
        println!("no tmux here: not tested");
        return;
    };
    tmux.wait_for("L60w0");
    for pause in [150, 40, 15] {
        let down = (20..40).rev().step_by(4);
        for rows in down.chain((20..=40).step_by(4)) {
            tmux.resize(120, rows);
            std::thread::sleep(Duration::from_millis(pause));
        }
    }
    tmux.run(&["send-keys", "q"]);
    assert_whole(&tmux.wait_for("END "));
}

/// When rows are wrapped into two, tmux moves as many into its scrollback. With this number of rows
/// above them, the live ones end up at or near the top of the window.
#[test]
fn live_rows_at_the_window_top_leave_no_leftovers() {
    for above in [10, 11, 12, 14] {
        let program = format!("{}={above}", child::ABOVE);
        let Some(tmux) = Tmux::start_with(120, 40, &program, child::STANDING) else {
            println!("no tmux here: not tested");
            return;
        };
        for columns in [60, 120] {
            tmux.wait_for("working 9");
            tmux.resize(columns, 40);
            std::thread::sleep(Duration::from_millis(700));
            let contents = tmux.contents();
            for word in ["ABOVE0.", "ABOVE9.", "ROW0", "ROW6", "STATUS", "FOOTER"] {
                assert_eq!(contents.matches(word).count(), 1, "{above}: {word} in:\n{contents}");
            }
        }
    }
}

/// Rows of a dialog that a smaller window pushed out are removed when the window grows, and no
/// finished row is removed. On a busy machine, where a frame and a size change overlap, rows may
/// stay: then the test fails only if this happens every time.
#[test]
fn approval_request_leaves_no_leftovers_after_shrink_and_growth() {
    let drag = [(110, 36), (95, 32), (80, 28), (70, 24), (60, 20), (75, 25), (90, 30), (110, 36)];
    let steps: [&[(u16, u16)]; 6] = [
        &[(60, 20)],
        &[(120, 20), (60, 20), (60, 40)],
        &[(20, 5), (80, 24)],
        &drag,
        &[(60, 20)],
        // The first part of a wrapped row is in the scrollback.
        &[(40, 8), (30, 6)],
    ];
    let mut left = Vec::new();
    for attempt in 0..6 {
        // Load that lasts several seconds must not affect all attempts.
        std::thread::sleep(Duration::from_secs(3 * attempt.min(1)));
        let Some(tmux) = Tmux::start(120, 40, child::ASKING) else {
            println!("no tmux here: not tested");
            return;
        };
        match after_changes(&tmux, &steps) {
            Ok(()) => return,
            Err(what) => left.push(what),
        }
    }
    panic!("{}", left.join("\n---\n"));
}

/// Resizes the window under a dialog and reports everything that is not there exactly once.
fn after_changes(tmux: &Tmux, steps: &[&[(u16, u16)]]) -> Result<(), String> {
    tmux.wait_for("FOOTER 120x40.");
    for (number, steps) in steps.iter().enumerate() {
        for (columns, rows) in *steps {
            tmux.resize(*columns, *rows);
            if number == 3 {
                std::thread::sleep(Duration::from_millis(120));
            } else {
                tmux.wait_for(&format!("FOOTER {columns}x{rows}."));
                std::thread::sleep(Duration::from_millis(700));
            }
        }
        tmux.resize(120, 40);
        tmux.wait_for("FOOTER 120x40.");
        std::thread::sleep(Duration::from_millis(200));
        let contents = tmux.contents();
        let above = (0..50).map(|row| format!("ABOVE{row}."));
        let rows = (0..34).map(|row| format!("ROW{row}."));
        for word in above.chain(rows).chain(["ASKED".to_owned(), "FOOTER".to_owned()]) {
            if contents.matches(&word).count() != 1 {
                return Err(format!("{number}: {word} in:\n{contents}"));
            }
        }
        if contents.matches('─').count() != 119 {
            return Err(format!("{number}: the rule in:\n{contents}"));
        }
    }
    Ok(())
}
