//! Keeps hidden and protected files of a writable tree covered, and hidden files of directories
//! that are not filtered.
//!
//! The kernel detaches a mount on a file when a process outside the sandbox replaces the file, as
//! editors and `git config` do on every save. Running commands could then read or write the new
//! file. This thread detects the change, covers the file again, and kills every process that could
//! still write it.
//!
//! If a file cannot be covered, all processes of the session are stopped until it is, and killed
//! if that takes too long. A command can use up what this thread needs, such as descriptors, so
//! only the expected errors mean that there is nothing to cover.

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
    AtFlags, Mode, OFlags, StatVfsMountFlags, StatxAttributes, StatxFlags, fstat, fstatvfs,
    inotify, openat, statx,
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

/// After which time of running the directories are watched.
const WATCH_DELAY: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// How long after the end of the command its notification descriptor may hang up: older kernels
/// release the filter only when the process is reaped.
const HANG_UP_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };

/// Number of retries to cover a file while the commands are stopped: the process that replaces it
/// may be waiting for a CPU.
const MAX_RETRIES: usize = 500;
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// A path of the plan that must be covered whenever it exists.
struct Overmount {
    path: PathBuf,
    /// Whether the path is hidden, as opposed to only protected.
    hidden: bool,
    /// The writable tree that contains it. A path elsewhere is only hidden.
    tree: Option<PathBuf>,
    /// Whether the path existed before the command started. Other paths may be created by the
    /// command until it ends.
    existed_before: bool,
}

/// The state of the thread.
pub(crate) struct OvermountMonitor {
    /// The mounts of the view; readable when they change.
    mounts: OwnedFd,
    /// Watches for new names. Directories are watched only if an overmount was lost, the command
    /// has been running for [`WATCH_DELAY`], or processes were left behind: most commands do not
    /// need it, and removing a watch takes longer than they run.
    names: NameWatch,
    root: OwnedFd,
    /// The `/proc` of the host.
    proc: OwnedFd,
    stage: PlaceholderTmpfs,
    report: Option<File>,
    overmounts: Vec<Overmount>,
    /// The supervisor of the command.
    supervisor: u32,
    /// The command itself; processes that outlive it were left behind.
    command: OwnedFd,
    /// The notification descriptor, which hangs up with the last process of the command.
    listener: OwnedFd,
    /// The namespaces of the session.
    session_namespaces: OwnedFd,
    /// Held while processes are stopped.
    busy: Arc<Mutex<()>>,
}

/// The files that the thread needs.
pub(crate) struct MonitorFiles {
    /// The directory of the overmounts.
    pub(crate) stage: OwnedFd,
    /// The `/proc` of the host.
    pub(crate) proc: OwnedFd,
    pub(crate) report: Option<File>,
    /// The process of the command.
    pub(crate) command: OwnedFd,
    /// The notification descriptor of the command.
    pub(crate) listener: OwnedFd,
    pub(crate) session_namespaces: OwnedFd,
}

/// The result of checking covers.
#[derive(Default)]
struct OvermountScan {
    /// Whether a path does not exist.
    is_any_missing: bool,
    /// Whether a path is inaccessible for now.
    is_any_inaccessible: bool,
    /// Whether a path could not be covered yet.
    is_any_open: bool,
    /// Paths that were covered again: the new file, and whether it is a directory.
    replaced: Vec<(PathBuf, OwnedFd, bool)>,
}

/// The result of covering one path.
enum OvermountResult {
    /// The path does not exist.
    Missing,
    /// A command may have made it inaccessible to this process for a while.
    Inaccessible,
    Covered,
    NotCovered,
    /// The path was covered again: the new file, and whether it is a directory.
    Recovered(OwnedFd, bool),
}

/// Watched directories.
struct NameWatch {
    /// Opened before the command starts, because it could use up the instances of the user. `None`
    /// if none was left.
    events: Option<OwnedFd>,
    /// Whether the directories are watched, as far as that is possible.
    is_active: bool,
    /// Whether a directory could not be watched.
    is_incomplete: bool,
    /// The indexes of the overmounts in each, with the awaited name: of the path itself or of a
    /// directory above it.
    watched_names: HashMap<i32, Vec<(usize, OsString)>>,
}

impl NameWatch {
    fn new() -> Self {
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let events = inotify::init(flags).ok();
        Self { events, is_active: false, is_incomplete: false, watched_names: HashMap::new() }
    }
}

impl OvermountMonitor {
    /// Determines what must stay covered. This process must have the command's view of files and
    /// the capability to mount in it. `busy` is held while processes are stopped; while others hold
    /// it, this process may have files of the command.
    pub(crate) fn start(
        plan: &Plan,
        files: MonitorFiles,
        busy: Arc<Mutex<()>>,
    ) -> SandboxResult<Self> {
        let MonitorFiles { stage, proc, report, command, listener, session_namespaces } = files;
        let root = mounts::open_root()?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let mounts = openat(&proc, "self/mounts", flags, Mode::empty()).unsupported("mounts")?;
        let hidden = plan.hidden.iter().map(|path| (path, true));
        let protected = plan.read_only.iter().map(|path| (path, false));
        let tree = |path: &Path| layout::mounted_tree(plan, path).filter(|tree| *tree != path);
        let in_tree = |path: &Path| tree(path).is_some();
        let covers = hidden.chain(protected).filter(|(path, _)| in_tree(path));
        let mut overmounts: Vec<Overmount> = covers
            .map(|(path, hidden)| {
                let existed_before = mounts::open_real(&root, path).is_ok();
                let tree = tree(path).cloned();
                Overmount { path: path.clone(), hidden, tree, existed_before }
            })
            .collect();
        let outside = plan.hidden.iter().filter(|path| !in_tree(path));
        // The command cannot create these.
        overmounts.extend(in_real_directories(&root, &stage, outside).map(|path| {
            let path = path.clone();
            Overmount { path, hidden: true, tree: None, existed_before: true }
        }));
        let stage = PlaceholderTmpfs::open(stage);
        let mut keeper = Self {
            mounts,
            names: NameWatch::new(),
            root,
            proc,
            stage,
            report,
            overmounts,
            supervisor: std::os::unix::process::parent_id(),
            command,
            listener,
            session_namespaces,
            busy,
        };
        // A file may have been replaced after it was covered and before this monitor watched for
        // changes.
        let all: Vec<usize> = (0..keeper.overmounts.len()).collect();
        keeper.cover_paths(&all);
        Ok(keeper)
    }

    /// Whether there is anything to do.
    pub(crate) fn is_needed(&self) -> bool {
        !self.overmounts.is_empty()
    }

    /// Restores lost overmounts while the process is running.
    pub(crate) fn run(mut self) {
        kernel::request_low_latency();
        self.separate_descriptors();
        // Only for the children of this thread.
        let spaces = ThreadNameSpaceType::PROCESS_ID;
        let _ = move_into_thread_name_spaces(self.session_namespaces.as_fd(), spaces);
        let mut running = true;
        loop {
            let mut fds = vec![PollFd::new(&self.mounts, PollFlags::PRI)];
            fds.extend(running.then(|| PollFd::new(&self.command, PollFlags::IN)));
            let watch = self.names.events.as_ref().filter(|_| self.names.is_active);
            fds.extend(watch.map(|events| PollFd::new(events, PollFlags::IN)));
            // What cannot be watched is searched for.
            let timeout = match (self.names.is_incomplete, self.names.is_active) {
                (true, _) => Some(&PAUSE),
                (false, true) => None,
                (false, false) => Some(&WATCH_DELAY),
            };
            let is_delay_over = match poll(&mut fds, timeout) {
                Err(Errno::INTR) => continue,
                Err(_) => return,
                Ok(ready) => ready == 0 && !self.names.is_active,
            };
            let ready = |at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
            let (fell, ended) = (ready(0), running && ready(1));
            let appeared = self.names.is_active && ready(1 + usize::from(running));
            drop(fds);
            if is_delay_over {
                // The user may move a covered file, or a directory with one, elsewhere: its mount
                // moves along, and the kernel does not report that.
                self.watch_names();
            }
            if fell || is_delay_over || self.names.is_incomplete {
                self.cover_all();
            }
            if ended {
                if !self.was_process_left() {
                    return;
                }
                running = false;
                self.watch_names();
                if self.names.is_incomplete {
                    self.kill_unwatched();
                }
                // Existing files may have been created by the command, and its remaining processes
                // may need them: only files that appear later are covered.
                self.overmounts.iter_mut().for_each(|cover| cover.existed_before = true);
            } else if appeared {
                self.cover_new();
            }
        }
    }

    /// Whether the command, which has ended, left processes behind. Otherwise, this process ends,
    /// too.
    fn was_process_left(&self) -> bool {
        let mut listener = PollFd::new(&self.listener, PollFlags::empty());
        loop {
            match poll(std::slice::from_mut(&mut listener), Some(&HANG_UP_TIME)) {
                Err(Errno::INTR) => {}
                result => return result.is_err() || listener.revents().is_empty(),
            }
        }
    }

    /// Gives this thread its own table of descriptors, with only those that it needs. A command
    /// can make the broker open as many descriptors as the process may have.
    fn separate_descriptors(&self) {
        let events = self.names.events.as_ref();
        let mut kept: Vec<i32> =
            [&self.mounts, &self.root, &self.proc, &self.command, &self.session_namespaces]
                .into_iter()
                .chain(events)
                .map(|file| file.as_raw_fd())
                .collect();
        kept.extend([self.stage.descriptor().as_raw_fd(), self.listener.as_raw_fd()]);
        kept.extend(self.report.as_ref().map(|report| report.as_raw_fd()));
        kept.sort_unstable();
        kernel::separate_descriptors(&kept);
    }

    /// Covers all known paths that exist.
    fn cover_all(&mut self) {
        let all: Vec<usize> = (0..self.overmounts.len()).collect();
        if self.cover_paths(&all).is_any_missing && !self.names.is_active {
            self.watch_names();
            // A file may have returned before the watch started.
            self.cover_paths(&all);
        }
    }

    /// Covers those of these paths that exist. Stops the commands while that fails, and kills those
    /// that could write a file that was replaced.
    fn cover_paths(&mut self, these: &[usize]) -> OvermountScan {
        let mut scan = self.try_to_cover(these);
        self.names.is_incomplete |= scan.is_any_inaccessible;
        let mut replaced = std::mem::take(&mut scan.replaced);
        // Searching the processes takes longer, so it comes after everything is covered.
        let is_open = |cover: &Overmount| {
            replaced.iter().any(|(path, ..)| *path == cover.path) && !self.is_covered_at(cover)
        };
        scan.is_any_open |= these.iter().filter_map(|at| self.overmounts.get(*at)).any(is_open);
        if scan.is_any_open || !replaced.is_empty() {
            self.while_frozen(|processes| {
                for _ in 0..MAX_RETRIES {
                    if !scan.is_any_open {
                        break;
                    }
                    let _ = poll(&mut [], Some(&PAUSE));
                    scan = self.try_to_cover(these);
                    replaced.append(&mut scan.replaced);
                }
                match scan.is_any_open {
                    true => self.kill_all(processes, these),
                    false => self.kill_writers(processes, &replaced),
                }
            });
        }
        scan
    }

    fn try_to_cover(&self, these: &[usize]) -> OvermountScan {
        let known =
            these.iter().filter_map(|at| self.overmounts.get(*at)).filter(|it| it.existed_before);
        let mut scan = OvermountScan::default();
        for cover in known {
            match self.cover(cover) {
                OvermountResult::Missing => scan.is_any_missing = true,
                OvermountResult::Inaccessible => scan.is_any_inaccessible = true,
                OvermountResult::Covered => {}
                OvermountResult::NotCovered => scan.is_any_open = true,
                OvermountResult::Recovered(found, folder) => {
                    scan.replaced.push((cover.path.clone(), found, folder));
                }
            }
        }
        scan
    }

    /// Watches for the names of all paths.
    fn watch_names(&mut self) {
        if self.names.is_active {
            return;
        }
        self.names.is_active = true;
        for at in 0..self.overmounts.len() {
            self.watch_directories(at);
        }
    }

    /// Ends all processes that the command left behind, because nothing hides a file from them that
    /// appears later.
    fn kill_unwatched(&self) {
        self.while_frozen(|processes| {
            if !processes.is_empty()
                && let Some(report) = self.report.as_ref()
            {
                let _ = replaced::add_unwatched(report);
            }
            processes.iter().copied().for_each(process_freezer::end);
        });
    }

    /// Watches the existing directories above a path: those in the same tree, which the user may
    /// replace, or else the deepest.
    fn watch_directories(&mut self, at: usize) {
        let Some(cover) = self.overmounts.get(at) else { return };
        let mut awaited = cover.path.file_name();
        for directory in cover.path.ancestors().skip(1) {
            let Some(name) = awaited else { return };
            // A symbolic link in the path could point to any directory of the host.
            let opened = match mounts::open_real(&self.root, directory) {
                Err(error) if is_missing(error) => {
                    awaited = directory.file_name();
                    continue;
                }
                opened => opened,
            };
            let events = self.names.events.as_ref().ok_or(Errno::MFILE);
            let watched = opened.and_then(|open| watch_open(events?, &self.proc, &open));
            match watched {
                Ok(number) => {
                    let waiting = self.names.watched_names.entry(number).or_default();
                    if !waiting.iter().any(|(other, known)| *other == at && known == name) {
                        waiting.push((at, name.to_owned()));
                    }
                }
                Err(error) => self.names.is_incomplete |= !is_unreachable(error),
            }
            if cover.tree.as_deref().is_none_or(|tree| tree == directory) {
                return;
            }
            awaited = directory.file_name();
        }
    }

    /// Reads which names appeared and covers the affected paths.
    fn cover_new(&mut self) {
        let Some(events) = &self.names.events else { return };
        let mut space = [MaybeUninit::uninit(); 8 << 10];
        let mut concerned = Vec::new();
        let mut reader = inotify::Reader::new(events, &mut space);
        loop {
            match reader.next() {
                Ok(event) => {
                    if event.events().contains(inotify::ReadFlags::QUEUE_OVERFLOW) {
                        concerned.extend(0..self.overmounts.len());
                    }
                    let name = event.file_name().map(|name| name.to_bytes().to_owned());
                    let inside = self.names.watched_names.get(&event.wd()).into_iter().flatten();
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
        let was_incomplete = self.names.is_incomplete;
        for at in &concerned {
            self.watch_directories(*at);
        }
        self.cover_paths(&concerned);
        if self.names.is_incomplete && !was_incomplete {
            self.kill_unwatched();
        }
    }

    fn cover(&self, cover: &Overmount) -> OvermountResult {
        // The kernel reports that the old file lost its mount shortly before the new one has its
        // name.
        for _ in 0..TRIES {
            let found = match mounts::open_real(&self.root, &cover.path) {
                Ok(found) => found,
                Err(Errno::ACCESS) if cover.tree.is_some() => return OvermountResult::Inaccessible,
                Err(error) if is_unreachable(error) => return OvermountResult::Missing,
                Err(_) => return OvermountResult::NotCovered,
            };
            if self.is_covered(&found, cover.hidden) {
                return OvermountResult::Covered;
            }
            let Ok(folder) = mounts::is_directory(&found) else {
                return OvermountResult::NotCovered;
            };
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

    /// Runs a function while all processes of the session's commands are stopped, with these
    /// processes. Before the command starts, there are none.
    fn while_frozen(&self, run: impl FnOnce(&[i32])) {
        // The main thread must not end this process while others are stopped, and this process must
        // not have their files.
        let _busy = self.busy.lock();
        // Other commands of the session have monitors, too. Commands cannot lock the report, because
        // it is hidden from them.
        let lock = self.report.as_ref().filter(|report| {
            rustix::fs::flock(report, rustix::fs::FlockOperation::LockExclusive).is_ok()
        });
        let frozen = FrozenProcesses::freeze(&self.proc, self.supervisor);
        run(&frozen.as_ref().map(FrozenProcesses::processes).unwrap_or_default());
        if let Some(frozen) = frozen {
            frozen.thaw();
        }
        if let Some(report) = lock {
            let _ = rustix::fs::flock(report, rustix::fs::FlockOperation::Unlock);
        }
    }

    /// Ends every process that could write one of these files, or anything below one of these
    /// directories.
    fn kill_writers(&self, processes: &[i32], replaced: &[(PathBuf, OwnedFd, bool)]) {
        for (path, found, folder) in replaced {
            let Some(search) = WriterSearch::new(&self.proc, found, *folder) else { continue };
            let writers = search.writers(processes);
            if !writers.is_empty() {
                self.report(path);
            }
            writers.into_iter().for_each(process_freezer::end);
        }
    }

    /// Ends all processes, because these paths cannot be covered.
    fn kill_all(&self, processes: &[i32], these: &[usize]) {
        for cover in these.iter().filter_map(|at| self.overmounts.get(*at)) {
            if !self.is_covered_at(cover) {
                self.report(&cover.path);
            }
        }
        processes.iter().copied().for_each(process_freezer::end);
    }

    fn is_covered_at(&self, cover: &Overmount) -> bool {
        mounts::open_real(&self.root, &cover.path)
            .is_ok_and(|file| self.is_covered(&file, cover.hidden))
    }

    /// Whether a mount that hides or protects the file is mounted on it. A writable directory with
    /// another mount may have been moved there.
    fn is_covered(&self, file: &OwnedFd, hidden: bool) -> bool {
        let found = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::empty());
        if !found.is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)) {
            return false;
        }
        match hidden {
            true => {
                let device = |file: &OwnedFd| fstat(file).map(|state| state.st_dev).ok();
                device(file).is_some() && device(file) == device(self.stage.descriptor())
            }
            false => {
                fstatvfs(file).is_ok_and(|state| state.f_flag.contains(StatVfsMountFlags::RDONLY))
            }
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
    inotify::add_watch(events, format!("thread-self/fd/{}", directory.as_raw_fd()), flags)
}

/// Whether an error means that commands cannot reach the path, either: it does not exist, or it
/// leads through a link or an inaccessible directory.
fn is_unreachable(error: Errno) -> bool {
    is_missing(error) || matches!(error, Errno::LOOP | Errno::ACCESS)
}
