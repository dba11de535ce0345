//! The key table as the composer sees it.

use parallax_composer::{EditCommand, KeyContext, KeyTable};
use parallax_screen::Key;

use super::{KeyCommand, Keymap, KeymapContext};

impl KeyTable for Keymap {
    fn commands(&self, key: Key, context: KeyContext) -> Vec<EditCommand> {
        let context = match context {
            KeyContext::Text => KeymapContext::COMPOSER,
            KeyContext::Search => KeymapContext::SEARCH,
        };
        self.commands_for(key, context).map(edit_command).collect()
    }
}

fn edit_command(command: KeyCommand) -> EditCommand {
    match command {
        KeyCommand::Submit => EditCommand::Submit,
        KeyCommand::QueueMessage => EditCommand::QueueMessage,
        KeyCommand::Cancel => EditCommand::Cancel,
        KeyCommand::Clear => EditCommand::Clear,
        KeyCommand::Confirm => EditCommand::Confirm,
        KeyCommand::Quit => EditCommand::Quit,
        KeyCommand::Exit => EditCommand::Exit,
        KeyCommand::OpenExternalEditor => EditCommand::OpenExternalEditor,
        KeyCommand::DeprecatedOpenExternalEditor => EditCommand::DeprecatedOpenExternalEditor,
        KeyCommand::Paste => EditCommand::Paste,
        KeyCommand::ExpandPaste => EditCommand::ExpandPaste,
        KeyCommand::Newline => EditCommand::Newline,
        KeyCommand::DeleteLeft => EditCommand::DeleteLeft,
        KeyCommand::DeleteRight => EditCommand::DeleteRight,
        KeyCommand::DeleteWordLeft => EditCommand::DeleteWordLeft,
        KeyCommand::DeleteWordRight => EditCommand::DeleteWordRight,
        KeyCommand::DeleteLeftAll => EditCommand::DeleteLeftAll,
        KeyCommand::DeleteRightAll => EditCommand::DeleteRightAll,
        KeyCommand::Yank => EditCommand::Yank,
        KeyCommand::YankPop => EditCommand::YankPop,
        KeyCommand::Undo => EditCommand::Undo,
        KeyCommand::Redo => EditCommand::Redo,
        KeyCommand::Home => EditCommand::Home,
        KeyCommand::End => EditCommand::End,
        KeyCommand::CursorUp => EditCommand::CursorUp,
        KeyCommand::CursorDown => EditCommand::CursorDown,
        KeyCommand::CursorLeft => EditCommand::CursorLeft,
        KeyCommand::CursorRight => EditCommand::CursorRight,
        KeyCommand::WordLeft => EditCommand::WordLeft,
        KeyCommand::WordRight => EditCommand::WordRight,
        KeyCommand::HistoryPrevious => EditCommand::HistoryPrevious,
        KeyCommand::HistoryNext => EditCommand::HistoryNext,
        KeyCommand::SearchStart => EditCommand::SearchStart,
        KeyCommand::SearchSubmit => EditCommand::SearchSubmit,
        KeyCommand::SearchAccept => EditCommand::SearchAccept,
        KeyCommand::SuggestPrevious => EditCommand::SuggestPrevious,
        KeyCommand::SuggestNext => EditCommand::SuggestNext,
        KeyCommand::SuggestExpand => EditCommand::SuggestExpand,
        KeyCommand::SuggestCollapse => EditCommand::SuggestCollapse,
        _ => EditCommand::Other,
    }
}
