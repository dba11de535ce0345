//! Shells with completion support.

use clap::ValueEnum;
use clap_complete::env::{Bash, Elvish, EnvCompleter, Fish, Powershell, Zsh};

/// A shell with completion support.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompletionShell {
    Bash,
    Elvish,
    Fish,
    Nushell,
    #[value(name = "powershell", alias = "power-shell")]
    PowerShell,
    Zsh,
}

impl CompletionShell {
    /// Returns the writer of scripts and candidates for the shell; `None` for Nushell.
    pub(crate) fn completer(self) -> Option<&'static dyn EnvCompleter> {
        match self {
            Self::Bash => Some(&Bash),
            Self::Elvish => Some(&Elvish),
            Self::Fish => Some(&Fish),
            Self::PowerShell => Some(&Powershell),
            Self::Zsh => Some(&Zsh),
            Self::Nushell => None,
        }
    }
}
