//! `kubectl`, which knows how to reach the cluster.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::time::Duration;

use parallax_exec::agent_process::{AgentProcess, AgentProgram, MemoryLimits};
use parallax_protocol::excerpt::one_line;
use serde_json::Value;

use crate::blocking::blocking;
use crate::error::BatchError;

/// How long it may take.
const COMMAND_TIME: Duration = Duration::from_secs(120);
/// How long it may take to print logs.
const LOGS_TIME: Duration = Duration::from_secs(300);
/// Maximum number of bytes that `kubectl` may print.
const MAX_OUTPUT_BYTES: u64 = 16 * 1024 * 1024;

/// The program, and the cluster that it connects to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Kubectl {
    pub(crate) context: Option<String>,
    pub(crate) namespace: Option<String>,
}

impl Kubectl {
    fn arguments(&self, words: &[&str]) -> Vec<String> {
        let context = self.context.iter().map(|context| format!("--context={context}"));
        let namespace = self.namespace.iter().map(|name| format!("--namespace={name}"));
        context.chain(namespace).chain(words.iter().map(|word| (*word).to_owned())).collect()
    }

    /// Runs `kubectl` and returns its output.
    pub(crate) async fn run(&self, words: &[&str]) -> Result<String, BatchError> {
        let arguments = self.arguments(words);
        let what = words.first().copied().unwrap_or_default().to_owned();
        blocking(move || {
            let environment: Vec<_> = std::env::vars_os().collect();
            let output = parallax_exec::program::capture(
                "kubectl",
                arguments,
                Path::new("/"),
                &environment,
                MAX_OUTPUT_BYTES,
                COMMAND_TIME,
            );
            let output = output.map_err(|error| {
                BatchError::Input(format!("Failed to run `kubectl {what}`: {error}"))
            })?;
            if output.succeeded {
                return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
            }
            Err(kubectl_error(&what, &String::from_utf8_lossy(&output.stderr)))
        })
        .await
    }

    /// Reads an object. Returns `None` if it does not exist.
    pub(crate) async fn get(&self, object: &str) -> Result<Option<Value>, BatchError> {
        let text = self.run(&["get", object, "--ignore-not-found", "--output=json"]).await?;
        if text.trim().is_empty() {
            return Ok(None);
        }
        let read = serde_json::from_str(&text);
        read.map(Some).map_err(|error| {
            BatchError::Input(format!("`kubectl get {object}` did not print JSON: {error}"))
        })
    }

    /// Runs it with its output in a file, which may be large.
    pub(crate) async fn run_to_file(&self, words: &[&str], file: &Path) -> Result<(), BatchError> {
        let what = words.first().copied().unwrap_or_default();
        let errors = file.with_extension("errors");
        let open = |file: &Path| {
            let opened = OpenOptions::new().create(true).truncate(true).write(true).open(file);
            opened.map_err(|source| BatchError::Write { file: file.to_owned(), source })
        };
        let program = AgentProgram {
            program: "kubectl".into(),
            arguments: self.arguments(words).into_iter().map(Into::into).collect(),
            directory: PathBuf::from("/"),
            variables: Vec::new(),
            stdin: None,
            stdout: open(file)?,
            stderr: open(&errors)?,
            limits: MemoryLimits::default(),
        };
        let mut process = AgentProcess::start(program).map_err(|error| {
            BatchError::Input(format!("Failed to run `kubectl {what}`: {error}"))
        })?;
        let ended = tokio::time::timeout(LOGS_TIME, process.wait()).await;
        let output = crate::plan::read_text(&errors).unwrap_or_default();
        match ended.map(crate::agent::code) {
            Ok(0) => Ok(()),
            Ok(_) => Err(kubectl_error(what, &output)),
            Err(_) => Err(kubectl_error(what, "it took too long")),
        }
    }
}

fn kubectl_error(what: &str, output: &str) -> BatchError {
    let reason = one_line(output.trim());
    BatchError::Input(format!("`kubectl {what}` failed: {reason}"))
}
