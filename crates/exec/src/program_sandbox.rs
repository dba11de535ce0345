//! The sandbox around the whole program: what the user requested, and what this host supports.

use std::ffi::OsString;
use std::path::PathBuf;

/// The requested sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ProgramSandbox {
    /// Not specified: settings determine the sandbox of each command.
    #[default]
    Unspecified,
    /// No sandbox at all.
    Off,
    /// The built-in sandbox for each command, without which nothing runs.
    BuiltIn,
    /// Seatbelt (macOS).
    Seatbelt,
    /// A container.
    Container(Engine),
}

/// A container engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// `docker`.
    Docker,
    /// `podman`.
    Podman,
    /// `docker` with gVisor's runtime.
    Runsc,
}

impl Engine {
    /// Returns the program to start.
    pub fn program(self) -> &'static str {
        match self {
            Self::Docker | Self::Runsc => "docker",
            Self::Podman => "podman",
        }
    }
}

/// Why the requested sandbox cannot be used. Causes exit code 44.
#[derive(Debug, thiserror::Error)]
pub enum ProgramSandboxError {
    /// An unknown name.
    #[error(
        "Unknown sandbox `{0}`. Use `true`, `false`, `docker`, `podman`, `runsc`, or, on macOS, \
            `sandbox-exec`"
    )]
    Unknown(String),
    /// Not supported on this system.
    #[error("Sandbox `{word}` is not supported: {reason}")]
    Unsupported {
        /// The requested sandbox.
        word: String,
        /// The reason, and what to do.
        reason: &'static str,
    },
    /// The engine is not installed.
    #[error(
        "The sandbox requires `{program}`, which was not found on `PATH`. Install it, or choose \
            another sandbox with `--sandbox=…` (`false`: none)"
    )]
    Missing {
        /// The program.
        program: &'static str,
    },
    /// No image was specified.
    #[error(
        "A container requires an image. Specify one with your tools in `GEMINI_SANDBOX_IMAGE` or \
            in the setting `tools.sandbox.image` (this program is mounted into it)"
    )]
    NoImage,
    /// A variable or setting is invalid.
    #[error("Invalid `{name}`: {reason}")]
    Setting {
        /// The variable or setting.
        name: &'static str,
        /// The cause.
        reason: String,
    },
    /// A path cannot be mounted.
    #[error("Cannot mount `{}`: its path contains a `:` or a line break", .0.display())]
    Path(PathBuf),
    /// The engine failed.
    #[error("`{program}` failed to start the sandbox (exit code {code}); see its message above")]
    Refused {
        /// The program.
        program: &'static str,
        /// The exit code.
        code: i32,
    },
    /// The engine may not have found what the Parallax binary requires.
    #[error(
        "`{program}` failed to start the sandbox (exit code {code}); see its message above. This \
         build of Parallax needs the C library of the machine that built it, which the image may \
         lack. Use an image with the same C library, or a static build (see the \
         installation guide)"
    )]
    Loader {
        /// The program.
        program: &'static str,
        /// The exit code.
        code: i32,
    },
    /// A preparation step failed.
    #[error("The sandbox was not started because `{command}` failed: {reason}")]
    Step {
        /// The command.
        command: String,
        /// The error message.
        reason: String,
    },
    /// The program could not be started.
    #[error("failed to start `{program}`: {source}")]
    Start {
        /// The program.
        program: &'static str,
        /// The cause.
        source: std::io::Error,
    },
}

/// Parses the value of `GEMINI_SANDBOX`, `--sandbox`, or `tools.sandbox`, whichever is set first.
/// `inside`: whether the process already runs in a sandbox (`SANDBOX` is set); sandboxes are not
/// nested.
///
/// # Errors
/// Returns an error if the value is unknown or not supported here.
pub fn choose(word: Option<&str>, inside: bool) -> Result<ProgramSandbox, ProgramSandboxError> {
    choose_from(word, inside, cfg!(target_os = "macos"))
}

fn choose_from(
    word: Option<&str>,
    inside: bool,
    macos: bool,
) -> Result<ProgramSandbox, ProgramSandboxError> {
    let unsupported = |reason| {
        let word = word.unwrap_or_default().to_owned();
        Err(ProgramSandboxError::Unsupported { word, reason })
    };
    let choice = match word.map(str::trim).map(str::to_lowercase).as_deref() {
        None | Some("") => return Ok(ProgramSandbox::Unspecified),
        Some("false" | "0") => return Ok(ProgramSandbox::Off),
        Some("true" | "1") if macos => ProgramSandbox::Seatbelt,
        Some("true" | "1") => ProgramSandbox::BuiltIn,
        Some("docker") => ProgramSandbox::Container(Engine::Docker),
        Some("podman") => ProgramSandbox::Container(Engine::Podman),
        Some("runsc") if macos => return unsupported("gVisor requires Linux; use `docker`"),
        Some("runsc") => ProgramSandbox::Container(Engine::Runsc),
        Some("sandbox-exec") if macos => ProgramSandbox::Seatbelt,
        Some("sandbox-exec") => {
            return unsupported("it requires macOS; use `true` for the built-in sandbox");
        }
        Some("lxc") => return unsupported("LXC is not supported; use `podman` or `docker`"),
        Some("windows-native") => return unsupported("it requires Windows"),
        Some(_) => return Err(ProgramSandboxError::Unknown(word.unwrap_or_default().to_owned())),
    };
    Ok(if inside { ProgramSandbox::Unspecified } else { choice })
}

/// A program with its arguments and additional environment variables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandLine {
    /// The program.
    pub program: &'static str,
    /// The arguments.
    pub arguments: Vec<OsString>,
    /// The additional variables.
    pub variables: Vec<(OsString, OsString)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sandbox_keyword_selects_the_available_mechanism() {
        use ProgramSandbox::{BuiltIn, Container, Off, Seatbelt, Unspecified};
        // (Value, result on Linux, result on macOS); `None` means that the value is rejected.
        let table = [
            (None, Some(Unspecified), Some(Unspecified)),
            (Some("true"), Some(BuiltIn), Some(Seatbelt)),
            (Some("1"), Some(BuiltIn), Some(Seatbelt)),
            (Some("false"), Some(Off), Some(Off)),
            (Some("Docker"), Some(Container(Engine::Docker)), Some(Container(Engine::Docker))),
            (Some("podman"), Some(Container(Engine::Podman)), Some(Container(Engine::Podman))),
            (Some("runsc"), Some(Container(Engine::Runsc)), None),
            (Some("sandbox-exec"), None, Some(Seatbelt)),
            (Some("lxc"), None, None),
            (Some("windows-native"), None, None),
            (Some("dokcer"), None, None),
        ];
        for (word, linux, macos) in table {
            assert_eq!(choose_from(word, false, false).ok(), linux, "{word:?} on Linux");
            assert_eq!(choose_from(word, false, true).ok(), macos, "{word:?} on macOS");
        }
        assert_eq!(choose_from(Some("docker"), true, false).ok(), Some(Unspecified));
        assert_eq!(choose_from(Some("false"), true, false).ok(), Some(Off));
    }
}
