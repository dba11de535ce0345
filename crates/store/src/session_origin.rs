//! The programs that write session files.

/// The program that wrote a session file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionOrigin {
    /// A Parallax journal.
    Parallax,
    /// A Gemini CLI record.
    GeminiCli,
    /// A session of Parallax CLI.
    ParallaxCli,
}
