//! Platforms with different default keys.

/// The user's operating system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are self-explanatory")]
pub enum Platform {
    Linux,
    Mac,
    Windows,
}

impl Platform {
    /// The platform of this build.
    pub const HERE: Self = if cfg!(target_os = "macos") {
        Self::Mac
    } else if cfg!(windows) {
        Self::Windows
    } else {
        Self::Linux
    };
}
