//! Locations of session files, of Parallax and other programs, for one project or all. Opens only
//! files that name a project.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use parallax_protocol::ids::SessionId;
use serde::Deserialize;

use crate::paths::{SessionDirs, path_hash, project_slug};
use crate::private_files::create_private_dir;
use crate::session_origin::SessionOrigin;

/// Maximum number of bytes read from the Gemini CLI project registry.
const REGISTRY: u64 = 16 * 1024 * 1024;
/// Maximum number of directories examined in a home directory.
const MAX_FOLDERS: usize = 10_000;

/// Number of characters of an ID in Gemini CLI file names.
const GEMINI_ID: usize = 8;

/// A file that may contain a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionFile {
    /// The file.
    pub path: PathBuf,
    /// The program that wrote the file.
    pub origin: SessionOrigin,
    /// The project, if the location of the file determines it. Parallax journals contain their
    /// project.
    pub project: Option<PathBuf>,
}

impl SessionFile {
    /// Returns a stamp that shows whether the file changed.
    pub(crate) fn stamp(&self) -> Option<FileStamp> {
        let metadata = fs::metadata(&self.path).ok()?;
        let modified = metadata.modified().ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        let modified = i64::try_from(modified.as_nanos()).ok()?;
        Some(FileStamp { size: metadata.len(), modified, inode: inode(&metadata) })
    }
}

/// Size and modification time change when data is appended; the inode changes when the file is
/// replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileStamp {
    /// Length in bytes.
    pub(crate) size: u64,
    /// Modification time in nanoseconds since 1970.
    pub(crate) modified: i64,
    /// The inode number; 0 if the platform has none.
    pub(crate) inode: u64,
}

#[cfg(unix)]
fn inode(metadata: &fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}

#[cfg(not(unix))]
fn inode(_: &fs::Metadata) -> u64 {
    0
}

/// Returns the files of one project.
pub(crate) fn project_files(dirs: &SessionDirs, project: &Path) -> Vec<SessionFile> {
    let mut found = journals(&dirs.sessions(project));
    for directory in gemini_folders(dirs, project) {
        found.extend(chats(&directory, Some(project)));
    }
    found.extend(parallax_cli(dirs));
    found
}

/// Returns the journal of a session and the Gemini CLI records whose names contain the start of
/// its ID. Returns `None` if no journal matches.
pub(crate) fn session_files(
    dirs: &SessionDirs,
    project: &Path,
    id: &str,
) -> Option<Vec<SessionFile>> {
    let id = SessionId::is_valid(id).then(|| SessionId::from(id))?;
    let path = dirs.journal(project, &id);
    if !fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_file()) {
        return None;
    }
    let mut found = vec![SessionFile { path, origin: SessionOrigin::Parallax, project: None }];
    let beginning: String = id.as_str().chars().take(GEMINI_ID).collect();
    for directory in gemini_folders(dirs, project) {
        let mut records = chats(&directory, Some(project));
        records.retain(|file| {
            file.path.file_name().is_some_and(|name| name.to_string_lossy().contains(&beginning))
        });
        found.append(&mut records);
    }
    Some(found)
}

/// Returns the files of all projects.
pub(crate) fn all_files(dirs: &SessionDirs) -> Vec<SessionFile> {
    let mut found = Vec::new();
    for directory in folders(&dirs.parallax.join("sessions")) {
        found.extend(journals(&directory));
    }
    let registry = registry(dirs);
    let mut by_name: HashMap<String, PathBuf> = HashMap::new();
    for (project, slug) in registry {
        by_name.insert(path_hash(&project), project.clone());
        by_name.insert(slug, project);
    }
    for directory in folders(&dirs.gemini.join("tmp")) {
        let name = directory.file_name().map(|name| name.to_string_lossy().into_owned());
        let project = owner(&directory).or_else(|| by_name.get(&name?).cloned());
        found.extend(chats(&directory, project.as_deref()));
    }
    found.extend(parallax_cli(dirs));
    found
}

/// Returns the directories where Gemini CLI may store data of this project.
pub(crate) fn gemini_folders(dirs: &SessionDirs, project: &Path) -> Vec<PathBuf> {
    let tmp = dirs.gemini.join("tmp");
    let mut found = vec![tmp.join(path_hash(project))];
    let slugs = registry(dirs).into_iter().filter(|(path, _)| path == project);
    found.extend(slugs.map(|(_, slug)| tmp.join(slug)));
    found.extend(folders(&tmp).into_iter().filter(|f| owner(f).as_deref() == Some(project)));
    found.sort();
    found.dedup();
    found
}

/// Returns the project that a Gemini CLI directory belongs to, as recorded in it.
fn owner(directory: &Path) -> Option<PathBuf> {
    let text = read_start(&directory.join(".project_root"), 8192)?;
    let text = text.trim();
    (!text.is_empty()).then(|| PathBuf::from(text))
}

/// Returns the Gemini CLI projects with their directory names.
fn registry(dirs: &SessionDirs) -> Vec<(PathBuf, String)> {
    #[derive(Deserialize)]
    struct Registry {
        projects: HashMap<PathBuf, String>,
    }
    let text = read_start(&dirs.gemini.join("projects.json"), REGISTRY);
    let registry: Option<Registry> = text.and_then(|text| serde_json::from_str(&text).ok());
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let fits = |slug: &str| !slug.is_empty() && slug.bytes().all(allowed);
    let projects = registry.map(|registry| registry.projects).unwrap_or_default();
    projects.into_iter().filter(|(_, slug)| fits(slug)).collect()
}

pub(crate) fn folders(parent: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(parent) else { return Vec::new() };
    let entries = entries.flatten().take(MAX_FOLDERS);
    let entries = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    entries.map(|entry| entry.path()).collect()
}

fn journals(directory: &Path) -> Vec<SessionFile> {
    let is_journal =
        |path: &PathBuf| path.extension().is_some_and(|extension| extension == "jsonl");
    let paths = files(directory).into_iter().filter(is_journal);
    let origin = SessionOrigin::Parallax;
    paths.map(|path| SessionFile { path, origin, project: None }).collect()
}

fn chats(directory: &Path, project: Option<&Path>) -> Vec<SessionFile> {
    let is_session = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy());
        name.is_some_and(|name| name.starts_with("session-") && name.contains(".json"))
    };
    let paths = files(&directory.join("chats")).into_iter().filter(is_session);
    let paths = paths.filter(|path| !is_mirror(path));
    let (origin, project) = (SessionOrigin::GeminiCli, project.map(Path::to_owned));
    paths.map(|path| SessionFile { path, origin, project: project.clone() }).collect()
}

/// The key in the head of a record that mirrors a Parallax session.
pub const MIRROR_KEY: &str = "parallaxMirror";

/// Number of bytes of a record that contain its head.
const HEAD: u64 = 4096;

/// Whether a record only mirrors a Parallax session.
fn is_mirror(path: &Path) -> bool {
    read_start(path, HEAD)
        .is_some_and(|start| start.lines().next().is_some_and(|head| head.contains(MIRROR_KEY)))
}

/// Deletes the records that mirror a session, ignoring errors. Blocking.
pub fn delete_mirrors(dirs: &SessionDirs, project: &Path, id: &str) {
    let head = |path: &Path| read_start(path, HEAD).unwrap_or_default();
    for directory in gemini_folders(dirs, project) {
        let named = files(&directory.join("chats")).into_iter().filter(|path| is_mirror(path));
        for path in named.filter(|path| head(path).contains(&format!("\"{id}\""))) {
            let _ = fs::remove_file(path);
        }
    }
}

/// Returns the directory where Gemini CLI stores, or would store, data of this project.
pub fn gemini_folder(dirs: &SessionDirs, project: &Path) -> PathBuf {
    let tmp = dirs.gemini.join("tmp");
    if let Some((_, slug)) = registry(dirs).into_iter().find(|(path, _)| path == project) {
        return tmp.join(slug);
    }
    let slug = project_slug(project);
    let numbered = (1..).map(|number| format!("{slug}-{number}"));
    let mut names = std::iter::once(slug.clone()).chain(numbered);
    let is_free = |directory: &PathBuf| match owner(directory) {
        Some(owner) => owner == project,
        None => !directory.exists(),
    };
    names.find_map(|name| Some(tmp.join(name)).filter(is_free)).unwrap_or(tmp)
}

/// Creates such a directory and records its project. Blocking.
///
/// # Errors
/// Returns an error if an I/O operation fails.
pub fn claim_gemini_folder(directory: &Path, project: &Path) -> io::Result<()> {
    create_private_dir(&directory.join("chats"))?;
    let owner = directory.join(".project_root");
    if owner.exists() {
        return Ok(());
    }
    fs::write(owner, project.as_os_str().as_encoded_bytes())
}

/// Returns the sessions of Parallax CLI: files with eight hex digits in the Parallax home
/// directory, without a project.
fn parallax_cli(dirs: &SessionDirs) -> Vec<SessionFile> {
    let is_session = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy());
        let id = name.as_deref().and_then(|name| name.strip_suffix(".json"));
        id.is_some_and(|id| id.len() == 8 && id.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    let paths = files(&dirs.parallax).into_iter().filter(is_session);
    let origin = SessionOrigin::ParallaxCli;
    paths.map(|path| SessionFile { path, origin, project: None }).collect()
}

pub(crate) fn files(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let entries = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|t| t.is_file()));
    entries.map(|entry| entry.path()).take(100_000).collect()
}

pub(crate) fn read_start(path: &Path, limit: u64) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(limit).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
