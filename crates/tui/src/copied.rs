//! The result of copying text to the clipboard.

/// Where the text was copied, if known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CopyTarget {
    /// To the clipboard, by a program or the terminal.
    Clipboard,
    /// To the clipboard by a program, and to the tmux buffer.
    ClipboardAndTmux,
    /// To the tmux buffer; tmux passes it on.
    Tmux,
    /// Requested from tmux with an escape sequence, which it may ignore.
    AskedTmux,
    /// Requested from GNU screen with an escape sequence.
    AskedScreen,
    /// The text exceeds the terminal's limit, and no program took it.
    TooLong,
    /// No way to copy is available.
    Unavailable,
}

impl CopyTarget {
    /// Returns the message for the user.
    ///
    /// # Errors
    /// Returns the reason as a message if the text was not copied.
    pub(crate) fn describe(self) -> Result<&'static str, &'static str> {
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
            Self::Unavailable => Err("No clipboard is available."),
        }
    }
}
