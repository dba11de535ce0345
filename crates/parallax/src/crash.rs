//! What a defect leaves behind: a report in `~/.parallax/crashes`, and one line
//! on stderr. A tool that panics is a failed call; the session goes on.

use std::io::Write as _;
use std::panic::PanicHookInfo;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// Reports kept before older ones are left to the user to delete: a loop of
/// panics must not fill the disk.
const MOST_REPORTS: usize = 50;

/// Whether the interactive face has the terminal.
static FACE: AtomicBool = AtomicBool::new(false);

/// From now on the interactive face has the terminal: a panic of another thread
/// writes nothing to it, and one of the main thread gives it back first.
pub(crate) fn face_has_the_terminal() {
    FACE.store(true, Ordering::Relaxed);
}

/// Installs the hook. The report holds the place and the message, and no
/// contents of the session.
pub(crate) fn install() {
    std::panic::set_hook(Box::new(|panic| {
        let text = describe(panic);
        if FACE.load(Ordering::Relaxed) {
            if std::thread::current().name() != Some("main") {
                // The session goes on, and the terminal is the face's.
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
    let place = panic.location().map_or_else(|| "unknown location".to_owned(), ToString::to_string);
    let message = panic.payload_as_str().unwrap_or("no message");
    let thread = std::thread::current().name().unwrap_or("unnamed").to_owned();
    format!(
        "parallax {} panicked at {place} in thread {thread}\n{message}\n",
        env!("CARGO_PKG_VERSION")
    )
}

fn write_report(text: &str) -> Option<PathBuf> {
    let folder = home()?.join("crashes");
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(&folder).ok()?;
    if std::fs::read_dir(&folder).ok()?.take(MOST_REPORTS).count() >= MOST_REPORTS {
        return None;
    }
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).ok()?;
    let path = folder.join(format!("crash-{}-{}.txt", time.as_millis(), std::process::id()));
    let mut options = std::fs::File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&path).ok()?;
    let backtrace = std::backtrace::Backtrace::force_capture();
    write!(file, "{text}\n{backtrace}\n").ok()?;
    Some(path)
}

/// The program's own folder, as the environment says it.
pub(crate) fn home() -> Option<PathBuf> {
    let variable =
        |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("PARALLAX_HOME")
        .or_else(|| Some(variable("GEMINI_CLI_HOME")?.join(".parallax")))
        .or_else(|| Some(variable("HOME")?.join(".parallax")))
}
