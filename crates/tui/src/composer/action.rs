//! The result of a key, and the state that the input needs from outside.

/// What a key in the input leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ComposerAction {
    /// The input has no use for the key: it is the program's.
    Ignored,
    /// Taken: text, cursor or mode changed, or nothing was left to do.
    Changed,
    /// Send this to the model (or run it, when it is a `/` command).
    Submit(Submission),
    /// Steer the running turn with this.
    Steer(Submission),
    /// Send this when the agent is done.
    Queue(Submission),
    /// Run this in the shell.
    Shell(String),
    /// Give the queued messages back to the input, with [`insert_before`](super::Composer::insert_before).
    TakeQueue,
    /// Ctrl+C. `cleared`: it had text, which is gone now; if not, the second
    /// press leaves the program.
    Interrupt {
        /// Whether there was text.
        cleared: bool,
    },
    /// Ctrl+D without text.
    Exit,
    /// Esc that closes nothing here: cancels the request, or announces what a
    /// second one does.
    Escape,
    /// Esc twice without text.
    Rewind,
    /// Paste what is in the clipboard (an image too).
    PasteClipboard,
    /// Edit [`editor_text`](super::Composer::editor_text) in the external editor.
    OpenEditor,
    /// The former key of the external editor: tell the new one.
    EditorHint,
    /// `?` without text: show or hide the keys.
    ToggleShortcuts,
}

/// A message that the user sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    /// The text, pasted texts in it.
    pub text: String,
    /// As it stood in the input, labels for pasted texts.
    pub shown: String,
}

/// What the text is meant for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InputMode {
    /// The model, or a `/` command.
    #[default]
    Prompt,
    /// The shell (`!`).
    Shell,
}

/// What happens around the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Surroundings {
    /// The agent works.
    pub busy: bool,
    /// A shell command of the user runs.
    pub running: bool,
    /// Enter while it works steers it; otherwise it queues.
    pub steering: bool,
    /// How many messages are queued.
    pub queued: usize,
    /// Everything is approved: the prefix says so.
    pub yolo: bool,
    /// How many prompts were sent: the empty input says something else after each.
    pub prompts: usize,
}
