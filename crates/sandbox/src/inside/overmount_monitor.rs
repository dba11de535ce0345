//! Keeps hidden and protected files of a writable tree covered, and hidden files of directories
//! that are not filtered.
//!
//! The kernel detaches a mount on a file when a process outside the sandbox replaces the file, as
//! editors and `git config` do on every save. Running commands could then read or write the new
//! file. This thread detects the change, covers the file again, and kills every process that could
//! still write it.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{
    AtFlags, Mode, OFlags, StatxAttributes, StatxFlags, fstat, inotify, openat, statx,
};
use rustix::io::Errno;
use rustix::thread::{ThreadNameSpaceType, move_into_thread_name_spaces};

use crate::inside::failure::{FailureContextExt as _, SandboxResult, is_missing};
use crate::inside::overmounts::PlaceholderTmpfs;
use crate::inside::process_freezer::{self, FrozenProcesses};
use crate::inside::writer_search::WriterSearch;
use crate::inside::{kernel, layout, mounts};
use crate::plan::Plan;
use crate::replaced;

/// How often to look for a file that is being moved into place.
const TRIES: usize = 50;
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000 };

/// Number of later retries to cover a file: the process that replaces it may be waiting for a CPU.
const MAX_RETRIES: usize = 500;
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// A path of the plan that must be covered whenever it exists.
struct Overmount {
    path: PathBuf,
    /// Whether the path is hidden, as opposed to only protected.
    hidden: bool,
    /// Whether the path existed before the command started. Other paths may be created by the
    /// command until it ends.
    existed_before: bool,
}

/// The state of the thread.
pub(crate) struct OvermountMonitor {
    /// The mounts of the view; readable when they change.
    mounts: OwnedFd,
    /// Watches for new names. Set only if an overmount was lost or processes were left behind: most
    /// commands do not need it, and removing a watch takes longer than they run.
    names: Option<NameWatch>,
    root: OwnedFd,
    /// The `/proc` of the host.
    proc: OwnedFd,
    stage: PlaceholderTmpfs,
    report: Option<File>,
    overmounts: Vec<Overmount>,
    /// The command itself; processes that outlive it were left behind.
    command: OwnedFd,
    /// The namespaces of the session.
    session_namespaces: OwnedFd,
    busy: Arc<Mutex<()>>,
}

/// The result of checking covers.
#[derive(Default)]
struct OvermountScan {
    /// Whether a path does not exist.
    missing: bool,
    /// Whether a path could not be covered yet.
    open: bool,
}

/// The result of covering one path.
enum OvermountResult {
    /// The path does not exist.
    Missing,
    Covered,
    NotCovered,
    /// The path was covered again: the new file, and whether it is a directory.
    Recovered(OwnedFd, bool),
}

/// Watched directories.
struct NameWatch {
    events: OwnedFd,
    /// The indexes of the overmounts in each, with the awaited name: of the path itself or, while
    /// its directory does not exist, of a directory above it.
    watched_names: HashMap<i32, Vec<(usize, OsString)>>,
}

impl OvermountMonitor {
    /// Determines what must stay covered. This process must have the command's view of files and
    /// the capability to mount in it.
    pub(crate) fn start(
        plan: &Plan,
        stage: OwnedFd,
        proc: OwnedFd,
        report: Option<File>,
        command: OwnedFd,
        session_namespaces: OwnedFd,
    ) -> SandboxResult<Self> {
        let root = mounts::open_root()?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let mounts = openat(&proc, "self/mounts", flags, Mode::empty()).unsupported("mounts")?;
        let hidden = plan.hidden.iter().map(|path| (path, true));
        let protected = plan.read_only.iter().map(|path| (path, false));
        let in_tree =
            |path: &Path| layout::mounted_tree(plan, path).is_some_and(|tree| tree != path);
        let covers = hidden.chain(protected).filter(|(path, _)| in_tree(path));
        let mut overmounts: Vec<Overmount> = covers
            .map(|(path, hidden)| {
                let existed_before = mounts::open_real(&root, path).is_ok();
                Overmount { path: path.clone(), hidden, existed_before }
            })
            .collect();
        let first_outside = overmounts.len();
        let outside = plan.hidden.iter().filter(|path| !in_tree(path));
        // The command cannot create these.
        overmounts.extend(in_real_directories(&root, &stage, outside).map(|path| {
            let path = path.clone();
            Overmount { path, hidden: true, existed_before: true }
        }));
        let has_outside = overmounts.len() > first_outside;
        let stage = PlaceholderTmpfs::open(stage);
        let mut keeper = Self {
            mounts,
            names: None,
            root,
            proc,
            stage,
            report,
            overmounts,
            command,
            session_namespaces,
            busy: Arc::default(),
        };
        if has_outside {
            keeper.watch_names();
        }
        // A file may have been replaced after it was covered and before this monitor watched for
        // changes.
        keeper.cover_paths(0..keeper.overmounts.len());
        Ok(keeper)
    }

    /// Whether there is anything to do.
    pub(crate) fn is_needed(&self) -> bool {
        !self.overmounts.is_empty()
    }

    /// Returns a lock that is held while processes are stopped.
    pub(crate) fn stop_lock(&self) -> Arc<Mutex<()>> {
        Arc::clone(&self.busy)
    }

    /// Restores lost overmounts while the process is running.
    pub(crate) fn run(mut self) {
        kernel::request_low_latency();
        // Only for the children of this thread.
        let spaces = ThreadNameSpaceType::PROCESS_ID;
        let _ = move_into_thread_name_spaces(self.session_namespaces.as_fd(), spaces);
        let mut running = true;
        let mut retries = 0;
        loop {
            let mut fds = vec![PollFd::new(&self.mounts, PollFlags::PRI)];
            fds.extend(running.then(|| PollFd::new(&self.command, PollFlags::IN)));
            fds.extend(self.names.as_ref().map(|names| PollFd::new(&names.events, PollFlags::IN)));
            match poll(&mut fds, (retries > 0).then_some(&PAUSE)) {
                Err(Errno::INTR) => continue,
                Err(_) => return,
                Ok(_) => {}
            }
            let ready = |at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
            let (fell, ended) = (ready(0), running && ready(1));
            let appeared = self.names.is_some() && ready(1 + usize::from(running));
            drop(fds);
            if fell {
                retries = MAX_RETRIES;
            }
            if retries > 0 {
                retries = if self.cover_all() { 0 } else { retries - 1 };
            }
            if ended {
                running = false;
                self.watch_names();
                // Existing files may have been created by the command, and its remaining processes
                // may need them: only files that appear later are covered.
                self.overmounts.iter_mut().for_each(|cover| cover.existed_before = true);
            } else if appeared && !self.cover_new() {
                retries = MAX_RETRIES;
            }
        }
    }

    /// Covers all known paths. Returns whether every existing one is covered.
    fn cover_all(&mut self) -> bool {
        let all = 0..self.overmounts.len();
        let found = self.cover_paths(all.clone());
        if found.missing && self.names.is_none() {
            self.watch_names();
            // A file may have returned before the watch started.
            return !self.cover_paths(all).open;
        }
        !found.open
    }

    /// Covers those of these paths that exist.
    fn cover_paths(&self, these: impl Iterator<Item = usize>) -> OvermountScan {
        let known =
            these.filter_map(|at| self.overmounts.get(at)).filter(|cover| cover.existed_before);
        let (mut result, mut replaced) = (OvermountScan::default(), Vec::new());
        for cover in known {
            match self.cover(cover) {
                OvermountResult::Missing => result.missing = true,
                OvermountResult::Covered => {}
                OvermountResult::NotCovered => result.open = true,
                OvermountResult::Recovered(found, folder) => {
                    replaced.push((cover.path.clone(), found, folder));
                }
            }
        }
        // Searching the processes takes longer, so it comes after everything is covered.
        for (path, ..) in &replaced {
            result.open |= !is_covered_at(&self.root, path);
        }
        self.kill_writers(&replaced);
        result
    }

    fn watch_names(&mut self) {
        if self.names.is_some() {
            return;
        }
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let Ok(events) = inotify::init(flags) else { return };
        let mut names = NameWatch { events, watched_names: HashMap::new() };
        (0..self.overmounts.len()).for_each(|at| self.watch_nearest_directory(&mut names, at));
        self.names = Some(names);
    }

    /// Watches the deepest existing directory above a path.
    fn watch_nearest_directory(&self, names: &mut NameWatch, at: usize) {
        let Some(cover) = self.overmounts.get(at) else { return };
        let mut awaited = cover.path.file_name();
        for directory in cover.path.ancestors().skip(1) {
            let Some(name) = awaited else { return };
            // A symbolic link in the path could lead to any directory of the host.
            match mounts::open_real(&self.root, directory) {
                Ok(open) => {
                    if let Ok(number) = watch_open(&names.events, &self.proc, &open) {
                        let waiting = names.watched_names.entry(number).or_default();
                        if !waiting.iter().any(|(other, known)| *other == at && known == name) {
                            waiting.push((at, name.to_owned()));
                        }
                    }
                    return;
                }
                Err(error) if is_missing(error) => awaited = directory.file_name(),
                Err(_) => return,
            }
        }
    }

    /// Reads which names appeared and covers the affected paths. Returns whether all of them are
    /// covered.
    fn cover_new(&mut self) -> bool {
        let Some(mut names) = self.names.take() else { return true };
        let mut space = [MaybeUninit::uninit(); 8 << 10];
        let mut concerned = Vec::new();
        let mut reader = inotify::Reader::new(&names.events, &mut space);
        loop {
            match reader.next() {
                Ok(event) => {
                    if event.events().contains(inotify::ReadFlags::QUEUE_OVERFLOW) {
                        concerned.extend(0..self.overmounts.len());
                    }
                    let name = event.file_name().map(|name| name.to_bytes().to_owned());
                    let inside = names.watched_names.get(&event.wd()).into_iter().flatten();
                    let awaited = inside
                        .filter(|(_, awaited)| Some(awaited.as_bytes()) == name.as_deref())
                        .map(|(at, _)| *at);
                    concerned.extend(awaited);
                    if reader.is_buffer_empty() {
                        break;
                    }
                }
                Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
        concerned.sort_unstable();
        concerned.dedup();
        // A directory above a path may have appeared.
        concerned.iter().for_each(|at| self.watch_nearest_directory(&mut names, *at));
        self.names = Some(names);
        !self.cover_paths(concerned.into_iter()).open
    }

    fn cover(&self, cover: &Overmount) -> OvermountResult {
        // The kernel reports that the old file lost its mount shortly before the new one has its
        // name.
        for _ in 0..TRIES {
            let Ok(found) = mounts::open_real(&self.root, &cover.path) else {
                return OvermountResult::Missing;
            };
            if is_covered(&found) {
                return OvermountResult::Covered;
            }
            let Ok(folder) = mounts::is_directory(&found) else { return OvermountResult::Missing };
            let tree = match (cover.hidden, folder) {
                (true, true) => self.stage.cover_directory(),
                (true, false) => self.stage.cover_file(),
                (false, _) => mounts::clone(&found, mounts::READ_ONLY),
            };
            if tree.is_ok_and(|tree| mounts::mount(tree, &found).is_ok()) {
                return OvermountResult::Recovered(found, folder);
            }
            let _ = poll(&mut [], Some(&POLL_INTERVAL));
        }
        OvermountResult::NotCovered
    }

    /// Kills every process of the session's commands that could write one of these files, or
    /// anything below one of these directories.
    fn kill_writers(&self, replaced: &[(PathBuf, OwnedFd, bool)]) {
        if replaced.is_empty() {
            return;
        }
        // The main thread must not end this process while others are stopped.
        let _busy = self.busy.lock();
        // Other commands of the session have monitors, too. Commands cannot open the report.
        let lock = self.report.as_ref().filter(|report| {
            rustix::fs::flock(report, rustix::fs::FlockOperation::LockExclusive).is_ok()
        });
        let Some(frozen) = FrozenProcesses::freeze(&self.proc) else { return };
        let processes = frozen.processes();
        for (path, found, folder) in replaced {
            let Some(search) = WriterSearch::new(&self.proc, found, *folder) else { continue };
            let writers = search.writers(&processes);
            if !writers.is_empty() {
                self.report(path);
            }
            writers.into_iter().for_each(process_freezer::end);
        }
        frozen.thaw();
        if let Some(report) = lock {
            let _ = rustix::fs::flock(report, rustix::fs::FlockOperation::Unlock);
        }
    }

    fn report(&self, path: &Path) {
        if let Some(report) = self.report.as_ref() {
            let _ = replaced::add(report, path);
        }
    }
}

/// Returns those of the paths whose directory is a real one, not one that the sandbox created.
fn in_real_directories<'a>(
    root: &OwnedFd,
    stage: &OwnedFd,
    paths: impl Iterator<Item = &'a PathBuf>,
) -> impl Iterator<Item = &'a PathBuf> {
    let made = fstat(stage).map(|stat| stat.st_dev).ok();
    let mut known: HashMap<PathBuf, bool> = HashMap::new();
    let mut is_real = move |directory: &Path| {
        *known.entry(directory.to_owned()).or_insert_with(|| {
            // The first directory that exists decides. An inaccessible one cannot be entered.
            let open = directory.ancestors().find_map(|directory| {
                match mounts::open_real(root, directory) {
                    Err(error) if is_missing(error) => None,
                    found => Some(found.ok()),
                }
            });
            let device = open.flatten().and_then(|open| Some(fstat(&open).ok()?.st_dev));
            device.is_some() && device != made
        })
    };
    paths.filter(move |path| path.parent().is_some_and(&mut is_real))
}

/// Watches an open directory, for which no path is certain to lead to it.
fn watch_open(events: &OwnedFd, proc: &OwnedFd, directory: &OwnedFd) -> Result<i32, Errno> {
    let flags =
        inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO | inotify::WatchFlags::ONLYDIR;
    // `inotify_add_watch` resolves relative paths only from the working directory, which nothing
    // else in this process uses.
    rustix::process::fchdir(proc)?;
    inotify::add_watch(events, format!("self/fd/{}", directory.as_raw_fd()), flags)
}

fn is_covered_at(root: &OwnedFd, path: &Path) -> bool {
    mounts::open_real(root, path).is_ok_and(|file| is_covered(&file))
}

/// Whether the file is covered by a mount.
fn is_covered(file: &OwnedFd) -> bool {
    let found = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::empty());
    found.is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}
