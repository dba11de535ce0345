//! Effects of keys on the input as the user sees them.

use std::time::{Duration, Instant};

use parallax_screen::{Key, KeyCode, Line, Modifiers};

use super::*;
use crate::test_keys::{Keymap, Platform};

struct ComposerHarness {
    composer: Composer,
    keymap: Keymap,
    now: Instant,
}

impl ComposerHarness {
    fn new() -> Self {
        let keymap = Keymap::load(Platform::Linux, "");
        let mut desk = Self { composer: Composer::new(), keymap, now: Instant::now() };
        desk.set_state(false, false, 0);
        desk
    }

    /// Presses a key one second after the previous one.
    fn key(&mut self, key: Key) -> ComposerAction {
        self.press_after(Duration::from_secs(1), key)
    }

    fn press_after(&mut self, wait: Duration, key: Key) -> ComposerAction {
        self.now += wait;
        self.composer.key_at(key, &self.keymap, self.now)
    }

    fn press(&mut self, code: KeyCode) -> ComposerAction {
        self.key(Key::plain(code))
    }

    fn type_in(&mut self, text: &str) {
        for char in text.chars() {
            self.press(KeyCode::Char(char));
        }
    }

    fn text(&self) -> String {
        self.composer.buffer().text().to_string()
    }

    fn rows(&mut self, columns: usize, rows: usize) -> Vec<String> {
        let rendered = self.composer.render(columns, rows, &Theme::default());
        rendered.rows.iter().map(Line::text).collect()
    }

    fn set_state(&mut self, busy: bool, steering: bool, queued: usize) {
        self.composer.set_context(ComposerContext {
            busy,
            running: busy,
            steering,
            queued,
            shows_warning: false,
            placeholder: "Type your message or @path/to/file",
        });
    }
}

fn submission(text: &str) -> Submission {
    Submission { text: text.to_owned(), display_text: text.to_owned() }
}

#[test]
fn enter_sends_steers_or_queues() {
    let mut desk = ComposerHarness::new();
    assert_eq!(desk.press(KeyCode::Enter), ComposerAction::Ignored);
    desk.type_in("one");
    assert_eq!(desk.press(KeyCode::Enter), ComposerAction::Submit(submission("one")));
    desk.set_state(true, true, 0);
    desk.type_in("two");
    assert_eq!(desk.press(KeyCode::Enter), ComposerAction::Steer(submission("two")));
    desk.type_in("three");
    assert_eq!(desk.press(KeyCode::Tab), ComposerAction::Queue(submission("three")));
    desk.set_state(true, false, 1);
    desk.type_in("four");
    assert_eq!(desk.press(KeyCode::Enter), ComposerAction::Queue(submission("four")));
    assert_eq!(desk.press(KeyCode::Up), ComposerAction::TakeQueue);
    desk.composer.insert_before("one\n\ntwo");
    desk.composer.insert_before("zero");
    assert_eq!(desk.text(), "zero\n\none\n\ntwo");
}

#[test]
fn rejected_text_is_restored_with_its_pastes() {
    let mut desk = ComposerHarness::new();
    desk.composer.paste(&"line\n".repeat(7));
    assert_eq!(desk.text(), "[Pasted Text: 7 lines]");
    let action = desk.press(KeyCode::Enter);
    let ComposerAction::Submit(sent) = action else { panic!("{action:?}") };
    assert_eq!(sent.text, "line\n".repeat(7));
    assert_eq!(sent.display_text, "[Pasted Text: 7 lines]");
    assert_eq!(desk.text(), "");
    desk.composer.restore_sent();
    assert_eq!(desk.composer.editor_text(), "line\n".repeat(7));
    desk.key(Key::ctrl('o'));
    assert_eq!(desk.text(), "line\n".repeat(7));
}

#[test]
fn backslash_or_a_modifier_makes_enter_a_new_line() {
    let mut desk = ComposerHarness::new();
    desk.type_in("a\\");
    desk.press(KeyCode::Enter);
    desk.type_in("b");
    for modifiers in [Modifiers::SHIFT, Modifiers::ALT, Modifiers::CTRL, Modifiers::CMD] {
        assert_eq!(desk.key(Key::with(KeyCode::Enter, modifiers)), ComposerAction::Changed);
    }
    desk.key(Key::ctrl('j'));
    assert_eq!(desk.text(), "a\nb\n\n\n\n\n");
}

#[test]
fn exclamation_mark_switches_to_the_shell_and_back() {
    let mut desk = ComposerHarness::new();
    desk.composer.set_history(vec!["prompt".to_owned()], vec!["ls -l".to_owned()]);
    desk.type_in("!");
    assert_eq!((desk.composer.mode(), desk.text().as_str()), (InputMode::Shell, ""));
    assert!(desk.rows(40, 5)[0].starts_with("! "));
    desk.press(KeyCode::Up);
    assert_eq!(desk.text(), "ls -l");
    assert_eq!(desk.press(KeyCode::Enter), ComposerAction::Shell("ls -l".to_owned()));
    assert_eq!(desk.composer.mode(), InputMode::Shell);
    assert_eq!(desk.press(KeyCode::Escape), ComposerAction::Changed);
    assert_eq!(desk.composer.mode(), InputMode::Prompt);
    desk.type_in("a!");
    assert_eq!((desk.composer.mode(), desk.text().as_str()), (InputMode::Prompt, "a!"));
}

#[test]
fn control_c_clears_and_control_d_exits() {
    let mut desk = ComposerHarness::new();
    assert_eq!(desk.key(Key::ctrl('d')), ComposerAction::Exit);
    desk.type_in("ab");
    desk.press(KeyCode::Left);
    desk.key(Key::ctrl('d'));
    assert_eq!(desk.text(), "a");
    assert_eq!(desk.key(Key::ctrl('c')), ComposerAction::Interrupt { cleared: true });
    assert_eq!(desk.key(Key::ctrl('c')), ComposerAction::Interrupt { cleared: false });
    desk.key(Key::alt('z'));
    assert_eq!(desk.text(), "a");
}

#[test]
fn escape_twice_clears_or_rewinds() {
    let mut desk = ComposerHarness::new();
    let escape = Key::plain(KeyCode::Escape);
    assert_eq!(desk.key(escape), ComposerAction::Escape);
    assert_eq!(desk.press_after(Duration::from_millis(1_900), escape), ComposerAction::Rewind);
    desk.type_in("a");
    assert_eq!(desk.key(escape), ComposerAction::Escape);
    assert_eq!(desk.press_after(Duration::from_millis(2_100), escape), ComposerAction::Escape);
    assert_eq!(desk.press_after(Duration::from_millis(300), escape), ComposerAction::Changed);
    assert_eq!(desk.text(), "");
    desk.set_state(true, true, 0);
    assert_eq!(desk.press_after(Duration::from_millis(1), escape), ComposerAction::Escape);
    assert_eq!(desk.press_after(Duration::from_millis(1), escape), ComposerAction::Escape);
}

#[test]
fn control_y_yanks_or_is_passed_to_the_program() {
    let mut desk = ComposerHarness::new();
    assert_eq!(desk.key(Key::ctrl('y')), ComposerAction::Ignored);
    desk.type_in("one two");
    desk.key(Key::ctrl('w'));
    desk.key(Key::ctrl('a'));
    assert_eq!(desk.key(Key::ctrl('y')), ComposerAction::Changed);
    assert_eq!(desk.text(), "twoone ");
}

#[test]
fn question_mark_alone_shows_the_keys() {
    let mut desk = ComposerHarness::new();
    assert_eq!(desk.press(KeyCode::Char('?')), ComposerAction::ToggleShortcuts);
    desk.type_in("a?");
    assert_eq!(desk.text(), "a?");
}

#[test]
fn up_and_down_recall_history_at_the_edges() {
    let mut desk = ComposerHarness::new();
    desk.composer
        .set_history(vec!["old".to_owned(), "a\nb".to_owned(), "a\nb".to_owned()], Vec::new());
    desk.type_in("draft");
    desk.press(KeyCode::Left);
    desk.press(KeyCode::Up);
    assert_eq!(desk.composer.buffer().cursor(), Position::START, "first to the start");
    desk.press(KeyCode::Up);
    assert_eq!(desk.text(), "a\nb");
    desk.press(KeyCode::Up);
    assert_eq!(desk.text(), "old");
    desk.press(KeyCode::Up);
    assert_eq!(desk.text(), "old");
    desk.type_in("!");
    desk.press(KeyCode::Down);
    desk.press(KeyCode::Down);
    assert_eq!(desk.text(), "a\nb");
    desk.press(KeyCode::Down);
    desk.press(KeyCode::Down);
    assert_eq!((desk.text().as_str(), desk.composer.buffer().cursor()), ("draft", Position::START));
    desk.key(Key::ctrl('p'));
    desk.key(Key::ctrl('p'));
    assert_eq!(desk.text(), "old!", "changes are kept until something is sent");
    desk.press(KeyCode::Enter);
    desk.key(Key::ctrl('p'));
    assert_eq!(desk.text(), "old!");
    desk.key(Key::ctrl('p'));
    desk.key(Key::ctrl('p'));
    assert_eq!(desk.text(), "old");
}

#[test]
fn history_search_finds_matches() {
    let mut desk = ComposerHarness::new();
    let history = ["fix the tests", "write docs", "fix the docs"].map(str::to_owned);
    desk.composer.set_history(history.to_vec(), Vec::new());
    desk.type_in("draft");
    desk.key(Key::ctrl('r'));
    desk.type_in("FIX");
    assert_eq!(desk.rows(40, 5), ["⌕ FIX"]);
    let list = |desk: &ComposerHarness| {
        let rows = desk.composer.search_rows(40, &Theme::default());
        rows.iter().map(Line::text).collect::<Vec<_>>()
    };
    assert_eq!(list(&desk), ["❯ fix the docs", "  fix the tests"]);
    desk.press(KeyCode::Escape);
    assert_eq!(desk.text(), "draft");
    desk.key(Key::ctrl('r'));
    desk.type_in("docs");
    desk.press(KeyCode::Down);
    desk.press(KeyCode::Tab);
    assert_eq!((desk.text().as_str(), desk.composer.is_searching()), ("write docs", false));
    desk.key(Key::ctrl('r'));
    desk.type_in("tests");
    assert_eq!(desk.press(KeyCode::Enter), ComposerAction::Submit(submission("fix the tests")));
}

#[test]
fn visible_rows_follow_the_cursor() {
    let mut desk = ComposerHarness::new();
    assert_eq!(desk.rows(60, 3), [">  Type your message or @path/to/file"]);
    desk.composer.set_text("one two three four\nfive\nsix\nseven");
    assert_eq!(desk.rows(15, 9), ["> one two ", "  three four", "  five", "  six", "  seven"]);
    assert_eq!(desk.rows(15, 2), ["  six", "  seven"]);
    desk.composer.buffer_mut().set_cursor(Position::new(0, 9));
    let rendered = desk.composer.render(15, 2, &Theme::default());
    assert_eq!(rendered.rows[0].text(), "  three four");
    assert_eq!(rendered.cursor, (3, 0));
    desk.composer.click(4, 1);
    assert_eq!(desk.composer.buffer().cursor(), Position::new(1, 2));
}

#[test]
fn image_path_is_abbreviated_until_the_cursor_reaches_it() {
    let mut desk = ComposerHarness::new();
    desk.composer.set_text("see @some/where/deep/shot.png now");
    assert_eq!(desk.rows(80, 3), ["> see [Image …shot.png] now"]);
    desk.composer.buffer_mut().set_cursor(Position::new(0, 10));
    assert_eq!(desk.rows(80, 3), ["> see @some/where/deep/shot.png now"]);
}

#[test]
fn external_editor_round_trips_the_complete_text() {
    let mut desk = ComposerHarness::new();
    assert_eq!(desk.key(Key::ctrl('g')), ComposerAction::OpenEditor);
    desk.composer.set_editor_text("edited\ntext\n");
    assert_eq!(desk.text(), "edited\ntext");
    desk.key(Key::alt('z'));
    assert_eq!(desk.text(), "");
}

#[test]
fn vi_mode_enter_sends_and_shell_mode_is_reachable() {
    let mut desk = ComposerHarness::new();
    desk.composer.set_vim(true);
    desk.type_in("one two");
    desk.press(KeyCode::Escape);
    desk.type_in("bcwx");
    assert_eq!((desk.text().as_str(), desk.composer.vim_mode()), ("one x", Some(VimMode::Insert)));
    desk.press(KeyCode::Escape);
    assert_eq!(desk.press(KeyCode::Enter), ComposerAction::Submit(submission("one x")));
    assert_eq!(desk.composer.vim_mode(), Some(VimMode::Normal));
    desk.type_in("!");
    assert_eq!(desk.composer.mode(), InputMode::Shell);
    desk.type_in("ils");
    assert_eq!(desk.text(), "ls");
}
