//! Locations on disk: the home directories, the directories of a project, and the files of a
//! session.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use parallax_protocol::ids::SessionId;
use sha2::{Digest, Sha256};

use crate::keys::Keys;
use crate::private_files::{create_private_dir, set_mode};

/// Name of the directory for stored outputs of a session.
pub(crate) const OUTPUTS: &str = "tool-outputs";

/// The home directories of Parallax, which is written, and of Gemini CLI, which is read.
#[derive(Debug, Clone)]
pub struct SessionDirs {
    /// `~/.parallax`.
    pub parallax: PathBuf,
    /// `~/.gemini`.
    pub gemini: PathBuf,
    /// The keys of encrypted sessions, and whether new sessions are encrypted.
    pub keys: Keys,
    /// The parent of the temporary directories of sessions: in the Parallax home directory, or in
    /// memory if sessions are encrypted.
    pub temporary: PathBuf,
}

impl SessionDirs {
    /// Creates the directories without encryption of sessions.
    pub fn new(parallax: impl Into<PathBuf>, gemini: impl Into<PathBuf>) -> Self {
        let parallax = parallax.into();
        let temporary = parallax.join("tmp");
        Self { parallax, gemini: gemini.into(), keys: Keys::default(), temporary }
    }

    /// Returns the directory for the journals of a project.
    pub fn sessions(&self, project: &Path) -> PathBuf {
        self.parallax.join("sessions").join(project_folder(project))
    }

    /// Returns the path of the journal of a session. The ID must be valid ([`SessionId::is_valid`])
    /// because it becomes a file name; for an invalid ID the path does not belong to any journal.
    pub fn journal(&self, project: &Path, session: &SessionId) -> PathBuf {
        self.sessions(project).join(format!("{}.jsonl", file_name(session)))
    }

    /// Returns the directory for the user's private notes on a project, which are outside the
    /// repository.
    pub fn notes(&self, project: &Path) -> PathBuf {
        self.parallax.join("memory").join(project_folder(project))
    }

    /// Returns the temporary directory of a session. If the Parallax home directory is not
    /// writable, it is inside the temporary directory of the system, because commands and their
    /// outputs need one.
    pub fn artifacts(&self, project: &Path, session: &SessionId) -> SessionArtifacts {
        let name = file_name(session);
        let root = self.temporary.join(project_folder(project)).join(name);
        if !may_be_written(&self.temporary) {
            let elsewhere = std::env::temp_dir().join(format!("parallax-{name}"));
            if is_free_or_owned(&elsewhere) {
                return SessionArtifacts { root: elsewhere };
            }
        }
        SessionArtifacts { root }
    }

    /// Returns the directory for encrypted outputs of an encrypted session.
    pub fn encrypted_outputs(&self, project: &Path, session: &SessionId) -> PathBuf {
        let tmp = self.parallax.join("tmp").join(project_folder(project));
        tmp.join(file_name(session)).join(OUTPUTS)
    }

    /// Whether the temporary directories of sessions are in the Parallax home directory, as opposed
    /// to a place that is cleared after the session.
    pub fn is_temporary_at_home(&self) -> bool {
        self.temporary.starts_with(&self.parallax)
    }

    /// Moves temporary directories to memory if the system supports it. `runtime` is the directory
    /// of the user for files that live until they sign out (`XDG_RUNTIME_DIR`).
    #[must_use]
    pub fn in_memory(mut self, runtime: Option<&Path>) -> Self {
        let candidates = runtime.into_iter().chain([Path::new("/dev/shm")]);
        let mut candidates = candidates.filter(|directory| is_in_memory(directory));
        if let Some(folder) = candidates.find_map(|candidate| self.own_directory(candidate)) {
            self.temporary = folder;
        }
        self
    }

    /// Moves temporary directories to `place` if the Parallax home directory is not writable,
    /// because commands need one.
    #[must_use]
    pub fn with_fallback_place(mut self, directory: &Path) -> Self {
        let existing_parent = self.parallax.ancestors().find(|directory| directory.exists());
        if existing_parent.is_some_and(|existing| !is_writable(existing))
            && let Some(folder) = self.own_directory(directory)
        {
            self.temporary = folder;
        }
        self
    }

    /// Creates the parent of the temporary directories if it is in a place that others can write
    /// to. Listing sessions does not create it. Blocking.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be created or belongs to another user.
    pub fn make_temporary(&self) -> io::Result<()> {
        if self.is_temporary_at_home() {
            return Ok(());
        }
        let directory = &self.temporary;
        match fs::create_dir(directory).and_then(|()| set_mode(directory, 0o700)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ if is_owned(directory) => Ok(()),
            _ => Err(io::Error::other("it belongs to another user or is accessible by others")),
        }
    }

    /// Returns a directory for this home directory in a place that others can write to, or `None`
    /// if it cannot be created or belongs to another user.
    fn own_directory(&self, directory: &Path) -> Option<PathBuf> {
        let folder = directory.join(format!("parallax-{}", &path_hash(&self.parallax)[..12]));
        match fs::symlink_metadata(&folder) {
            Ok(_) => is_owned(&folder).then_some(folder),
            Err(_) => is_writable(directory).then_some(folder),
        }
    }
}

/// Whether a directory belongs to the current user and is not accessible to others.
#[cfg(unix)]
fn is_owned(directory: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    fs::symlink_metadata(directory).is_ok_and(|metadata| {
        let is_ours = metadata.uid() == rustix::process::geteuid().as_raw();
        metadata.is_dir() && is_ours && metadata.mode() & 0o077 == 0
    })
}

#[cfg(not(unix))]
fn is_owned(_: &Path) -> bool {
    false
}

/// Whether a directory is on an in-memory file system.
#[cfg(target_os = "linux")]
fn is_in_memory(directory: &Path) -> bool {
    const TMPFS: i64 = 0x0102_1994;
    rustix::fs::statfs(directory).is_ok_and(|statistics| statistics.f_type == TMPFS)
}

#[cfg(not(target_os = "linux"))]
fn is_in_memory(_: &Path) -> bool {
    false
}

#[cfg(unix)]
fn is_writable(directory: &Path) -> bool {
    rustix::fs::access(directory, rustix::fs::Access::WRITE_OK).is_ok()
}

#[cfg(not(unix))]
fn is_writable(_: &Path) -> bool {
    false
}

/// Whether a directory, or its nearest existing ancestor, is writable.
fn may_be_written(directory: &Path) -> bool {
    let existing_parent = directory.ancestors().find(|directory| directory.exists());
    existing_parent.is_some_and(is_writable) || cfg!(not(unix))
}

/// Whether the path is free or a directory of the current user, so that no other user can read or
/// change what is written.
#[cfg(unix)]
fn is_free_or_owned(directory: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    match fs::symlink_metadata(directory) {
        Ok(found) => found.is_dir() && found.uid() == rustix::process::geteuid().as_raw(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

#[cfg(not(unix))]
fn is_free_or_owned(directory: &Path) -> bool {
    !directory.exists()
}

fn file_name(session: &SessionId) -> &str {
    if SessionId::is_valid(session.as_str()) { session.as_str() } else { "invalid" }
}

/// The temporary files of a session, separate from its journal.
#[derive(Debug, Clone)]
pub struct SessionArtifacts {
    root: PathBuf,
}

impl SessionArtifacts {
    /// Returns the temporary directory of the session.
    pub fn root(&self) -> &Path {
        &self.root
    }
    /// Returns the directory for outputs that are too long for the model.
    pub fn tool_outputs(&self) -> PathBuf {
        self.root.join(OUTPUTS)
    }
    /// Creates both directories, accessible only to their owner.
    ///
    /// # Errors
    /// Returns an error if a directory cannot be created.
    pub fn create(&self) -> io::Result<()> {
        create_private_dir(&self.tool_outputs())
    }
}

/// Returns the directory name of a project: a slug of its base name and eight hex digits of the
/// hash of its path.
pub fn project_folder(project: &Path) -> String {
    let name = project.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let mut slug = slug(&name);
    // A file name is limited to 255 bytes; slugs are ASCII.
    slug.truncate(100);
    format!("{}-{}", slug, &path_hash(project)[..8])
}

/// Converts a name to lowercase, replaces everything outside `[a-z0-9]` with dashes, collapses and
/// trims dashes, and replaces an empty result with `project`.
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

/// Returns the directory name of a project as Gemini CLI derives it: `my-project`.
pub fn project_slug(project: &Path) -> String {
    slug(&project.file_name().map(|name| name.to_string_lossy()).unwrap_or_default())
}

/// Returns the project ID in Gemini CLI records: the SHA-256 hash of the path in hex.
pub fn project_hash(project: &Path) -> String {
    path_hash(project)
}

/// Returns the SHA-256 hash of the path in hex.
pub(crate) fn path_hash(path: &Path) -> String {
    let digest = Sha256::digest(path.as_os_str().as_encoded_bytes());
    digest.iter().fold(String::with_capacity(64), |mut hex, byte| {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn project_directory_name_is_readable_and_unique() {
        let one = project_folder(Path::new("/home/a/My  Project!"));
        assert!(one.starts_with("my-project-") && one.len() == "my-project-".len() + 8, "{one}");
        assert_ne!(one, project_folder(Path::new("/home/b/My  Project!")));
        assert!(project_folder(Path::new("/")).starts_with("project-"));
        assert!(project_folder(Path::new("/日本")).starts_with("project-"));
    }

    #[cfg(unix)]
    #[test]
    fn directory_created_by_another_user_is_rejected() {
        let directory = tempfile::tempdir().expect("a directory");
        let dirs = SessionDirs::new("/p", "/g");
        let folder = dirs.own_directory(directory.path()).expect("free");
        assert!(!folder.exists(), "who only looks leaves nothing");
        let mut at_work = dirs.clone();
        at_work.temporary = folder.clone();
        at_work.make_temporary().expect("made");
        assert_eq!(dirs.own_directory(directory.path()), Some(folder.clone()), "made before");
        set_mode(&folder, 0o777).expect("opened");
        assert_eq!(dirs.own_directory(directory.path()), None, "others could look into it");
        assert!(at_work.make_temporary().is_err());
        fs::remove_dir(&folder).expect("gone");
        std::os::unix::fs::symlink("/etc", &folder).expect("a link");
        assert_eq!(dirs.own_directory(directory.path()), None);
    }

    #[test]
    fn ids_with_path_components_stay_in_the_directory() {
        let dirs = SessionDirs::new("/p", "/g");
        for id in ["../x", "a/b", "", "."] {
            let path = dirs.journal(Path::new("/w"), &SessionId::from(id));
            assert_eq!(path.parent(), Some(dirs.sessions(Path::new("/w")).as_path()));
        }
    }
}
