//! `--bg`: starts a session in the background, and implements its process.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parallax_background::{
    AttachChannels, BackgroundDirectory, BackgroundSession, Host, SessionRecord,
};
use parallax_headless::{
    ConversationSession, ExitCode, OutputFormat, OutputWriters, RunOptions, json_document,
    one_line, run_stream_input,
};
use parallax_protocol::event::{Failure, FailureKind};
use parallax_sdk::{EventReader, OpSender, SessionConfig};
use parallax_sessions::SessionChoice;
use serde_json::json;

use crate::background_views;
use crate::prompt_text::{StdinText, assemble, read_stdin};
use crate::session_flags::SessionFlags;
use crate::start;
use crate::startup_info::StartupInfo;

/// The variable that marks this process as the session's.
const VARIABLE: &str = "PARALLAX_BACKGROUND";
/// Time limit for starting the session's process.
const START_TIME: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(10);
/// Maximum size in bytes of an error of that process.
const MAX_ERROR_LENGTH: usize = 4_000;

fn input_failure(message: String) -> Failure {
    Failure { kind: FailureKind::Input, message, status: None }
}

/// Returns the directory of the session that this process runs, if any.
pub(crate) fn directory() -> Option<PathBuf> {
    std::env::var_os(VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Returns the directory of background sessions.
///
/// # Errors
/// Returns an error if the home directory is unknown.
pub(crate) fn all() -> Result<BackgroundDirectory, Failure> {
    let current_directory = std::env::current_dir()
        .map_err(|error| input_failure(format!("Failed to read the current directory: {error}")))?;
    let environment = parallax_config::Environment::new(std::env::vars_os());
    let dirs = parallax_config::UserDirs::find(&environment, &current_directory)
        .map_err(|error| input_failure(error.to_string()))?;
    Ok(BackgroundDirectory::below(&dirs.parallax))
}

/// Starts this program again as the process of the session, and prints the session ID.
///
/// # Errors
/// Returns the error that a foreground run would report before its session starts, or an error if
/// the process did not start.
pub(crate) async fn start(
    prompt: Option<String>,
    flags: &SessionFlags,
    format: Option<OutputFormat>,
    startup: StartupInfo,
) -> Result<ExitCode, Failure> {
    let launch = SessionConfig::prepare(start::options(flags)?)?;
    let is_enclosed = parallax_sdk::sandboxed_program(&launch, Vec::new(), false)?.is_some();
    if is_enclosed {
        return Err(input_failure(
            "`--bg` cannot be combined with `--sandbox` or `tools.sandbox` values that run all of \
             Parallax in a sandbox"
                .to_owned(),
        ));
    }
    let stdin = match startup.stdin_is_terminal {
        true => StdinText::default(),
        false => read_stdin(io::stdin(), prompt.is_some()).await,
    };
    let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let mut is_open = false;
    let (id, resumes) = match &flags.options.session {
        SessionChoice::WithId(id) => (id.clone(), false),
        SessionChoice::Resume(which) => {
            let entry = launch.session_library().session(which)?;
            is_open = entry.is_in_use();
            (entry.id, true)
        }
        SessionChoice::New => {
            let id = uuid::Uuid::new_v4().to_string();
            arguments.extend(["--session-id".into(), (&id).into()]);
            (id, false)
        }
        _ => {
            return Err(input_failure(
                "`--bg` cannot be used with `--at` and `--session-file`".to_owned(),
            ));
        }
    };
    let has_prompt = prompt.is_some() || !stdin.text.trim().is_empty();
    // Without a prompt, the interrupted turn of a session is continued.
    let text = match has_prompt || !resumes {
        true => Some(assemble(&stdin.text, prompt.as_deref())?),
        false => None,
    };
    let (session, start) = all()?.create(&id).map_err(|error| input_failure(error.to_string()))?;
    if is_open {
        return Err(open_elsewhere_failure(&id));
    }
    if let Some(text) = &text {
        let file = session.file("prompt.md");
        std::fs::write(&file, text).map_err(|error| {
            input_failure(format!("Failed to write `{}`: {error}", file.display()))
        })?;
    }
    let started = tokio::task::spawn_blocking(move || {
        // From its record on, the session itself is locked.
        let _start = start;
        spawn(&session, &arguments)
    })
    .await;
    started.map_err(|error| input_failure(error.to_string()))??;
    let line = match format {
        Some(OutputFormat::Json | OutputFormat::StreamJson) => {
            json_document(&json!({"session_id": id}))
        }
        _ => format!("{id}\n"),
    };
    // A closed pipe is not an error here.
    let _ = io::stdout().write_all(line.as_bytes());
    Ok(ExitCode::SUCCESS)
}

fn open_elsewhere_failure(id: &str) -> Failure {
    input_failure(format!(
        "the session `{id}` is in use by another process: close it there, or continue in a copy with \
         `parallax --resume {id}`"
    ))
}

/// Starts the process and waits until it records the session. Blocking.
fn spawn(session: &BackgroundSession, arguments: &[OsString]) -> Result<(), Failure> {
    let failed = |error: io::Error| input_failure(format!("Failed to start the session: {error}"));
    let program = std::env::current_exe().map_err(failed)?;
    let log = session.file("log.txt");
    let file = File::create(&log).map_err(failed)?;
    let variables = [(VARIABLE.into(), session.path().as_os_str().to_owned())];
    let mut child = parallax_exec::agent_process::start_detached(
        program.as_os_str(),
        arguments,
        &variables,
        &file,
    )
    .map_err(failed)?;
    let end = Instant::now() + START_TIME;
    while session.record().is_none() {
        if child.try_wait().map_err(failed)?.is_some() && session.record().is_none() {
            let text = std::fs::read(&log).unwrap_or_default();
            let text = String::from_utf8_lossy(text.get(..MAX_ERROR_LENGTH).unwrap_or(&text));
            return Err(input_failure(format!(
                "The session did not start: {}",
                one_line(text.trim())
            )));
        }
        if Instant::now() > end {
            return Err(input_failure(format!(
                "The session did not start in time; see {}",
                log.display()
            )));
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}

/// Runs the session of this process; other processes send its prompts.
///
/// # Errors
/// Returns an error if its directory cannot be used.
pub(crate) async fn host(
    directory: &Path,
    conversation: ConversationSession<'_>,
    ops: OpSender,
    events: &mut EventReader,
    mut options: RunOptions,
) -> Result<ExitCode, Failure> {
    let session = BackgroundSession::at(directory);
    let project = std::env::current_dir().unwrap_or_default().display().to_string();
    let id = conversation.session.id.as_str().to_owned();
    // A session that another process opened in the meantime would continue in a copy unknown to the
    // user.
    let requested_id = directory.file_name().and_then(|name| name.to_str()).unwrap_or(&id);
    if requested_id != id {
        return Err(open_elsewhere_failure(requested_id));
    }
    let record = SessionRecord::new(&id, &project);
    let prompt = std::fs::read_to_string(session.file("prompt.md")).ok();
    let (feed, requests) = background_views::feed(conversation.session);
    let views = AttachChannels { feed, requests: requests.sender };
    let (host, streams) = Host::start(session, record, prompt.as_deref(), views)
        .map_err(|error| input_failure(error.to_string()))?;
    let viewers = background_views::ViewerInputs {
        session: conversation.session,
        expand: Arc::clone(&conversation.expand),
        ops: ops.clone(),
        counter: host.prompt_counter(),
    };
    options.stream_version = 2;
    options.is_reader_gone = None;
    let io =
        OutputWriters { stdout: Box::new(streams.output), stderr: Box::new(tokio::io::stderr()) };
    let code = tokio::select! {
        code = run_stream_input(io, ops, events, streams.input, conversation, options) => code,
        () = viewers.serve(requests.receiver) => ExitCode::GENERAL,
    };
    host.finish(code.0).await;
    Ok(code)
}
