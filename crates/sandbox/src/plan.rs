//! The plan: what one command may see, write and reach.

use std::path::{Component, Path, PathBuf};

use rustix::fs::{Timespec, Timestamps};
use serde::{Deserialize, Serialize};

use crate::error::PlanError;

/// Which network a command sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum Network {
    /// A network of the session's own with nothing but a loopback; where no
    /// namespace can be had, no network sockets at all.
    #[default]
    Own,
    /// Other machines, but of this one only what the session itself started:
    /// not the loopback nor any other address that it has. Name servers answer.
    /// Where [`crate::Support::gate`] does not work it is refused.
    Outward,
    /// This machine's loopback and nothing else: no other machine, no name
    /// server, and no server that others could reach. As above.
    Loopback,
    /// The machine's network, its loopback included.
    Host,
}

/// How strong the confinement is, strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum Tier {
    /// The strongest that refuses writes outside: namespaces, else those of
    /// `bwrap`, else Landlock, else a refusal. A caller that must know which one holds asks
    /// [`crate::Support`] and names the tier.
    #[default]
    Best,
    /// Namespaces, Landlock and seccomp.
    Namespaces,
    /// Namespaces that `bwrap` makes because this program may not, Landlock and
    /// seccomp. Each command has its own; what it leaves behind ends with it.
    Bubblewrap,
    /// Landlock and seccomp.
    Landlock,
    /// Seccomp only: no network, but writes outside are not refused.
    Seccomp,
    /// Supervision only.
    Nothing,
}

/// What a command wanted of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Open for reading, or list.
    Read,
    /// Write, make, rename or remove.
    Write,
}

/// How a hidden file looks from outside. What a program remembers of a file so (git,
/// in its index) it takes for unchanged, and does not open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StandIn {
    /// Which file.
    #[serde(with = "parallax_protocol::path_text::one")]
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: u64,
    /// When it changed last, in seconds since 1970.
    pub modified: i64,
    /// Whether its owner may run it.
    pub executable: bool,
}

impl StandIn {
    /// Its mode: nothing but what tells programs from other files.
    pub(crate) fn mode(&self) -> u32 {
        if self.executable { 0o100 } else { 0 }
    }

    /// Its times.
    pub(crate) fn times(&self) -> Timestamps {
        let at = Timespec { tv_sec: self.modified, tv_nsec: 0 };
        Timestamps { last_access: at, last_modification: at }
    }
}

/// What one command may see, write and reach. All paths are absolute and real
/// (resolved when they were granted): a writable path that has a symbolic
/// link in it when the command starts is refused, never followed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// False: supervise only, confine nothing.
    pub confine: bool,
    /// Trees, or single files, that may be written.
    #[serde(with = "parallax_protocol::path_text::list")]
    pub writable: Vec<PathBuf>,
    /// Those of `writable` that commands make files all over (the workspace). Where
    /// Landlock is the only wall it closes what is there or opens what will be: in
    /// these what is hidden can be read, in the others what is made beside something
    /// hidden cannot.
    #[serde(with = "parallax_protocol::path_text::list")]
    pub workspace: Vec<PathBuf>,
    /// Files and folders below writable ones that stay read-only.
    #[serde(with = "parallax_protocol::path_text::list")]
    pub read_only: Vec<PathBuf>,
    /// Files and folders that answer "permission denied"; missing ones are skipped.
    #[serde(with = "parallax_protocol::path_text::list")]
    pub hidden: Vec<PathBuf>,
    /// Directories outside of writable trees with hidden entries. The command sees their
    /// entries as they are when it starts: a hidden one that its owner replaces stays
    /// hidden, and one that appears later is not seen. What lies in other directories
    /// below them changes before the command's eyes as usual.
    #[serde(with = "parallax_protocol::path_text::list")]
    pub filtered: Vec<PathBuf>,
    /// Files among `hidden` that look as somebody remembers them. They cannot be
    /// read either.
    pub stand_ins: Vec<StandIn>,
    /// Exceptions from `hidden`; and what stays visible below `/tmp` and `/run`.
    #[serde(with = "parallax_protocol::path_text::list")]
    pub readable: Vec<PathBuf>,
    /// Folder of the session, kept private by its owner and not inside of a
    /// writable tree: `/tmp`, `/var/tmp` and `/run` of its commands live in it.
    /// Without namespaces TMPDIR is its `tmp`.
    #[serde(with = "parallax_protocol::path_text::one")]
    pub temporary: PathBuf,
    /// Package caches: they look writable, and what is written goes to a
    /// private layer; read-only where no overlay can be mounted.
    #[serde(with = "parallax_protocol::path_text::list")]
    pub overlays: Vec<PathBuf>,
    /// What of them is writable itself where none can be mounted over it.
    #[serde(with = "parallax_protocol::path_text::list")]
    pub without_overlay: Vec<PathBuf>,
    /// Where the private layers live, one folder for each overlay.
    #[serde(with = "parallax_protocol::path_text::one")]
    pub overlay_store: PathBuf,
    /// Which network.
    pub network: Network,
    /// Unix sockets that stay reachable.
    #[serde(with = "parallax_protocol::path_text::list")]
    pub sockets: Vec<PathBuf>,
    /// The session's [`crate::Cell`]; without one the command gets its own,
    /// and what it leaves behind dies with it.
    pub cell: Option<i32>,
    /// The process whose end kills everything.
    pub parent: i32,
    /// Whether the supervisor leads a session of its own (not with a pty).
    pub session: bool,
    /// How strong.
    pub tier: Tier,
}

impl Plan {
    /// A confining plan with nothing writable but the private temporary
    /// folder, and the calling process as parent.
    pub fn new(temporary: PathBuf) -> Self {
        Self {
            confine: true,
            writable: Vec::new(),
            workspace: Vec::new(),
            read_only: Vec::new(),
            hidden: Vec::new(),
            filtered: Vec::new(),
            stand_ins: Vec::new(),
            readable: Vec::new(),
            overlay_store: temporary.join("overlays"),
            temporary,
            overlays: Vec::new(),
            without_overlay: Vec::new(),
            network: Network::Own,
            sockets: Vec::new(),
            cell: None,
            parent: i32::try_from(std::process::id()).unwrap_or(0),
            session: false,
            tier: Tier::Best,
        }
    }

    /// Whether the plan denies `access` to `path` (absolute, resolved). Looks
    /// at the plan alone: that the path exists, or that its owner lets
    /// anybody near it, is not asked.
    pub fn would_refuse(&self, path: &Path, access: Access) -> bool {
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

    /// The protected paths that do not exist now. No mount can guard them, so
    /// whoever cares looks again after the command.
    pub fn unguarded(&self) -> Vec<PathBuf> {
        self.read_only.iter().filter(|path| path.symlink_metadata().is_err()).cloned().collect()
    }

    pub(crate) fn check(&self) -> Result<(), PlanError> {
        let lists = [
            &self.writable,
            &self.read_only,
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
            Some(path) => Err(PlanError::TooWide(path.clone())),
            None => Ok(()),
        }
    }
}

/// Where every command may write, because what it finds there is its own.
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
    fn the_deepest_word_of_the_plan_decides() {
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
            assert_eq!(plan.would_refuse(Path::new(path), access), refused, "{path} {access:?}");
        }
        let open = Plan { confine: false, ..plan };
        assert!(!open.would_refuse(Path::new("/etc/passwd"), Access::Write));
    }

    #[test]
    fn a_plan_that_confines_nothing_or_climbs_is_refused() {
        for path in ["/", "/dev", "relative", "/a/../b"] {
            let mut plan = plan();
            plan.writable.push(path.into());
            assert!(plan.check().is_err(), "{path}");
        }
        assert!(plan().check().is_ok());
    }
}
