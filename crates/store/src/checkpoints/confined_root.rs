//! Access to the workspace directories for checkpoints: always relative to an open root and without
//! following symbolic links, so that replacing a directory concurrently cannot lead outside.

use std::cmp::Ordering;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use parallax_files::{join_lexically, real_path};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, Stat, openat, statat};
use rustix::io::Errno;

use super::state::{EncodedPath, PathState, Stamp};

#[cfg(target_os = "linux")]
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The workspace directories, with links resolved and without nested ones.
#[derive(Debug, Default)]
pub(super) struct Roots {
    folders: Vec<Arc<Path>>,
    /// Index of the root that contains the project directory, which was given first.
    main: usize,
}

/// A path in a workspace directory, without `.`, `..`, and repeated slashes.
#[derive(Debug, Clone)]
pub(super) struct ConfinedPath {
    pub root: Arc<Path>,
    pub relative: PathBuf,
}

impl ConfinedPath {
    pub fn path(&self) -> PathBuf {
        self.root.join(&self.relative)
    }

    fn bytes(&self) -> &[u8] {
        self.relative.as_os_str().as_bytes()
    }
}

// Sorts like a comparison of path components, but without splitting the paths, because many
// thousands are compared around each command: a slash sorts before every other byte of a name.
impl Ord for ConfinedPath {
    fn cmp(&self, other: &Self) -> Ordering {
        let roots = match Arc::ptr_eq(&self.root, &other.root) {
            true => Ordering::Equal,
            false => self.root.cmp(&other.root),
        };
        roots.then_with(|| {
            let (one, two) = (self.bytes(), other.bytes());
            let slash_first = |byte: u8| if byte == b'/' { 0 } else { byte };
            match one.iter().zip(two).find(|(one, two)| one != two) {
                Some((one, two)) => slash_first(*one).cmp(&slash_first(*two)),
                None => one.len().cmp(&two.len()),
            }
        })
    }
}

impl PartialOrd for ConfinedPath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ConfinedPath {
    fn eq(&self, other: &Self) -> bool {
        let same_root = Arc::ptr_eq(&self.root, &other.root) || self.root == other.root;
        same_root && self.bytes() == other.bytes()
    }
}

impl Eq for ConfinedPath {}

impl Hash for ConfinedPath {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.root.as_os_str().as_bytes().hash(state);
        self.bytes().hash(state);
    }
}

impl Roots {
    /// Resolves the directories, skipping those that do not exist.
    pub fn new(requested: &[PathBuf]) -> Self {
        let mut real: Vec<PathBuf> =
            requested.iter().filter_map(|directory| directory.canonicalize().ok()).collect();
        real.sort();
        let mut directories: Vec<Arc<Path>> = Vec::new();
        for directory in real {
            if directory.is_dir() && !directories.iter().any(|outer| directory.starts_with(outer)) {
                directories.push(directory.into());
            }
        }
        let project = requested.first().and_then(|directory| directory.canonicalize().ok());
        let holds =
            |directory: &Arc<Path>| project.as_ref().is_some_and(|it| it.starts_with(directory));
        let main = directories.iter().position(holds).unwrap_or_default();
        Self { folders: directories, main }
    }

    /// Returns the directories, the project directory first, each with whether it was added to the
    /// project.
    pub fn folders_with_project_first(&self) -> impl Iterator<Item = (&Arc<Path>, bool)> {
        let added = self.folders.iter().enumerate().filter(|(index, _)| *index != self.main);
        let added = added.map(|(_, folder)| (folder, true));
        self.folders.get(self.main).map(|directory| (directory, false)).into_iter().chain(added)
    }

    pub fn folders(&self) -> &[Arc<Path>] {
        &self.folders
    }

    /// Returns the entry of an absolute path whose parent directories are not symbolic links, as in
    /// the records.
    pub fn locate(&self, path: &Path) -> Option<ConfinedPath> {
        let root = self.folders.iter().find(|root| path.starts_with(root))?;
        let relative = path.strip_prefix(root).ok()?;
        let plain = relative.components().all(|part| matches!(part, Component::Normal(_)));
        (plain && !relative.as_os_str().is_empty())
            .then(|| ConfinedPath { root: root.clone(), relative: relative.components().collect() })
    }

    /// Returns the places that a change through this path affects: the name itself and, for a
    /// symbolic link, its target. Empty if the path is outside.
    pub fn affected_paths(&self, path: &Path) -> Vec<ConfinedPath> {
        let base = self.folders.first().map_or(Path::new("/"), |first| first);
        let path = join_lexically(base, path);
        let named = match (path.parent().and_then(real_path), path.file_name()) {
            (Some(parent), Some(name)) => Some(parent.join(name)),
            _ => None,
        };
        let mut locations: Vec<ConfinedPath> = Vec::new();
        for path in [named, real_path(&path)].into_iter().flatten() {
            if let Some(location) =
                self.locate(&path).filter(|location| !locations.contains(location))
            {
                locations.push(location);
            }
        }
        locations
    }
}

/// Opens a directory below a root.
pub(super) fn folder_at(root: &Path, relative: &Path, create: bool) -> io::Result<OwnedFd> {
    let root = rustix::fs::open(root, FOLDER, Mode::empty())?;
    if relative.as_os_str().is_empty() {
        return Ok(root);
    }
    #[cfg(target_os = "linux")]
    if !create {
        use rustix::fs::{ResolveFlags, openat2};
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
        match openat2(&root, relative, FOLDER, Mode::empty(), resolve) {
            // Not supported here, or a concurrent rename: walk component by component instead.
            Err(Errno::NOSYS | Errno::PERM | Errno::INVAL | Errno::AGAIN) => {}
            result => return Ok(result?),
        }
    }
    let mut here = root;
    for component in relative.components() {
        let Component::Normal(name) = component else { return Err(Errno::XDEV.into()) };
        here = match openat(&here, name, FOLDER | OFlags::NOFOLLOW, Mode::empty()) {
            Err(Errno::NOENT) if create => {
                match rustix::fs::mkdirat(&here, name, Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                openat(&here, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())?
            }
            result => result?,
        };
    }
    Ok(here)
}

/// The open parent directory of a place, and the name in it.
pub(super) struct EntryHandle {
    pub folder: OwnedFd,
    pub name: OsString,
}

impl EntryHandle {
    pub fn open(location: &ConfinedPath, create: bool) -> io::Result<Self> {
        let parent = location.relative.parent().unwrap_or(Path::new(""));
        let name = location.relative.file_name().unwrap_or(OsStr::new(".")).to_owned();
        Ok(Self { folder: folder_at(&location.root, parent, create)?, name })
    }

    /// Returns the metadata, or `None` if nothing exists.
    pub fn stat(&self) -> io::Result<Option<Stat>> {
        match statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a regular file for reading.
    pub fn file(&self) -> io::Result<(File, Stamp)> {
        open_file(&self.folder, &self.name)
    }

    pub fn link_target(&self) -> io::Result<EncodedPath> {
        link_target(&self.folder, &self.name)
    }

    /// Moves the entry to an unused path on the same file system.
    pub fn move_to(&self, other: &Self) -> io::Result<()> {
        let flags = RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(&self.folder, &self.name, &other.folder, &other.name, flags)
        {
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                if other.stat()?.is_some() {
                    return Err(Errno::EXIST.into());
                }
                Ok(rustix::fs::renameat(&self.folder, &self.name, &other.folder, &other.name)?)
            }
            result => Ok(result?),
        }
    }

    /// Removes a file or a symbolic link.
    pub fn remove(&self) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::empty())?)
    }

    /// Removes an empty directory.
    pub fn remove_folder(&self) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::REMOVEDIR)?)
    }

    /// Removes a directory with everything in it.
    pub fn remove_tree(&self) -> io::Result<()> {
        parallax_files::remove_tree_at(&self.folder, Path::new(&self.name))
    }

    /// Creates a directory; succeeds if it exists.
    pub fn make_folder(&self) -> io::Result<()> {
        match rustix::fs::mkdirat(&self.folder, &self.name, Mode::from_raw_mode(0o700)) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Sets the permission bits of a directory.
    pub fn set_folder_mode(&self, mode: u32) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = openat(&self.folder, &self.name, flags, Mode::empty())?;
        Ok(rustix::fs::fchmod(&directory, permission_bits(mode))?)
    }

    /// Creates a temporary file in the same directory, accessible only to its owner.
    pub fn create_temporary_file(&self) -> io::Result<(TemporaryEntry<'_>, File)> {
        let mut tries = 0;
        loop {
            let name = temporary_name();
            let flags =
                OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            match openat(&self.folder, &name, flags, Mode::from_raw_mode(0o600)) {
                Ok(file) => {
                    let temporary = TemporaryEntry { folder: &self.folder, name, is_active: true };
                    return Ok((temporary, File::from(file)));
                }
                Err(Errno::EXIST) if tries < 16 => tries += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Creates a file without a name on the same file system, accessible only to its owner.
    #[cfg(target_os = "linux")]
    pub fn create_unnamed_file(&self) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        Ok(File::from(openat(&self.folder, ".", flags, Mode::from_raw_mode(0o600))?))
    }

    /// Not supported on this platform.
    #[cfg(not(target_os = "linux"))]
    pub fn create_unnamed_file(&self) -> io::Result<File> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Gives a file without a name a temporary name in the same directory.
    pub fn link_temporary(&self, file: &File) -> io::Result<TemporaryEntry<'_>> {
        let name = temporary_name();
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file));
        let flags = AtFlags::SYMLINK_FOLLOW;
        rustix::fs::linkat(rustix::fs::CWD, path, &self.folder, &name, flags)?;
        Ok(TemporaryEntry { folder: &self.folder, name, is_active: true })
    }

    /// Creates a temporary symbolic link in the same directory.
    pub fn temporary_link(&self, target: &Path) -> io::Result<TemporaryEntry<'_>> {
        let name = temporary_name();
        rustix::fs::symlinkat(target, &self.folder, &name)?;
        Ok(TemporaryEntry { folder: &self.folder, name, is_active: true })
    }

    /// Moves the temporary file to this name, replacing an existing entry only if `replace` is set.
    pub fn exchange(&self, mut temporary: TemporaryEntry<'_>, replace: bool) -> io::Result<()> {
        if replace {
            rustix::fs::renameat(&self.folder, &temporary.name, &self.folder, &self.name)?;
        } else {
            let flags = RenameFlags::NOREPLACE;
            let new = &self.name;
            match rustix::fs::renameat_with(&self.folder, &temporary.name, &self.folder, new, flags)
            {
                Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                    if self.stat()?.is_some() {
                        return Err(Errno::EXIST.into());
                    }
                    rustix::fs::renameat(&self.folder, &temporary.name, &self.folder, new)?;
                }
                result => result?,
            }
        }
        temporary.is_active = false;
        Ok(())
    }
}

/// A temporary file, removed on drop unless it was moved into place.
pub(super) struct TemporaryEntry<'a> {
    folder: &'a OwnedFd,
    name: String,
    is_active: bool,
}

impl Drop for TemporaryEntry<'_> {
    fn drop(&mut self) {
        if self.is_active {
            let _ = rustix::fs::unlinkat(self.folder, &self.name, AtFlags::empty());
        }
    }
}

pub(super) fn temporary_name() -> String {
    use std::hash::{BuildHasher as _, Hasher as _};
    // A new hasher state is seeded with random numbers from the system.
    let state = std::hash::RandomState::new().build_hasher();
    format!(".parallax-{:016x}.tmp", state.finish())
}

pub(super) fn permission_bits(mode: u32) -> Mode {
    // The width of a mode differs between systems; twelve bits fit in all of them.
    Mode::from_raw_mode((mode & 0o7777) as rustix::fs::RawMode)
}

/// Sets the mode of a directory that may not be readable. Anything else is left alone.
pub(super) fn set_folder_mode(directory: &OwnedFd, name: &OsStr, mode: u32) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        let flags = FOLDER | OFlags::NOFOLLOW;
        let directory = match openat(directory, name, flags, Mode::empty()) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
            opened => opened?,
        };
        // A path-only descriptor can be named but not changed.
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&directory));
        Ok(rustix::fs::chmod(path, permission_bits(mode))?)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let stat = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            return Ok(());
        }
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        Ok(rustix::fs::chmodat(directory, name, permission_bits(mode), flags)?)
    }
}

/// Gives the owner of a workspace directory all permissions, unless it has the wanted ones.
pub(super) fn open_root(root: &Path, permissions: u32) {
    let Some((above, name)) = root.parent().zip(root.file_name()) else { return };
    let Ok(above) = folder_at(above, Path::new(""), false) else { return };
    let Ok(stat) = statat(&above, name, AtFlags::SYMLINK_NOFOLLOW) else { return };
    let mode = Stamp::from_stat(&stat).mode;
    if mode & permissions != permissions {
        // If this is not the owner, using the directory fails.
        let _ = set_folder_mode(&above, name, mode | 0o700);
    }
}

/// Opens a regular file in a directory without following links or blocking on a named pipe.
pub(super) fn open_file(directory: &OwnedFd, name: &OsStr) -> io::Result<(File, Stamp)> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(directory, name, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(io::Error::other("it is not a regular file"));
    }
    Ok((File::from(file), Stamp::from_stat(&stat)))
}

pub(super) fn link_target(directory: &OwnedFd, name: &OsStr) -> io::Result<EncodedPath> {
    let target = rustix::fs::readlinkat(directory, name, Vec::new())?.into_bytes();
    Ok(EncodedPath::from_path(Path::new(OsStr::from_bytes(&OsString::from_vec(target).into_vec()))))
}

/// Returns the state of a place without reading its contents.
pub(super) fn read_state(location: &ConfinedPath) -> io::Result<PathState> {
    let leaf = match EntryHandle::open(location, false) {
        Ok(leaf) => leaf,
        Err(error) if is_missing(&error) => return Ok(PathState::Absent),
        Err(error) => return Err(error),
    };
    let Some(stat) = leaf.stat()? else { return Ok(PathState::Absent) };
    Ok(match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => PathState::File {
            content: super::state::StoredContent::Unavailable("not read".to_owned()),
            stamp: Stamp::from_stat(&stat),
        },
        FileType::Directory => PathState::Folder { mode: Stamp::from_stat(&stat).mode },
        FileType::Symlink => PathState::Link { target: leaf.link_target()? },
        _ => PathState::Special,
    })
}

/// Whether an error means that nothing exists at the path. A symbolic link instead of a parent
/// directory counts as well, because its target is elsewhere.
pub(super) fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        || Errno::from_io_error(error) == Some(Errno::LOOP)
}
