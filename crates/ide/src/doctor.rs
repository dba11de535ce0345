//! Diagnoses the connection to a companion: lists every server that was found, why it is or is not
//! used, and what to do.

use std::fmt;
use std::path::PathBuf;

use tokio::sync::mpsc;

use crate::client::CompanionClient;
use crate::discovery::{Discovered, DiscoveryOptions, ServerAddress, discover};

/// Result of a diagnosis. `Display` formats it in several lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diagnosis {
    /// The editor that the environment variables indicate.
    pub editor: Option<String>,
    /// This process and its parents, nearest first.
    pub processes: Vec<String>,
    /// The process assumed to be the editor.
    pub editor_pid: Option<i32>,
    /// The directory of port files.
    pub port_directory: PathBuf,
    /// The working directory.
    pub directory: PathBuf,
    /// Each server with what was found out about it.
    pub servers: Vec<(String, String)>,
    /// Whether a connection is possible.
    pub is_reachable: bool,
    /// What to do.
    pub fix: String,
}

/// Runs the diagnosis on a temporary runtime, for any thread. Blocking.
///
/// # Errors
/// Returns an error if a thread or runtime cannot be created.
pub fn diagnose_blocking(options: &DiscoveryOptions, version: &str) -> std::io::Result<Diagnosis> {
    std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let diagnosis = runtime.block_on(diagnose(options, version));
            // Do not wait for pending name lookups.
            runtime.shutdown_background();
            Ok(diagnosis)
        });
        running.join().unwrap_or_else(|_| Err(std::io::Error::other("the diagnosis failed")))
    })
}

/// Searches for servers and tries each of them.
pub async fn diagnose(options: &DiscoveryOptions, version: &str) -> Diagnosis {
    let options_copy = options.clone();
    let found =
        tokio::task::spawn_blocking(move || discover(&options_copy)).await.unwrap_or_default();
    let mut servers = Vec::new();
    let (mut is_reachable, mut first_error) = (false, None);
    for candidate in &found.candidates {
        let (incoming, _received) = mpsc::channel(1);
        let connecting = CompanionClient::connect(&candidate.address, options, version, incoming);
        let result = match connecting.await {
            Ok(client) => {
                is_reachable = true;
                let diffs = if client.can_diff { "with diffs" } else { "without diffs" };
                format!("works, {diffs}")
            }
            Err(error) => {
                let text = error.to_string();
                first_error.get_or_insert_with(|| text.clone());
                text
            }
        };
        let address = match &candidate.address {
            ServerAddress::Http { host, port, .. } => format!("http://{host}:{port}/mcp"),
            ServerAddress::Stdio(stdio) => format!("`{}`", stdio.command),
        };
        servers.push((format!("{address} from {}", candidate.source), result));
    }
    servers.extend(found.rejected.iter().map(|it| (it.source.clone(), it.reason.clone())));
    let fix = fix(&found, is_reachable, first_error.as_deref());
    let processes = found.chain.0.iter();
    Diagnosis {
        editor: found.editor.as_ref().map(|editor| editor.name.clone()),
        processes: processes.map(|process| format!("{} ({})", process.name, process.pid)).collect(),
        editor_pid: found.editor_pid,
        port_directory: found.port_directory.clone(),
        directory: options.directory.clone(),
        servers,
        is_reachable,
        fix,
    }
}

fn fix(found: &Discovered, is_reachable: bool, error: Option<&str>) -> String {
    match (is_reachable, error) {
        (true, _) => "Nothing to fix: a companion is reachable. Connect with /ide enable.".into(),
        (false, Some(_)) => "Reload the editor window, so that the companion starts its server \
                             again, and open a new terminal in it."
            .into(),
        (false, None) => {
            let reason = found.reason().to_string();
            let mut characters = reason.chars();
            let first = characters.next().map(|first| first.to_uppercase().to_string());
            format!("{}{}", first.unwrap_or_default(), characters.as_str())
        }
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unknown = "not recognized from the environment";
        writeln!(formatter, "Editor: {}", self.editor.as_deref().unwrap_or(unknown))?;
        writeln!(formatter, "Directory: {}", self.directory.display())?;
        writeln!(formatter, "Processes: {}", self.processes.join(" < "))?;
        if let Some(pid) = self.editor_pid {
            writeln!(formatter, "Editor process: {pid}")?;
        }
        writeln!(formatter, "Port files: {}", self.port_directory.display())?;
        if self.servers.is_empty() {
            writeln!(formatter, "Servers: none found")?;
        }
        for (server, result) in &self.servers {
            writeln!(formatter, "Server: {server}: {result}")?;
        }
        write!(formatter, "{}", self.fix)
    }
}
