//! Compares the buffer with a model that is only a string and an offset.

use parallax_screen::Key;
use proptest::prelude::*;
use unicode_segmentation::UnicodeSegmentation;

use super::buffer::Buffer;
use super::text::Position;
use super::{Composer, words};
use crate::test_keys::Keymap;
use parallax_screen::theme::Theme;

#[derive(Debug, Clone)]
enum TestCommand {
    Insert(String),
    Newline,
    DeleteLeft,
    DeleteRight,
    DeleteWordLeft,
    DeleteWordRight,
    KillLeft,
    KillRight,
    Left,
    Right,
    WordLeft,
    WordRight,
    Home,
    End,
    Start,
    Finish,
    Jump(usize),
    Undo,
    Redo,
}

fn pieces() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z ]{1,4}",
        "\\PC{1,3}",
        prop::sample::select(vec![
            "e\u{301}",
            "\u{301}",
            "👩‍👩‍👧",
            "\u{200d}",
            "🇩🇪",
            "🇫",
            "漢字",
            "カナ",
            "ひら",
            "ß",
            "\t",
            "[",
            "@a.png ",
            "one\ntwo",
            "_x.y",
        ])
        .prop_map(str::to_owned),
    ]
}

fn command() -> impl Strategy<Value = TestCommand> {
    use TestCommand::*;
    prop_oneof![
        6 => pieces().prop_map(Insert),
        1 => Just(Newline),
        2 => Just(DeleteLeft),
        1 => Just(DeleteRight),
        1 => Just(DeleteWordLeft),
        1 => Just(DeleteWordRight),
        1 => Just(KillLeft),
        1 => Just(KillRight),
        2 => Just(Left),
        1 => Just(Right),
        1 => Just(WordLeft),
        1 => Just(WordRight),
        1 => Just(Home),
        1 => Just(End),
        1 => Just(Start),
        1 => Just(Finish),
        1 => any::<usize>().prop_map(Jump),
        2 => Just(Undo),
        1 => Just(Redo),
    ]
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Model {
    text: String,
    at: usize,
}

impl Model {
    fn borders(&self) -> Vec<usize> {
        self.text
            .grapheme_indices(true)
            .map(|(offset, _)| offset)
            .chain([self.text.len()])
            .collect()
    }

    fn snap(&self, offset: usize) -> usize {
        self.borders().into_iter().find(|border| *border >= offset).unwrap()
    }

    fn move_left(&self) -> usize {
        self.borders().into_iter().rev().find(|border| *border < self.at).unwrap_or(0)
    }

    fn move_right(&self) -> usize {
        self.borders().into_iter().find(|border| *border > self.at).unwrap_or(self.text.len())
    }

    fn line_start(&self) -> usize {
        self.text[..self.at].rfind('\n').map_or(0, |offset| offset + 1)
    }

    fn line_end(&self) -> usize {
        self.text[self.at..].find('\n').map_or(self.text.len(), |offset| self.at + offset)
    }

    fn word_left(&self) -> usize {
        let start = self.line_start();
        if start == self.at {
            return self.move_left();
        }
        self.snap(start + words::start_of_last(&self.text[start..self.at])).min(self.move_left())
    }

    fn word_right(&self) -> usize {
        if self.line_end() == self.at {
            return self.move_right();
        }
        self.snap(self.at + words::end_of_first(&self.text[self.at..self.line_end()]))
    }

    fn cut(&mut self, start: usize, end: usize) {
        self.text.replace_range(start..end, "");
        self.at = self.snap(start);
    }

    fn run(&mut self, command: &TestCommand) {
        match command {
            TestCommand::Insert(text) => {
                self.text.insert_str(self.at, text);
                self.at = self.snap(self.at + text.len());
            }
            TestCommand::Newline => {
                self.text.insert(self.at, '\n');
                self.at += 1;
            }
            TestCommand::DeleteLeft => self.cut(self.move_left(), self.at),
            TestCommand::DeleteRight => self.cut(self.at, self.move_right()),
            TestCommand::DeleteWordLeft => self.cut(self.word_left(), self.at),
            TestCommand::DeleteWordRight => self.cut(self.at, self.word_right()),
            TestCommand::KillLeft => self.cut(self.line_start(), self.at),
            TestCommand::KillRight => {
                let end =
                    if self.line_end() == self.at { self.move_right() } else { self.line_end() };
                self.cut(self.at, end);
            }
            TestCommand::Left => self.at = self.move_left(),
            TestCommand::Right => self.at = self.move_right(),
            TestCommand::WordLeft => self.at = self.word_left(),
            TestCommand::WordRight => self.at = self.word_right(),
            TestCommand::Home => self.at = self.line_start(),
            TestCommand::End => self.at = self.line_end(),
            TestCommand::Start => self.at = 0,
            TestCommand::Finish => self.at = self.text.len(),
            TestCommand::Jump(to) => {
                let to = to % (self.text.len() + 1);
                self.at = self.snap(self.text.floor_char_boundary(to));
            }
            TestCommand::Undo | TestCommand::Redo => {}
        }
    }
}

fn run(buffer: &mut Buffer, command: &TestCommand) {
    match command {
        TestCommand::Insert(text) => buffer.insert(text),
        TestCommand::Newline => buffer.insert_newline(),
        TestCommand::DeleteLeft => buffer.delete_left(),
        TestCommand::DeleteRight => buffer.delete_right(),
        TestCommand::DeleteWordLeft => buffer.delete_word_left(),
        TestCommand::DeleteWordRight => buffer.delete_word_right(),
        TestCommand::KillLeft => buffer.delete_to_line_start(),
        TestCommand::KillRight => buffer.delete_to_line_end(),
        TestCommand::Left => buffer.move_left(),
        TestCommand::Right => buffer.move_right(),
        TestCommand::WordLeft => buffer.move_word_left(),
        TestCommand::WordRight => buffer.move_word_right(),
        TestCommand::Home => buffer.move_home(),
        TestCommand::End => buffer.end(),
        TestCommand::Start => buffer.move_to_text_start(),
        TestCommand::Finish => buffer.move_to_text_end(),
        TestCommand::Jump(to) => {
            let to = to % (buffer.text().to_string().len() + 1);
            let position = buffer.text().position(to);
            buffer.set_cursor(position);
        }
        TestCommand::Undo => {
            buffer.undo();
        }
        TestCommand::Redo => {
            buffer.redo();
        }
    }
}

fn state(buffer: &Buffer) -> Model {
    Model { text: buffer.text().to_string(), at: buffer.text().offset(buffer.cursor()) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn edit_commands_match_a_string_model(commands in prop::collection::vec(command(), 0..60)) {
        let mut buffer = Buffer::default();
        buffer.set_columns(100_000);
        let mut model = Model::default();
        let mut seen = vec![String::new()];
        for command in &commands {
            run(&mut buffer, command);
            model.run(command);
            if matches!(command, TestCommand::Undo | TestCommand::Redo) {
                model = state(&buffer);
                prop_assert!(seen.contains(&model.text), "never was: {:?}", model.text);
            }
            prop_assert_eq!(&state(&buffer), &model, "after {:?}", command);
            seen.push(model.text.clone());
        }
        while buffer.undo() {
            let text = buffer.text().to_string();
            prop_assert!(seen.contains(&text));
        }
        prop_assert_eq!(state(&buffer), Model::default());
        while buffer.redo() {}
        let redone = buffer.text().to_string();
        prop_assert!(seen.contains(&redone));
        if !commands.iter().any(|command| matches!(command, TestCommand::Undo)) {
            prop_assert_eq!(redone, model.text);
        }
    }

    #[test]
    fn cursor_stays_valid_after_any_keys_and_pastes(
        keys in prop::collection::vec((0usize..24, pieces()), 0..50),
        columns in 1usize..30,
        rows in 1usize..6,
        vim in any::<bool>(),
    ) {
        let keymap = Keymap::default();
        let theme = Theme::default();
        let mut composer = Composer::new();
        composer.set_vim(vim);
        composer.set_history(vec!["old one".to_owned(), "two\nrows".to_owned()], Vec::new());
        for (which, text) in &keys {
            let code = parallax_screen::KeyCode::Up;
            match which {
                0 => composer.paste(text),
                1 => composer.paste(&format!("{text}\n").repeat(7)),
                2 => drop(composer.key(Key::plain(code), &keymap)),
                3 => drop(composer.key(Key::plain(parallax_screen::KeyCode::Down), &keymap)),
                4 => drop(composer.key(Key::plain(parallax_screen::KeyCode::Home), &keymap)),
                5 => drop(composer.key(Key::plain(parallax_screen::KeyCode::End), &keymap)),
                6 => drop(composer.key(Key::plain(parallax_screen::KeyCode::Escape), &keymap)),
                7 => drop(composer.key(Key::ctrl('o'), &keymap)),
                8 => drop(composer.key(Key::ctrl('w'), &keymap)),
                9 => drop(composer.key(Key::ctrl('y'), &keymap)),
                10 => drop(composer.key(Key::alt('y'), &keymap)),
                11 => drop(composer.key(Key::alt('z'), &keymap)),
                12 => drop(composer.key(Key::plain(parallax_screen::KeyCode::Backspace), &keymap)),
                13 => drop(composer.key(Key::plain(parallax_screen::KeyCode::Left), &keymap)),
                14 => drop(composer.key(Key::ctrl('r'), &keymap)),
                15 => composer.click(text.len(), rows / 2),
                _ => {
                    for char in text.chars() {
                        composer.key(Key::plain(parallax_screen::KeyCode::Char(char)), &keymap);
                    }
                }
            }
            let cursor = composer.buffer().cursor();
            prop_assert_eq!(composer.buffer().snap(cursor), cursor);
            let rendered = composer.render(columns, rows, &theme);
            prop_assert!((1..=rows).contains(&rendered.rows.len()));
            prop_assert!(rendered.cursor.1 < rendered.rows.len());
            if columns >= 12 && !composer.is_searching() {
                prop_assert!(rendered.cursor.0 < columns, "{:?}", rendered);
                for row in &rendered.rows {
                    prop_assert!(row.width() <= columns, "{:?}", row);
                }
            }
        }
    }
}

#[test]
fn undo_removes_words_and_consecutive_kills_are_joined() {
    let mut buffer = Buffer::default();
    for char in "one two".chars() {
        buffer.insert(&char.to_string());
    }
    buffer.undo();
    assert_eq!(buffer.text().to_string(), "one ");
    buffer.redo();
    buffer.delete_word_left();
    buffer.delete_word_left();
    assert!(buffer.is_empty());
    buffer.yank();
    assert_eq!(buffer.text().to_string(), "one two");
    buffer.set_cursor(Position::new(0, 3));
    buffer.delete_to_line_end();
    buffer.yank();
    buffer.yank_pop();
    assert_eq!(buffer.text().to_string(), "oneone two");
    assert!(buffer.yank_pop());
    assert_eq!(buffer.text().to_string(), "one two");
    buffer.move_left();
    assert!(!buffer.yank_pop());
}

#[test]
fn yank_pop_key_is_consumed_when_the_kill_ring_is_empty() {
    let mut buffer = Buffer::default();
    buffer.insert("one");
    buffer.delete_to_line_start();
    buffer.yank();
    assert!(buffer.yank_pop(), "it would switch the approval mode");
    assert_eq!(buffer.text().to_string(), "one");
}

#[test]
fn up_and_down_keep_the_column_over_short_rows() {
    let mut buffer = Buffer::default();
    buffer.set_columns(20);
    buffer.set_text("long line here\nab\nanother long line that wraps");
    buffer.set_cursor(Position::new(0, 9));
    buffer.down();
    assert_eq!(buffer.cursor(), Position::new(1, 2));
    buffer.down();
    assert_eq!(buffer.cursor(), Position::new(2, 9));
    buffer.down();
    assert_eq!(buffer.cursor(), Position::new(2, 27));
    assert!(!buffer.down());
    buffer.move_up();
    buffer.move_up();
    buffer.move_up();
    assert_eq!(buffer.cursor(), Position::new(0, 9));
    assert!(!buffer.move_up());
}
