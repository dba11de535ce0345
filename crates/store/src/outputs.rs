//! Files for tool outputs that are too long to be sent repeatedly.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::cipher::Cipher;
use crate::keys::Keys;
use crate::paths::{OUTPUTS, SessionDirs, path_hash};
use crate::private_files::create_private_dir;

/// Writes an output to a separate file that only its owner can read, and returns its path.
/// Identical outputs of a tool share one file. Blocking.
///
/// # Errors
/// Returns an error if the directory or the file cannot be written.
pub fn save_output(directory: &Path, tool: &str, text: &str) -> io::Result<PathBuf> {
    create_private_dir(directory)?;
    let tool: String =
        tool.chars().filter(|char| char.is_ascii_alphanumeric() || *char == '_').take(64).collect();
    let hash = path_hash(Path::new(text));
    let path = directory.join(format!("{tool}_{}.txt", hash.get(..16).unwrap_or(&hash)));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = match options.open(&path) {
        Ok(mut file) => file.write_all(text.as_bytes()),
        // The file exists already; a shorter file was left by a crash.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let whole = std::fs::metadata(&path)?.len() == text.len() as u64;
            if whole { Ok(()) } else { std::fs::write(&path, text) }
        }
        Err(error) => Err(error),
    };
    written.map(|()| path)
}

/// File name extension of an encrypted output.
const ENCRYPTED: &str = "encrypted";

/// Stores an output of an encrypted session: in plain text in `directory`, which is in memory, and
/// encrypted in `kept`, from where [`restore_outputs`] restores it. Returns the plain text path.
/// Blocking.
///
/// # Errors
/// Returns an error if it cannot be written or encrypted.
pub fn save_output_encrypted(
    directory: &Path,
    stored: &Path,
    keys: &Keys,
    tool: &str,
    text: &str,
) -> io::Result<PathBuf> {
    let path = save_output(directory, tool, text)?;
    encrypt(&path, text.as_bytes(), stored, keys)?;
    Ok(path)
}

/// Stores encrypted copies of other files that tools wrote to an output directory; see
/// [`save_output_encrypted`]. Files that cannot be read or written are skipped. Blocking.
pub fn encrypt_outputs(directory: &Path, encrypted: &Path, keys: &Keys) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = format!("{}.{ENCRYPTED}", entry.file_name().to_string_lossy());
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if is_file && !encrypted.join(name).exists() {
            let text = std::fs::read(entry.path());
            // If this fails, the model is later notified that the file does not exist.
            let _ = text.and_then(|text| encrypt(&entry.path(), &text, encrypted, keys));
        }
    }
}

/// Encrypts the contents of a file to another file.
fn encrypt(path: &Path, text: &[u8], encrypted: &Path, keys: &Keys) -> io::Result<()> {
    create_private_dir(encrypted)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let key = keys.key_for_new_sessions().map_err(io::Error::other)?;
    let key = key.ok_or_else(|| io::Error::other("no key available"))?;
    let cipher = Cipher::new(&name, &key).map_err(io::Error::other)?;
    let line = cipher.encrypt_record(0, text);
    let line = line.ok_or_else(|| io::Error::other("no random data available"))?;
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(encrypted.join(format!("{name}.{ENCRYPTED}")))?;
    file.write_all(&[cipher.first_line()?, line].concat())
}

/// Restores the outputs of an encrypted session to memory. Outputs that cannot be decrypted stay
/// where they are. Blocking.
pub fn restore_outputs(encrypted: &Path, directory: &Path, keys: &Keys) {
    for entry in std::fs::read_dir(encrypted).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = path.file_stem().unwrap_or_default().to_owned();
        if path.extension().is_none_or(|extension| extension != ENCRYPTED)
            || directory.join(&name).exists()
        {
            continue;
        }
        let restored = read_output(&path, keys).map(|text| {
            create_private_dir(directory)?;
            let mut options = OpenOptions::new();
            options.write(true).create_new(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            options.open(directory.join(&name))?.write_all(&text)
        });
        // If this fails, the model is notified that the file does not exist.
        let _ = restored;
    }
}

fn read_output(path: &Path, keys: &Keys) -> Option<Vec<u8>> {
    let bytes = std::fs::read(path).ok()?;
    let end = bytes.iter().position(|byte| *byte == b'\n')? + 1;
    let (first, line) = bytes.split_at(end);
    let cipher = Cipher::open(first, keys).ok()?;
    Some(cipher.decrypt_line(line).filter(|(number, _)| *number == 0)?.1)
}

/// Size limit in bytes of the stored outputs of all sessions together.
pub const OUTPUTS_LIMIT: u64 = 2 << 30;

/// Removes the oldest stored outputs until all of them have at most `limit` bytes in total; outputs
/// in `spared` are not removed. Returns the number of bytes freed. Files that cannot be read or
/// removed are skipped. Blocking.
pub fn trim_outputs(dirs: &SessionDirs, limit: u64, spared: &Path) -> u64 {
    let mut retained = Vec::new();
    let mut total = 0;
    for project in folders(&dirs.parallax.join("tmp")) {
        for session in folders(&project) {
            let directory = session.join(OUTPUTS);
            for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
                // For a symbolic link, only the link itself counts and would be removed.
                let Ok(metadata) = entry.path().symlink_metadata() else { continue };
                if !metadata.is_file() {
                    continue;
                }
                total += metadata.len();
                if directory != spared {
                    retained.push((metadata.modified().ok(), metadata.len(), entry.path()));
                }
            }
        }
    }
    if total <= limit {
        return 0;
    }
    retained.sort();
    let mut freed = 0;
    for (_, size, path) in retained {
        if total - freed <= limit {
            break;
        }
        if std::fs::remove_file(&path).is_ok() {
            freed += size;
        }
    }
    freed
}

fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    directories.map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_outputs_are_deleted_over_the_limit() {
        let home = tempfile::tempdir().expect("directory");
        let dirs = SessionDirs::new(home.path(), home.path().join("g"));
        let directory = |session: &str| home.path().join("tmp/p").join(session).join(OUTPUTS);
        let keep = |session: &str, text: &str, age: u64| {
            let path = save_output(&directory(session), "x", text).expect("kept");
            let time = std::time::SystemTime::now() - std::time::Duration::from_secs(age);
            let file = std::fs::File::options().write(true).open(&path).expect("file");
            file.set_modified(time).expect("time");
            path
        };
        let (old, middle) = (keep("a", &"o".repeat(100), 300), keep("b", &"m".repeat(100), 200));
        let running = keep("c", &"r".repeat(100), 400);
        assert_eq!(trim_outputs(&dirs, 300, &directory("c")), 0);
        assert_eq!(trim_outputs(&dirs, 200, &directory("c")), 100);
        assert!(!old.exists() && middle.exists() && running.exists());
        assert_eq!(trim_outputs(&dirs, 0, &directory("c")), 100);
        assert!(!middle.exists() && running.exists());
    }

    #[test]
    fn output_is_saved_once_with_private_permissions() {
        let directory = tempfile::tempdir().expect("directory");
        let outputs = directory.path().join("tool-outputs");
        let one = save_output(&outputs, "../run shell", "all of it").expect("kept");
        assert_eq!(save_output(&outputs, "../run shell", "all of it").expect("kept"), one);
        assert_eq!(one.parent(), Some(outputs.as_path()));
        assert_eq!(std::fs::read_to_string(&one).expect("text"), "all of it");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::metadata(&one).expect("file").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }
}
