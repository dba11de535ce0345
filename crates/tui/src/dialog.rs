//! Dialogs shown instead of the composer: lists, fields, and approval requests.

mod answer_form;
mod field;
mod layout;
mod list;
mod panel;
mod question;
mod rule_text;
mod tabs;
pub(crate) mod url_warning;

pub(crate) use field::{Field, FieldDialog};
pub(crate) use layout::{RowLayout, scroll_position, wrap_entries};
pub(crate) use list::{ListDialog, ListItem};
pub(crate) use panel::{Panel, PanelText};
pub(crate) use question::{QuestionAnswer, QuestionDialog};

use parallax_screen::{Key, KeyCode, Line, Modifiers};

use crate::keymap::{KeyCommand, Keymap, KeymapContext};

/// A key as handled by dialogs: navigation and decision keys are resolved by the key table, other
/// keys are passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DialogKey {
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    First,
    Last,
    Next,
    Previous,
    Confirm,
    Cancel,
    Other(Key),
}

impl DialogKey {
    /// Returns the function of a key in a dialog, using the key table first.
    pub(crate) fn from_keymap(keymap: &Keymap, key: Key, typing: bool) -> Self {
        // Letters are text while the dialog has a text field.
        let is_text = typing && key.character().is_some();
        match keymap.command(key, KeymapContext::DIALOG) {
            _ if is_text => Self::Other(key),
            Some(KeyCommand::DialogUp) => Self::Up,
            Some(KeyCommand::DialogDown) => Self::Down,
            Some(KeyCommand::DialogNext) => Self::Next,
            Some(KeyCommand::DialogPrevious) => Self::Previous,
            Some(KeyCommand::Confirm) => Self::Confirm,
            Some(KeyCommand::Cancel | KeyCommand::Quit) => Self::Cancel,
            _ => Self::from_default_key(key),
        }
    }

    /// Returns the default function of keys that the table does not bind in dialogs.
    pub(crate) fn from_default_key(key: Key) -> Self {
        let is_shifted = key.modifiers == Modifiers::SHIFT;
        if key.modifiers != Modifiers::NONE && !is_shifted {
            return match (key.code, key.modifiers) {
                (KeyCode::Char('p'), Modifiers::CTRL) => Self::Up,
                (KeyCode::Char('n'), Modifiers::CTRL) => Self::Down,
                (KeyCode::Char('c' | '['), Modifiers::CTRL) => Self::Cancel,
                _ => Self::Other(key),
            };
        }
        match key.code {
            KeyCode::Up => Self::Up,
            KeyCode::Down => Self::Down,
            KeyCode::Left => Self::Left,
            KeyCode::Right => Self::Right,
            KeyCode::PageUp => Self::PageUp,
            KeyCode::PageDown => Self::PageDown,
            KeyCode::Home => Self::First,
            KeyCode::End => Self::Last,
            KeyCode::Tab if is_shifted => Self::Previous,
            KeyCode::Tab => Self::Next,
            KeyCode::Enter => Self::Confirm,
            KeyCode::Escape => Self::Cancel,
            _ => Self::Other(key),
        }
    }
}

/// The rows of a dialog and the cursor position.
#[derive(Debug, Clone, Default)]
pub(crate) struct DialogView {
    pub(crate) rows: Vec<Line>,
    /// Column and row of the cursor while text is being typed.
    pub(crate) cursor: Option<(usize, usize)>,
}

/// The result of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DialogResponse {
    /// The dialog stays open.
    Stay,
    /// The dialog was closed without a choice.
    Closed,
    /// The item with this id (or the text of a field) was chosen.
    Chosen(String),
    /// The cursor moved to this item; used for previews.
    Moved(String),
    /// A key that the dialog does not use, with the item under the cursor.
    KeyPressed(Key, String),
}
