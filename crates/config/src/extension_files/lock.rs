//! `~/.parallax/extensions.lock.json`: the installed extensions with their hashes.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

use jsonc_parser::cst::CstInputValue;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::metadata::{INSTALL_METADATA, InstallMetadata};
use crate::error::ConfigError;
use crate::user_dirs::UserDirs;
use crate::{json_state_file, jsonc};

/// Maximum number of files of one extension.
pub const MAX_FILES: usize = 50_000;
/// Maximum total bytes of one extension.
pub const MAX_BYTES: u64 = 1024 * 1024 * 1024;
/// Maximum directory depth.
const DEPTH: usize = 64;

/// The record of an installed extension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockEntry {
    /// The version in its manifest.
    pub version: String,
    /// The installation source and method.
    pub install: InstallMetadata,
    /// The commit that was checked out.
    pub commit: Option<String>,
    /// The hash of all its files.
    pub hash: String,
    /// The hash of the files that run code or change permissions ([`super::fingerprint`]).
    pub code_hash: String,
}

fn file(dirs: &UserDirs) -> PathBuf {
    dirs.parallax.join("extensions.lock.json")
}

/// Returns the file with the records of older versions, in the directory that holds them.
fn kept_lock_file(previous: &Path) -> PathBuf {
    previous.join(".lock.json")
}

/// Returns the record of an extension. Blocking.
pub fn find_entry(dirs: &UserDirs, name: &str) -> Option<LockEntry> {
    read_entry(jsonc::read_object(&file(dirs)).ok()??.get(name)?)
}

/// Returns the record of the version of an extension in the directory `previous`. Blocking.
pub fn read_kept_lock(previous: &Path, name: &str) -> Option<LockEntry> {
    read_entry(jsonc::read_object(&kept_lock_file(previous)).ok()??.get(name)?)
}

/// Stores or removes the record of the version of an extension in the directory `previous`.
/// Blocking.
///
/// # Errors
/// See [`lock`].
pub fn lock_kept(
    previous: &Path,
    name: &str,
    entry: Option<&LockEntry>,
) -> Result<(), ConfigError> {
    note(&kept_lock_file(previous), name, entry)
}

/// Returns the records of a lock file by name; `None` selects the user's lock file. Entries that
/// cannot be parsed have no value. Blocking.
///
/// # Errors
/// Returns an error if the file cannot be read.
pub fn read_lock(
    dirs: &UserDirs,
    path: Option<&Path>,
) -> Result<Vec<(String, Option<LockEntry>)>, ConfigError> {
    let own = file(dirs);
    let known = jsonc::read_object(path.unwrap_or(&own))?.unwrap_or_default();
    Ok(known.iter().map(|(name, entry)| (name.clone(), read_entry(entry))).collect())
}

fn read_entry(entry: &Value) -> Option<LockEntry> {
    let object = entry.as_object()?;
    let text = |key: &str| object.get(key).and_then(Value::as_str).map(str::to_owned);
    Some(LockEntry {
        version: text("version")?,
        install: InstallMetadata::from_json(object)?,
        commit: text("commit"),
        hash: text("hash")?,
        code_hash: text("powers")?,
    })
}

/// Stores or removes the record of an extension. Blocking.
///
/// # Errors
/// Returns an error if the file cannot be read or written.
pub fn lock(dirs: &UserDirs, name: &str, entry: Option<&LockEntry>) -> Result<(), ConfigError> {
    note(&file(dirs), name, entry)
}

fn note(file: &Path, name: &str, entry: Option<&LockEntry>) -> Result<(), ConfigError> {
    if entry.is_none() && !file.exists() {
        return Ok(());
    }
    json_state_file::update(file, |root| {
        let Some(entry) = entry else {
            if let Some(existing) = root.get(name) {
                existing.remove();
            }
            return;
        };
        let text = |key: &str, value: &str| (key.to_owned(), CstInputValue::from(value));
        let mut fields = vec![text("version", &entry.version)];
        for (key, value) in entry.install.to_object() {
            let value = match value {
                Value::String(text) => CstInputValue::String(text),
                other => CstInputValue::Bool(other.as_bool().unwrap_or(false)),
            };
            fields.push((key, value));
        }
        fields.extend(entry.commit.iter().map(|commit| text("commit", commit)));
        fields.extend([text("hash", &entry.hash), text("powers", &entry.code_hash)]);
        let value = CstInputValue::Object(fields);
        match root.get(name) {
            Some(existing) => existing.set_value(value),
            None => drop(root.append(name, value)),
        }
    })
}

/// Returns the hash of all files of a directory with their names and executable bits, without the
/// metadata file. Blocking.
///
/// # Errors
/// Returns an error if a file cannot be read, or if the directory holds something that extensions
/// must not contain: a symlink that points outside, a device, or too much data.
pub fn content_hash(directory: &Path) -> io::Result<String> {
    let files = files_of(directory)?;
    let mut hash = Sha256::new();
    let mut remaining = MAX_BYTES;
    for name in files {
        let path = directory.join(&name);
        if let Ok(target) = fs::read_link(&path) {
            for piece in [name.as_os_str(), target.as_os_str()] {
                let bytes = piece.as_encoded_bytes();
                hash.update((bytes.len() as u64).to_le_bytes());
                hash.update(bytes);
            }
            continue;
        }
        let file = fs::File::open(&path)?;
        let metadata = file.metadata()?;
        remaining = remaining.checked_sub(metadata.len()).ok_or_else(too_large)?;
        let name = name.as_os_str().as_encoded_bytes();
        hash.update((name.len() as u64).to_le_bytes());
        hash.update(name);
        hash.update([u8::from(is_program(&metadata))]);
        hash.update(metadata.len().to_le_bytes());
        let mut limited = file.take(metadata.len());
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let count = limited.read(&mut buffer)?;
            let Some(bytes) = buffer.get(..count).filter(|bytes| !bytes.is_empty()) else { break };
            hash.update(bytes);
        }
    }
    Ok(json_state_file::hexadecimal(&hash.finalize()))
}

/// Returns the sorted relative paths of the files of an extension, including symlinks to files.
/// Blocking.
///
/// # Errors
/// Fails like [`content_hash`], except for errors in reading the contents of files.
pub fn files_of(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    list(directory, Path::new(""), 0, &mut files)?;
    files.sort();
    Ok(files)
}

/// Whether the operating system can execute a file.
#[cfg(unix)]
pub fn is_program(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    metadata.permissions().mode() & 0o111 != 0
}

/// Whether the operating system can execute a file.
#[cfg(not(unix))]
pub fn is_program(_: &fs::Metadata) -> bool {
    false
}

fn list(root: &Path, below: &Path, depth: usize, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if depth > DEPTH {
        return Err(io::Error::other("its directories are nested too deeply"));
    }
    for entry in fs::read_dir(root.join(below))? {
        let entry = entry?;
        let name = below.join(entry.file_name());
        let kind = entry.file_type()?;
        // Neither is part of the extension; the copy in the sdk also skips them.
        if depth == 0 && (entry.file_name() == ".git" || entry.file_name() == INSTALL_METADATA) {
            continue;
        }
        if kind.is_dir() {
            list(root, &name, depth + 1, files)?;
        } else if kind.is_file() || (kind.is_symlink() && stays_below(root, &name)) {
            files.push(name);
        } else {
            let what = if kind.is_symlink() {
                "a link to a path outside the extension"
            } else {
                "not a file"
            };
            return Err(io::Error::other(format!("`{}` is {what}", name.display())));
        }
        if files.len() > MAX_FILES {
            return Err(too_large());
        }
    }
    Ok(())
}

/// Whether a symlink leads, by its text and by its current target, to a path below `root`. The text
/// decides for a copy of the files elsewhere: `..` counts only at its beginning, because after the
/// name of another link it is not known what it points to.
pub fn stays_below(root: &Path, link: &Path) -> bool {
    let Ok(target) = fs::read_link(root.join(link)) else { return false };
    let mut depth = link.components().count().saturating_sub(1);
    let mut has_name = false;
    for part in target.components() {
        match part {
            Component::Normal(_) => has_name = true,
            Component::CurDir => {}
            Component::ParentDir if depth > 0 && !has_name => depth -= 1,
            _ => return false,
        }
    }
    let real = |path: &Path| fs::canonicalize(path);
    match (real(root), real(&root.join(link))) {
        (Ok(root), Ok(target)) => target.starts_with(root),
        // The link is dangling.
        (Ok(_), Err(_)) => true,
        _ => false,
    }
}

fn too_large() -> io::Error {
    io::Error::other("it is too large")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_file_change_changes_the_hash() {
        let directory = tempfile::tempdir().expect("directory");
        let write = |name: &str, text: &str| {
            fs::write(directory.path().join(name), text).expect("written");
            content_hash(directory.path()).expect("hash")
        };
        let one = write("a", "1");
        assert_ne!(one, write("a", "2"));
        assert_eq!(one, write("a", "1"));
        assert_ne!(one, write("b", ""));
        fs::remove_file(directory.path().join("b")).expect("removed");
        assert_eq!(one, write(INSTALL_METADATA, "{}"));
        #[cfg(unix)]
        {
            let link = |to: &str| {
                drop(fs::remove_file(directory.path().join("l")));
                std::os::unix::fs::symlink(to, directory.path().join("l")).expect("link");
                content_hash(directory.path())
            };
            assert_ne!(link("a").expect("inside"), one);
            for out in ["..", "/etc/passwd", "x/../../y", "x/../y"] {
                assert!(
                    link(out).expect_err("out").to_string().contains("outside the extension"),
                    "{out}"
                );
            }
        }
    }

    #[test]
    fn lock_entries_are_saved_read_and_removed() {
        let directory = tempfile::tempdir().expect("directory");
        let root = directory.path();
        let dirs = UserDirs { user: root.into(), gemini: root.join("g"), parallax: root.join("p") };
        assert_eq!(find_entry(&dirs, "e"), None);
        let entry = LockEntry {
            version: "1".into(),
            install: InstallMetadata {
                source: "s".into(),
                kind: super::super::InstallKind::Git,
                reference: Some("v1".into()),
                release_tag: None,
                auto_update: true,
                pre_release: false,
            },
            commit: Some("c".into()),
            hash: "h".into(),
            code_hash: "p".into(),
        };
        lock(&dirs, "e", Some(&entry)).expect("noted");
        assert_eq!(find_entry(&dirs, "e"), Some(entry.clone()));
        let all = read_lock(&dirs, None).expect("read");
        assert_eq!(all, [("e".to_owned(), Some(entry))]);
        lock(&dirs, "e", None).expect("forgotten");
        assert_eq!(find_entry(&dirs, "e"), None);
    }
}
