//! Systems whose default keys differ.

/// The operating system of the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Platform {
    Linux,
    Mac,
    Windows,
}

impl Platform {
    /// The one this program was built for.
    pub const HERE: Self = if cfg!(target_os = "macos") {
        Self::Mac
    } else if cfg!(windows) {
        Self::Windows
    } else {
        Self::Linux
    };
}
