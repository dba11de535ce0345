//! Facts about the product that several package formats need.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::tool::command;

/// The name of the program and of its packages.
pub const NAME: &str = "parallax";
/// The version of the workspace.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// SPDX expression.
pub const LICENSE: &str = "Apache-2.0";
/// One line, without a period.
pub const SUMMARY: &str = "AI agent for the terminal";
/// A paragraph for package managers.
pub const DESCRIPTION: &str = "Parallax reads and searches a project, edits files, runs commands in a sandbox, \
looks things up on the web, and checks its work. It uses the settings, context files, extensions, and flags \
of Gemini CLI.";
/// Who is named in packages, unless `--maintainer` says otherwise.
pub const MAINTAINER: &str = "The Parallax authors <parallax@parallax.invalid>";

/// Returns the root of the workspace.
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

/// Returns the time of all files in packages: `SOURCE_DATE_EPOCH`, or that of the last commit.
///
/// # Errors
/// Returns an error if the variable is invalid, or git cannot say when the last commit was made.
pub fn source_date() -> Result<u64> {
    if let Ok(text) = std::env::var("SOURCE_DATE_EPOCH") {
        return text
            .trim()
            .parse()
            .with_context(|| format!("Invalid SOURCE_DATE_EPOCH `{text}`: expected seconds"));
    }
    let done = command("git").args(["log", "-1", "--format=%ct"]).current_dir(root()).output();
    let done = done.context("Failed to run git. Set SOURCE_DATE_EPOCH.")?;
    if !done.status.success() {
        bail!("git does not know the date of the last commit. Set SOURCE_DATE_EPOCH.");
    }
    String::from_utf8_lossy(&done.stdout)
        .trim()
        .parse()
        .context("git printed an invalid date. Set SOURCE_DATE_EPOCH.")
}

/// Returns a time for package metadata.
///
/// # Errors
/// Returns an error if the seconds are beyond any calendar.
pub fn timestamp(seconds: u64) -> Result<jiff::Zoned> {
    let seconds = i64::try_from(seconds).context("SOURCE_DATE_EPOCH is too large")?;
    let time = jiff::Timestamp::from_second(seconds).context("SOURCE_DATE_EPOCH is too large")?;
    Ok(time.to_zoned(jiff::tz::TimeZone::UTC))
}
