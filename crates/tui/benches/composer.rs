//! Benchmarks: a key in a long text, and a query over many paths. `cargo bench -p parallax-tui
//! --bench composer`.

use divan::Bencher;
use parallax_screen::{Key, KeyCode};
use parallax_tui::completion::fuzzy::FuzzyMatcher;
use parallax_tui::composer::{Composer, Position};
use parallax_tui::keymap::Keymap;
use parallax_tui::theme::Theme;

fn main() {
    divan::main();
}

/// Types a character in the middle of `lines` lines and renders the input.
#[divan::bench(args = [10, 10_000])]
fn key_and_rows(bencher: Bencher<'_, '_>, lines: usize) {
    let keymap = Keymap::default();
    let theme = Theme::default();
    let mut composer = Composer::new();
    composer
        .buffer_mut()
        .reset(&"some words of a line that is neither short nor long\n".repeat(lines));
    composer.buffer_mut().set_cursor(Position::new(lines / 2, 7));
    bencher.bench_local(|| {
        composer.key(Key::plain(KeyCode::Char('x')), &keymap);
        composer.render(100, 12, &theme)
    });
}

/// The same in a single line of one megabyte.
#[divan::bench]
fn key_and_rows_in_one_long_line(bencher: Bencher<'_, '_>) {
    let keymap = Keymap::default();
    let theme = Theme::default();
    let mut composer = Composer::new();
    composer.buffer_mut().reset(&"palabras größer 漢字 ".repeat(1 << 15));
    composer.buffer_mut().set_cursor(Position::new(0, 1 << 19));
    bencher.bench_local(|| {
        composer.key(Key::plain(KeyCode::Char('x')), &keymap);
        composer.render(100, 12, &theme)
    });
}

/// A first query over 50,000 paths, on one thread.
#[divan::bench(args = ["m", "main", "srccomptest", "zzzz"])]
fn query(bencher: Bencher<'_, '_>, query: &str) {
    let parts = ["src", "components", "main", "tests", "domain", "service", "util"];
    let paths: Vec<String> = (0..50_000usize)
        .map(|number| {
            let part = |step: usize| parts[(number / step) % parts.len()];
            format!("{}/{}/{}/{}_{number}.rs", part(7000), part(343), part(49), part(1))
        })
        .collect();
    let mut fuzzy = FuzzyMatcher::paths();
    bencher.bench_local(|| fuzzy.best_matches(&paths, query, 24, None));
}
