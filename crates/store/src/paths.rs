//! Where things live: the homes, a project's folder, a session's files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use parallax_protocol::ids::SessionId;
use sha2::{Digest, Sha256};

use crate::keys::Keys;

/// The folder of a session's kept outputs.
pub(crate) const OUTPUTS: &str = "tool-outputs";

/// The two homes: ours, which is written, and the reference's, which is read.
#[derive(Debug, Clone)]
pub struct Homes {
    /// `~/.parallax`.
    pub parallax: PathBuf,
    /// `~/.gemini`.
    pub gemini: PathBuf,
    /// What opens encrypted sessions, and whether new ones are encrypted.
    pub keys: Keys,
    /// Where sessions have their temporary folders: in our home, or, while sessions
    /// are encrypted, in memory.
    pub temporary: PathBuf,
}

impl Homes {
    /// These two, with sessions that are not encrypted.
    pub fn new(parallax: impl Into<PathBuf>, gemini: impl Into<PathBuf>) -> Self {
        let parallax = parallax.into();
        let temporary = parallax.join("tmp");
        Self { parallax, gemini: gemini.into(), keys: Keys::default(), temporary }
    }

    /// The folder of a project's journals.
    pub fn sessions(&self, project: &Path) -> PathBuf {
        self.parallax.join("sessions").join(project_folder(project))
    }

    /// The journal of a session. The id must be valid
    /// ([`SessionId::is_valid`]), since it becomes a file name; an invalid one
    /// gives a name that no journal has.
    pub fn journal(&self, project: &Path, session: &SessionId) -> PathBuf {
        self.sessions(project).join(format!("{}.jsonl", file_name(session)))
    }

    /// The folder of the user's own notes on a project, which are in no
    /// repository.
    pub fn notes(&self, project: &Path) -> PathBuf {
        self.parallax.join("memory").join(project_folder(project))
    }

    /// The session's temporary folder and what is in it. Where our home cannot be
    /// written, it is one of the system's folder for temporary files: commands need
    /// one, and their outputs too.
    pub fn artifacts(&self, project: &Path, session: &SessionId) -> SessionArtifacts {
        let name = file_name(session);
        let root = self.temporary.join(project_folder(project)).join(name);
        if !may_be_written(&self.temporary) {
            let elsewhere = std::env::temp_dir().join(format!("parallax-{name}"));
            if is_free_or_own(&elsewhere) {
                return SessionArtifacts { root: elsewhere };
            }
        }
        SessionArtifacts { root }
    }

    /// Where outputs of an encrypted session are kept, encrypted.
    pub fn encrypted_outputs(&self, project: &Path, session: &SessionId) -> PathBuf {
        let tmp = self.parallax.join("tmp").join(project_folder(project));
        tmp.join(file_name(session)).join(OUTPUTS)
    }

    /// Whether sessions have their temporary folders in our home, and not where they
    /// go with the session.
    pub fn is_temporary_at_home(&self) -> bool {
        self.temporary.starts_with(&self.parallax)
    }

    /// The homes with temporary folders in memory, where this system has such a
    /// place: `runtime` is the user's own folder for what lives as long as they are
    /// signed in (`XDG_RUNTIME_DIR`).
    #[must_use]
    pub fn in_memory(mut self, runtime: Option<&Path>) -> Self {
        let places = runtime.into_iter().chain([Path::new("/dev/shm")]);
        let mut places = places.filter(|place| is_in_memory(place));
        if let Some(folder) = places.find_map(|place| self.own_folder(place)) {
            self.temporary = folder;
        }
        self
    }

    /// The homes with temporary folders in `place`, if ours cannot be written:
    /// commands need one.
    #[must_use]
    pub fn or_elsewhere(mut self, place: &Path) -> Self {
        let there = self.parallax.ancestors().find(|folder| folder.exists());
        if there.is_some_and(|there| !is_writable(there))
            && let Some(folder) = self.own_folder(place)
        {
            self.temporary = folder;
        }
        self
    }

    /// Makes the folder of temporary folders where it stands in a place that others may
    /// write to as well; who only looks at sessions leaves none behind. Blocking.
    ///
    /// # Errors
    /// It cannot be made, or somebody else made it.
    pub fn make_temporary(&self) -> io::Result<()> {
        if self.is_temporary_at_home() {
            return Ok(());
        }
        let folder = &self.temporary;
        match fs::create_dir(folder).and_then(|()| set_mode(folder, 0o700)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ if is_own(folder) => Ok(()),
            _ => Err(io::Error::other("it belongs to somebody else, or others can look into it")),
        }
    }

    /// A folder for this home in a place that others may write to as well; `None`
    /// where it cannot be made, or somebody else made it.
    fn own_folder(&self, place: &Path) -> Option<PathBuf> {
        let folder = place.join(format!("parallax-{}", &path_hash(&self.parallax)[..12]));
        match fs::symlink_metadata(&folder) {
            Ok(_) => is_own(&folder).then_some(folder),
            Err(_) => is_writable(place).then_some(folder),
        }
    }
}

/// Whether a folder is ours, and closed to others.
#[cfg(unix)]
fn is_own(folder: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    fs::symlink_metadata(folder).is_ok_and(|facts| {
        let is_ours = facts.uid() == rustix::process::geteuid().as_raw();
        facts.is_dir() && is_ours && facts.mode() & 0o077 == 0
    })
}

#[cfg(not(unix))]
fn is_own(_: &Path) -> bool {
    false
}

/// Whether a folder is on a file system that is never on a disk.
#[cfg(target_os = "linux")]
fn is_in_memory(folder: &Path) -> bool {
    const TMPFS: i64 = 0x0102_1994;
    rustix::fs::statfs(folder).is_ok_and(|facts| facts.f_type == TMPFS)
}

#[cfg(not(target_os = "linux"))]
fn is_in_memory(_: &Path) -> bool {
    false
}

#[cfg(unix)]
fn is_writable(folder: &Path) -> bool {
    rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok()
}

#[cfg(not(unix))]
fn is_writable(_: &Path) -> bool {
    false
}

/// Whether something may be made in a folder, or in the one it is to be made in.
fn may_be_written(folder: &Path) -> bool {
    let there = folder.ancestors().find(|folder| folder.exists());
    there.is_some_and(is_writable) || cfg!(not(unix))
}

/// Nobody else has put something there, who could read and change what we write.
#[cfg(unix)]
fn is_free_or_own(folder: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    match fs::symlink_metadata(folder) {
        Ok(found) => found.is_dir() && found.uid() == rustix::process::geteuid().as_raw(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

#[cfg(not(unix))]
fn is_free_or_own(folder: &Path) -> bool {
    !folder.exists()
}

fn file_name(session: &SessionId) -> &str {
    if SessionId::is_valid(session.as_str()) { session.as_str() } else { "invalid" }
}

/// Where a session keeps files that are not its journal.
#[derive(Debug, Clone)]
pub struct SessionArtifacts {
    root: PathBuf,
}

impl SessionArtifacts {
    /// The session's temporary folder.
    pub fn root(&self) -> &Path {
        &self.root
    }
    /// Where outputs go that are too long for the model.
    pub fn tool_outputs(&self) -> PathBuf {
        self.root.join(OUTPUTS)
    }
    /// Makes both folders, readable by their owner alone.
    ///
    /// # Errors
    /// When a folder cannot be made.
    pub fn create(&self) -> io::Result<()> {
        create_private_dir(&self.tool_outputs())
    }
}

/// The folder name of a project: its base name as a slug, and eight hex digits
/// of its path's hash.
pub fn project_folder(project: &Path) -> String {
    let name = project.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let mut slug = slug(&name);
    // A file name holds 255 bytes; slugs are ASCII.
    slug.truncate(100);
    format!("{}-{}", slug, &path_hash(project)[..8])
}

/// Lower case, everything outside `[a-z0-9]` a dash, runs of dashes collapsed,
/// ends trimmed, empty = `project`.
pub(crate) fn slug(name: &str) -> String {
    let mut slug = String::with_capacity(name.len());
    for char in name.to_lowercase().chars() {
        if char.is_ascii_alphanumeric() {
            slug.push(char);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let slug = slug.trim_end_matches('-');
    if slug.is_empty() { "project".to_owned() } else { slug.to_owned() }
}

/// The name of a project's directory as Gemini CLI makes it: `my-project`.
pub fn project_slug(project: &Path) -> String {
    slug(&project.file_name().map(|name| name.to_string_lossy()).unwrap_or_default())
}

/// What Gemini CLI's records call a project: SHA-256 of the path's bytes in hex.
pub fn project_hash(project: &Path) -> String {
    path_hash(project)
}

/// SHA-256 of the path's bytes in hex.
pub(crate) fn path_hash(path: &Path) -> String {
    let digest = Sha256::digest(path.as_os_str().as_encoded_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Makes a folder and those above it that are missing, with mode 0700 whatever
/// the umask is. Folders that are there stay as they are.
///
/// # Errors
/// When a folder cannot be made.
pub fn create_private_dir(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        create_private_dir(parent)?;
    }
    match fs::create_dir(path) {
        Ok(()) => set_mode(path, 0o700),
        // Another process was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(unix)]
pub(crate) fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
pub(crate) fn set_mode(_path: &Path, _mode: u32) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_has_a_readable_and_unique_folder() {
        let one = project_folder(Path::new("/home/a/My  Project!"));
        assert!(one.starts_with("my-project-") && one.len() == "my-project-".len() + 8, "{one}");
        assert_ne!(one, project_folder(Path::new("/home/b/My  Project!")));
        assert!(project_folder(Path::new("/")).starts_with("project-"));
        assert!(project_folder(Path::new("/日本")).starts_with("project-"));
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_that_somebody_else_made_is_not_taken() {
        let place = tempfile::tempdir().expect("a folder");
        let homes = Homes::new("/p", "/g");
        let folder = homes.own_folder(place.path()).expect("free");
        assert!(!folder.exists(), "who only looks leaves nothing");
        let mut at_work = homes.clone();
        at_work.temporary = folder.clone();
        at_work.make_temporary().expect("made");
        assert_eq!(homes.own_folder(place.path()), Some(folder.clone()), "made before");
        set_mode(&folder, 0o777).expect("opened");
        assert_eq!(homes.own_folder(place.path()), None, "others could look into it");
        assert!(at_work.make_temporary().is_err());
        fs::remove_dir(&folder).expect("gone");
        std::os::unix::fs::symlink("/etc", &folder).expect("a link");
        assert_eq!(homes.own_folder(place.path()), None);
    }

    #[test]
    fn ids_with_path_tricks_never_leave_the_folder() {
        let homes = Homes::new("/p", "/g");
        for id in ["../x", "a/b", "", "."] {
            let path = homes.journal(Path::new("/w"), &SessionId::from(id));
            assert_eq!(path.parent(), Some(homes.sessions(Path::new("/w")).as_path()));
        }
    }
}
