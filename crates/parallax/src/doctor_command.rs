//! `parallax doctor`: finds problems on this machine and suggests fixes.

use std::fmt::Write as _;

use clap::Args;
use parallax_doctor::{self, CheckStatus, DoctorReport};
use parallax_headless::{ExitCode, json_document, one_line};
use parallax_sdk::LaunchOptions;

use crate::extension_commands;
use crate::program_name::called_name;
use crate::session_flags::SessionFlags;
use crate::start;

/// `parallax doctor`.
#[derive(Debug, PartialEq, Eq, Args)]
pub(crate) struct DoctorArguments {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Check the service of this model
    #[arg(short, long, value_name = "NAME")]
    pub(crate) model: Option<String>,
}

/// Runs all checks. Returns the output and the exit code: 1 if something does not work.
pub(crate) async fn run(arguments: DoctorArguments) -> (String, ExitCode) {
    let report = match start::options(&SessionFlags::default()) {
        Ok(options) => {
            let skip_trust = extension_commands::skips_trust();
            let options = LaunchOptions { model: arguments.model, skip_trust, ..options };
            parallax_doctor::examine(options, &called_name(), parallax_tui::setting_problems).await
        }
        Err(failure) => {
            parallax_doctor::without_directory(env!("CARGO_PKG_VERSION"), &failure.message)
        }
    };
    let code = if report.has_errors() { ExitCode(1) } else { ExitCode::SUCCESS };
    let text = if arguments.json { json_document(&report) } else { text_of(&report) };
    (text, code)
}

fn text_of(report: &DoctorReport) -> String {
    let mut text = format!("Parallax {} on {}\n\n", report.version, report.platform);
    let width = report.checks.iter().map(|check| check.title.chars().count()).max().unwrap_or(0);
    let indent = " ".repeat(width + 13);
    for check in &report.checks {
        let status = match check.status {
            CheckStatus::Ok => "ok",
            CheckStatus::Info => "info",
            CheckStatus::Skipped => "skipped",
            CheckStatus::Warning => "warning",
            CheckStatus::Error => "error",
        };
        let mut lines = check.detail.lines().map(one_line);
        let first = lines.next().unwrap_or_default();
        let _ = writeln!(text, "  {status:<9}{:<width$}  {first}", one_line(&check.title));
        for line in lines {
            let _ = writeln!(text, "{indent}{line}");
        }
        if let Some(remedy) = &check.remedy {
            let _ = writeln!(text, "{indent}→ {}", one_line(remedy));
        }
    }
    let count = |status| report.checks.iter().filter(|check| check.status == status).count();
    let (errors, warnings) = (count(CheckStatus::Error), count(CheckStatus::Warning));
    let _ = match (errors, warnings) {
        (0, 0) => writeln!(text, "\nEverything works."),
        _ => writeln!(text, "\nErrors: {errors}. Warnings: {warnings}."),
    };
    text
}
