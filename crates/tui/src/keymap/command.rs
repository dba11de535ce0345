//! The table of key commands: ids, defaults, and contexts. The ids and defaults are those of Gemini
//! CLI, so that its `keybindings.json` works.

use super::platform::Platform;

/// The context in which a key was pressed; a set of bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeymapContext(u16);

impl KeymapContext {
    /// The composer without a list or a search.
    pub const COMPOSER: Self = Self(1);
    /// The composer with an open completion list.
    pub const SUGGESTIONS: Self = Self(2);
    /// The history search (Ctrl+R).
    pub const SEARCH: Self = Self(4);
    /// A list in a dialog or a view.
    pub const LIST: Self = Self(8);
    /// A dialog with several fields or pages.
    pub const DIALOG: Self = Self(16);
    /// A process that has the keyboard focus.
    pub const SHELL: Self = Self(32);
    /// The view of background processes.
    pub const BACKGROUND: Self = Self(64);
    /// The view of extensions.
    pub const EXTENSIONS: Self = Self(128);

    /// All contexts.
    pub const EACH: [Self; 8] = [
        Self::COMPOSER,
        Self::SUGGESTIONS,
        Self::SEARCH,
        Self::LIST,
        Self::DIALOG,
        Self::SHELL,
        Self::BACKGROUND,
        Self::EXTENSIONS,
    ];

    const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether the sets have a context in common.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// The heading under which a command is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the titles describe them")]
pub enum Group {
    Basic,
    Cursor,
    Edit,
    Scroll,
    History,
    Navigation,
    Suggestions,
    Input,
    App,
    Background,
    Extensions,
}

impl Group {
    /// All groups in help order.
    pub const ALL: [Self; 11] = [
        Self::Basic,
        Self::Input,
        Self::Edit,
        Self::Cursor,
        Self::History,
        Self::Suggestions,
        Self::App,
        Self::Scroll,
        Self::Navigation,
        Self::Background,
        Self::Extensions,
    ];

    /// Returns the heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::Basic => "Basics",
            Self::Cursor => "Cursor",
            Self::Edit => "Editing",
            Self::Scroll => "Scrolling",
            Self::History => "History",
            Self::Navigation => "Lists and dialogs",
            Self::Suggestions => "Completion",
            Self::Input => "Input",
            Self::App => "Program",
            Self::Background => "Background processes",
            Self::Extensions => "Extensions",
        }
    }
}

/// A row of the command table.
struct CommandRow {
    command: KeyCommand,
    id: &'static str,
    group: Group,
    contexts: KeymapContext,
    keys: &'static str,
    mac: Option<&'static str>,
    windows: Option<&'static str>,
    text: &'static str,
}

const C: KeymapContext = KeymapContext::COMPOSER;
const T: KeymapContext = KeymapContext::COMPOSER.union(KeymapContext::SUGGESTIONS);
const EDITOR: KeymapContext = T.union(KeymapContext::SEARCH);
const LISTS: KeymapContext =
    KeymapContext::LIST.union(KeymapContext::DIALOG).union(KeymapContext::EXTENSIONS);
const ALL: KeymapContext = EDITOR.union(LISTS).union(KeymapContext::BACKGROUND);
const EVERYWHERE: KeymapContext = ALL.union(KeymapContext::SHELL);

macro_rules! commands {
    ($($name:ident $id:literal $group:ident $contexts:expr, $keys:literal $(mac $mac:literal windows $windows:literal)?, $text:literal;)*) => {
        /// A command that a key can run.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum KeyCommand {
            $(#[doc = $text] $name,)*
        }

        const TABLE: &[CommandRow] = &[$(CommandRow {
            command: KeyCommand::$name,
            id: $id,
            group: Group::$group,
            contexts: $contexts,
            keys: $keys,
            mac: commands!(@first $($mac)?),
            windows: commands!(@first $($windows)?),
            text: $text,
        },)*];
    };
    (@first $text:literal) => { Some($text) };
    (@first) => { None };
}

commands! {
    Confirm "basic.confirm" Basic ALL, "enter", "Confirm the selection";
    Cancel "basic.cancel" Basic EVERYWHERE, "escape ctrl+[", "Cancel the request or close the \
                                                              view; press twice to clear the input \
                                                              or rewind";
    Quit "basic.quit" Basic ALL, "ctrl+c", "Cancel the request; press twice to exit";
    Exit "basic.exit" Basic ALL, "ctrl+d", "Exit if the input is empty (press twice)";

    Submit "input.submit" Input C, "enter", "Send the input; while the agent is running: steer it";
    QueueMessage "input.queueMessage" Input C, "tab", "Queue the input while the agent is running";
    Newline "input.newline" Input T, "ctrl+enter cmd+enter alt+enter shift+enter ctrl+j", "Start \
                                                                                           a new \
                                                                                           line";
    OpenExternalEditor "input.openExternalEditor" Input T, "ctrl+g ctrl+shift+g", "Edit the input \
                                                                                   in the \
                                                                                   external editor";
    DeprecatedOpenExternalEditor "input.deprecatedOpenExternalEditor" Input T, "ctrl+x", "Former \
                                                                                          key of \
                                                                                          the \
                                                                                          external \
                                                                                          editor; \
                                                                                          shows \
                                                                                          the new \
                                                                                          one";
    Paste "input.paste" Input EDITOR, "ctrl+v cmd+v alt+v", "Paste from the clipboard, including \
                                                             images";

    DeleteRightAll "edit.deleteRightAll" Edit T, "ctrl+k", "Delete to the end of the line";
    DeleteLeftAll "edit.deleteLeftAll" Edit EDITOR, "ctrl+u", "Delete to the start of the line";
    Clear "edit.clear" Edit T, "ctrl+c", "Clear the input";
    DeleteWordLeft "edit.deleteWordLeft" Edit EDITOR, "ctrl+backspace alt+backspace ctrl+w", "Delete \
                                                                                              the \
                                                                                              word \
                                                                                              before \
                                                                                              the \
                                                                                              cursor";
    DeleteWordRight "edit.deleteWordRight" Edit T, "ctrl+delete alt+delete alt+d", "Delete the \
                                                                                    word after \
                                                                                    the cursor";
    DeleteLeft "edit.deleteLeft" Edit EDITOR, "backspace ctrl+h", "Delete the character before \
                                                                   the cursor";
    DeleteRight "edit.deleteRight" Edit T, "delete ctrl+d", "Delete the character after the cursor";
    Yank "edit.yank" Edit T, "ctrl+y", "Insert the last deleted text; if there is none: toggle \
                                        YOLO mode";
    YankPop "edit.yankPop" Edit T, "alt+y", "Right after inserting: replace it with the text \
                                             deleted before";
    Undo "edit.undo" Edit T, "alt+z cmd+z ctrl+z" mac "cmd+z alt+z" windows "ctrl+z alt+z", "Undo";
    Redo "edit.redo" Edit T, "ctrl+shift+z cmd+shift+z alt+shift+z", "Redo";

    Home "cursor.home" Cursor T, "ctrl+a home", "To the start of the line";
    End "cursor.end" Cursor T, "ctrl+e end", "To the end of the line";
    CursorUp "cursor.up" Cursor C, "up", "Up; on the first row: previous input";
    CursorDown "cursor.down" Cursor C, "down", "Down; on the last row: next input";
    CursorLeft "cursor.left" Cursor T, "left", "Left";
    CursorRight "cursor.right" Cursor T, "right ctrl+f", "Right";
    WordLeft "cursor.wordLeft" Cursor T, "ctrl+left alt+left alt+b", "One word to the left";
    WordRight "cursor.wordRight" Cursor T, "ctrl+right alt+right alt+f", "One word to the right";

    HistoryPrevious "history.previous" History C, "ctrl+p", "Previous input";
    HistoryNext "history.next" History C, "ctrl+n", "Next input";
    SearchStart "history.search.start" History EDITOR, "ctrl+r", "Search the history";
    SearchSubmit "history.search.submit" History KeymapContext::SEARCH, "enter", "Send the match";
    SearchAccept "history.search.accept" History KeymapContext::SEARCH, "tab", "Insert the match into \
                                                                          the input";

    SuggestAccept "suggest.accept" Suggestions KeymapContext::SUGGESTIONS, "tab enter", "Accept the \
                                                                                   completion";
    SuggestPrevious "suggest.focusPrevious" Suggestions KeymapContext::SUGGESTIONS.union(KeymapContext::SEARCH), "up \
                                                                                                    ctrl+p", "Previous \
                                                                                                              completion";
    SuggestNext "suggest.focusNext" Suggestions KeymapContext::SUGGESTIONS.union(KeymapContext::SEARCH), "down \
                                                                                            ctrl+n", "Next \
                                                                                                      completion";
    SuggestExpand "suggest.expand" Suggestions KeymapContext::SEARCH, "right", "Show a long entry in \
                                                                          full";
    SuggestCollapse "suggest.collapse" Suggestions KeymapContext::SEARCH, "left", "Truncate a long entry";

    CycleApprovalMode "app.cycleApprovalMode" App T, "shift+tab", "Change the approval mode";
    SelectModel "app.selectModel" App T, "alt+p", "Select a model";
    ToggleYolo "app.toggleYolo" App ALL, "alt+y ctrl+y", "Toggle YOLO mode (approve everything)";
    ShowMoreLines "app.showMoreLines" App EVERYWHERE, "ctrl+o", "Show truncated content (outputs, \
                                                                 diffs, errors) in full, or \
                                                                 truncate it again";
    ExpandPaste "app.expandPaste" App T, "ctrl+o", "On a paste token: show the pasted text";
    ShowFullTodos "app.showFullTodos" App ALL, "ctrl+t", "Show the whole to-do list";
    ShowTranscript "app.showTranscript" App ALL, "alt+t", "Show the whole transcript, to scroll \
                                                           and search";
    ToggleMarkdown "app.toggleMarkdown" App ALL, "alt+m", "Show answers as Markdown source";
    ShowErrorDetails "app.showErrorDetails" App ALL, "f12", "Show the log; press twice to open DevTools";
    ShowIdeContextDetail "app.showIdeContextDetail" App ALL, "f4", "Show the files that are open in the editor";
    ToggleCopyMode "app.toggleCopyMode" App ALL, "f9", "Freeze the screen for copying";
    ToggleMouseMode "app.toggleMouseMode" App ALL, "ctrl+s", "Let the terminal handle the mouse, \
                                                              or Parallax";
    FocusShell "app.focusShellInput" App C, "tab", "Send keys to the running command";
    UnfocusShell "app.unfocusShellInput" App KeymapContext::SHELL, "shift+tab", "Stop sending keys to \
                                                                           the running command";
    ShellUnfocusWarning "app.showShellUnfocusWarning" App KeymapContext::SHELL, "tab", "Send Tab to the \
                                                                                  running command \
                                                                                  and show the \
                                                                                  key that \
                                                                                  returns to the \
                                                                                  input";
    ClearScreen "app.clearScreen" App ALL, "ctrl+l", "Redraw the screen";
    Restart "app.restart" App KeymapContext::DIALOG, "r shift+r", "Restart the program";
    Suspend "app.suspend" App EVERYWHERE, "ctrl+z", "Suspend the program (press twice)";

    ScrollUp "scroll.up" Scroll ALL, "shift+up", "Scroll up";
    ScrollDown "scroll.down" Scroll ALL, "shift+down", "Scroll down";
    ScrollHome "scroll.home" Scroll ALL, "ctrl+home shift+home", "Scroll to the top";
    ScrollEnd "scroll.end" Scroll ALL, "ctrl+end shift+end", "Scroll to the end";
    ScrollPageUp "scroll.pageUp" Scroll ALL, "pageup", "Scroll up one page";
    ScrollPageDown "scroll.pageDown" Scroll ALL, "pagedown", "Scroll down one page";

    NavUp "nav.up" Navigation KeymapContext::LIST.union(KeymapContext::EXTENSIONS).union(KeymapContext::BACKGROUND), "up", "Previous \
                                                                                                      row";
    NavDown "nav.down" Navigation KeymapContext::LIST.union(KeymapContext::EXTENSIONS).union(KeymapContext::BACKGROUND), "down", "Next \
                                                                                                            row";
    DialogUp "nav.dialog.up" Navigation KeymapContext::DIALOG, "up k", "Previous row";
    DialogDown "nav.dialog.down" Navigation KeymapContext::DIALOG, "down j", "Next row";
    DialogNext "nav.dialog.next" Navigation KeymapContext::DIALOG, "tab", "Next field or page";
    DialogPrevious "nav.dialog.previous" Navigation KeymapContext::DIALOG, "shift+tab", "Previous field \
                                                                                   or page";

    BackgroundEscape "background.escape" Background KeymapContext::BACKGROUND, "escape", "Close the view";
    BackgroundSelect "background.select" Background KeymapContext::BACKGROUND, "enter", "Show the \
                                                                                   selected \
                                                                                   process";
    BackgroundToggle "background.toggle" Background C.union(KeymapContext::SHELL).union(KeymapContext::BACKGROUND), "ctrl+b", "Move \
                                                                                                               the \
                                                                                                               running \
                                                                                                               command \
                                                                                                               to \
                                                                                                               the \
                                                                                                               background, \
                                                                                                               or \
                                                                                                               show \
                                                                                                               the \
                                                                                                               background \
                                                                                                               view";
    BackgroundToggleList "background.toggleList" Background KeymapContext::BACKGROUND, "ctrl+l", "Show \
                                                                                            the \
                                                                                            list \
                                                                                            of \
                                                                                            processes";
    BackgroundKill "background.kill" Background KeymapContext::BACKGROUND, "ctrl+k", "End the process";
    BackgroundUnfocus "background.unfocus" Background KeymapContext::BACKGROUND, "shift+tab", "Return \
                                                                                         to the \
                                                                                         input";
    BackgroundUnfocusList "background.unfocusList" Background KeymapContext::BACKGROUND, "tab", "Return \
                                                                                           from \
                                                                                           the \
                                                                                           list \
                                                                                           to the \
                                                                                           input";
    BackgroundUnfocusWarning "background.unfocusWarning" Background KeymapContext::BACKGROUND, "tab", "Show \
                                                                                                 how \
                                                                                                 to \
                                                                                                 return \
                                                                                                 to \
                                                                                                 the \
                                                                                                 input";

    ExtensionUpdate "extension.update" Extensions KeymapContext::EXTENSIONS, "i", "Install or update \
                                                                             the extension";
    ExtensionLink "extension.link" Extensions KeymapContext::EXTENSIONS, "l", "Link the extension";
}

/// Commands for views that do not exist here.
const WITHOUT_USE: &[KeyCommand] = &[
    KeyCommand::Restart,
    KeyCommand::BackgroundToggleList,
    KeyCommand::BackgroundUnfocus,
    KeyCommand::BackgroundUnfocusList,
    KeyCommand::BackgroundUnfocusWarning,
    KeyCommand::ExtensionUpdate,
    KeyCommand::ExtensionLink,
];

/// Gemini CLI commands that have no counterpart here; binding them warns.
pub(super) const WITHOUT_COUNTERPART: &[&str] =
    &["app.dumpFrame", "app.startRecording", "app.stopRecording", "app.voiceModePTT"];

impl KeyCommand {
    fn row(self) -> &'static CommandRow {
        // Declared by the same macro: the number of a command is its index in the table.
        &TABLE[self as usize]
    }

    /// Returns all commands in table order.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.command)
    }

    /// Returns the commands that have an effect. The others are known so that a `keybindings.json`
    /// of Gemini CLI is accepted.
    pub fn implemented() -> impl Iterator<Item = Self> {
        Self::all().filter(|command| !WITHOUT_USE.contains(command))
    }

    /// Returns the command with an id of `keybindings.json`.
    pub fn from_id(id: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.id == id).map(|row| row.command)
    }

    /// Returns the id in `keybindings.json`.
    pub fn id(self) -> &'static str {
        self.row().id
    }

    /// Returns the description for the help.
    pub fn description(self) -> &'static str {
        self.row().text
    }

    /// Returns the help group.
    pub fn group(self) -> Group {
        self.row().group
    }

    /// Returns the contexts in which the command applies.
    pub fn contexts(self) -> KeymapContext {
        self.row().contexts
    }

    /// Returns the default keys in the syntax of `keybindings.json`.
    pub fn default_keys(self, platform: Platform) -> impl Iterator<Item = &'static str> {
        let row = self.row();
        let other = match platform {
            Platform::Linux => None,
            Platform::Mac => row.mac,
            Platform::Windows => row.windows,
        };
        other.unwrap_or(row.keys).split(' ')
    }
}
