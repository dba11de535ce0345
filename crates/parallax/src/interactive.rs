//! Runs the interactive front end for a command line.

use std::sync::Arc;
use std::time::Instant;

use parallax_headless::ExitCode;
use parallax_protocol::event::{Failure, FailureKind};
use parallax_sdk::SessionConfig;
use parallax_sessions::SessionChoice;
use parallax_tui::debug_console::LogBook;
use parallax_tui::{ExitReason, TerminalOptions};

use crate::devtools_pages::DevToolsServers;
use crate::session_flags::SessionFlags;
use crate::{log, start};

/// The value of `--resume` that opens the session browser.
const PICK: &str = "pick";

/// The options of the command line.
pub(crate) struct InteractiveOptions {
    pub(crate) prompt: Option<String>,
    pub(crate) screen_reader: bool,
    pub(crate) flags: SessionFlags,
    pub(crate) warnings: Vec<String>,
}

/// Runs the terminal interface until the user exits.
///
/// # Errors
/// Returns the reason if no session could be opened.
pub(crate) async fn run(
    typed: InteractiveOptions,
    stdin_is_terminal: bool,
) -> Result<ExitCode, Failure> {
    let process_start = Instant::now();
    let mut launch = start::options(&typed.flags)?;
    launch.budget_questions = true;
    // The user selects the session in the browser.
    let browse = launch.session == SessionChoice::Resume(PICK.to_owned());
    if browse {
        launch.session = SessionChoice::New;
    }
    // If the whole program is sandboxed, it is restarted inside the sandbox.
    if typed.flags.options.sandbox.is_some() || std::env::var_os("GEMINI_SANDBOX").is_some() {
        let prepared = SessionConfig::prepare(launch.clone())?;
        let arguments = std::env::args_os().skip(1).collect();
        if let Some(enclosure) =
            parallax_sdk::sandboxed_program(&prepared, arguments, stdin_is_terminal)?
        {
            return enclosure.run().await.map(ExitCode);
        }
    }
    let book = LogBook::default();
    let home = typed.flags.debug.then(crate::crash::home).flatten();
    log::collect(&book, home.as_deref());
    let options = TerminalOptions {
        launch,
        prompt: typed.prompt,
        browse,
        screen_reader: typed.screen_reader,
        warnings: typed.warnings,
        log: book,
        devtools: Arc::new(DevToolsServers::default()),
        attached: None,
        process_start,
    };
    crate::crash::record_terminal_use();
    match parallax_tui::run(options).await? {
        ExitReason::Quit => Ok(ExitCode::SUCCESS),
        ExitReason::Signal(number) => Ok(ExitCode::signal(number)),
        ExitReason::NoTerminal => Err(Failure {
            kind: FailureKind::Input,
            message: "Failed to initialize the terminal".to_owned(),
            status: None,
        }),
    }
}
