//! The files in which companions publish their ports. Any local program can write files there, so
//! only regular files of this user are used. Blocking.

use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Maximum bytes of a port file.
const MAX_BYTES: u64 = 64 * 1024;
/// Maximum number of files to read.
const MAX_FILES: usize = 256;
const PREFIX: &str = "gemini-ide-server-";
const SUFFIX: &str = ".json";

/// A companion's server that is started as a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StdioCommand {
    pub(crate) command: String,
    pub(crate) arguments: Vec<String>,
}

/// The contents of a port file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PortFile {
    /// Path of the file.
    pub(crate) path: PathBuf,
    /// The process id in its name.
    pub(crate) pid: i32,
    pub(crate) port: Option<u16>,
    pub(crate) stdio: Option<StdioCommand>,
    /// The open folders of the editor as one text; `None` if not given.
    pub(crate) workspace: Option<String>,
    pub(crate) token: Option<String>,
    /// The editor's identifier and name.
    pub(crate) editor: Option<(String, String)>,
}

/// An unusable file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RejectedFile {
    pub(crate) path: PathBuf,
    pub(crate) reason: String,
}

/// The port files of a user.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PortFiles {
    pub(crate) files: Vec<PortFile>,
    pub(crate) rejected: Vec<RejectedFile>,
    /// The number of files that were not read, because there are too many.
    pub(crate) unread: usize,
}

/// Reads the port files in `<temporary>/gemini/ide`, and those with the old name for `pids`.
pub(crate) fn read_all(temporary: &Path, pids: &[i32]) -> PortFiles {
    let directory = temporary.join("gemini").join("ide");
    let mut paths: Vec<PathBuf> =
        pids.iter().map(|pid| temporary.join(format!("{PREFIX}{pid}{SUFFIX}"))).collect();
    paths.retain(|path| path.symlink_metadata().is_ok());
    if let Ok(entries) = std::fs::read_dir(&directory) {
        let mut found: Vec<(std::time::SystemTime, PathBuf)> = entries
            .flatten()
            .filter(|entry| pid_of(&entry.path()).is_some())
            .map(|entry| {
                let modified = entry.metadata().and_then(|metadata| metadata.modified());
                (modified.unwrap_or(std::time::UNIX_EPOCH), entry.path())
            })
            .collect();
        // If there are too many files, read the newest.
        found.sort();
        paths.extend(found.into_iter().rev().map(|(_, path)| path));
    }
    let unread = paths.len().saturating_sub(MAX_FILES);
    let (mut files, mut rejected) = (Vec::new(), Vec::new());
    for path in paths.into_iter().take(MAX_FILES) {
        match read(&path) {
            Ok(file) => files.push(file),
            Err(reason) => rejected.push(RejectedFile { path, reason }),
        }
    }
    PortFiles { files, rejected, unread }
}

/// Returns the process id in the name of a port file; `None` for other files.
fn pid_of(path: &Path) -> Option<i32> {
    let name = path.file_name()?.to_str()?.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    let (pid, port) = name.split_once('-').unwrap_or((name, "0"));
    port.parse::<u32>().ok()?;
    pid.parse().ok().filter(|pid| *pid > 0)
}

fn read(path: &Path) -> Result<PortFile, String> {
    let pid = pid_of(path).ok_or("the name is not valid")?;
    let no_link = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or_default();
    let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(no_link | nonblocking)
        .open(path)
        .map_err(|error| error.to_string())?;
    let metadata = file.metadata().map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("it is not a regular file".into());
    }
    if metadata.uid() != rustix::process::getuid().as_raw() {
        return Err("it belongs to another user".into());
    }
    if metadata.mode() & 0o022 != 0 {
        return Err("other users can write to it".into());
    }
    if metadata.len() > MAX_BYTES {
        return Err("it is too large".into());
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    let content: Value =
        serde_json::from_slice(&bytes).map_err(|error| format!("it is not valid JSON: {error}"))?;
    parse(path, pid, &content)
}

fn parse(path: &Path, pid: i32, content: &Value) -> Result<PortFile, String> {
    if !content.is_object() {
        return Err("it is not a JSON object".into());
    }
    let text = |value: &Value, key: &str| match value.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("`{key}` is not a string")),
    };
    let port = match content.get("port") {
        None | Some(Value::Null) => None,
        Some(value) => Some(port_of(value).ok_or("`port` is not a number from 1 to 65535")?),
    };
    let stdio = content.get("stdio").and_then(|stdio| {
        let command = stdio.get("command")?.as_str().filter(|command| !command.is_empty())?;
        Some(StdioCommand {
            command: command.to_owned(),
            arguments: stdio.get("args").map(strings).unwrap_or_default(),
        })
    });
    if port.is_none() && stdio.is_none() {
        return Err("it has neither `port` nor `stdio`".into());
    }
    let editor = content.get("ideInfo").and_then(|info| {
        let name = info.get("name")?.as_str()?.to_owned();
        let display_name =
            info.get("displayName").and_then(Value::as_str).unwrap_or(&name).to_owned();
        Some((name, display_name))
    });
    Ok(PortFile {
        path: path.to_owned(),
        pid,
        port,
        stdio,
        workspace: text(content, "workspacePath")?,
        token: text(content, "authToken")?,
        editor,
    })
}

/// Parses a port, given as a number or a string.
pub(crate) fn port_of(value: &Value) -> Option<u16> {
    let port = match value {
        Value::Number(number) => number.as_u64().and_then(|port| u16::try_from(port).ok()),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    port.filter(|port| *port > 0)
}

/// Returns the strings of a list.
pub(crate) fn strings(value: &Value) -> Vec<String> {
    let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn write(directory: &Path, name: &str, content: &str, mode: u32) {
        let path = directory.join(name);
        std::fs::write(&path, content).expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("mode");
    }

    #[test]
    fn one_bad_file_does_not_hide_the_good_one() {
        let temporary = tempfile::tempdir().expect("a directory");
        let directory = temporary.path().join("gemini/ide");
        std::fs::create_dir_all(&directory).expect("created");
        let good = r#"{"port": 4000, "workspacePath": "/w", "authToken": "t",
            "ideInfo": {"name": "vscode", "displayName": "VS Code"}}"#;
        write(&directory, "gemini-ide-server-7-4000.json", good, 0o600);
        write(
            &directory,
            "gemini-ide-server-8-1.json",
            "{\"port\": 1, \"workspacePath\": 5}",
            0o600,
        );
        write(&directory, "gemini-ide-server-9-1.json", "not json", 0o600);
        write(&directory, "gemini-ide-server-10-1.json", "{\"port\": 70000}", 0o600);
        write(&directory, "gemini-ide-server-11-1.json", good, 0o622);
        write(&directory, "gemini-ide-server-x-1.json", good, 0o600);
        write(&directory, "other.json", good, 0o600);
        std::os::unix::fs::symlink("/etc/passwd", directory.join("gemini-ide-server-12-1.json"))
            .expect("linked");
        std::fs::create_dir(directory.join("gemini-ide-server-13-1.json")).expect("created");
        write(temporary.path(), "gemini-ide-server-7.json", "{\"port\": \"5\"}", 0o600);
        let PortFiles { files, rejected, unread } = read_all(temporary.path(), &[6, 7]);
        let ports: Vec<Option<u16>> = files.iter().map(|file| file.port).collect();
        assert_eq!(ports, [Some(5), Some(4000)]);
        let file = files.last().expect("the new form");
        assert_eq!((file.pid, file.token.as_deref()), (7, Some("t")));
        assert_eq!(file.editor, Some(("vscode".into(), "VS Code".into())));
        assert_eq!((rejected.len(), unread), (6, 0), "{rejected:?}");
    }

    #[test]
    fn missing_directory_has_no_files() {
        let temporary = tempfile::tempdir().expect("a directory");
        assert_eq!(read_all(temporary.path(), &[1]), PortFiles::default());
    }
}
