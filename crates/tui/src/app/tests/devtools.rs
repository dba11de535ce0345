//! `/devtools` and the key of the log twice.

use super::*;
use crate::app::commands::devtools;
use crate::devtools::DevToolsLink;

fn opened(bench: &mut Bench) -> Vec<bool> {
    let effects = bench.app.take_effects().into_iter();
    effects
        .filter_map(|effect| match effect {
            Effect::OpenDevTools { browser } => Some(browser),
            _ => None,
        })
        .collect()
}

#[test]
fn devtools_opens_by_command_and_by_the_key_of_the_log_twice() {
    let mut bench = Bench::new(Layout::Inline);
    bench.keys("/devtools\n");
    assert_eq!(opened(&mut bench), [true]);
    bench.keys("/devtools --no-open\n");
    assert_eq!(opened(&mut bench), [false]);
    bench.keys("/devtools now\n");
    assert!(opened(&mut bench).is_empty());
    bench.assert_visible("Unknown argument of `/devtools`: `now`");
    let key = Key::plain(KeyCode::F(12));
    bench.press(key);
    assert!(opened(&mut bench).is_empty() && bench.app.debug.is_open());
    bench.press(key);
    assert_eq!(opened(&mut bench), [true]);
    assert!(!bench.app.debug.is_open(), "the log is hidden again");
    // A third press is the first of another pair.
    bench.press(key);
    assert!(opened(&mut bench).is_empty());
}

#[test]
fn link_to_devtools_is_shown() {
    let mut bench = Bench::new(Layout::Inline);
    let address = "http://127.0.0.1:1/?token=a".to_owned();
    devtools::handle_start(&mut bench.app, Ok(DevToolsLink { address, is_opened: false }));
    bench.assert_visible("DevTools: http://127.0.0.1:1/?token=a (the link works once)");
    devtools::handle_start(&mut bench.app, Err("no port".to_owned()));
    bench.assert_visible("Failed to start DevTools: no port");
}

#[test]
fn slash_command_is_reported_to_observers_by_name() {
    let mut bench = Bench::new(Layout::Inline);
    bench.keys("/devtools --no-open\n");
    let effects = bench.app.take_effects().into_iter();
    let recorded = effects.filter_map(|effect| match effect {
        Effect::RecordCommand(name) => Some(name),
        _ => None,
    });
    assert_eq!(recorded.collect::<Vec<_>>(), ["devtools"]);
}
