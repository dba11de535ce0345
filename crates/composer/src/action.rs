//! Results of keys in the composer, and the external state that it needs.

/// The result of a key in the composer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ComposerAction {
    /// Not used; the program handles the key.
    Ignored,
    /// Used: text, cursor, or mode changed, or there was nothing to do.
    Changed,
    /// Send this.
    Submit(Submission),
    /// Send this at once, although the program is busy.
    Steer(Submission),
    /// Send this when the program is no longer busy.
    Queue(Submission),
    /// Run this in the shell.
    Shell(String),
    /// Put the queued messages back into the input with
    /// [`insert_before`](super::Composer::insert_before).
    TakeQueue,
    /// Ctrl+C. If it cleared no text, a second press quits the program.
    Interrupt {
        /// Whether text was cleared.
        cleared: bool,
    },
    /// Ctrl+D without text.
    Exit,
    /// Esc that closed nothing in the composer: cancels the request, or announces what a second Esc
    /// does.
    Escape,
    /// Esc twice without text.
    Rewind,
    /// Paste the clipboard (also an image).
    PasteClipboard,
    /// Edit [`editor_text`](super::Composer::editor_text) in the external editor.
    OpenEditor,
    /// The former key of the external editor: show the new one.
    EditorHint,
    /// `?` without text: show or hide the keys.
    ToggleShortcuts,
}

/// A message that the user sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    /// The text with pasted text expanded.
    pub text: String,
    /// The text as shown in the input, with labels for pasted text.
    pub display_text: String,
}

/// How the text is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InputMode {
    /// A prompt or a slash command.
    #[default]
    Prompt,
    /// A shell command (`!`).
    Shell,
}

/// The state around the composer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ComposerContext {
    /// Whether the program works on a message.
    pub busy: bool,
    /// Whether a shell command of the user is running.
    pub running: bool,
    /// Whether Enter sends at once while the program is busy; otherwise it queues.
    pub steering: bool,
    /// Number of queued messages.
    pub queued: usize,
    /// Whether the prefix shows a warning, because nothing requires approval.
    pub shows_warning: bool,
    /// What the empty input shows.
    pub placeholder: &'static str,
}
