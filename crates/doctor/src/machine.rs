//! Checks of the machine: the home directory, the shell, the terminal, and other programs with the
//! same name.

use std::io::{ErrorKind, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use parallax_config::{Environment, UserDirs};

use crate::{CheckStatus, DoctorCheck};
use parallax_sdk::LaunchOptions;

/// Number of bytes written to test for free space.
const WRITTEN: usize = 256 * 1024;
/// Free bytes below which sessions may not fit.
const LOW_SPACE: u64 = 100 * 1024 * 1024;

/// Checks the machine. Blocking.
pub(crate) fn checks(options: &LaunchOptions, name: &str) -> Vec<DoctorCheck> {
    let environment = Environment::new(options.variables.clone());
    let mut checks = vec![program(&environment, name)];
    match UserDirs::find(&environment, &options.directory) {
        Ok(dirs) => checks.push(home(&dirs.parallax)),
        Err(error) => checks.push(
            DoctorCheck::new("home", CheckStatus::Error, "Home", error.to_string())
                .with_fix("Set `HOME` to a writable directory."),
        ),
    }
    checks.push(directory("temporary", "Temporary files", &std::env::temp_dir(), "TMPDIR"));
    checks.push(shell(&environment));
    checks.push(terminal(&environment));
    checks
}

/// Checks that the name leads to this program.
fn program(environment: &Environment, name: &str) -> DoctorCheck {
    let check = |status, detail: String| DoctorCheck::new("program", status, "Program", detail);
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let Ok(executable) = std::env::current_exe() else {
        return check(CheckStatus::Info, "cannot determine the path of this program".to_owned());
    };
    let display_path = executable.display();
    match find_in_path(environment, name) {
        None => check(CheckStatus::Info, format!("{display_path}; `{name}` is not on `PATH`")),
        Some(first)
            if real(&first) == real(&executable)
                || is_launcher(&real(&first), &real(&executable)) =>
        {
            check(CheckStatus::Ok, display_path.to_string())
        }
        Some(first) => {
            let detail = format!("this is {display_path}, but `{name}` runs {}", first.display());
            let directory = executable.parent().unwrap_or(&executable);
            // A link with another name may have started this program.
            check(CheckStatus::Warning, detail).with_fix(match directory.join(name).exists() {
                true => format!(
                    "Put {} before {} on `PATH`, or remove the other program.",
                    directory.display(),
                    first.parent().unwrap_or(&first).display()
                ),
                false => format!(
                    "Remove {}, or link `{name}` to {display_path} in a directory before it on `PATH`.",
                    first.display()
                ),
            })
        }
    }
}

/// Whether a program is the launcher of an npm package, which starts this program of another
/// package in the same directory: `…/@parallax/cli/…` and `…/@parallax/cli-linux-x64/…`.
fn is_launcher(first: &Path, own: &Path) -> bool {
    let scope = |path: &Path| {
        let mut scopes = path.ancestors().filter(|directory| directory.ends_with("@parallax"));
        scopes.next().map(Path::to_owned)
    };
    let package = scope(first).map(|scope| scope.join("cli"));
    package.is_some_and(|package| {
        first.starts_with(&package) && package.parent().is_some_and(|scope| own.starts_with(scope))
    })
}

/// Returns the program that a shell would start.
pub(crate) fn find_in_path(environment: &Environment, name: &str) -> Option<PathBuf> {
    // Parts of it need not be Unicode.
    let path = environment.process_variable("PATH").map(std::ffi::OsString::from);
    let path = path.or_else(|| std::env::var_os("PATH"))?;
    let files =
        std::env::split_paths(&path).map(|directory| directory.join(name)).collect::<Vec<_>>();
    files.into_iter().find(|file| is_executable(file))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// Checks the directory of Parallax and the one for sessions in it.
fn home(parallax: &Path) -> DoctorCheck {
    const VARIABLE: &str = "PARALLAX_CLI_HOME";
    let check = directory("home", "Home", parallax, VARIABLE);
    let sessions = parallax.join("sessions");
    match check.status == CheckStatus::Error || sessions.symlink_metadata().is_err() {
        true => check,
        false => match directory("home", "Home", &sessions, VARIABLE) {
            inner if inner.status == CheckStatus::Error => inner,
            _ => check,
        },
    }
}

/// Checks that files can be created below a directory, which may not exist yet. `variable` selects
/// another one.
fn directory(id: &str, title: &str, target: &Path, variable: &str) -> DoctorCheck {
    let check = |status, detail: String| DoctorCheck::new(id, status, title, detail);
    let display_path = target.display();
    let elsewhere = format!("set `{variable}` to another directory");
    let is_link_to_nothing =
        |path: &Path| path.symlink_metadata().is_ok() && path.metadata().is_err();
    if target.symlink_metadata().is_ok() && !target.is_dir() || is_link_to_nothing(target) {
        return check(CheckStatus::Error, format!("{display_path} is not a directory"))
            .with_fix(format!("Move it away, or {elsewhere}."));
    }
    if variable == "TMPDIR" && !target.exists() {
        return check(CheckStatus::Error, format!("{display_path} does not exist"))
            .with_fix(format!("Create it, or {elsewhere}."));
    }
    let Some(existing) = target.ancestors().find(|directory| directory.is_dir()) else {
        return check(CheckStatus::Error, format!("{display_path} does not exist"));
    };
    let written = tempfile::NamedTempFile::new_in(existing).and_then(|mut file| {
        file.write_all(&vec![b'.'; WRITTEN])?;
        file.as_file().sync_all()
    });
    if let Err(error) = written {
        let user = target.parent().filter(|user| variable != "TMPDIR" && !user.exists());
        if let Some(user) = user {
            let user = user.display();
            return check(
                CheckStatus::Error,
                format!("{user} does not exist, and it cannot be created ({error})"),
            )
            .with_fix(format!(
                "Create it, set `HOME` to a directory that exists, or {elsewhere}."
            ));
        }
        let (what, remedy) = match error.kind() {
            ErrorKind::ReadOnlyFilesystem => {
                ("the file system is read-only", format!("Remount it as writable, or {elsewhere}."))
            }
            ErrorKind::PermissionDenied => (
                "you cannot write to it",
                format!("Correct the owner or permissions of the directory, or {elsewhere}."),
            ),
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                ("the disk is full", "Free up space: sessions and undo need it.".to_owned())
            }
            _ => {
                ("a file cannot be written there", format!("Check the directory, or {elsewhere}."))
            }
        };
        let detail = format!("{}: {what} ({error})", existing.display());
        return check(CheckStatus::Error, detail).with_fix(remedy);
    }
    match rustix::fs::statvfs(existing) {
        Ok(stats) if stats.f_bavail.saturating_mul(stats.f_frsize) < LOW_SPACE => {
            let free = stats.f_bavail.saturating_mul(stats.f_frsize) >> 20;
            check(CheckStatus::Warning, format!("{display_path}: only {free} MiB are free"))
                .with_fix("Free up space: sessions and undo need it.")
        }
        _ => check(CheckStatus::Ok, format!("{display_path} is writable")),
    }
}

fn shell(environment: &Environment) -> DoctorCheck {
    let found = |name: &str| find_in_path(environment, name);
    let check = |status, detail: String| DoctorCheck::new("shell", status, "Shell", detail);
    let git = match found("git") {
        Some(git) => format!("git: {}", git.display()),
        None => "git is not on `PATH`".to_owned(),
    };
    match found("bash").or_else(|| found("sh")) {
        None => check(CheckStatus::Error, "neither `bash` nor `sh` is on `PATH`".to_owned())
            .with_fix("Install bash: the agent cannot run commands."),
        Some(shell) if found("git").is_none() => {
            check(CheckStatus::Warning, format!("{}; {git}", shell.display()))
                .with_fix("Install git: worktrees and the project status need it.")
        }
        Some(shell) => check(CheckStatus::Ok, format!("{}; {git}", shell.display())),
    }
}

fn terminal(environment: &Environment) -> DoctorCheck {
    let check = |status, detail: String| DoctorCheck::new("terminal", status, "Terminal", detail);
    let term = environment.process_variable("TERM").unwrap_or_default();
    if !std::io::stdout().is_terminal() {
        return check(CheckStatus::Info, "standard output is not a terminal".to_owned());
    }
    if matches!(term, "" | "dumb") {
        return check(CheckStatus::Warning, format!("`TERM` is `{term}`: no colors, no cursor"))
            .with_fix("Use a terminal with cursor movement, or `--screen-reader`.");
    }
    let colors = match environment.process_variable("COLORTERM") {
        Some("truecolor" | "24bit") => "true color",
        _ if term.contains("256") => "256 colors",
        _ => "16 colors",
    };
    let program = environment.process_variable("TERM_PROGRAM").map(|name| format!(", {name}"));
    let multiplexer = environment.process_variable("TMUX").map(|_| ", in tmux");
    check(
        CheckStatus::Ok,
        format!(
            "{term}, {colors}{}{}",
            program.unwrap_or_default(),
            multiplexer.unwrap_or_default()
        ),
    )
}
