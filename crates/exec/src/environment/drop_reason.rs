//! Withheld variables and the reasons.

/// A withheld variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedVariable {
    /// The name in the parent process.
    pub name: String,
    /// The reason.
    pub reason: DropReason,
    /// The setting that can make it pass, if there is one.
    pub override_setting: Option<&'static str>,
}

/// Why a variable was withheld.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// The variable is a credential of Parallax.
    OwnCredential,
    /// The configuration takes a secret for another service from the variable.
    ServiceCredential,
    /// The variable comes from the project's `.env` file.
    Dotenv,
    /// The value looks like a secret.
    SecretValue,
    /// The name is in `security.environmentVariableRedaction.blocked`.
    Blocked,
    /// The name is known to reveal account data.
    KnownName,
    /// The variable is an exported shell function, which would replace the approved command of that
    /// name.
    Function,
    /// On a CI runner, only known names are passed.
    Runner,
    /// The name contains this word.
    NamePart(&'static str),
}

impl std::fmt::Display for DropReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::OwnCredential => f.write_str("a credential of this program"),
            Self::ServiceCredential => {
                f.write_str("the configuration uses it as a secret for a service")
            }
            Self::Dotenv => f.write_str("it comes from the `.env` file"),
            Self::SecretValue => f.write_str("its value looks like a secret"),
            Self::Blocked => write!(f, "the setting `{BLOCKED}` lists it"),
            Self::KnownName => f.write_str("its name is known to reveal account data"),
            Self::Function => f.write_str("a function would replace a command"),
            Self::Runner => f.write_str("only known names are passed on a CI runner"),
            Self::NamePart(part) => write!(f, "its name contains `{part}`"),
        }
    }
}

pub(super) const ALLOWED: &str = "security.environmentVariableRedaction.allowed";
const BLOCKED: &str = "security.environmentVariableRedaction.blocked";
pub(super) const ENABLED: &str = "security.environmentVariableRedaction.enabled";

impl DropReason {
    /// Returns the setting that can make such a variable pass: add the name to `allowed`, or set
    /// `enabled` to `false`.
    pub(super) fn override_setting(self, strict: bool) -> Option<&'static str> {
        match self {
            Self::OwnCredential => None,
            // On a CI runner values are always checked.
            Self::SecretValue => (!strict).then_some(ENABLED),
            _ => Some(ALLOWED),
        }
    }
}
