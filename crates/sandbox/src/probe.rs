//! Determines the kernel support on this host by trying each mechanism in a separate process.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::OnceLock;

use crate::error::StartError;
use crate::launcher::Launcher;
use crate::roles::PROBE;
use crate::support::Support;

impl Launcher {
    /// Returns the kernel support on this host.
    ///
    /// # Errors
    /// Returns an error if the probe cannot be started.
    #[expect(clippy::disallowed_methods, reason = "starts this program itself, not a command")]
    pub fn probe(&self) -> Result<Support, StartError> {
        let program = self.program().to_path_buf();
        let output = std::process::Command::new(&program)
            .arg(PROBE)
            .stdin(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .output()
            .map_err(|source| StartError::Spawn { program, source })?;
        serde_json::from_slice(&output.stdout)
            .map_err(|_| StartError::Unsupported("the probe did not respond".to_owned()))
    }
}

impl Support {
    /// Tries every mechanism once in separate processes, which takes a few milliseconds.
    ///
    /// # Errors
    /// Returns an error if the program cannot start itself.
    pub fn probe() -> Result<Self, StartError> {
        Launcher::current_program().probe()
    }

    /// Whether permissions for the network and for servers on this host can be granted separately.
    /// Determined once, in a few milliseconds, and cached.
    pub fn separates_server_permissions() -> bool {
        static KNOWN: OnceLock<bool> = OnceLock::new();
        *KNOWN
            .get_or_init(|| Self::probe().is_ok_and(|support| support.network_broker.is_supported))
    }
}

/// Runs the probe in a separate process.
pub(crate) fn answer() -> ExitCode {
    // Become the parent of processes that the probes leave behind, instead of the calling program.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    #[cfg(target_os = "linux")]
    let support = crate::inside::probe::probe_all();
    #[cfg(not(target_os = "linux"))]
    let support = Support::default();
    let written = serde_json::to_vec(&support)
        .map(|text| std::io::stdout().write_all(&text).and_then(|()| std::io::stdout().flush()));
    #[cfg(target_os = "linux")]
    crate::inside::probe::reap();
    if matches!(written, Ok(Ok(()))) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
