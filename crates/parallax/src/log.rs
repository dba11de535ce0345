//! `--debug`: writes a log to a file. Only the front ends write to the terminal.

use std::fs::{DirBuilder, File};
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use parallax_sdk::SessionConfig;
use parallax_tui::debug_console::{LogBook, LogLevel};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Starts logging to `~/.parallax/logs`, one file per process. A failure to write the log is
/// ignored.
pub(crate) fn begin(launch: &SessionConfig) {
    let Some(file) = open(launch.home().join("logs")) else { return };
    let filter = EnvFilter::try_from_env("PARALLAX_LOG").unwrap_or_else(|_| {
        EnvFilter::new("warn,parallax=debug,parallax_engine=debug,parallax_gemini=debug,parallax_replay=debug,parallax_model_http=debug,parallax_tools=debug,parallax_exec=debug,parallax_mcp=debug")
    });
    // This runs once at the start, so there is no other subscriber.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(std::sync::Mutex::new(file))
        .try_init();
    tracing::debug!(version = env!("CARGO_PKG_VERSION"), "log started");
}

/// Collects log lines for the console of the interactive front end; with `--debug` also writes them
/// to a file, as [`begin`] does.
pub(crate) fn collect(book: &LogBook, home: Option<&std::path::Path>) {
    let file = home.and_then(|home| open(home.join("logs")));
    let usual = if file.is_some() { "info,parallax_mcp::wire=debug" } else { "warn" };
    let filter = EnvFilter::try_from_env("PARALLAX_LOG").unwrap_or_else(|_| EnvFilter::new(usual));
    let writers =
        LogWriterFactory { book: book.clone(), file: file.map(|file| Arc::new(Mutex::new(file))) };
    // This runs once at the start, so there is no other subscriber.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .without_time()
        .with_level(false)
        .with_writer(writers)
        .try_init();
}

/// Creates the writer of a line.
struct LogWriterFactory {
    book: LogBook,
    file: Option<Arc<Mutex<File>>>,
}

impl<'a> MakeWriter<'a> for LogWriterFactory {
    type Writer = LineWriter;

    fn make_writer(&'a self) -> LineWriter {
        LineWriter {
            book: self.book.clone(),
            file: self.file.clone(),
            level: Some(LogLevel::Info),
            line: Vec::new(),
        }
    }

    fn make_writer_for(&'a self, meta: &tracing::Metadata<'_>) -> LineWriter {
        let level = match *meta.level() {
            tracing::Level::ERROR => Some(LogLevel::Error),
            tracing::Level::WARN => Some(LogLevel::Warning),
            tracing::Level::INFO => Some(LogLevel::Info),
            // Protocol messages between programs go only to the file.
            _ if self.file.is_some() => None,
            _ => Some(LogLevel::Info),
        };
        let mut writer = self.make_writer();
        writer.level = level;
        writer
    }
}

/// A writer that forwards each complete line of the log.
struct LineWriter {
    book: LogBook,
    file: Option<Arc<Mutex<File>>>,
    /// The level; `None` if the line is not for the console.
    level: Option<LogLevel>,
    line: Vec<u8>,
}

impl Write for LineWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.line.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Drop for LineWriter {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            // A failure to write the log is ignored.
            let _ = file.write_all(&self.line);
        }
        if let Some(level) = self.level {
            let text = String::from_utf8_lossy(&self.line);
            self.book.add(level, text.trim().to_owned());
        }
    }
}

fn open(directory: PathBuf) -> Option<File> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    let mut options = File::options();
    options.create(true).append(true);
    #[cfg(unix)]
    {
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    builder.create(&directory).ok()?;
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).ok()?;
    let name = format!("parallax-{}-{}.log", time.as_secs(), std::process::id());
    options.open(directory.join(name)).ok()
}
