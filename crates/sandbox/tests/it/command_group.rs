//! Tests of what a command can do to its supervisor, and of terminals that control a command.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use parallax_sandbox::Plan;
use portable_pty::{PtySize, native_pty_system};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::processes::{DAEMON, marked, wait_for_end};
use crate::test_project::{TestProject, tiers};

/// A command in its own session, whose parent program a test can kill.
struct SupervisedCommand {
    program: Child,
    supervisor: Child,
    mark: String,
}

/// What a command must not change of its supervisor and of the processes that belong to it.
#[derive(Debug, PartialEq, Eq)]
struct ProcessState {
    name: String,
    is_stopped: bool,
    /// The priority and the limits.
    resources: String,
}

impl ProcessState {
    fn read(pid: Pid) -> Option<Self> {
        let read = |name| fs::read_to_string(format!("/proc/{}/{name}", pid.as_raw_nonzero()));
        let (stat, limits) = (read("stat").ok()?, read("limits").ok()?);
        let (name, fields) = stat.split_once('(')?.1.rsplit_once(") ")?;
        let fields: Vec<&str> = fields.split(' ').collect();
        Some(Self {
            name: name.to_owned(),
            is_stopped: matches!(fields[0], "T" | "t"),
            resources: format!("{} {limits}", fields[16]),
        })
    }

    fn is_of_command(&self) -> bool {
        ["sh", "perl", "sleep", "touch", "setsid"].contains(&self.name.as_str())
    }
}

impl SupervisedCommand {
    /// Starts the command and waits until it has printed a line.
    fn start(project: &TestProject, plan: &Plan, script: &str) -> Self {
        let _ = fs::remove_file(project.work.join("ready"));
        let program =
            Command::new("sh").args(["-c", "read x"]).stdin(Stdio::piped()).spawn().unwrap();
        let mut plan = plan.clone();
        plan.parent = i32::try_from(program.id()).unwrap();
        plan.session = true;
        let mark = format!("group-{}", program.id());
        let mut command = project.command(&plan, &["sh", "-c", script]);
        let mut supervisor = command.env("MARK", &mark).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(supervisor.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "{:?}", plan.tier);
        Self { program, supervisor, mark }
    }

    /// Returns the processes of the command, and the others that were started for it.
    fn processes(&self) -> (Vec<ProcessState>, Vec<ProcessState>) {
        let all = marked(&self.mark).into_iter().filter_map(ProcessState::read);
        all.partition(ProcessState::is_of_command)
    }

    /// Kills the parent program and waits until nothing is left.
    fn kill_program(&mut self) {
        let all = marked(&self.mark);
        kill_process(Pid::from_child(&self.program), Signal::KILL).unwrap();
        self.program.wait().unwrap();
        self.supervisor.wait().unwrap();
        all.into_iter().for_each(wait_for_end);
    }
}

/// The process group of the command, that of its session, and its parent.
const TARGETS: [&str; 3] = ["0", "-(`ps -o sid= $$` + 0)", "0 + `ps -o ppid= ${\\getppid}`"];

impl Drop for SupervisedCommand {
    fn drop(&mut self) {
        // A test that failed may leave stopped processes.
        for pid in marked(&self.mark) {
            let _ = kill_process(pid, Signal::KILL);
        }
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

#[test]
fn command_cannot_stop_its_supervisor() {
    let project = TestProject::new();
    for tier in tiers() {
        for target in TARGETS {
            let script =
                format!("{DAEMON}; echo ready; perl -e 'kill q(STOP), {target}'; kill -STOP $$");
            let mut command = SupervisedCommand::start(&project, &project.plan(tier), &script);
            let started = Instant::now();
            while !command.processes().0.iter().any(|process| process.is_stopped) {
                assert!(started.elapsed() < Duration::from_secs(10), "{tier:?} {target}");
            }
            let (_, others) = command.processes();
            assert!(!others.is_empty(), "{tier:?}");
            assert!(!others.iter().any(|other| other.is_stopped), "{tier:?} {target}: {others:?}");
            command.kill_program();
        }
    }
}

#[test]
fn command_that_kills_its_group_leaves_nothing_behind() {
    let project = TestProject::new();
    for tier in tiers() {
        for target in TARGETS {
            let script =
                format!("{DAEMON}; echo ready; perl -e 'kill q(KILL), {target}'; kill -KILL $$");
            let mut command = SupervisedCommand::start(&project, &project.plan(tier), &script);
            command.kill_program();
        }
    }
}

#[test]
fn priority_and_limits_of_the_supervisor_cannot_be_changed() {
    let project = TestProject::new();
    for tier in tiers() {
        let set_priority = libc::SYS_setpriority;
        let set_io_priority = libc::SYS_ioprio_set;
        let limit = libc::SYS_prlimit64;
        let script = format!(
            "echo ready; perl -e '
                my ($pid, $sid) = (getppid() + 0, `ps -o sid= $$` + 0);
                $pid = `ps -o ppid= $pid` + 0;
                for my $who ([1, 0], [1, $sid], [0, $pid], [2, 0]) {{
                    syscall({set_priority}, @$who, 19);
                }}
                for my $who ([2, 0], [2, $sid], [1, $pid], [3, 0]) {{
                    syscall({set_io_priority}, @$who, 0x6000);
                }}
                my $limits = pack(q(QQ), 64, 64);
                syscall({limit}, $pid, 7, $limits, 0) if $pid;
            '; touch done; sleep 1000"
        );
        let _ = fs::remove_file(project.work.join("done"));
        let mut command = SupervisedCommand::start(&project, &project.plan(tier), &script);
        let started = Instant::now();
        while !project.work.join("done").exists() {
            assert!(started.elapsed() < Duration::from_secs(10), "{tier:?}");
        }
        let own = ProcessState::read(rustix::process::getpid()).unwrap();
        let (_, others) = command.processes();
        assert!(!others.is_empty(), "{tier:?}");
        for other in others {
            assert_eq!(other.resources, own.resources, "{tier:?} {}", other.name);
        }
        command.kill_program();
    }
}

#[test]
fn signals_to_the_group_of_the_supervisor_reach_the_command() {
    let project = TestProject::new();
    for tier in tiers() {
        let mut plan = project.plan(tier);
        plan.session = true;
        for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT] {
            let number = signal.as_raw();
            let script = format!(
                "trap 'echo caught; exit 7' {number}; echo ready; while :; do sleep 0.05; done"
            );
            let mut command = project.command(&plan, &["sh", "-c", &script]);
            let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
            let mut output = BufReader::new(child.stdout.take().unwrap());
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            kill_process_group(Pid::from_child(&child), signal).unwrap();
            output.read_line(&mut line).unwrap();
            assert_eq!((line.as_str(), child.wait().unwrap().code()), ("ready\ncaught\n", Some(7)));
        }
    }
}

/// Runs a script with a terminal and returns its output after a key was pressed.
fn output_after_key(project: &TestProject, plan: &Plan, script: &str, key: &[u8]) -> String {
    let pair = native_pty_system().openpty(PtySize::default()).unwrap();
    let name = pair.master.tty_name().unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let terminal = File::from(rustix::fs::open(name, flags, Mode::empty()).unwrap());
    let mut command = project.command(plan, &["sh", "-c", script]);
    command.stdin(terminal.try_clone().unwrap()).stdout(terminal.try_clone().unwrap());
    let mut child = command.stderr(terminal).spawn().unwrap();
    drop((command, pair.slave));
    let mut output = BufReader::new(pair.master.try_clone_reader().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\r\n", "{:?}", plan.tier);
    let mut input = pair.master.take_writer().unwrap();
    input.write_all(key).unwrap();
    let mut rest = Vec::new();
    // Reading from a terminal whose last user has closed it fails.
    let _ = output.read_to_end(&mut rest);
    child.wait().unwrap();
    String::from_utf8_lossy(&rest).into_owned()
}

#[test]
fn terminal_keys_reach_the_command_and_cannot_stop_it() {
    const INTERRUPT: &[u8] = b"\x03";
    const SUSPEND_THEN_LINE: &[u8] = b"\x1aword\n";
    let project = TestProject::new();
    for tier in tiers() {
        let mut plan = project.plan(tier);
        plan.session = true;
        let script = "trap 'echo caught; exit' INT; echo ready; while :; do sleep 0.05; done";
        let output = output_after_key(&project, &plan, script, INTERRUPT);
        assert!(output.ends_with("caught\r\n"), "{tier:?} {output:?}");
        let script = "stty -echo; echo ready; sleep 0.3; read line; echo \"got $line\"";
        let output = output_after_key(&project, &plan, script, SUSPEND_THEN_LINE);
        assert!(output.ends_with("got word\r\n"), "{tier:?} {output:?}");
    }
}
