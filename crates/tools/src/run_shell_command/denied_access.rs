//! Which accesses the sandbox of a command denies.

use std::path::{Path, PathBuf};

use parallax_sandbox::{Network, Plan};

use super::granted_paths::resolve_links;

/// The kind of access that the sandbox would deny.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeniedAccess {
    Read,
    Write,
}

/// Information about the sandbox in which a command ran.
pub(super) trait Confinement {
    /// Whether it denies the access to the path.
    fn denies(&self, path: &Path, access: DeniedAccess) -> bool;
    /// Returns the directory that had to be created first to write the path, or the path itself.
    fn first_missing_directory(&self, path: &Path) -> PathBuf {
        path.to_owned()
    }
    /// Whether other machines were unreachable.
    fn is_offline(&self) -> bool;
    /// Whether servers on this machine, outside of the sandbox, were unreachable.
    fn has_private_network(&self) -> bool;
    /// Whether the kernel counted packets without a route.
    fn needed_network(&self) -> bool;
    /// Whether a program outside of the sandbox listens on the port.
    fn has_outside_listener(&self, port: u16) -> bool;
}

/// A plan that a command ran with, or would run with.
pub(super) struct SandboxRun {
    pub(super) plan: Plan,
    pub(super) needed_network: bool,
}

impl SandboxRun {
    /// Whether the path is below `/tmp`, visible, and read-only for commands (the home directory,
    /// for example); the rest of `/tmp` is private.
    pub(super) fn is_read_only_below_tmp(&self, path: &Path, access: DeniedAccess) -> bool {
        let directory = path.parent().unwrap_or(path);
        access == DeniedAccess::Write
            && ["/tmp", "/var/tmp"]
                .iter()
                .any(|tmp| directory.starts_with(tmp) && directory != Path::new(tmp))
            && directory.is_dir()
            && !self
                .plan
                .writable
                .iter()
                .chain(&self.plan.overlays)
                .any(|open| path.starts_with(open))
    }
}

impl Confinement for SandboxRun {
    fn denies(&self, path: &Path, access: DeniedAccess) -> bool {
        let plan_access = match access {
            DeniedAccess::Read => parallax_sandbox::Access::Read,
            DeniedAccess::Write => parallax_sandbox::Access::Write,
        };
        // If the file does not exist and could not be created there, the sandbox did not cause the
        // failure.
        let exists = path.symlink_metadata().is_ok()
            || path.parent().is_some_and(|directory| directory.is_dir());
        let path = resolve_links(path);
        exists
            && (self.plan.denies(&path, plan_access) || self.is_read_only_below_tmp(&path, access))
    }

    fn first_missing_directory(&self, path: &Path) -> PathBuf {
        let has_parent = |path: &&Path| path.parent().is_none_or(|parent| parent.is_dir());
        let first = path.ancestors().find(has_parent).unwrap_or(path);
        if path.symlink_metadata().is_ok() { path.to_owned() } else { first.to_owned() }
    }

    fn is_offline(&self) -> bool {
        matches!(self.plan.network, Network::Isolated | Network::Loopback)
    }

    fn has_private_network(&self) -> bool {
        matches!(self.plan.network, Network::Isolated | Network::External)
    }

    fn needed_network(&self) -> bool {
        self.needed_network
    }

    fn has_outside_listener(&self, port: u16) -> bool {
        ["/proc/net/tcp", "/proc/net/tcp6"]
            .iter()
            .any(|table| std::fs::read_to_string(table).is_ok_and(|text| has_listener(&text, port)))
    }
}

/// Whether the kernel's socket table contains a listener (state `0A`) on the port.
fn has_listener(table: &str, port: u16) -> bool {
    let suffix = format!(":{port:04X}");
    table.lines().skip(1).any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        fields.next().is_some_and(|local| local.ends_with(&suffix)) && fields.nth(1) == Some("0A")
    })
}
