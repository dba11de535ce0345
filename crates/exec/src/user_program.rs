//! Programs that the user runs, such as editors and clipboard programs. They receive the
//! environment of this process, because they act for the user and not for the model. Blocking.

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
/// Returns an error if it cannot be started.
pub fn edit(program: &OsStr, arguments: &[OsString], file: &Path) -> std::io::Result<bool> {
    #[expect(clippy::disallowed_methods, reason = "this is where programs are started")]
    let status = Command::new(program).args(arguments).arg(file).status()?;
    Ok(status.success())
}

/// Writes `input` to a program. Returns whether the program read it and succeeded in time. A
/// program that keeps running (as some clipboard programs do) counts as successful once it has read
/// everything.
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

/// Runs a line in the user's shell that reads `input` and prints at most `limit` bytes. Processes
/// that it started end with it.
///
/// # Errors
/// Returns an error if it cannot be started, fails, prints more, or takes longer.
#[cfg(unix)]
pub fn answer(
    line: &str,
    directory: &Path,
    environment: &[(OsString, OsString)],
    input: &[u8],
    (limit, time): (u64, Duration),
) -> std::io::Result<Vec<u8>> {
    use std::io::{Error, ErrorKind, Read};
    use std::os::unix::process::CommandExt;

    #[expect(clippy::disallowed_methods, reason = "this is where programs are started")]
    let mut child = Command::new("/bin/sh")
        .args(["-c", line])
        .current_dir(directory)
        .env_clear()
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()?;
    let group = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    let end_group = || {
        // No process of the group may remain.
        let kill = rustix::process::Signal::KILL;
        let _ = group.map(|group| rustix::process::kill_process_group(group, kill));
    };
    let input = input.to_vec();
    // The program may ignore its input.
    let writer = child.stdin.take().map(|mut stdin| {
        std::thread::spawn(move || {
            let _ = stdin.write_all(&input);
        })
    });
    let stdout = child.stdout.take();
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = stdout.map(|stdout| stdout.take(limit + 1).read_to_end(&mut bytes));
        read.transpose().map(|_| bytes)
    });
    let end = Instant::now() + time;
    let status = loop {
        match child.try_wait()? {
            Some(status) => break Some(status),
            None if Instant::now() < end => std::thread::sleep(POLL),
            None => break None,
        }
    };
    end_group();
    // It may have exited already.
    let _ = child.wait();
    if let Some(writer) = writer {
        let _ = writer.join();
    }
    let bytes = reader.join().map_err(|_| Error::other("its output could not be read"))??;
    match status {
        None => Err(Error::new(
            ErrorKind::TimedOut,
            format!("took longer than {} ms", time.as_millis()),
        )),
        Some(status) if !status.success() => Err(Error::other(status.to_string())),
        Some(_) if bytes.len() as u64 > limit => {
            Err(Error::other(format!("printed more than {limit} bytes")))
        }
        Some(_) => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn editor_receives_the_file_as_one_argument() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("a $(touch pwned) b.txt");
        std::fs::write(&file, "x").expect("written");
        assert!(edit("test".as_ref(), &["-f".into()], &file).expect("started"));
        assert!(!edit("test".as_ref(), &["-d".into()], &file).expect("started"));
    }

    #[cfg(unix)]
    #[test]
    fn answer_is_limited_in_time_and_size() {
        let run = |line: &str, limit| {
            let time = Duration::from_millis(300);
            answer(line, Path::new("/"), &[], b"{\"a\":1}", (limit, time))
        };
        assert_eq!(run("cat; echo", 99).expect("an answer"), b"{\"a\":1}\n");
        assert_eq!(run("echo x", 99).expect("input need not be read"), b"x\n");
        assert!(run("exit 3", 99).expect_err("it failed").to_string().contains("3"));
        assert!(run("echo too long", 3).expect_err("too much").to_string().contains("3 bytes"));
        let started_at = Instant::now();
        assert!(run("sleep 60 & sleep 60", 99).expect_err("late").to_string().contains("300 ms"));
        assert!(started_at.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn stdin_data_reaches_the_program() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("out");
        let script = format!("cat > '{}'", file.display());
        assert!(feed("/bin/sh", &["-c", &script], &[b'x'; 200_000], Duration::from_secs(5)));
        assert_eq!(std::fs::read(&file).expect("read").len(), 200_000);
        assert!(!feed("/bin/sh", &["-c", "sleep 9"], &[b'x'; 200_000], Duration::from_millis(50)));
        assert!(!feed("no-such-program-here", &[], b"", Duration::from_secs(1)));
    }
}
