//! `parallax demo`: runs the real engine, tools, and policy on a small project in a temporary
//! directory. Only the model's responses are scripted.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write};

use parallax_headless::{ExitCode, Sanitizer};
use parallax_protocol::event::{EndReason, EventBody, ItemDone, ItemStart, ToolStatus};
use parallax_protocol::op::{Op, Prompt};
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::tool::Display;
use parallax_sdk::{LaunchOptions, ResponseSource, SessionConfig, demo};

/// Maximum number of lines shown of a tool result.
const OUTPUT_LINES: usize = 14;

/// Runs the demo and prints it as it happens.
pub(crate) async fn run() -> ExitCode {
    match play().await {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // A failed write to stderr cannot be reported.
            let _ = writeln!(io::stderr(), "Demo failed: {error}");
            ExitCode::GENERAL
        }
    }
}

fn is_broken_pipe(error: &Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

type Error = Box<dyn std::error::Error + Send + Sync>;

async fn play() -> Result<ExitCode, Error> {
    let folder = tempfile::Builder::new().prefix("parallax-demo-").tempdir()?;
    let directory = folder.path().canonicalize()?;
    demo::write_project(&directory)?;
    let mut screen = DemoPrinter::new();
    screen.intro(&directory.display().to_string())?;
    // The user's settings and memory are not used, because the script expects the default tools.
    let home = tempfile::Builder::new().prefix("parallax-demo-home-").tempdir()?;
    let mut variables: Vec<(OsString, OsString)> = std::env::vars_os()
        .filter(|(name, _)| !name.to_string_lossy().starts_with("PARALLAX_"))
        .collect();
    variables.push(("GEMINI_CLI_HOME".into(), home.path().into()));
    let launch = SessionConfig::prepare(LaunchOptions {
        directory,
        variables,
        skip_trust: true,
        ignore_env: true,
        approval_mode: Some(ApprovalMode::Yolo),
        answers: ResponseSource::Embedded { name: "demo", text: demo::SCRIPT },
        model: Some("script:demo".into()),
        version: env!("CARGO_PKG_VERSION"),
        ephemeral: true,
        ..LaunchOptions::default()
    })?;
    let (session, mut events) = launch.open()?;
    let prompt = Prompt { text: demo::PROMPT.trim().to_owned(), ..Prompt::default() };
    session.ops().send(Op::Prompt(prompt)).await?;
    let mut code = ExitCode::GENERAL;
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            _ = tokio::signal::ctrl_c() => {
                code = ExitCode::signal(2);
                break;
            }
        };
        let Some(event) = event else { break };
        screen.event(&event.body)?;
        if let EventBody::TurnEnded(ended) = event.body {
            if matches!(ended.reason, EndReason::Done) {
                code = ExitCode::SUCCESS;
            }
            break;
        }
    }
    session.close().await;
    Ok(code)
}

/// Prints events as readable text.
struct DemoPrinter {
    color: bool,
    /// Whether the cursor is on an unfinished line.
    open_line: bool,
}

impl DemoPrinter {
    fn new() -> Self {
        let is = |name: &str, value: &str| std::env::var_os(name).is_some_and(|set| set == value);
        let forbidden = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let color = io::stdout().is_terminal() && !forbidden && !is("TERM", "dumb");
        Self { color, open_line: false }
    }

    fn intro(&mut self, directory: &str) -> io::Result<()> {
        self.line("1", "Parallax demo")?;
        self.line(
            "2",
            "The model's answers are scripted (no key, no network). Everything else is real:",
        )?;
        self.line("2", &format!("the engine, the policy, and the tools run in {directory}"))?;
        self.line("", "")
    }

    fn line(&mut self, style: &str, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        if std::mem::take(&mut self.open_line) {
            writeln!(out)?;
        }
        if self.color && !style.is_empty() {
            writeln!(out, "\u{1b}[{style}m{text}\u{1b}[0m")
        } else {
            writeln!(out, "{text}")
        }
    }

    fn event(&mut self, body: &EventBody) -> io::Result<()> {
        match body {
            EventBody::ItemStarted { start: ItemStart::User { text }, .. } => {
                self.line("1", &format!("> {text}"))?;
                self.line("", "")
            }
            EventBody::ItemDelta { item, text } if item.as_str().starts_with("text-") => {
                let mut out = io::stdout().lock();
                write!(out, "{}", Sanitizer::sanitize(text))?;
                self.open_line = !text.ends_with('\n');
                out.flush()
            }
            EventBody::ItemDone { done, .. } => self.done(done),
            EventBody::TurnEnded(ended) => self.end(&ended.reason, ended.duration_ms),
            _ => Ok(()),
        }
    }

    fn done(&mut self, done: &ItemDone) -> io::Result<()> {
        match done {
            ItemDone::Text { .. } => self.line("", ""),
            ItemDone::Thought { text } => {
                let text = Sanitizer::sanitize(text).replace("**", "").replace('\n', "\n  ");
                self.line("2;3", &format!("  {text}"))?;
                self.line("", "")
            }
            ItemDone::Tool(tool) => {
                let (mark, style) = match tool.status {
                    ToolStatus::Success => ("●", "36"),
                    ToolStatus::Error | ToolStatus::Cancelled => ("✕", "31"),
                };
                let title = Sanitizer::sanitize(&tool.title).replace('\n', " ");
                self.line(
                    style,
                    &format!("{mark} {} {title}  ({} ms)", tool.name, tool.duration_ms),
                )?;
                match &tool.display {
                    Some(Display::Diff(diff)) => self.diff(&Sanitizer::sanitize(&diff.diff)),
                    Some(Display::Text { text }) => self.output(&Sanitizer::sanitize(text)),
                    Some(Display::Todos { todos }) => {
                        let lines: Vec<String> = todos
                            .iter()
                            .map(|todo| format!("[{}] {}", todo.status.as_str(), todo.description))
                            .collect();
                        self.output(&Sanitizer::sanitize(&lines.join("\n")))
                    }
                    Some(Display::Agent(progress)) => {
                        self.output(&Sanitizer::sanitize(&progress.result))
                    }
                    Some(Display::Topic { intent, .. }) => {
                        self.output(&Sanitizer::sanitize(intent))
                    }
                    None => self.line("", ""),
                }
            }
            ItemDone::Notice { text, .. } => self.line("33", &Sanitizer::sanitize(text)),
            ItemDone::User | ItemDone::Shell(_) => Ok(()),
        }
    }

    fn output(&mut self, text: &str) -> io::Result<()> {
        let lines: Vec<&str> = text.trim_end().lines().collect();
        for line in lines.iter().take(OUTPUT_LINES) {
            let style = match line {
                line if line.starts_with("FAIL")
                    || line.contains(" failed") && !line.contains("0 failed") =>
                {
                    "31"
                }
                line if line.starts_with("ok") || line.contains("0 failed") => "32",
                _ => "2",
            };
            self.line(style, &format!("  │ {line}"))?;
        }
        if lines.len() > OUTPUT_LINES {
            self.line("2", &format!("  │ … {} more lines", lines.len() - OUTPUT_LINES))?;
        }
        self.line("", "")
    }

    fn diff(&mut self, diff: &str) -> io::Result<()> {
        for line in diff.lines() {
            let style = match line.bytes().next() {
                Some(b'+') => "32",
                Some(b'-') => "31",
                _ => "2",
            };
            self.line(style, &format!("  │ {line}"))?;
        }
        self.line("", "")
    }

    fn end(&mut self, reason: &EndReason, duration_ms: u64) -> io::Result<()> {
        match reason {
            EndReason::Done => {
                let seconds = duration_ms as f64 / 1000.0;
                self.line(
                    "2",
                    &format!(
                        "Done in {seconds:.1} s. To try it on your own project with your own key:"
                    ),
                )?;
                self.line("", "  GEMINI_API_KEY=… parallax -p \"What does this project do?\"")
            }
            EndReason::Failed(failure) => {
                self.line("31", &format!("failed: {}", Sanitizer::sanitize(&failure.message)))
            }
            other => self.line("31", &format!("ended: {other:?}")),
        }
    }
}
