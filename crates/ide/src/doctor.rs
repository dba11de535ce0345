//! Diagnoses the connection to a companion: lists every server that was found, why it is or is not
//! used, and what to do.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::mpsc;

use crate::client::CompanionClient;
use crate::discovery::{
    DiscoveryOptions, DiscoveryResult, MAX_CANDIDATES, ServerAddress, ServerCandidate, discover,
};

/// How long all servers together may take.
const TIME_LIMIT: Duration = Duration::from_secs(4);
/// Maximum number of unusable servers to list.
const MAX_REJECTED: usize = 16;

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
    /// The servers with what was found out about them, the best first.
    pub servers: Vec<(String, String)>,
    /// The number of servers and port files that are not among them, because there are too many.
    pub omitted: usize,
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

/// Searches for servers and tries the best of them, all at the same time.
pub async fn diagnose(options: &DiscoveryOptions, version: &str) -> Diagnosis {
    let options_copy = options.clone();
    let found =
        tokio::task::spawn_blocking(move || discover(&options_copy)).await.unwrap_or_default();
    let tried = found.candidates.iter().take(MAX_CANDIDATES);
    let results = join_all(tried.map(|candidate| attempt(candidate, options, version))).await;
    let is_reachable = results.iter().any(|(_, result)| result.is_ok());
    let first_error = results.iter().find_map(|(_, result)| result.as_ref().err().cloned());
    let mut servers: Vec<(String, String)> = results
        .into_iter()
        .map(|(server, result)| (server, result.unwrap_or_else(|error| error)))
        .collect();
    let rejected = found.rejected.iter().take(MAX_REJECTED);
    servers.extend(rejected.map(|it| (it.source.clone(), it.reason.clone())));
    let omitted = found.candidates.len() + found.rejected.len() + found.unread - servers.len();
    let fix = suggested_fix(&found, is_reachable, first_error.as_deref());
    let processes = found.chain.0.iter();
    Diagnosis {
        editor: found.editor.as_ref().map(|editor| editor.name.clone()),
        processes: processes.map(|process| format!("{} ({})", process.name, process.pid)).collect(),
        editor_pid: found.editor_pid,
        port_directory: found.port_directory.clone(),
        directory: options.directory.clone(),
        servers,
        omitted,
        is_reachable,
        fix,
    }
}

/// Tries a server. Returns its name for display, and what works or the error.
async fn attempt(
    candidate: &ServerCandidate,
    options: &DiscoveryOptions,
    version: &str,
) -> (String, Result<String, String>) {
    let (incoming, _received) = mpsc::channel(1);
    let connection_attempt =
        CompanionClient::connect(&candidate.address, options, version, incoming);
    let result = match tokio::time::timeout(TIME_LIMIT, connection_attempt).await {
        Ok(Ok(client)) => {
            let diffs = if client.can_diff { "with diffs" } else { "without diffs" };
            Ok(format!("works, {diffs}"))
        }
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no connection within {} s", TIME_LIMIT.as_secs())),
    };
    let address = match &candidate.address {
        ServerAddress::Http { host, port, .. } => format!("http://{host}:{port}/mcp"),
        ServerAddress::Stdio(stdio) => format!("`{}`", stdio.command),
    };
    (format!("{address} from {}", candidate.source), result)
}

fn suggested_fix(found: &DiscoveryResult, is_reachable: bool, error: Option<&str>) -> String {
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
        if self.omitted > 0 {
            writeln!(
                formatter,
                "And {} more, which are not tried. Delete port files of editors that have ended.",
                self.omitted
            )?;
        }
        write!(formatter, "{}", self.fix)
    }
}
