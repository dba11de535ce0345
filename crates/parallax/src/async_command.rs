//! Commands that start an async runtime.

use parallax_headless::{ExitCode, OutputFormat};
use parallax_protocol::event::{Failure, FailureKind};
use parallax_sdk::{LaunchOptions, SessionConfig};

use crate::auth_command::AuthArguments;
use crate::background_arguments::BackgroundAction;
use crate::batch_arguments::BatchArguments;
use crate::command_output::{LaunchFailure, print};
use crate::devtools_command::DevToolsArguments;
use crate::doctor_command::DoctorArguments;
use crate::eval_command::EvalArguments;
use crate::headless_session::{self, Prompts};
use crate::interactive::{self, InteractiveOptions};
use crate::mcp_arguments::McpAction;
use crate::models_command::ModelsArguments;
use crate::output_options::OutputOptions;
use crate::review_command::ReviewArguments;
use crate::serve_command::ServeArguments;
use crate::session_flags::SessionFlags;
use crate::start::{self, delete_session, list_sessions};
use crate::startup_info::StartupInfo;
use crate::worktrees_command::SessionWorktree;
use crate::{
    acp_command, attach_command, auth_command, background_command, background_session,
    batch_command, demo, devtools_command, doctor_command, eval_command, mcp_command,
    models_command, review_command, serve_command,
};

/// A command that starts an async runtime.
#[derive(Debug)]
pub(crate) enum AsyncCommand {
    /// Serve an editor over stdin and stdout.
    Acp { flags: SessionFlags },
    /// Serve sessions over HTTP.
    Serve(ServeArguments),
    /// Serve the developer tools of a session.
    DevTools(DevToolsArguments),
    /// Play the scripted demo session.
    Demo,
    /// List and change the MCP servers.
    Mcp(McpAction),
    /// Manage the keys of providers.
    Auth(AuthArguments),
    /// List and test models.
    Models(ModelsArguments),
    /// Run one prompt in the background.
    Background { prompt: Option<String>, flags: Box<SessionFlags>, printing: OutputOptions },
    /// List or control background sessions.
    BackgroundAction(BackgroundAction),
    /// Review changes.
    Review(Box<ReviewArguments>),
    /// Run a batch, or work with its results.
    Batch(Box<BatchArguments>),
    /// Run evaluation cases.
    Eval(Box<EvalArguments>),
    /// Check the machine.
    Doctor(DoctorArguments),
    /// List the sessions of the project.
    ListSessions { flags: SessionFlags, format: Option<OutputFormat> },
    /// Delete a session.
    DeleteSession {
        /// Its number in the list, or its ID.
        session: String,
        flags: SessionFlags,
        format: Option<OutputFormat>,
    },
    /// Run one prompt.
    Prompt {
        /// The prompt on the command line; text of stdin is prepended.
        prompt: Option<String>,
        flags: SessionFlags,
        printing: OutputOptions,
    },
    /// An interactive session in the terminal.
    Interactive {
        /// The first prompt.
        prompt: Option<String>,
        /// `--screen-reader`.
        screen_reader: bool,
        flags: SessionFlags,
        /// Warnings to show to the user.
        warnings: Vec<String>,
    },
    /// Read prompts as JSON lines from stdin.
    StreamInput { flags: SessionFlags, printing: OutputOptions },
}

impl AsyncCommand {
    /// Starts a runtime, runs the command, reports a failure, and returns the exit code.
    pub(crate) fn run(self, startup: StartupInfo) -> ExitCode {
        parallax_sandbox::close_inherited_on_exec();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(self.worker_threads())
            .enable_all()
            .build();
        let result = match runtime {
            Ok(runtime) => {
                let result = runtime.block_on(self.run_on_runtime(startup));
                // A pending read of stdin may never return, so do not wait for it.
                runtime.shutdown_background();
                result
            }
            Err(error) => {
                let message = format!("Failed to start the runtime: {error}");
                let failure = Failure { kind: FailureKind::Internal, message, status: None };
                Err(LaunchFailure::new(failure, None))
            }
        };
        result.unwrap_or_else(LaunchFailure::report)
    }

    /// Returns the number of runtime threads. More than four would be idle, because searches use
    /// their own threads. The session of a prompt and what prints it alternate: with two threads,
    /// they would wake each other for each event, which costs more than the events do.
    fn worker_threads(&self) -> usize {
        match self {
            Self::Prompt { .. } | Self::StreamInput { .. } => 1,
            _ => std::thread::available_parallelism().map_or(2, std::num::NonZero::get).clamp(2, 4),
        }
    }

    /// Returns the format of failures, as far as the command line determines it.
    fn failure_format(&self) -> Option<OutputFormat> {
        match self {
            Self::Mcp(action) => Some(mcp_command::format(action)),
            Self::Auth(arguments) => Some(auth_command::format(arguments)),
            Self::Models(arguments) => Some(models_command::format(arguments)),
            Self::ListSessions { format, .. } | Self::DeleteSession { format, .. } => *format,
            Self::Review(arguments) => arguments.error_format(),
            Self::BackgroundAction(action) => action.format(),
            Self::Background { printing, .. } => printing.format,
            _ => None,
        }
    }

    async fn run_on_runtime(self, startup: StartupInfo) -> Result<ExitCode, LaunchFailure> {
        let _file_limit = survive_file_limit();
        let format = self.failure_format();
        let result = match self {
            Self::Acp { flags } => Ok(acp_command::run(flags).await),
            Self::Demo => Ok(demo::run().await),
            Self::Doctor(arguments) => Ok(print_with_code(doctor_command::run(arguments).await)),
            Self::Models(arguments) => models_command::run(arguments).await.map(print_with_code),
            Self::Auth(arguments) => auth_command::run(arguments).await.map(|text| print(&text)),
            Self::Mcp(action) => mcp_command::run(action).await,
            Self::Serve(arguments) => serve_command::run(arguments).await,
            Self::DevTools(arguments) => devtools_command::run(arguments).await,
            Self::Review(arguments) => review_command::run(*arguments).await,
            Self::Batch(arguments) => batch_command::run(*arguments).await,
            Self::Eval(arguments) => eval_command::run(*arguments).await,
            Self::ListSessions { flags, .. } => {
                read_only_config(&flags).map(|config| print(&list_sessions(&config)))
            }
            Self::DeleteSession { session, flags, .. } => read_only_config(&flags)
                .and_then(|config| delete_session(&session, &config))
                .map(|output| print(&output)),
            Self::BackgroundAction(BackgroundAction::Attach(argument)) => {
                attach_command::run(argument, &startup).await
            }
            Self::BackgroundAction(action) => {
                let result = tokio::task::spawn_blocking(move || background_command::run(action));
                result.await.unwrap_or(Ok(ExitCode::GENERAL))
            }
            Self::Background { prompt, flags, printing } => match background_session::directory() {
                Some(directory) => {
                    let hosted = Prompts::Hosted(directory);
                    let run = headless_session::run(hosted, *flags, printing, startup);
                    return run_on_worker(run).await;
                }
                None => {
                    let format = printing.format;
                    background_session::start(prompt, &flags, format, startup).await
                }
            },
            Self::Interactive { prompt, screen_reader, flags, warnings } => {
                match SessionWorktree::enter(&flags) {
                    Ok(worktree) => {
                        let options = InteractiveOptions { prompt, screen_reader, flags, warnings };
                        let result = interactive::run(options, startup.stdin_is_terminal).await;
                        worktree.finish();
                        result
                    }
                    Err(failure) => Err(failure),
                }
            }
            Self::Prompt { prompt, flags, printing } => {
                let prompts = Prompts::Assembled(prompt);
                let run = headless_session::run(prompts, flags, printing, startup);
                return run_on_worker(run).await;
            }
            Self::StreamInput { flags, printing } => {
                let run = headless_session::run(Prompts::Streamed, flags, printing, startup);
                return run_on_worker(run).await;
            }
        };
        result.map_err(|failure| LaunchFailure::new(failure, format))
    }
}

/// Prints text and returns the exit code, or that of a failed write.
fn print_with_code((text, code): (String, ExitCode)) -> ExitCode {
    match print(&text) {
        ExitCode::SUCCESS => code,
        failed => failed,
    }
}

/// Reads flags and trust for commands that read nothing in the directory.
fn read_only_config(flags: &SessionFlags) -> Result<SessionConfig, Failure> {
    SessionConfig::prepare(LaunchOptions { is_read_only: true, ..start::options(flags)? })
}

/// Runs a front end as a task: on the threads of its session, which saves a switch of threads for
/// each event.
async fn run_on_worker<T: Send + 'static>(
    front_end: impl Future<Output = T> + Send + 'static,
) -> T {
    match tokio::spawn(front_end).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is running, and nothing else cancels this task.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Keeps a file-size limit (`ulimit -f`) from killing the program: with the signal handled, the
/// write fails instead, and the file being replaced stays intact.
#[cfg(unix)]
fn survive_file_limit() -> Option<tokio::signal::unix::Signal> {
    use tokio::signal::unix::{SignalKind, signal};
    let number = if cfg!(any(target_arch = "mips", target_arch = "mips64")) { 31 } else { 25 };
    signal(SignalKind::from_raw(number)).ok()
}

#[cfg(not(unix))]
fn survive_file_limit() {}
