//! What became of a text that was to be copied.

/// Where it is now, as far as it can be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Copied {
    /// In the clipboard: a program took it, or the terminal was given it.
    Clipboard,
    /// A program took it, and tmux.
    ClipboardAndTmux,
    /// tmux took it and hands it on.
    Tmux,
    /// tmux was asked by a sequence, which it may ignore.
    AskedTmux,
    /// The same with GNU screen.
    AskedScreen,
    /// More than the terminal takes, and no program took it.
    TooLong,
    /// There is no way.
    Nowhere,
}

impl Copied {
    /// What the person is told.
    ///
    /// # Errors
    /// Why it was not copied.
    pub(crate) fn words(self) -> Result<&'static str, &'static str> {
        match self {
            Self::Clipboard => Ok("copied"),
            Self::ClipboardAndTmux => Ok("copied: in the clipboard and in tmux's buffer"),
            Self::Tmux => {
                Ok("copied: in tmux's buffer and, where your terminal allows it, the clipboard")
            }
            Self::AskedTmux => {
                Ok("tmux was asked to copy it; it does with `set -s set-clipboard on`")
            }
            Self::AskedScreen => Ok("your terminal was asked, through screen, to copy it"),
            Self::TooLong => Err("The text is too long for the terminal's clipboard, and no \
                                  program for the clipboard can be reached from here."),
            Self::Nowhere => Err("There is no clipboard that can be reached from here."),
        }
    }
}
