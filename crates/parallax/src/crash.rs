//! The panic hook: writes a report to `~/.parallax/crashes` and one line to stderr. A tool that
//! panics is a failed call; the session continues.

use std::io::Write as _;
use std::panic::PanicHookInfo;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum number of reports, so that a loop of panics cannot fill the disk. The user deletes old
/// reports.
const MAX_REPORTS: usize = 50;

/// Whether the interactive front end uses the terminal.
static FACE: AtomicBool = AtomicBool::new(false);

/// Records that the interactive front end uses the terminal: a panic of another thread then writes
/// nothing to it, and a panic of the main thread restores it first.
pub(crate) fn record_terminal_use() {
    FACE.store(true, Ordering::Relaxed);
}

/// Installs the hook. The report contains the location and the message, but no contents of the
/// session.
pub(crate) fn install() {
    std::panic::set_hook(Box::new(|panic| {
        let text = describe(panic);
        if FACE.load(Ordering::Relaxed) {
            if std::thread::current().name() != Some("main") {
                // The session continues, and the front end owns the terminal.
                write_report(&text);
                return;
            }
            parallax_tui::emergency_restore();
        }
        let mut stderr = std::io::stderr().lock();
        // A failed write to stderr cannot be reported.
        let _ = match write_report(&text) {
            Some(path) => writeln!(
                stderr,
                "parallax: internal error (this is a bug); report: {}",
                path.display()
            ),
            None => writeln!(stderr, "parallax: internal error (this is a bug): {text}"),
        };
    }));
}

fn describe(panic: &PanicHookInfo<'_>) -> String {
    let location =
        panic.location().map_or_else(|| "unknown location".to_owned(), ToString::to_string);
    let message = panic.payload_as_str().unwrap_or("no message");
    let thread = std::thread::current().name().unwrap_or("unnamed").to_owned();
    format!(
        "parallax {} panicked at {location} in thread {thread}\n{message}\n",
        env!("CARGO_PKG_VERSION")
    )
}

fn write_report(text: &str) -> Option<PathBuf> {
    let directory = home()?.join("crashes");
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(&directory).ok()?;
    if std::fs::read_dir(&directory).ok()?.take(MAX_REPORTS).count() >= MAX_REPORTS {
        return None;
    }
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).ok()?;
    let path = directory.join(format!("crash-{}-{}.txt", time.as_millis(), std::process::id()));
    let mut options = std::fs::File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&path).ok()?;
    let backtrace = std::backtrace::Backtrace::force_capture();
    write!(file, "{text}\n{backtrace}\n").ok()?;
    Some(path)
}

/// Returns the directory of Parallax, as the environment defines it.
pub(crate) fn home() -> Option<PathBuf> {
    let variable =
        |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("PARALLAX_HOME")
        .or_else(|| Some(variable("GEMINI_CLI_HOME")?.join(".parallax")))
        .or_else(|| Some(variable("HOME")?.join(".parallax")))
}
