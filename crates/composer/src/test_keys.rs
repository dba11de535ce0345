//! Key bindings for tests: the usual ones on Linux.

use parallax_screen::{Key, KeyCode, Modifiers};

use crate::edit_command::{EditCommand as E, KeyContext, KeyTable};

/// The system whose bindings are loaded.
pub(crate) enum Platform {
    Linux,
}

/// The key bindings.
pub(crate) struct Keymap(Vec<(Key, E, bool, bool)>);

/// Commands with their keys, and whether they apply to the text and to the search.
const TABLE: &[(E, &str, bool, bool)] = &[
    (E::Confirm, "enter", true, true),
    (E::Cancel, "escape ctrl+[", true, true),
    (E::Quit, "ctrl+c", true, true),
    (E::Exit, "ctrl+d", true, true),
    (E::Submit, "enter", true, false),
    (E::QueueMessage, "tab", true, false),
    (E::Newline, "ctrl+enter cmd+enter alt+enter shift+enter ctrl+j", true, false),
    (E::OpenExternalEditor, "ctrl+g", true, false),
    (E::DeprecatedOpenExternalEditor, "ctrl+x", true, false),
    (E::Paste, "ctrl+v alt+v", true, true),
    (E::DeleteRightAll, "ctrl+k", true, false),
    (E::DeleteLeftAll, "ctrl+u", true, true),
    (E::Clear, "ctrl+c", true, false),
    (E::DeleteWordLeft, "ctrl+backspace alt+backspace ctrl+w", true, true),
    (E::DeleteWordRight, "ctrl+delete alt+delete alt+d", true, false),
    (E::DeleteLeft, "backspace ctrl+h", true, true),
    (E::DeleteRight, "delete ctrl+d", true, false),
    (E::Yank, "ctrl+y", true, false),
    (E::YankPop, "alt+y", true, false),
    (E::Undo, "alt+z ctrl+z", true, false),
    (E::Redo, "ctrl+shift+z alt+shift+z", true, false),
    (E::Home, "ctrl+a home", true, false),
    (E::End, "ctrl+e end", true, false),
    (E::CursorUp, "up", true, false),
    (E::CursorDown, "down", true, false),
    (E::CursorLeft, "left", true, false),
    (E::CursorRight, "right ctrl+f", true, false),
    (E::WordLeft, "ctrl+left alt+left alt+b", true, false),
    (E::WordRight, "ctrl+right alt+right alt+f", true, false),
    (E::HistoryPrevious, "ctrl+p", true, false),
    (E::HistoryNext, "ctrl+n", true, false),
    (E::SearchStart, "ctrl+r", true, true),
    (E::SearchSubmit, "enter", false, true),
    (E::SearchAccept, "tab", false, true),
    (E::SuggestPrevious, "up ctrl+p", false, true),
    (E::SuggestNext, "down ctrl+n", false, true),
    (E::SuggestExpand, "right", false, true),
    (E::SuggestCollapse, "left", false, true),
    (E::Other, "alt+y ctrl+y ctrl+o ctrl+t alt+t alt+m ctrl+s ctrl+l ctrl+z", true, true),
    (E::ExpandPaste, "ctrl+o", true, false),
];

impl Keymap {
    pub(crate) fn load(_: Platform, _: &str) -> Self {
        let keys = |(command, keys, text, search): &(E, &'static str, bool, bool)| {
            let (command, text, search) = (*command, *text, *search);
            let keys = keys.split(' ').map(parse);
            keys.map(move |key| (key, command, text, search)).collect::<Vec<_>>()
        };
        Self(TABLE.iter().flat_map(keys).collect())
    }
}

impl Default for Keymap {
    fn default() -> Self {
        Self::load(Platform::Linux, "")
    }
}

impl KeyTable for Keymap {
    fn commands(&self, key: Key, context: KeyContext) -> Vec<E> {
        let applies = |row: &&(Key, E, bool, bool)| {
            row.0 == key && if context == KeyContext::Text { row.2 } else { row.3 }
        };
        self.0.iter().filter(applies).map(|row| row.1).collect()
    }
}

fn parse(text: &str) -> Key {
    let mut names: Vec<&str> = text.split('+').collect();
    let code = match names.pop().unwrap_or_default() {
        "enter" => KeyCode::Enter,
        "escape" => KeyCode::Escape,
        "tab" => KeyCode::Tab,
        "backspace" => KeyCode::Backspace,
        "delete" => KeyCode::Delete,
        "home" => KeyCode::Home,
        "end" => KeyCode::End,
        "up" => KeyCode::Up,
        "down" => KeyCode::Down,
        "left" => KeyCode::Left,
        "right" => KeyCode::Right,
        char => KeyCode::Char(char.chars().next().expect("a character")),
    };
    let modifiers = names.iter().fold(0, |bits, name| {
        bits | match *name {
            "ctrl" => Modifiers::CTRL.0,
            "alt" => Modifiers::ALT.0,
            "cmd" => Modifiers::CMD.0,
            _ => Modifiers::SHIFT.0,
        }
    });
    Key::with(code, Modifiers(modifiers))
}
