//! A program that streams words through the live region until `q` is typed; the tests run it in
//! their own terminals. It is this same test binary, started with the name of the "test" below.

use std::time::Duration;

use parallax_screen::{
    Color, Frame, InputEvent, KeyCode, Line, Screen, ScreenOptions, Style, text_width, wrap,
};

/// The test name that starts the streaming program.
pub const NAME: &str = "child::test_program_streams_rows_until_q_is_pressed";
/// The test name of the program that shows live rows without streaming.
pub const STANDING: &str = "child::test_program_shows_a_frame_until_q_is_pressed";
/// The test name of the program that fills the window and hides the cursor.
pub const ASKING: &str = "child::test_program_shows_a_request_until_q_is_pressed";
/// The environment variable with the number of finished rows above it.
pub const ABOVE: &str = "ROWS_ABOVE";
/// Maximum number of words per line; each word is unique.
pub const WORDS: usize = 17;

/// Returns the words of a line, which identify themselves.
pub fn words(line: usize) -> Vec<String> {
    (0..1 + line * 7 % WORDS).map(|word| format!("L{line}w{word}")).collect()
}

#[test]
#[ignore = "run by other tests, in a terminal of its own"]
fn test_program_streams_rows_until_q_is_pressed() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(stream()).unwrap();
}

async fn stream() -> std::io::Result<()> {
    let (mut screen, mut input) = Screen::open(ScreenOptions::default())?;
    let mut ticks = tokio::time::interval(Duration::from_millis(4));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (mut columns, _) = screen.size();
    let (mut line, mut word) = (0, 0);
    let mut typed = String::new();
    let mut seconds = 0;
    let mut commit = vec![Line::raw("BEGIN")];
    loop {
        tokio::select! {
            event = input.next() => match event {
                Some(InputEvent::Key(key)) if key.code == KeyCode::Char('q') => break,
                Some(InputEvent::Key(key)) => typed.extend(key.character()),
                Some(InputEvent::Resize(width, _)) => columns = width,
                Some(InputEvent::Resumed) => screen.resume()?,
                Some(InputEvent::Closed) | None => return Ok(()),
                Some(_) => {}
            },
            _ = ticks.tick() => {
                seconds += 1;
                word += 2;
                let text = words(line);
                if word >= text.len() {
                    commit.extend(rows(&text, columns));
                    (line, word) = (line + 1, 0);
                }
            }
        }
        let text = words(line);
        let mut live = rows(&text[..word], columns);
        let (cursor, below) = live_rows(&typed, columns, seconds);
        let cursor = (cursor, u16::try_from(live.len()).unwrap() + 2);
        live.extend(below);
        screen.frame(Frame { commit: &commit, live: &live, cursor: Some(cursor) })?;
        commit.clear();
    }
    let text = words(line);
    let mut last = rows(&text[..word], columns);
    last.push(Line::raw(format!("END {line} {word}")));
    screen.close(&last)
}

/// Wraps the words of a line into rows.
pub fn rows(words: &[String], columns: u16) -> Vec<Line> {
    if words.is_empty() {
        return Vec::new();
    }
    wrap(&Line::raw(words.join(" ")), columns.into(), &[])
}

/// Returns the status, composer, and footer rows, and the cursor's column.
pub fn live_rows(input: &str, columns: u16, seconds: usize) -> (u16, Vec<Line>) {
    let width = usize::from(columns);
    let dim = Style::PLAIN.dim();
    let band = Style::PLAIN.on(Color::Rgb(40, 40, 60));
    let footer = format!("FOOTER{:>1$}", "model", width.saturating_sub(6));
    let prompt = format!("> {input}");
    let cursor = u16::try_from(text_width(&prompt)).unwrap();
    let rows = vec![
        Line::styled(format!("STATUS working {seconds}"), Style::fg(Color::Ansi(6))),
        Line::styled("─".repeat(width), dim),
        Line::styled(prompt, band).filled(band),
        Line::styled("─".repeat(width), dim),
        Line::styled(footer, dim),
    ];
    (cursor, rows)
}

#[test]
#[ignore = "run by other tests, in a terminal of its own"]
fn test_program_shows_a_frame_until_q_is_pressed() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(show_static_rows()).unwrap();
}

/// Shows live rows as wide as the window, below the number of finished rows given in the
/// environment.
async fn show_static_rows() -> std::io::Result<()> {
    let (mut screen, mut input) = Screen::open(ScreenOptions::default())?;
    let above = std::env::var(ABOVE).unwrap().parse::<usize>().unwrap();
    let mut commit: Vec<Line> = (0..above).map(|row| Line::raw(format!("ABOVE{row}."))).collect();
    let mut ticks = tokio::time::interval(Duration::from_millis(50));
    let (mut columns, _) = screen.size();
    let mut seconds = 0;
    loop {
        tokio::select! {
            event = input.next() => match event {
                Some(InputEvent::Key(key)) if key.code == KeyCode::Char('q') => break,
                Some(InputEvent::Resize(width, _)) => columns = width,
                Some(InputEvent::Closed) | None => return Ok(()),
                Some(_) => {}
            },
            _ = ticks.tick() => seconds += 1,
        }
        let wide = |row: usize| format!("ROW{row} {}|", "-".repeat(usize::from(columns) - 7));
        let mut live: Vec<Line> = (0..7).map(|row| Line::raw(wide(row))).collect();
        let (cursor, below) = live_rows("", columns, seconds);
        let cursor = (cursor, u16::try_from(live.len()).unwrap() + 2);
        live.extend(below);
        screen.frame(Frame { commit: &commit, live: &live, cursor: Some(cursor) })?;
        commit.clear();
    }
    screen.close(&[Line::raw("END")])
}

#[test]
#[ignore = "run by other tests, in a terminal of its own"]
fn test_program_shows_a_request_until_q_is_pressed() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(ask()).unwrap();
}

/// Shows finished rows and a dialog over nearly the whole window, repainted only on changes.
async fn ask() -> std::io::Result<()> {
    let (mut screen, mut input) = Screen::open(ScreenOptions::default())?;
    let mut commit: Vec<Line> = (0..50).map(|row| Line::raw(format!("ABOVE{row}."))).collect();
    let (mut columns, mut height) = screen.size();
    loop {
        let width = usize::from(columns);
        let mut live = vec![Line::EMPTY, Line::raw("ASKED"), Line::raw("─".repeat(width - 1))];
        let shown = usize::from(height).saturating_sub(6);
        let wide = |row| Line::raw(format!("ROW{row}. {}", "-".repeat((width - 7).min(70))));
        live.extend((0..shown).map(wide));
        live.push(Line::raw(format!("FOOTER {columns}x{height}.")));
        let shown = screen.frame(Frame { commit: &commit, live: &live, cursor: None })?;
        commit.clear();
        tokio::select! {
            event = input.next() => match event {
                Some(InputEvent::Key(key)) if key.code == KeyCode::Char('q') => break,
                Some(InputEvent::Resize(width, rows)) => (columns, height) = (width, rows),
                Some(InputEvent::Closed) | None => return Ok(()),
                Some(_) => {}
            },
            // Try again when the window size is stable.
            () = tokio::time::sleep(Duration::from_millis(50)), if !shown => {}
        }
    }
    screen.close(&[Line::raw("END")])
}
