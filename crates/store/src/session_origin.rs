//! The programs that write session files.

/// The program that wrote a session file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionOrigin {
    /// A journal of Parallax.
    Parallax,
    /// A record of Gemini CLI.
    GeminiCli,
    /// A session of Parallax CLI.
    ParallaxCli,
}
