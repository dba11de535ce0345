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
    /// The message for the user.
    ///
    /// # Errors
    /// Why it was not copied.
    pub(crate) fn words(self) -> Result<&'static str, &'static str> {
        match self {
            Self::Clipboard => Ok("copied"),
            Self::ClipboardAndTmux => Ok("copied to the clipboard and to the tmux buffer"),
            Self::Tmux => {
                Ok("copied to the tmux buffer and, if your terminal allows it, to the clipboard")
            }
            Self::AskedTmux => {
                Ok("asked tmux to copy; this works only with `set -s set-clipboard on`")
            }
            Self::AskedScreen => Ok("asked your terminal, through screen, to copy"),
            Self::TooLong => Err("The text is too long for the terminal's clipboard, and no \
                                  clipboard program is available."),
            Self::Nowhere => Err("No clipboard is available."),
        }
    }
}
