//! Discovers the servers of companions, best first. Blocking, but does not use the network.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::editor::{HostEditor, detect, variable};
use crate::error::DisconnectReason;
use crate::port_file::{self, PortFile, PortFiles, RejectedFile, StdioCommand, port_of, strings};
use crate::process_chain::{ProcessChain, is_alive};

/// Maximum number of servers to try.
pub(crate) const MAX_CANDIDATES: usize = 32;

/// Where companions are searched for.
#[derive(Debug, Clone)]
pub struct DiscoveryOptions {
    /// The working directory.
    pub directory: PathBuf,
    /// The variables of the process. Those of `.env` files must not be among them.
    pub variables: Vec<(OsString, OsString)>,
}

/// Address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServerAddress {
    Http { host: &'static str, port: u16, token: Option<String> },
    Stdio(StdioCommand),
}

/// A server whose editor has the working directory open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerCandidate {
    pub(crate) address: ServerAddress,
    /// Where it was found, for display.
    pub(crate) source: String,
    /// The process of the editor, if known.
    pub(crate) pid: Option<i32>,
    pub(crate) editor: HostEditor,
}

/// A server that is not tried, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RejectedServer {
    pub(crate) source: String,
    pub(crate) reason: String,
}

/// Result of a search.
#[derive(Debug, Clone, Default)]
pub(crate) struct DiscoveryResult {
    pub(crate) candidates: Vec<ServerCandidate>,
    pub(crate) rejected: Vec<RejectedServer>,
    /// The editor according to the environment variables.
    pub(crate) editor: Option<HostEditor>,
    pub(crate) chain: ProcessChain,
    pub(crate) editor_pid: Option<i32>,
    /// The folders of all editors found.
    pub(crate) folders: Vec<PathBuf>,
    /// Whether an editor was found that has no folder open.
    pub(crate) has_editor_without_folder: bool,
    /// The directory of port files.
    pub(crate) port_directory: PathBuf,
    /// Whether the editor runs outside of this container.
    pub(crate) in_container: bool,
    /// The number of port files that were not read, because there are too many.
    pub(crate) unread: usize,
}

impl DiscoveryResult {
    /// Returns why there is nothing to connect to.
    pub(crate) fn reason(&self) -> DisconnectReason {
        let name = || self.editor.as_ref().map_or("the editor", |editor| &editor.name).to_owned();
        if !self.folders.is_empty() {
            return DisconnectReason::DirectoryMismatch { folders: self.folders.clone() };
        }
        if self.has_editor_without_folder {
            return DisconnectReason::NoWorkspace { editor: name() };
        }
        match &self.editor {
            Some(_) => DisconnectReason::CompanionMissing { editor: name() },
            None => DisconnectReason::NotSupported,
        }
    }
}

/// Whether the working directory is in a folder of the editor.
enum WorkspaceMatch {
    /// In this folder.
    Inside(PathBuf),
    /// Not in any of these folders.
    Outside(Vec<PathBuf>),
    /// The editor has no folder open.
    Empty,
}

/// Returns the editor whose terminal this process runs in. Blocking.
pub fn host_editor(options: &DiscoveryOptions) -> Option<HostEditor> {
    let chain = ProcessChain::for_process(rustix::process::getpid().as_raw_nonzero().get());
    detect(&options.variables, chain.editor().map(|process| process.name.as_str()))
}

/// Searches for servers.
pub(crate) fn discover(options: &DiscoveryOptions) -> DiscoveryResult {
    discover_for(options, rustix::process::getpid().as_raw_nonzero().get(), in_container(options))
}

fn discover_for(options: &DiscoveryOptions, own_pid: i32, in_container: bool) -> DiscoveryResult {
    let get = |name: &str| variable(&options.variables, name).and_then(OsStr::to_str);
    let chain = ProcessChain::for_process(own_pid);
    let configured: Option<i32> = get("GEMINI_CLI_IDE_PID").and_then(|pid| pid.trim().parse().ok());
    let found = chain.editor();
    let editor_pid = configured.filter(|pid| *pid > 0).or_else(|| found.map(|process| process.pid));
    let editor = detect(&options.variables, found.map(|process| process.name.as_str()));
    let temporary = temporary_directory(&options.variables);
    let port_directory = temporary.join("gemini").join("ide");
    let mut old_names: Vec<i32> = editor_pid.into_iter().collect();
    old_names.extend(chain.0.iter().skip(1).map(|process| process.pid).filter(|pid| *pid > 1));
    old_names.dedup();
    let PortFiles { files, rejected, unread } = port_file::read_all(&temporary, &old_names);
    let mut result = DiscoveryResult {
        editor,
        chain,
        editor_pid,
        port_directory,
        in_container,
        unread,
        ..DiscoveryResult::default()
    };
    let rejected = rejected.into_iter().map(|RejectedFile { path, reason }| RejectedServer {
        source: path.display().to_string(),
        reason,
    });
    result.rejected.extend(rejected);
    let directory =
        std::fs::canonicalize(&options.directory).unwrap_or_else(|_| options.directory.clone());
    let wanted_port = get("GEMINI_CLI_IDE_SERVER_PORT").and_then(|port| port.trim().parse().ok());
    result.add_files(files, &directory, wanted_port);
    result.add_environment(options, &directory, wanted_port);
    result
}

impl DiscoveryResult {
    fn add_files(&mut self, files: Vec<PortFile>, directory: &Path, wanted_port: Option<u16>) {
        let mut matching = Vec::new();
        for file in files {
            let source = file.path.display().to_string();
            let mut reject = |reason: String| {
                self.rejected.push(RejectedServer { source: source.clone(), reason });
            };
            let is_own = self.editor_pid == Some(file.pid) || self.chain.contains(file.pid);
            let is_alive = is_own || self.in_container || is_alive(file.pid);
            match workspace(file.workspace.as_deref(), directory) {
                WorkspaceMatch::Inside(folder) => {
                    let rank = (
                        wanted_port.is_some() && file.port == wanted_port,
                        is_own,
                        is_alive,
                        folder.components().count(),
                        file.pid,
                    );
                    matching.push((rank, file));
                }
                // An ended editor has no folders open.
                WorkspaceMatch::Outside(_) | WorkspaceMatch::Empty if !is_alive => {
                    reject(format!("process {} has ended", file.pid));
                }
                WorkspaceMatch::Outside(folders) => {
                    let listed: Vec<String> =
                        folders.iter().map(|directory| directory.display().to_string()).collect();
                    reject(format!("its folders do not contain this one: {}", listed.join(", ")));
                    self.folders.extend(folders);
                }
                WorkspaceMatch::Empty => {
                    reject("its editor has no folder open".into());
                    self.has_editor_without_folder = true;
                }
            }
        }
        matching.sort_by(|(one, _), (two, _)| two.cmp(one));
        for (_, file) in matching {
            let editor = match &file.editor {
                Some((id, name)) => HostEditor { id: id.clone(), name: name.clone() },
                None => self.editor_or_default(),
            };
            let source = file.path.display().to_string();
            self.add(file.port, file.token, file.stdio, &source, Some(file.pid), &editor);
        }
    }

    fn add_environment(&mut self, options: &DiscoveryOptions, directory: &Path, port: Option<u16>) {
        let get = |name: &str| variable(&options.variables, name).and_then(OsStr::to_str);
        let stdio = get("GEMINI_CLI_IDE_SERVER_STDIO_COMMAND").map(|command| StdioCommand {
            command: command.to_owned(),
            arguments: get("GEMINI_CLI_IDE_SERVER_STDIO_ARGS")
                .and_then(|text| serde_json::from_str::<Value>(text).ok())
                .map(|list| strings(&list))
                .unwrap_or_default(),
        });
        let source = "the environment (GEMINI_CLI_IDE_SERVER_*)";
        let mut reject = |reason: String| {
            self.rejected.push(RejectedServer { source: source.to_owned(), reason });
        };
        let text = get("GEMINI_CLI_IDE_SERVER_PORT");
        if let Some(text) = text.filter(|text| port_of(&Value::from(*text)).is_none()) {
            reject(format!("`{}` is not a port", text.escape_debug()));
        }
        let port = port.filter(|port| *port > 0);
        if port.is_none() && stdio.is_none() {
            return;
        }
        match workspace(get("GEMINI_CLI_IDE_WORKSPACE_PATH"), directory) {
            WorkspaceMatch::Inside(_) => {
                let token = get("GEMINI_CLI_IDE_AUTH_TOKEN").map(str::to_owned);
                let editor = self.editor_or_default();
                self.add(port, token, stdio, source, None, &editor);
            }
            WorkspaceMatch::Outside(folders) => {
                let listed: Vec<String> =
                    folders.iter().map(|directory| directory.display().to_string()).collect();
                reject(format!("its folders do not contain this one: {}", listed.join(", ")));
                self.folders.extend(folders);
            }
            WorkspaceMatch::Empty => {
                reject("its editor has no folder open".into());
                self.has_editor_without_folder = true;
            }
        }
    }

    fn editor_or_default(&self) -> HostEditor {
        let default = || HostEditor { id: "vscode".into(), name: "the editor".into() };
        self.editor.clone().unwrap_or_else(default)
    }

    /// Adds the addresses of a server, skipping known ones.
    fn add(
        &mut self,
        port: Option<u16>,
        token: Option<String>,
        stdio: Option<StdioCommand>,
        source: &str,
        pid: Option<i32>,
        editor: &HostEditor,
    ) {
        // In a container the editor may run inside (Codespaces) or outside.
        let hosts: &[&'static str] = match self.in_container {
            true => &["127.0.0.1", "host.docker.internal"],
            false => &["127.0.0.1"],
        };
        let http = port.into_iter().flat_map(|port| hosts.iter().map(move |host| (*host, port)));
        let mut addresses: Vec<ServerAddress> = http
            .map(|(host, port)| ServerAddress::Http { host, port, token: token.clone() })
            .collect();
        addresses.extend(stdio.map(ServerAddress::Stdio));
        for address in addresses {
            if !self.candidates.iter().any(|candidate| candidate.address == address) {
                let source = source.to_owned();
                self.candidates.push(ServerCandidate {
                    address,
                    source,
                    pid,
                    editor: editor.clone(),
                });
            }
        }
    }
}

/// Returns the directory for temporary files as Node.js determines it.
fn temporary_directory(variables: &[(OsString, OsString)]) -> PathBuf {
    let found = ["TMPDIR", "TMP", "TEMP"].into_iter().find_map(|name| variable(variables, name));
    found.map_or_else(|| PathBuf::from("/tmp"), PathBuf::from)
}

fn in_container(options: &DiscoveryOptions) -> bool {
    let is_set = |name: &str| variable(&options.variables, name).is_some();
    let marked = ["/.dockerenv", "/run/.containerenv"].iter().any(|path| Path::new(path).exists());
    marked
        && !["SSH_CONNECTION", "VSCODE_REMOTE_CONTAINERS_SESSION", "REMOTE_CONTAINERS"]
            .into_iter()
            .any(is_set)
}

fn workspace(text: Option<&str>, directory: &Path) -> WorkspaceMatch {
    let Some(text) = text.filter(|text| !text.trim().is_empty()) else {
        return WorkspaceMatch::Empty;
    };
    let contains = |folder: &Path| {
        folder.is_absolute()
            && std::fs::canonicalize(folder).is_ok_and(|folder| directory.starts_with(folder))
    };
    let directories = |separator: char| {
        text.split(separator)
            .map(PathBuf::from)
            .filter(|directory| !directory.as_os_str().is_empty())
    };
    // A name may contain a separator.
    let whole = std::iter::once(PathBuf::from(text));
    let mut all = whole.chain(directories(':')).chain(directories(';'));
    match all.find(|directory| contains(directory)) {
        Some(folder) => WorkspaceMatch::Inside(folder),
        None => WorkspaceMatch::Outside(directories(':').collect()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Setup {
        root: tempfile::TempDir,
        variables: Vec<(OsString, OsString)>,
    }

    impl Setup {
        fn new() -> Self {
            let root = tempfile::tempdir().expect("a directory");
            for directory in ["tmp/gemini/ide", "project/sub", "other", "with:colon"] {
                std::fs::create_dir_all(root.path().join(directory)).expect("created");
            }
            let tmp = root.path().join("tmp").into_os_string();
            Self { root, variables: vec![("TMPDIR".into(), tmp)] }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.root.path().join(name)
        }

        fn file(&self, pid: i32, port: u16, workspace: &str) {
            let content = json!({"port": port, "workspacePath": workspace, "authToken": "t"});
            let name = format!("tmp/gemini/ide/gemini-ide-server-{pid}-{port}.json");
            std::fs::write(self.path(&name), content.to_string()).expect("written");
        }

        fn set(&mut self, name: &str, value: &str) {
            self.variables.push((name.into(), value.into()));
        }

        fn discover(&self) -> DiscoveryResult {
            let directory = self.path("project/sub");
            let options = DiscoveryOptions { directory, variables: self.variables.clone() };
            let own_pid = rustix::process::getpid().as_raw_nonzero().get();
            discover_for(&options, own_pid, false)
        }

        fn ports(&self) -> Vec<u16> {
            let ports = self.discover().candidates.into_iter().filter_map(|candidate| {
                match candidate.address {
                    ServerAddress::Http { port, .. } => Some(port),
                    ServerAddress::Stdio(_) => None,
                }
            });
            ports.collect()
        }
    }

    /// No process has this id.
    const DEAD: i32 = i32::MAX - 8;

    #[test]
    fn running_editors_and_nearest_directories_come_first() {
        let mut setup = Setup::new();
        let own_pid = rustix::process::getpid().as_raw_nonzero().get();
        let project = setup.path("project").display().to_string();
        let sub = setup.path("project/sub").display().to_string();
        setup.file(DEAD, 1, &sub);
        setup.file(own_pid, 2, &project);
        setup.file(own_pid, 3, &format!("{}:{sub}", setup.path("other").display()));
        assert_eq!(setup.ports(), [3, 2, 1]);
        setup.set("GEMINI_CLI_IDE_PID", &DEAD.to_string());
        assert_eq!(setup.ports(), [1, 3, 2], "the process that the environment names is first");
        setup.set("GEMINI_CLI_IDE_SERVER_PORT", "2");
        assert_eq!(setup.ports(), [2, 1, 3], "and before it the port that the environment names");
    }

    #[test]
    fn other_directories_are_reported() {
        let setup = Setup::new();
        let own_pid = rustix::process::getpid().as_raw_nonzero().get();
        let other = setup.path("other").display().to_string();
        setup.file(DEAD, 1, &setup.path("gone").display().to_string());
        assert_eq!(setup.discover().reason(), DisconnectReason::NotSupported);
        setup.file(own_pid, 2, "");
        let reason = setup.discover().reason();
        assert!(matches!(reason, DisconnectReason::NoWorkspace { .. }), "{reason:?}");
        setup.file(own_pid, 3, &other);
        let found = setup.discover();
        let directories = vec![setup.path("other")];
        assert_eq!(found.reason(), DisconnectReason::DirectoryMismatch { folders: directories });
        assert!(found.reason().to_string().contains(&other));
        assert_eq!((found.candidates.len(), found.rejected.len()), (0, 3));
    }

    #[test]
    fn directory_name_may_contain_the_separator() {
        let setup = Setup::new();
        let directory = std::fs::canonicalize(setup.path("with:colon")).expect("a path");
        let text = setup.path("with:colon").display().to_string();
        assert!(matches!(workspace(Some(&text), &directory), WorkspaceMatch::Inside(_)));
        assert!(matches!(workspace(Some("relative"), &directory), WorkspaceMatch::Outside(_)));
        assert!(matches!(workspace(Some(" "), &directory), WorkspaceMatch::Empty));
    }

    #[test]
    fn environment_is_used_last() {
        let mut setup = Setup::new();
        let project = setup.path("project").display().to_string();
        setup.set("GEMINI_CLI_IDE_SERVER_PORT", "9");
        setup.set("GEMINI_CLI_IDE_WORKSPACE_PATH", &project);
        setup.set("GEMINI_CLI_IDE_AUTH_TOKEN", "secret");
        setup.set("GEMINI_CLI_IDE_SERVER_STDIO_COMMAND", "companion");
        setup.set("GEMINI_CLI_IDE_SERVER_STDIO_ARGS", "[\"--stdio\"]");
        setup.file(DEAD, 1, &project);
        let addresses: Vec<ServerAddress> =
            setup.discover().candidates.into_iter().map(|candidate| candidate.address).collect();
        let http = |port, token: &str| ServerAddress::Http {
            host: "127.0.0.1",
            port,
            token: Some(token.to_owned()),
        };
        let stdio = StdioCommand { command: "companion".into(), arguments: vec!["--stdio".into()] };
        assert_eq!(addresses, [http(1, "t"), http(9, "secret"), ServerAddress::Stdio(stdio)]);
    }

    #[test]
    fn invalid_port_is_reported() {
        let mut setup = Setup::new();
        setup.set("GEMINI_CLI_IDE_SERVER_PORT", "0");
        setup.set("GEMINI_CLI_IDE_WORKSPACE_PATH", &setup.path("project").display().to_string());
        let found = setup.discover();
        assert_eq!((found.candidates.len(), found.rejected.len()), (0, 1));
        assert!(found.rejected[0].reason.contains("`0` is not a port"));
    }
}
