//! `parallax review`: a read-only agent reviews changes.

use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use clap::{Args, ValueEnum};
use parallax_headless::{
    ExitCode, OutputFormat, OutputSchema, OutputWriters, RunOptions, json_document, run_prompt,
};
use parallax_protocol::content::Part;
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::excerpt::one_line;
use parallax_protocol::op::Prompt;
use parallax_protocol::policy::ApprovalMode;
use parallax_review::{
    Diff, Finding, SCHEMA, Severity, findings_of, findings_text, review_prompt, sarif,
};
use parallax_sdk::{LaunchOptions, RunLimits, SessionConfig};
use parallax_worktrees::{ReviewScope, review_diff};
use serde_json::{Value, json};
use tokio::io::AsyncWrite;

use crate::argument_values::parse_dollars;
use crate::session_flags::SessionFlags;
use crate::start::{self, StartedSession};

/// Maximum size of a diff in bytes.
const MAX_DIFF_BYTES: usize = 1024 * 1024;
/// Tools that change something, access the network, or start other agents.
const EXCLUDED: [&str; 15] = [
    "write_file",
    "replace",
    "run_shell_command",
    "save_memory",
    "web_fetch",
    "google_web_search",
    "invoke_agent",
    "activate_skill",
    "ask_user",
    "enter_plan_mode",
    "exit_plan_mode",
    "write_todos",
    "list_background_processes",
    "read_background_output",
    "kill_background_process",
];

/// `parallax review`.
#[derive(Debug, Args)]
pub(crate) struct ReviewArguments {
    /// Review the changes since this branch or commit [default: uncommitted changes]
    #[arg(long, value_name = "REF", conflicts_with_all = ["staged", "pr"])]
    pub(crate) base: Option<String>,

    /// Review staged changes
    #[arg(long, conflicts_with = "pr")]
    pub(crate) staged: bool,

    /// Review this patch file; `-` reads it from stdin
    #[arg(long, value_name = "PATCH")]
    pub(crate) pr: Option<PathBuf>,

    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: ReviewFormat,

    /// The same as `--format json`
    #[arg(long)]
    pub(crate) json: bool,

    /// Exit with 1 if there is a finding of this severity or higher
    #[arg(long, value_name = "SEVERITY")]
    pub(crate) fail_on: Option<FailOn>,

    /// Model to use
    #[arg(short, long, value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// Stop when the review has cost this many US dollars
    #[arg(long, value_name = "USD", value_parser = parse_dollars)]
    pub(crate) max_cost: Option<f64>,

    /// Trust this folder for this run
    #[arg(long)]
    pub(crate) skip_trust: bool,
}

/// How findings are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReviewFormat {
    /// A list
    Text,
    /// An array
    Json,
    /// SARIF 2.1.0, for code hosts and editors
    Sarif,
}

/// The severities that a review can fail on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    Critical,
    High,
    Medium,
    Low,
    Info,
}

impl FailOn {
    fn severity(self) -> Severity {
        match self {
            Self::Critical => Severity::Critical,
            Self::High => Severity::High,
            Self::Medium => Severity::Medium,
            Self::Low => Severity::Low,
            Self::Info => Severity::Info,
        }
    }
}

impl ReviewArguments {
    fn format(&self) -> ReviewFormat {
        if self.json { ReviewFormat::Json } else { self.format }
    }

    /// Returns the format in which errors are printed. A file for SARIF must not contain anything
    /// else.
    pub(crate) fn error_format(&self) -> Option<OutputFormat> {
        (self.format() == ReviewFormat::Json).then_some(OutputFormat::Json)
    }
}

/// Runs the review and prints its findings.
///
/// # Errors
/// Returns an error if the changes cannot be read or the model does not respond.
pub(crate) async fn run(arguments: ReviewArguments) -> Result<ExitCode, Failure> {
    let format = arguments.format();
    let (base, staged, pr) = (arguments.base.clone(), arguments.staged, arguments.pr.clone());
    let changes_task = tokio::task::spawn_blocking(move || changes(base, staged, pr.as_deref()));
    let text = changes_task.await.map_err(|error| input_failure(error.to_string()))??;
    let diff = Diff::parse(&text);
    let answer = match diff.files.is_empty() {
        true => json!({"findings": []}),
        false => ask(&arguments, &text).await?,
    };
    let top = parallax_worktrees::top_of(Path::new("."));
    let (findings, others) = findings_of(&answer, &diff, top.as_deref())
        .map_err(|error| input_failure(format!("The model's findings cannot be read: {error}")))?;
    let text = match format {
        ReviewFormat::Text => findings_text(&findings, &diff),
        ReviewFormat::Json => json_document(&findings),
        ReviewFormat::Sarif => json_document(&sarif(&findings, &diff, env!("CARGO_PKG_VERSION"))),
    };
    // A closed pipe is not an error here.
    let _ = io::stdout().write_all(text.as_bytes());
    let limit = arguments.fail_on.map(FailOn::severity);
    let fails = |finding: &&Finding| limit.is_some_and(|limit| finding.severity <= limit);
    if !others.is_empty() {
        let line =
            format!("warning: Findings about unchanged files were omitted: {}", others.len());
        let _ = writeln!(io::stderr(), "{line}");
    }
    for Finding { file, line, severity, title, .. } in others.iter().filter(fails) {
        // The model may have named a changed file in another way.
        let (severity, file, title) = (severity.as_str(), one_line(file), one_line(title));
        let _ = writeln!(
            io::stderr(),
            "error: This finding fails the run, but its file is not among the changes: {severity} \
             {file}:{line} {title}"
        );
    }
    let fails = findings.iter().chain(&others).any(|finding| fails(&finding));
    Ok(if fails { ExitCode::GENERAL } else { ExitCode::SUCCESS })
}

fn changes(base: Option<String>, staged: bool, pr: Option<&Path>) -> Result<String, Failure> {
    let text = match (pr, base, staged) {
        (Some(file), _, _) => patch(file)?,
        (None, Some(base), _) => review_diff(Path::new("."), &ReviewScope::Since(base))?,
        (None, None, true) => review_diff(Path::new("."), &ReviewScope::Staged)?,
        (None, None, false) => review_diff(Path::new("."), &ReviewScope::WorkingTree)?,
    };
    if text.len() > MAX_DIFF_BYTES {
        return Err(input_failure(format!(
            "The changes have {} bytes; at most {MAX_DIFF_BYTES} can be reviewed at once",
            text.len()
        )));
    }
    if pr.is_some() && Diff::parse(&text).files.is_empty() {
        return Err(input_failure("`--pr`: the file is not a unified diff".to_owned()));
    }
    Ok(text)
}

fn patch(file: &Path) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let limit = MAX_DIFF_BYTES as u64 + 1;
    let read = match file.as_os_str() == "-" {
        true => io::stdin().lock().take(limit).read_to_end(&mut bytes),
        false => std::fs::File::open(file).and_then(|it| it.take(limit).read_to_end(&mut bytes)),
    };
    read.map_err(|error| input_failure(format!("Failed to read `{}`: {error}", file.display())))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Lets the agent review the changes; returns its response, which matches the schema.
async fn ask(arguments: &ReviewArguments, diff: &str) -> Result<Value, Failure> {
    let options = LaunchOptions {
        model: arguments.model.clone(),
        approval_mode: Some(ApprovalMode::Default),
        exclude_tools: EXCLUDED.map(str::to_owned).to_vec(),
        // No server or extension has this name.
        allowed_mcp_servers: vec!["none".to_owned()],
        extensions: vec!["none".to_owned()],
        skip_trust: arguments.skip_trust,
        limits: RunLimits { cost: arguments.max_cost, ..RunLimits::default() },
        ..LaunchOptions::default()
    };
    let flags = SessionFlags { options, ..SessionFlags::default() };
    let launch = SessionConfig::prepare(start::options(&flags)?)?;
    let StartedSession { session, mut events } = start::start(launch)?;
    let schema = OutputSchema::parse(SCHEMA).map_err(input_failure)?;
    let mark = format!("review-{}", uuid::Uuid::new_v4().simple());
    let mut prompt = Prompt { text: review_prompt(diff, &mark), ..Prompt::default() };
    prompt.attachments.push(Part::text(schema.instruction()));
    prompt.typed_command = Some("/review".to_owned());
    let output = CapturedOutput::default();
    let io =
        OutputWriters { stdout: Box::new(output.clone()), stderr: Box::new(tokio::io::sink()) };
    let options = RunOptions {
        format: OutputFormat::Json,
        quiet: true,
        schema: Some(schema),
        session_id: Some(session.id.clone()),
        model: session.model.clone(),
        ..RunOptions::default()
    };
    let code =
        run_prompt(io, session.ops(), &mut events, prompt, "/review".to_owned(), options).await;
    for warning in session.close_with_limit(std::future::pending()).await {
        let _ = writeln!(io::stderr(), "warning: {warning}");
    }
    let document: Value = serde_json::from_slice(&output.take()).unwrap_or_default();
    if code == ExitCode::SUCCESS
        && let Some(answer) = document.get("structured")
    {
        return Ok(answer.clone());
    }
    let reason = document.pointer("/error/message").and_then(Value::as_str);
    Err(Failure {
        // Preserves the exit code of the run.
        kind: kind_of(code),
        message: reason.unwrap_or("The model did not return findings").to_owned(),
        status: None,
    })
}

/// Returns the kind of failure with this exit code.
fn kind_of(code: ExitCode) -> FailureKind {
    match code {
        ExitCode::AUTH => FailureKind::Auth,
        ExitCode::INPUT => FailureKind::Input,
        ExitCode::CONFIG => FailureKind::Config,
        ExitCode::BUDGET => FailureKind::Continuations,
        ExitCode::QUOTA => FailureKind::Quota,
        _ => FailureKind::Api,
    }
}

/// Captures the output of the run.
#[derive(Debug, Clone, Default)]
struct CapturedOutput(Arc<Mutex<Vec<u8>>>);

impl CapturedOutput {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl AsyncWrite for CapturedOutput {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn input_failure(message: String) -> Failure {
    Failure { kind: FailureKind::Input, message, status: None }
}
