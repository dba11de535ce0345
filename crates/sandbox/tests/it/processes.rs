//! Tests of how commands end and what they can do to other processes.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};

use parallax_sandbox::{Plan, Tier};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use crate::test_project::{
    EACCES, ENOENT, TestProject, confine, launcher, session_namespaces, text, tiers,
    tiers_with_view,
};

fn all(project: &TestProject) -> Vec<Plan> {
    let mut plans: Vec<Plan> = tiers().into_iter().map(|tier| project.plan(tier)).collect();
    let mut open = project.plan(Tier::Best);
    open.confine = false;
    plans.push(open);
    plans
}

#[test]
fn supervisor_exits_like_the_command() {
    let project = TestProject::new();
    for plan in all(&project) {
        for code in [0, 1, 42, 121, 255] {
            let (ended, said) = project.shell(&plan, &format!("exit {code}"));
            assert_eq!((ended, said.as_str()), (code, ""));
        }
        for signal in [2, 9, 15, 11] {
            let output = project.output(&plan, &["sh", "-c", &format!("kill -{signal} $$")]);
            assert_eq!(output.status.signal(), Some(signal), "{:?}", plan.tier);
        }
        let output = project.output(&plan, &["no-such-program"]);
        assert_eq!(output.status.code(), Some(127));
        assert_eq!(output.stderr, b"no-such-program: command not found\n");
        assert_eq!(project.output(&plan, &["/etc"]).status.code(), Some(126));
    }
}

#[test]
fn group_signal_reaches_the_command() {
    let project = TestProject::new();
    for plan in all(&project) {
        let script = "trap 'echo caught; exit 7' TERM; echo ready; while :; do sleep 0.02; done";
        let mut command = project.command(&plan, &["sh", "-c", script]);
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let group = Pid::from_child(&child);
        rustix::process::kill_process_group(group, Signal::TERM).unwrap();
        output.read_line(&mut line).unwrap();
        assert_eq!((line.as_str(), child.wait().unwrap().code()), ("ready\ncaught\n", Some(7)));
    }
}

#[test]
fn input_and_output_pass_through() {
    let project = TestProject::new();
    for plan in all(&project) {
        let mut child = project
            .command(&plan, &["sh", "-c", "cat; echo e >&2; cat /dev/stdin; echo x > /dev/stdout"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"in\n").unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.stdout, output.stderr), (b"in\nx\n".to_vec(), b"e\n".to_vec()));
    }
}

#[test]
fn terminal_is_passed_through() {
    use portable_pty::{CommandBuilder, PtySize, native_pty_system};

    let project = TestProject::new();
    for plan in all(&project) {
        let size = PtySize { rows: 33, cols: 99, ..PtySize::default() };
        let pair = native_pty_system().openpty(size).unwrap();
        let script = "test -t 0 && stty size && echo there > /dev/tty; echo out > /dev/stderr";
        let started = project.command(&plan, &["sh", "-c", script]);
        let mut command = CommandBuilder::new(started.get_program());
        command.args(started.get_args());
        command.cwd(&project.work);
        let mut child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let mut output = pair.master.try_clone_reader().unwrap();
        let mut said = Vec::new();
        // Reading from a terminal whose last user has closed it fails.
        let _ = output.read_to_end(&mut said);
        assert!(child.wait().unwrap().success());
        assert_eq!(String::from_utf8_lossy(&said), "33 99\r\nthere\r\nout\r\n", "{:?}", plan.tier);
    }
}

#[test]
fn command_gets_its_own_session_when_requested() {
    let project = TestProject::new();
    for mut plan in all(&project) {
        plan.session = true;
        let mut child = project.command(&plan, &["sh", "-c", "echo; read x"]);
        let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let pid = Pid::from_child(&child);
        assert_eq!(rustix::process::getsid(Some(pid)), Ok(pid));
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}

#[test]
fn session_takes_the_terminal_that_is_its_input() {
    use portable_pty::{PtySize, native_pty_system};

    let project = TestProject::new();
    for mut plan in all(&project) {
        plan.session = true;
        let pair = native_pty_system().openpty(PtySize::default()).unwrap();
        let name = pair.master.tty_name().unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let terminal = fs::File::from(rustix::fs::open(name, flags, Mode::empty()).unwrap());
        let mut command = project.command(&plan, &["sh", "-c", "echo there > /dev/tty"]);
        command.stdin(terminal.try_clone().unwrap()).stdout(terminal.try_clone().unwrap());
        let mut child = command.stderr(terminal).spawn().unwrap();
        drop((command, pair.slave));
        let mut output = pair.master.try_clone_reader().unwrap();
        let mut said = Vec::new();
        // Reading from a terminal whose last user has closed it fails.
        let _ = output.read_to_end(&mut said);
        assert!(child.wait().unwrap().success());
        assert_eq!(String::from_utf8_lossy(&said), "there\r\n", "{:?}", plan.tier);
    }
}

/// Returns the processes of the host that have a mark in their environment.
pub fn marked(mark: &str) -> Vec<Pid> {
    let assignment = format!("MARK={mark}");
    let has = |pid: i32| {
        let text = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        // The broker serves the daemon and ends with it.
        name.trim() != parallax_sandbox::KEEPER
            && text.split(|byte| *byte == 0).any(|variable| variable == assignment.as_bytes())
    };
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| has(*pid)).filter_map(Pid::from_raw).collect()
}

pub fn wait_for_end(pid: Pid) {
    let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    let timeout = rustix::event::Timespec { tv_sec: 10, tv_nsec: 0 };
    let mut fds = [PollFd::new(&pidfd, PollFlags::IN)];
    assert_eq!(poll(&mut fds, Some(&timeout)), Ok(1), "{pid:?} lives on");
}

pub const DAEMON: &str = "(setsid sh -c 'touch ready; exec sleep 1000' >/dev/null 2>&1 &) & \
                      while ! [ -e ready ]; do :; done";

#[test]
fn daemon_is_found_by_its_mark_and_ends_with_the_session() {
    let Some(session_namespaces) = session_namespaces() else { return };
    let project = TestProject::new();
    let mut plan = project.plan(Tier::Namespaces);
    plan.session_namespaces = Some(session_namespaces.pid());
    let mark = format!("cell-{}", std::process::id());
    let ended = project.command(&plan, &["sh", "-c", DAEMON]).env("MARK", &mark).status().unwrap();
    assert!(ended.success());
    // The process that created the file may still be ending, and a process that is executing
    // another program shows no variables.
    let started = std::time::Instant::now();
    let mut left = marked(&mark);
    while left.len() != 1 && started.elapsed().as_secs() < 2 {
        std::thread::yield_now();
        left = marked(&mark);
    }
    assert_eq!(left.len(), 1, "{left:?}");
    drop(session_namespaces);
    wait_for_end(left[0]);
}

#[test]
fn daemon_without_session_namespaces_ends_with_its_command() {
    for tier in tiers_with_view() {
        let project = TestProject::new();
        let mark = format!("own-{}", std::process::id());
        let plan = project.plan(tier);
        let mut child = project
            .command(&plan, &["sh", "-c", &format!("{DAEMON}; echo; read x")])
            .env("MARK", &mark)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let all = marked(&mark);
        assert!(all.len() >= 3, "{all:?}");
        drop(child.stdin.take());
        child.wait().unwrap();
        all.into_iter().for_each(wait_for_end);
    }
}

#[test]
fn all_processes_end_when_the_program_is_killed() {
    let project = TestProject::new();
    for mut plan in all(&project) {
        let _ = fs::remove_file(project.work.join("ready"));
        // The parent program of this test is a shell that the test can kill.
        let mut program =
            Command::new("sh").args(["-c", "read x"]).stdin(Stdio::piped()).spawn().unwrap();
        plan.parent = i32::try_from(program.id()).unwrap();
        let mark = format!("killed-{}-{:?}-{}", std::process::id(), plan.tier, plan.confine);
        let mut command =
            project.command(&plan, &["sh", "-c", &format!("{DAEMON}; echo; sleep 1000")]);
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.env("MARK", &mark).stdout(Stdio::piped()).spawn().unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let all = marked(&mark);
        assert!(all.len() >= 3, "{all:?}");
        kill_process(Pid::from_child(&program), Signal::KILL).unwrap();
        program.wait().unwrap();
        child.wait().unwrap();
        all.into_iter().for_each(wait_for_end);
    }
}

#[test]
fn leftover_daemon_ends_when_the_program_is_killed() {
    let project = TestProject::new();
    for mut plan in all(&project) {
        let _ = fs::remove_file(project.work.join("ready"));
        let mut program =
            Command::new("sh").args(["-c", "read x"]).stdin(Stdio::piped()).spawn().unwrap();
        plan.parent = i32::try_from(program.id()).unwrap();
        let mark = format!("left-{}-{:?}-{}", std::process::id(), plan.tier, plan.confine);
        let ended = project.command(&plan, &["sh", "-c", DAEMON]).env("MARK", &mark).status();
        assert!(ended.unwrap().success());
        let left = marked(&mark);
        // Without namespaces, a reaper watches the processes left behind.
        kill_process(Pid::from_child(&program), Signal::KILL).unwrap();
        program.wait().unwrap();
        left.into_iter().for_each(wait_for_end);
        assert!(marked(&mark).is_empty());
    }
}

#[test]
fn other_processes_cannot_be_inspected() {
    let session_namespaces = session_namespaces();
    let mut victim = Command::new("sleep").arg("1000").spawn().unwrap();
    for tier in tiers() {
        let project = TestProject::new();
        let mut plan = project.plan(tier);
        plan.session_namespaces = session_namespaces
            .as_ref()
            .filter(|_| tier == Tier::Namespaces)
            .map(|session_namespaces| session_namespaces.pid());
        // The environment of the program and of another process.
        for pid in [std::process::id(), victim.id()] {
            let path = format!("/proc/{pid}/environ");
            project.refused(&plan, &["read", &path], &[EACCES, ENOENT]);
        }
        // Another command of the same session: its memory, files, and root.
        let script = "sleep 1000 >/dev/null 2>&1 & echo $!";
        let (code, pid) = project.shell(&plan, script);
        assert_eq!(code, 0, "{pid}");
        for file in ["environ", "mem"] {
            let path = format!("/proc/{}/{file}", pid.trim());
            project.refused(&plan, &["read", &path], &[EACCES, ENOENT]);
        }
        let path = format!("/proc/{}/root/etc", pid.trim());
        project.refused(&plan, &["list", &path], &[EACCES, ENOENT]);
        // PTRACE_ATTACH and PTRACE_SEIZE, for that command and for a child process.
        for (request, pid) in [(16, pid.trim()), (0x4206, pid.trim()), (16, "$!"), (0x4206, "$!")] {
            let script = format!(
                "sleep 9 >/dev/null 2>&1 & perl -e 'print syscall({}, {request}, $ARGV[0] + 0, 0, 0), \
                 q( ), $! + 0' {pid}; kill $!",
                libc::SYS_ptrace
            );
            let (_, output) = project.shell(&plan, &script);
            let refusals = [EACCES, ENOENT, libc::EPERM, libc::ESRCH, libc::ENOSYS];
            let refused = refusals.iter().any(|errno| output.trim() == format!("-1 {errno}"));
            assert!(refused, "{tier:?} {request:#x} {pid}: {output}");
        }
        // Leave none of this for other tests.
        if tier == Tier::Landlock {
            let pid = pid.trim().parse().ok().and_then(Pid::from_raw).unwrap();
            kill_process(pid, Signal::KILL).unwrap();
        }
    }
    victim.kill().unwrap();
    victim.wait().unwrap();
}

#[test]
fn command_cannot_create_namespaces_or_mounts() {
    for tier in tiers() {
        let project = TestProject::new();
        let plan = project.plan(tier);
        for script in [
            "unshare -U true",
            "unshare -Ur true",
            "unshare -m true",
            "mount -t tmpfs none /mnt",
            "mount -o remount,rw /",
            "umount /dev",
            "nsenter -t 1 -m true",
            "mknod d b 7 0",
            "chroot / true",
        ] {
            let (code, output) = project.shell(&plan, script);
            assert_ne!(code, 0, "{tier:?} {script}: {output}");
        }
    }
}

#[test]
fn nested_sandbox_works_with_the_remaining_mechanisms() {
    for tier in tiers() {
        let project = TestProject::new();
        let plan = project.plan(tier);
        let mut inner = project.plan(Tier::Best);
        inner.temporary = project.work.join("inner");
        fs::create_dir(&inner.temporary).unwrap();
        inner.parent = 1;
        let outside = project.work.join("src");
        inner.writable = vec![outside.clone()];
        inner.read_only.clear();
        let json = serde_json::to_string(&inner).unwrap();
        let target = text(&project.work).to_owned() + "/src/a";
        let line = ["confine", "__sandbox", &json, "--", "confine", "write", &target];
        let output = project.output(&plan, &line);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!((said.trim(), &*output.stderr), ("ok", &b""[..]), "{tier:?}");
        let target = text(&project.work).to_owned() + "/b";
        let line = ["confine", "__sandbox", &json, "--", "confine", "write", &target];
        let output = project.output(&plan, &line);
        assert!(output.stdout.starts_with(b"refused 13"), "{tier:?} {output:?}");
    }
}

#[test]
fn unrelated_command_line_is_unchanged() {
    let output = Command::new(confine()).args(["write"]).output().unwrap();
    assert!(output.stdout.starts_with(b"refused 0"));
}

#[test]
fn probe_leaves_no_child_processes() {
    const ALONE: &str = "PARALLAX_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        // In its own process: orphans of other tests would become its children, too.
        let mut test = Command::new(std::env::current_exe().unwrap());
        test.args(["--exact", "processes::probe_leaves_no_child_processes"]).env(ALONE, "1");
        let output = test.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        return;
    }
    // As in the program, orphans become children of this process.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
    launcher().probe().unwrap();
    let own = std::process::id().to_string();
    let zombies = || {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let stats = processes.filter_map(|it| std::fs::read_to_string(it.path().join("stat")).ok());
        // Broker processes belong to other tests.
        let stats = stats.filter(|stat| !stat.contains(parallax_sandbox::KEEPER));
        let own_stats = stats.filter(|stat| {
            let fields = stat.rsplit(") ").next().unwrap_or_default();
            let mut fields = fields.split(' ');
            // State, parent, group, session: a session leader is not a child of this test.
            let (state, parent) = (fields.next(), fields.next());
            let session = fields.nth(1);
            let pid = stat.split(' ').next();
            state == Some("Z") && parent == Some(&own) && session == pid
        });
        own_stats.count()
    };
    let end = std::time::Instant::now() + std::time::Duration::from_secs(2);
    while zombies() > 0 && std::time::Instant::now() < end {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(zombies(), 0);
}

#[test]
fn unreadable_program_may_use_its_own_limits_and_descriptors() {
    let script = "import ctypes, os, resource\n\
                  open('a', 'w').close()\n\
                  file = os.open('a', os.O_RDWR)\n\
                  os.chmod(f'/proc/{os.getpid()}/fd/{file}', 0o640)\n\
                  ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\n\
                  resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n\
                  print(oct(os.stat('a').st_mode & 0o777), resource.getrlimit(resource.RLIMIT_CORE))";
    for tier in tiers() {
        let project = TestProject::new();
        let output = project.output(&project.plan(tier), &["python3", "-c", script]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(text, "0o640 (0, 0)\n", "{tier:?}: {output:?}");
    }
}
