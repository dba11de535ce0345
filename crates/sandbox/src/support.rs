//! Kernel support for the sandbox on this host, with explanations for `sandbox explain`.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::plan::Tier;

/// Whether a confinement mechanism works on this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct MechanismSupport {
    /// Whether it works.
    #[serde(rename = "works")]
    pub is_supported: bool,
    /// Its version, or why it does not work.
    #[serde(rename = "why")]
    pub detail: String,
}

impl MechanismSupport {
    pub(crate) fn from_result<T>(result: Result<T, impl std::fmt::Display>) -> Self {
        match result {
            Ok(_) => Self { is_supported: true, detail: String::new() },
            Err(error) => Self { is_supported: false, detail: error.to_string() },
        }
    }
}

/// The confinement mechanisms available on this host, determined by trying them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Support {
    /// Landlock; `detail` contains its version.
    pub landlock: MechanismSupport,
    /// System call filters.
    pub seccomp: MechanismSupport,
    /// Separating other hosts from servers on this host, with a filter that passes each address to
    /// the supervisor. Without it, both are allowed or denied together.
    #[serde(rename = "gate")]
    pub network_broker: MechanismSupport,
    /// User and process namespaces with a separate network.
    pub namespaces: MechanismSupport,
    /// A mount namespace for each command.
    pub mounts: MechanismSupport,
    /// A `/proc` that shows only the processes of the session.
    pub own_proc: MechanismSupport,
    /// Private overlays for package caches.
    pub overlay: MechanismSupport,
    /// `bwrap`, if it can create namespaces and this program cannot. Not tried if this program can.
    pub bubblewrap: MechanismSupport,
}

impl Support {
    /// Whether the file system of a directory supports the private overlays for package caches. An
    /// overlay file system, such as the root of most containers, does not.
    #[cfg(target_os = "linux")]
    pub fn supports_overlays(directory: &Path) -> bool {
        // OVERLAYFS_SUPER_MAGIC of the kernel.
        const OVERLAY: u64 = 0x794c_7630;
        let disk = directory.ancestors().find_map(|it| rustix::fs::statfs(it).ok());
        disk.is_none_or(|disk| u64::try_from(disk.f_type).is_ok_and(|kind| kind != OVERLAY))
    }

    /// Overlays are not supported on this platform.
    #[cfg(not(target_os = "linux"))]
    pub fn supports_overlays(_: &Path) -> bool {
        false
    }

    /// Returns the strongest tier that works.
    pub fn tier(&self) -> Tier {
        match self {
            _ if !self.seccomp.is_supported => Tier::Nothing,
            _ if self.mounts.is_supported => Tier::Namespaces,
            _ if self.bubblewrap.is_supported => Tier::Bubblewrap,
            _ if self.landlock.is_supported => Tier::Landlock,
            _ => Tier::Seccomp,
        }
    }

    /// Whether protected paths in writable trees are not read-only but only checked by the caller
    /// afterwards.
    pub fn protected_unenforced(&self) -> bool {
        self.tier() > Tier::Bubblewrap
    }

    /// Returns what works, what is weaker, and why, one sentence per line.
    pub fn explain(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut say = |line: &str| lines.push(line.to_owned());
        match self.tier() {
            Tier::Namespaces | Tier::Best => {
                say("Strength: namespaces, Landlock and seccomp (the strongest)");
                say("Everything except the workspace and private temporary directories is \
                    read-only");
                say("Protected paths are read-only and hidden paths are inaccessible, even for \
                    root");
                say("Without the network permission, only a private loopback of the session is \
                    available");
            }
            Tier::Bubblewrap => {
                say("Strength: namespaces of `bwrap`, Landlock and seccomp (strong)");
                say("Everything except the workspace and private temporary directories is \
                    read-only");
                say("Protected paths are read-only and hidden paths are inaccessible");
                say("Each command has its own loopback, and its background processes end with it");
                say("Package caches are read-only, without private layers");
            }
            Tier::Landlock => {
                say("Strength: Landlock and seccomp (weaker)");
                say("Everything except the workspace and a private temporary directory is \
                    read-only");
                say("Protected and hidden paths inside the workspace are not enforced by the \
                     kernel, but checked after each command");
                say(
                    "Files in hidden directories of the home directory are inaccessible, but their \
                     names can be listed",
                );
                say("Without the network permission, no network socket can be created, not even \
                     for the loopback");
                say("A process that leaves its process group may continue to run if Parallax is \
                    killed");
            }
            Tier::Seccomp => {
                say("Strength: seccomp only (weak)");
                say("No network without the permission; writes outside the workspace are possible");
            }
            Tier::Nothing => say("Strength: none; commands run without a sandbox"),
        }
        let all = [
            ("namespaces", &self.namespaces),
            ("a private mount namespace", &self.mounts),
            ("a private /proc", &self.own_proc),
            ("private layers over package caches", &self.overlay),
            ("Landlock", &self.landlock),
            ("seccomp", &self.seccomp),
            ("network access without access to servers on this machine", &self.network_broker),
        ];
        for (name, finding) in all {
            if !finding.is_supported {
                lines.push(format!("Missing: {name} ({})", finding.detail));
            }
        }
        if self.bubblewrap.is_supported {
            lines.push(format!(
                "`bwrap` creates the namespaces because Parallax cannot: {}",
                self.bubblewrap.detail
            ));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bubblewrap_is_used_only_without_own_namespaces() {
        let works = || MechanismSupport { is_supported: true, detail: String::new() };
        let mut support = Support {
            seccomp: works(),
            landlock: works(),
            mounts: works(),
            bubblewrap: works(),
            ..Support::default()
        };
        assert_eq!(support.tier(), Tier::Namespaces);
        support.mounts = MechanismSupport::default();
        assert_eq!(support.tier(), Tier::Bubblewrap);
        support.bubblewrap = MechanismSupport::default();
        assert_eq!(support.tier(), Tier::Landlock);
    }
}
