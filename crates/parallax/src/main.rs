//! The program `parallax`: parses the command line and runs a front end. Contains no agent logic.

mod acp_command;
mod agents_command;
mod argument_values;
mod arguments;
mod async_command;
mod attach_command;
mod auth_command;
mod background_arguments;
mod background_command;
mod background_request;
mod background_session;
mod background_views;
mod batch_arguments;
mod batch_command;
mod batch_failure;
mod batch_kubernetes;
mod batch_kubernetes_arguments;
mod batch_runner;
mod batch_task;
mod batch_view;
mod blocking_command;
mod command_line;
mod command_output;
mod command_result;
mod commands_command;
mod completion_shell;
mod completions;
mod crash;
mod demo;
mod devtools_command;
mod devtools_pages;
mod devtools_source;
mod doctor_command;
mod eval_command;
mod extension_commands;
mod extension_descriptions;
mod extensions_command;
#[cfg(test)]
mod flag_reference;
mod headless_session;
mod hidden_input;
mod home_variable;
mod hooks_command;
mod index_progress;
mod interactive;
mod invocation;
mod list_flags;
mod log;
mod man_command;
mod management_commands;
mod mcp_arguments;
mod mcp_command;
mod mcp_sign_in;
mod models_command;
mod normalized_args;
mod other_agents;
mod output_options;
mod policy_command;
mod program_name;
mod prompt_text;
mod repository_variables;
mod review_command;
mod sandbox_command;
mod scope_option;
mod serve_command;
mod session_flags;
mod sessions_arguments;
mod sessions_command;
mod skills_command;
mod start;
mod startup_info;
mod stats_command;
mod trust_command;
mod undo_command;
mod usage;
mod worktrees_command;

use std::ffi::OsString;
use std::io;

use parallax_headless::{ExitCode, report_error, report_failure};

use crate::invocation::{Invocation, InvocationError};
use crate::startup_info::StartupInfo;

#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    // Must be first, because the sandbox requires a single-threaded process.
    if let Some(code) = parallax_sandbox::main(std::env::args_os()) {
        return code;
    }
    if parallax_sandbox::stdout_was_closed() {
        // The output would be lost, so nothing is run.
        let _ = io::Write::write_all(
            &mut io::stderr(),
            b"error: Cannot write to standard output: it is closed\n",
        );
        return ExitCode::GENERAL.into();
    }
    home_variable::restore();
    crash::install();
    parallax_batch::end_with_batch();
    let argv: Vec<OsString> = std::env::args_os().collect();
    if let Some(code) = completions::answer(&argv) {
        return code.into();
    }
    let startup = StartupInfo::read();
    let normalized_args::NormalizedArgs { argv, before_subcommand } =
        normalized_args::normalize(&argv);
    if let Some((subcommand, mut flags)) = before_subcommand {
        let all = flags.len();
        flags.retain(|flag| flag != "--skip-trust");
        if flags.len() < all {
            extension_commands::skip_trust();
        }
        let all = flags.len();
        flags.retain(|flag| flag != "--debug" && flag != "-d");
        if flags.len() < all {
            extension_commands::enable_log();
        }
        if !flags.is_empty() {
            usage::warn_about_flags(&subcommand, &flags);
        }
    }
    let code = match Invocation::read(&argv, &startup) {
        Ok(invocation) => {
            repository_variables::remove(&invocation);
            match invocation {
                Invocation::Blocking(command) => command.run(),
                Invocation::Async(command) => command.run(startup),
            }
        }
        Err(refusal) => report_invocation_error(&refusal, &argv),
    };
    code.into()
}

fn report_invocation_error(refusal: &InvocationError, argv: &[OsString]) -> ExitCode {
    let format = usage::requested_format(argv);
    let (stdout, stderr) = (&mut io::stdout(), &mut io::stderr());
    match refusal {
        InvocationError::Usage(usage) => {
            // Gemini CLI exits with the same code.
            let code = ExitCode::GENERAL;
            report_error(format, None, &usage.error(code), stdout, stderr);
            code
        }
        InvocationError::Group(help) => {
            // A failed write to stderr cannot be reported.
            let _ = io::Write::write_all(stderr, help.as_bytes());
            ExitCode::GENERAL
        }
        InvocationError::Failure(failure) => report_failure(format, None, failure, stdout, stderr),
    }
}
