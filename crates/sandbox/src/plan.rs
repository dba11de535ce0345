//! The plan: what a command may see, write, and reach.

use std::path::{Component, Path, PathBuf};

use rustix::fs::{Timespec, Timestamps};
use serde::{Deserialize, Serialize};

use crate::error::PlanError;

/// The network that a command can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum Network {
    /// A separate network of the session with only a loopback interface. If namespaces are not
    /// available, no network sockets at all.
    #[default]
    #[serde(rename = "own")]
    Isolated,
    /// Other hosts, but on this host only servers that the session itself started: neither the
    /// loopback interface nor other addresses of this host. Name servers are reachable. Rejected if
    /// [`crate::Support::network_broker`] does not work.
    #[serde(rename = "outward")]
    External,
    /// The loopback interface of this host only: no other hosts, no name servers, and no listening
    /// where others could connect. Rejected if [`crate::Support::network_broker`] does not work.
    Loopback,
    /// The network of the host, including its loopback interface.
    Host,
}

/// The strength of the confinement, strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum Tier {
    /// The strongest available tier that blocks writes outside: namespaces, then those of `bwrap`,
    /// then Landlock, otherwise an error. A caller that must know the tier uses [`crate::Support`]
    /// and names it.
    #[default]
    Best,
    /// Namespaces, Landlock, and seccomp.
    Namespaces,
    /// Namespaces created by `bwrap` because this program may not, Landlock, and seccomp. Each
    /// command has its own namespaces, and processes that it leaves behind end with it.
    Bubblewrap,
    /// Landlock and seccomp.
    Landlock,
    /// Seccomp only: no network, but writes outside are not blocked.
    Seccomp,
    /// Supervision only.
    Nothing,
}

/// The kind of access to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Opening for reading, or listing.
    Read,
    /// Writing, creating, renaming, or removing.
    Write,
}

/// Metadata of a hidden file that is shown to the command. A program that recorded the same
/// metadata for the file (git, in its index) considers it unchanged and does not open it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlaceholderFile {
    /// The file.
    #[serde(with = "parallax_protocol::path_text::one")]
    pub path: PathBuf,
    /// The size in bytes.
    pub size: u64,
    /// The modification time, in seconds since 1970.
    pub modified: i64,
    /// Whether its owner may execute it.
    pub executable: bool,
}

impl PlaceholderFile {
    /// Returns its mode, which only distinguishes programs from other files.
    pub(crate) fn mode(&self) -> u32 {
        if self.executable { 0o100 } else { 0 }
    }

    /// Returns its timestamps.
    pub(crate) fn times(&self) -> Timestamps {
        let at = Timespec { tv_sec: self.modified, tv_nsec: 0 };
        Timestamps { last_access: at, last_modification: at }
    }
}

/// What a command may see, write, and reach. All paths are absolute and were resolved when access
/// was granted: a writable path that contains a symbolic link when the command starts is rejected,
/// never followed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Whether to confine the command; `false` only supervises it.
    pub confine: bool,
    /// Directory trees or single files that may be written.
    #[serde(with = "parallax_protocol::path_text::list")]
    pub writable: Vec<PathBuf>,
    /// Those of `writable` in which commands create files anywhere (the workspace). If only
    /// Landlock is available, it can either protect existing files or allow new ones: in these
    /// trees, hidden files can be read; in the others, files created next to a hidden file cannot.
    #[serde(with = "parallax_protocol::path_text::list")]
    pub workspace: Vec<PathBuf>,
    /// Files and directories below writable ones that stay read-only.
    #[serde(with = "parallax_protocol::path_text::list")]
    pub read_only: Vec<PathBuf>,
    /// Hidden paths that stay in place: no directory above them in a writable tree can be
    /// moved. (Read-only paths stay at theirs, too.)
    #[serde(with = "parallax_protocol::path_text::list")]
    pub pinned: Vec<PathBuf>,
    /// Files and directories for which access fails with "permission denied"; paths that do not
    /// exist are skipped.
    #[serde(with = "parallax_protocol::path_text::list")]
    pub hidden: Vec<PathBuf>,
    /// Directories outside writable trees with hidden entries. The command sees their entries as of
    /// its start: a hidden entry that its owner replaces stays hidden, and an entry that appears
    /// later is not visible. The contents of other directories below them change as usual.
    #[serde(with = "parallax_protocol::path_text::list")]
    pub filtered: Vec<PathBuf>,
    /// Files in `hidden` that are shown with specific metadata. They cannot be read either.
    pub placeholders: Vec<PlaceholderFile>,
    /// Exceptions from `hidden`, and paths that stay visible below `/tmp` and `/run`.
    #[serde(with = "parallax_protocol::path_text::list")]
    pub readable: Vec<PathBuf>,
    /// The directory of the session, accessible only to its owner and not inside a writable tree.
    /// It contains `/tmp`, `/var/tmp`, and `/run` of its commands. Without namespaces, TMPDIR is
    /// its `tmp`.
    #[serde(with = "parallax_protocol::path_text::one")]
    pub temporary: PathBuf,
    /// Package caches. They appear writable, and writes go to a private layer; read-only if no
    /// overlay can be mounted.
    #[serde(with = "parallax_protocol::path_text::list")]
    pub overlays: Vec<PathBuf>,
    /// The parts of them that are writable in place if no overlay can be mounted.
    #[serde(with = "parallax_protocol::path_text::list")]
    pub without_overlay: Vec<PathBuf>,
    /// The parent of the private layers, with one directory for each overlay.
    #[serde(with = "parallax_protocol::path_text::one")]
    pub overlay_store: PathBuf,
    /// The network.
    pub network: Network,
    /// Unix sockets that stay reachable.
    #[serde(with = "parallax_protocol::path_text::list")]
    pub sockets: Vec<PathBuf>,
    /// The process of the session's [`crate::SessionNamespaces`]. Without one, the command gets its
    /// own, and processes that it leaves behind end with it.
    pub session_namespaces: Option<i32>,
    /// The process whose end kills everything.
    pub parent: i32,
    /// Whether the supervisor leads its own session. A terminal that is its standard input becomes
    /// the terminal of the session.
    pub session: bool,
    /// The tier.
    pub tier: Tier,
}

impl Plan {
    /// Returns a confining plan in which only the private temporary directory is writable, with the
    /// calling process as parent.
    pub fn new(temporary: PathBuf) -> Self {
        Self {
            confine: true,
            writable: Vec::new(),
            workspace: Vec::new(),
            read_only: Vec::new(),
            pinned: Vec::new(),
            hidden: Vec::new(),
            filtered: Vec::new(),
            placeholders: Vec::new(),
            readable: Vec::new(),
            overlay_store: temporary.join("overlays"),
            temporary,
            overlays: Vec::new(),
            without_overlay: Vec::new(),
            network: Network::Isolated,
            sockets: Vec::new(),
            session_namespaces: None,
            parent: i32::try_from(std::process::id()).unwrap_or(0),
            session: false,
            tier: Tier::Best,
        }
    }

    /// Whether the plan denies `access` to `path` (absolute, resolved). Considers only the plan:
    /// neither the existence of the path nor its permissions.
    pub fn denies(&self, path: &Path, access: Access) -> bool {
        if !self.confine {
            return false;
        }
        let depth = |paths: &[PathBuf]| {
            paths.iter().filter(|p| path.starts_with(p)).map(|p| p.components().count()).max()
        };
        let hidden = depth(&self.hidden);
        let open = depth(&self.readable).max(depth(&self.writable)).max(depth(&self.overlays));
        if hidden.is_some() && hidden >= open {
            return true;
        }
        if access == Access::Read {
            return false;
        }
        let protected = depth(&self.read_only);
        let writable = depth(&self.writable).max(depth(&self.overlays));
        let private = path.starts_with(self.temporary.join("tmp")) || is_private(path);
        if writable.is_none() {
            return !private;
        }
        protected >= writable
    }

    /// Returns the protected paths that do not exist. No mount can protect them, so the caller must
    /// check them after the command.
    pub fn unprotected_paths(&self) -> Vec<PathBuf> {
        self.read_only.iter().filter(|path| path.symlink_metadata().is_err()).cloned().collect()
    }

    pub(crate) fn check(&self) -> Result<(), PlanError> {
        let lists = [
            &self.writable,
            &self.read_only,
            &self.pinned,
            &self.hidden,
            &self.filtered,
            &self.readable,
            &self.overlays,
            &self.without_overlay,
            &self.sockets,
        ];
        let single = [&self.temporary, &self.overlay_store];
        for path in lists.into_iter().flatten().chain(single) {
            let real = path.is_absolute()
                && path
                    .components()
                    .all(|c| matches!(c, Component::RootDir | Component::Normal(_)));
            if !real {
                return Err(PlanError::NotReal(path.clone()));
            }
        }
        let whole = |path: &&PathBuf| {
            ["/", "/dev", "/proc", "/sys"].iter().any(|top| path.as_path() == Path::new(top))
        };
        let mut open = self.writable.iter().chain(&self.overlays).chain(&self.without_overlay);
        match open.find(whole) {
            Some(path) => Err(PlanError::TooBroad(path.clone())),
            None => Ok(()),
        }
    }
}

/// Whether the path is private to the session, so that every command may write it.
fn is_private(path: &Path) -> bool {
    const PRIVATE: [&str; 6] = ["/tmp", "/var/tmp", "/dev/shm", "/run", "/var/run", "/dev/null"];
    PRIVATE.iter().any(|top| path.starts_with(top))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        let mut plan = Plan::new("/home/u/.parallax/tmp/1".into());
        plan.writable = vec!["/home/u/work".into(), "/home/u/.parallax/open".into()];
        plan.read_only = vec!["/home/u/work/.git/hooks".into()];
        plan.hidden =
            vec!["/home/u/.ssh".into(), "/home/u/work/.env".into(), "/home/u/.parallax".into()];
        plan.readable = vec!["/home/u/.ssh/known_hosts".into()];
        plan
    }

    #[test]
    fn deepest_plan_entry_decides() {
        let plan = plan();
        let cases = [
            ("/home/u/work/a", Access::Write, false),
            ("/home/u/work/.git/objects/1", Access::Write, false),
            ("/home/u/work/.git/hooks/pre-commit", Access::Write, true),
            ("/home/u/work/.git/hooks/pre-commit", Access::Read, false),
            ("/home/u/work/.env", Access::Read, true),
            ("/home/u/workshop", Access::Write, true),
            ("/home/u/.ssh", Access::Read, true),
            ("/home/u/.ssh/id", Access::Read, true),
            ("/home/u/.ssh/known_hosts", Access::Read, false),
            ("/home/u/.ssh/known_hosts", Access::Write, true),
            ("/home/u/.parallax/open/x", Access::Write, false),
            ("/tmp/x", Access::Write, false),
            ("/etc/passwd", Access::Read, false),
            ("/etc/passwd", Access::Write, true),
        ];
        for (path, access, refused) in cases {
            assert_eq!(plan.denies(Path::new(path), access), refused, "{path} {access:?}");
        }
        let open = Plan { confine: false, ..plan };
        assert!(!open.denies(Path::new("/etc/passwd"), Access::Write));
    }

    #[test]
    fn plan_without_confinement_or_with_parent_paths_is_rejected() {
        for path in ["/", "/dev", "relative", "/a/../b"] {
            let mut plan = plan();
            plan.writable.push(path.into());
            assert!(plan.check().is_err(), "{path}");
        }
        assert!(plan().check().is_ok());
    }
}
