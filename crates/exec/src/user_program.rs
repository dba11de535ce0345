//! Programs that the user runs, such as the editor and clipboard programs. They get the
//! variables of this process, since they act for the user and not for the model. Blocking.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How often a child is polled.
const POLL: Duration = Duration::from_millis(2);

/// Runs a program on a file, with the terminal of this process. Returns whether it succeeded.
///
/// # Errors
/// When it cannot be started.
pub fn edit(program: &OsStr, arguments: &[OsString], file: &Path) -> std::io::Result<bool> {
    #[expect(clippy::disallowed_methods, reason = "this is where programs are started")]
    let status = Command::new(program).args(arguments).arg(file).status()?;
    Ok(status.success())
}

/// Writes `input` to a program; returns whether it read it and succeeded in time. A program
/// that keeps running (as some clipboard programs do) counts once it has read everything.
pub fn feed(program: &str, arguments: &[&str], input: &[u8], time: Duration) -> bool {
    #[expect(clippy::disallowed_methods, reason = "this is where programs are started")]
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = child else { return false };
    let Some(mut stdin) = child.stdin.take() else { return false };
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input).is_ok());
    let end = Instant::now() + time;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.success() && writer.join().unwrap_or(false),
            Ok(None) if Instant::now() < end => std::thread::sleep(POLL),
            Ok(None) if writer.is_finished() => return true,
            _ => {
                // It may have exited already.
                let _ = child.kill();
                let _ = child.wait();
                return false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_editor_gets_the_file_as_one_argument() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a $(touch pwned) b.txt");
        std::fs::write(&file, "x").expect("written");
        assert!(edit("test".as_ref(), &["-f".into()], &file).expect("started"));
        assert!(!edit("test".as_ref(), &["-d".into()], &file).expect("started"));
    }

    #[test]
    fn what_is_fed_arrives() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("out");
        let script = format!("cat > '{}'", file.display());
        assert!(feed("/bin/sh", &["-c", &script], &[b'x'; 200_000], Duration::from_secs(5)));
        assert_eq!(std::fs::read(&file).expect("read").len(), 200_000);
        assert!(!feed("/bin/sh", &["-c", "sleep 9"], &[b'x'; 200_000], Duration::from_millis(50)));
        assert!(!feed("no-such-program-here", &[], b"", Duration::from_secs(1)));
    }
}
