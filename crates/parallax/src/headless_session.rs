//! Runs a session without a terminal interface.

use std::io::{self, Write};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::PathBuf;

use parallax_headless::{
    ConversationSession, ErrorObject, ExitCode, OutputFormat, OutputSchema, OutputWriters,
    RunOptions, Signals, continue_turn, print_command_output, report_error,
    report_exhausted_budget, run_prompt, run_stream_input,
};
use parallax_protocol::content::Part;
use parallax_protocol::event::{EventBody, Failure, ItemDone, Level};
use parallax_sdk::{EventReader, OpenSession, SessionConfig};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::command_output::LaunchFailure;
use crate::output_options::OutputOptions;
use crate::prompt_text::{StdinText, assemble, read_stdin};
use crate::session_flags::SessionFlags;
use crate::start::{self, StartedSession, format_of, start};
use crate::startup_info::StartupInfo;
use crate::worktrees_command::SessionWorktree;
use crate::{background_session, log};

/// The source of a session's prompts.
pub(crate) enum Prompts {
    /// One prompt, from the command line and stdin.
    Assembled(Option<String>),
    /// JSON lines on stdin.
    Streamed,
    /// Other processes: a background session in this directory.
    Hosted(PathBuf),
}

/// Runs a session without a terminal interface, in the worktree that it requests.
pub(crate) async fn run(
    prompts: Prompts,
    flags: SessionFlags,
    output_options: OutputOptions,
    startup: StartupInfo,
) -> Result<ExitCode, LaunchFailure> {
    if flags.worktree.is_some() {
        // An untrusted folder gets no worktree.
        prepare(&flags).map_err(|failure| LaunchFailure::new(failure, output_options.format))?;
    }
    let worktree = SessionWorktree::enter(&flags)
        .map_err(|failure| LaunchFailure::new(failure, output_options.format))?;
    let result = headless(prompts, flags, output_options, startup).await;
    worktree.finish();
    result
}

/// Runs a session without a terminal interface.
async fn headless(
    prompts: Prompts,
    flags: SessionFlags,
    output_options: OutputOptions,
    startup: StartupInfo,
) -> Result<ExitCode, LaunchFailure> {
    let launch =
        prepare(&flags).map_err(|failure| LaunchFailure::new(failure, output_options.format))?;
    let arguments = std::env::args_os().skip(1).collect();
    let enclosure = parallax_sdk::sandboxed_program(&launch, arguments, startup.stdin_is_terminal);
    if let Some(enclosure) =
        enclosure.map_err(|failure| LaunchFailure::new(failure, output_options.format))?
    {
        // From here on, the sandboxed program produces the output.
        let code = enclosure
            .run()
            .await
            .map_err(|failure| LaunchFailure::new(failure, output_options.format))?;
        return Ok(ExitCode(code));
    }
    // The schema is checked before a session is opened for it, and read only after the trust check.
    let schema = match output_options.schema.as_deref().map(OutputSchema::load).transpose() {
        Ok(schema) => schema,
        Err(failure) => return Err(LaunchFailure::new(failure, output_options.format)),
    };
    if flags.debug {
        log::begin(&launch);
    }
    let format = output_options.format.unwrap_or_else(|| format_of(&launch));
    // It connects while the session opens.
    let launch = launch.with_companion();
    let StartedSession { session, mut events } =
        start(launch).map_err(|failure| LaunchFailure::new(failure, Some(format)))?;
    if let Some(companion) = session.companion() {
        companion.wait_until_settled(COMPANION_TIME).await;
    }
    let quiet = output_options.quiet;
    let code = run_prompts(
        &session,
        &mut events,
        prompts,
        options(&session, output_options, format, schema, startup),
        startup,
    )
    .await;
    let id = session.id.clone();
    let interrupted = code.as_ref().is_ok_and(|code| *code == ExitCode::CANCELLED);
    let hooks = if session.has_end_hooks() { session.end_hooks() } else { Vec::new() };
    for output in session.close_with_limit(wait_for_hook_limit(interrupted, hooks)).await {
        // The session's event channel is closed, and the result is printed. In the JSON formats,
        // stderr is reserved for failures. A closed pipe is not an error.
        if !quiet && (format == OutputFormat::Text || output.is_failure) {
            let _ = writeln!(std::io::stderr(), "warning: {output}");
        } else {
            tracing::warn!("{output}");
        }
    }
    if !quiet {
        report_unprinted(&mut events);
    }
    code.map_err(|failure| LaunchFailure { failure, format, session: Some(id) })
}

/// Reports on stderr what no output format has printed, such as a failed `SessionEnd` hook. The
/// JSON formats read these events before a successful run ends.
fn report_unprinted(events: &mut EventReader) {
    while let Some(event) = events.try_next() {
        let text = match event.body {
            EventBody::ItemDone {
                done: ItemDone::Notice { level: Level::Warning | Level::Error, text, .. },
                ..
            } => format!("warning: {text}"),
            EventBody::Aside { text } => text,
            _ => continue,
        };
        // A closed pipe is not an error here.
        let _ = writeln!(std::io::stderr(), "{}", parallax_headless::one_line(&text));
    }
}

/// How long the first prompt of a headless run waits for the list of files open in the editor.
const COMPANION_TIME: std::time::Duration = std::time::Duration::from_millis(100);

/// Time limit for ending an interrupted run.
const INTERRUPTED_CLOSE_LIMIT: std::time::Duration = std::time::Duration::from_secs(5);

/// Session-end hooks that take longer than this are reported.
const HOOK_NOTICE_DELAY: std::time::Duration = std::time::Duration::from_secs(3);

/// Completes when session-end hooks should no longer be awaited.
async fn wait_for_hook_limit(interrupted: bool, hooks: Vec<String>) {
    if interrupted {
        return tokio::time::sleep(INTERRUPTED_CLOSE_LIMIT).await;
    }
    let notice = async {
        tokio::time::sleep(HOOK_NOTICE_DELAY).await;
        if !hooks.is_empty() {
            let names: Vec<String> = hooks
                .iter()
                .map(|name| format!("`{}`", parallax_headless::one_line(name)))
                .collect();
            let _ = writeln!(
                std::io::stderr(),
                "Waiting for session-end hooks: {}. Press Ctrl+C to exit without waiting.",
                names.join(", ")
            );
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        () = wait_for_ctrl_c() => {}
        () = notice => {}
    }
}

/// Completes on Ctrl+C.
async fn wait_for_ctrl_c() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending().await
    }
}

/// Reads flags and trust for a command line.
fn prepare(flags: &SessionFlags) -> Result<SessionConfig, Failure> {
    SessionConfig::prepare(start::options(flags)?)
}

/// Runs the prompts of the session until there are no more.
async fn run_prompts(
    session: &OpenSession,
    events: &mut EventReader,
    prompts: Prompts,
    mut options: RunOptions,
    startup: StartupInfo,
) -> Result<ExitCode, Failure> {
    let prompt = match prompts {
        Prompts::Streamed => {
            let (ops, stdin) = (session.ops(), tokio::io::stdin());
            let session = ConversationSession { session, expand: start::expand(session) };
            return Ok(run_stream_input(
                OutputWriters::standard(),
                ops,
                events,
                stdin,
                session,
                options,
            )
            .await);
        }
        Prompts::Hosted(directory) => {
            let ops = session.ops();
            let conversation = ConversationSession { session, expand: start::expand(session) };
            return background_session::host(&directory, conversation, ops, events, options).await;
        }
        Prompts::Assembled(prompt) => prompt,
    };
    let stdin = if startup.stdin_is_terminal {
        StdinText::default()
    } else {
        let mut signals = Signals::listen();
        tokio::select! {
            stdin = read_stdin(io::stdin(), prompt.is_some()) => stdin,
            number = signals.next() => return Ok(handle_early_signal(number, session, &options)),
        }
    };
    options.warnings.extend(stdin.warnings);
    // Without a prompt, the interrupted turn is continued.
    if session.is_cut_off() && prompt.is_none() && stdin.text.trim().is_empty() {
        return Ok(continue_turn(OutputWriters::standard(), session.ops(), events, options).await);
    }
    let prompt_text = assemble(&stdin.text, prompt.as_deref())?;
    // Runs concurrently, so that the prompt does not wait for files that it does not use.
    let commands = session.commands.clone();
    let command_warnings = tokio::task::spawn_blocking(move || commands.catalog().warnings());
    let mut signals = Signals::listen();
    let answer = tokio::select! {
        asked = start::engine_command(session, events, &prompt_text) => asked?,
        number = signals.next() => return Ok(handle_early_signal(number, session, &options)),
    };
    let output = match answer {
        None => {
            start::info_command(session, &prompt_text).await?.map(|report| (report, Vec::new()))
        }
        asked => asked,
    };
    if let Some(output) = output {
        drop(signals);
        options.warnings.extend(command_warnings.await.unwrap_or_default());
        let ops = session.ops();
        return Ok(print_command_output(
            OutputWriters::standard(),
            ops,
            events,
            output,
            prompt_text,
            options,
        )
        .await);
    }
    let ledger = session.ledger();
    let expanded = tokio::select! {
        expanded = ledger.run_within(start::prompt(session, prompt_text.clone())) => expanded,
        number = signals.next() => return Ok(handle_early_signal(number, session, &options)),
    };
    drop(signals);
    let expanded = match expanded {
        Ok(expanded) => expanded?,
        Err(spent) => {
            let (stdout, stderr) = (&mut io::stdout(), &mut io::stderr());
            return Ok(report_exhausted_budget(
                options.format,
                Some(&session.id),
                &spent,
                stdout,
                stderr,
            ));
        }
    };
    options.warnings.extend(expanded.notices);
    options.warnings.extend(command_warnings.await.unwrap_or_default());
    let mut prompt = expanded.prompt;
    if let Some(schema) = &options.schema {
        prompt.attachments.push(Part::text(schema.instruction()));
    }
    Ok(run_prompt(OutputWriters::standard(), session.ops(), events, prompt, prompt_text, options)
        .await)
}

/// Handles a signal that arrived before there was a prompt.
fn handle_early_signal(number: u8, session: &OpenSession, options: &RunOptions) -> ExitCode {
    let code = match options.compatible_signals {
        true => ExitCode::SUCCESS,
        false => ExitCode::signal(number),
    };
    let error = ErrorObject {
        r#type: "FatalCancellationError",
        message: "Cancelled before the prompt was read".to_owned(),
        code: u16::from(code.0),
        status: None,
    };
    let (stdout, stderr) = (&mut io::stdout(), &mut io::stderr());
    report_error(options.format, Some(&session.id), &error, stdout, stderr);
    code
}

fn options(
    session: &OpenSession,
    output_options: OutputOptions,
    format: OutputFormat,
    schema: Option<OutputSchema>,
    startup: StartupInfo,
) -> RunOptions {
    let mut warnings = output_options.warnings;
    warnings.extend(session.warnings.iter().cloned());
    RunOptions {
        format,
        stream_version: output_options.stream_version,
        raw_output: output_options.raw_output,
        whole_messages: !output_options.stream_text && !startup.stdout_is_terminal,
        verbose_json: output_options.verbose_json,
        quiet: output_options.quiet,
        schema,
        session_id: Some(session.id.clone()),
        model: session.model.clone(),
        warnings,
        scripted: session.scripted,
        stdin_is_terminal: startup.stdin_is_terminal,
        has_end_hooks: session.has_end_hooks(),
        stderr_color: startup.stderr_color,
        shared_terminal: (startup.stdout_is_terminal && startup.stderr_is_terminal)
            || share_output(),
        compatible_signals: startup.compatible_signals,
        finishes_tool_calls: parallax_batch::is_agent(),
        is_reader_gone: Some(is_reader_gone),
    }
}

/// Whether the other end of the pipe or socket at stdout is closed.
fn is_reader_gone() -> bool {
    let stdout = rustix::stdio::stdout();
    let mut descriptors = [PollFd::new(&stdout, PollFlags::empty())];
    let gone = PollFlags::ERR | PollFlags::HUP;
    poll(&mut descriptors, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok()
        && descriptors[0].revents().intersects(gone)
}

/// Whether standard output and standard error are the same file or pipe (`2>&1`).
fn share_output() -> bool {
    let file = |stream: BorrowedFd<'_>| {
        rustix::fs::fstat(stream).ok().map(|status| (status.st_dev, status.st_ino))
    };
    let (output, errors) = (std::io::stdout(), std::io::stderr());
    let output = file(output.as_fd());
    output.is_some() && output == file(errors.as_fd())
}
