//! `--debug`: what happens inside, in a file. Nothing but the faces writes to
//! the terminal.

use std::fs::{DirBuilder, File};
use std::path::PathBuf;

use parallax_sdk::Launch;
use tracing_subscriber::EnvFilter;

/// Begins to log into `~/.parallax/logs`, one file a process. A log that cannot
/// be written is not worth failing for.
pub(crate) fn begin(launch: &Launch) {
    let Some(file) = open(launch.home().join("logs")) else { return };
    let filter = EnvFilter::try_from_env("PARALLAX_LOG").unwrap_or_else(|_| {
        EnvFilter::new("warn,parallax=debug,parallax_engine=debug,parallax_gemini=debug,parallax_tools=debug,parallax_exec=debug")
    });
    // A second subscriber cannot be there: this runs once, at the start.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(std::sync::Mutex::new(file))
        .try_init();
    tracing::debug!(version = env!("CARGO_PKG_VERSION"), "log begins");
}

fn open(folder: PathBuf) -> Option<File> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    let mut options = File::options();
    options.create(true).append(true);
    #[cfg(unix)]
    {
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    builder.create(&folder).ok()?;
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).ok()?;
    let name = format!("parallax-{}-{}.log", time.as_secs(), std::process::id());
    options.open(folder.join(name)).ok()
}
