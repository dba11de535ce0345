//! What keys do in the text. Which key does what is the program's choice.

use parallax_screen::Key;

/// A command that a key runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EditCommand {
    /// Send the text.
    Submit,
    /// Send the text later.
    QueueMessage,
    /// Close what is open, or cancel.
    Cancel,
    /// Clear the text.
    Clear,
    /// Confirm a selection, in other contexts.
    Confirm,
    /// Close the search, or quit.
    Quit,
    /// Exit if the text is empty.
    Exit,
    /// Edit the text in the external editor.
    OpenExternalEditor,
    /// The former key of the external editor.
    DeprecatedOpenExternalEditor,
    /// Paste the clipboard.
    Paste,
    /// Replace the label at the cursor with its pasted text.
    ExpandPaste,
    /// Start a new line.
    Newline,
    /// Delete the character before the cursor.
    DeleteLeft,
    /// Delete the character after the cursor.
    DeleteRight,
    /// Delete the word before the cursor.
    DeleteWordLeft,
    /// Delete the word after the cursor.
    DeleteWordRight,
    /// Delete to the start of the line.
    DeleteLeftAll,
    /// Delete to the end of the line.
    DeleteRightAll,
    /// Insert the last deleted text.
    Yank,
    /// Right after inserting: replace it with the text deleted before.
    YankPop,
    /// Undo a change.
    Undo,
    /// Redo a change.
    Redo,
    /// To the start of the line.
    Home,
    /// To the end of the line.
    End,
    /// Up, or the previous input.
    CursorUp,
    /// Down, or the next input.
    CursorDown,
    /// One character to the left.
    CursorLeft,
    /// One character to the right.
    CursorRight,
    /// One word to the left.
    WordLeft,
    /// One word to the right.
    WordRight,
    /// The previous input.
    HistoryPrevious,
    /// The next input.
    HistoryNext,
    /// Search the history.
    SearchStart,
    /// Send the match.
    SearchSubmit,
    /// Insert the match.
    SearchAccept,
    /// The previous match.
    SuggestPrevious,
    /// The next match.
    SuggestNext,
    /// Show a long match in full.
    SuggestExpand,
    /// Truncate a long match.
    SuggestCollapse,
    /// A command of the program.
    Other,
}

/// Where a key was pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyContext {
    /// The text.
    Text,
    /// The history search.
    Search,
}

/// The bindings of keys.
pub trait KeyTable {
    /// Returns the commands of a key. The first that applies is run.
    fn commands(&self, key: Key, context: KeyContext) -> Vec<EditCommand>;
}
