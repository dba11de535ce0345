//! Tests of what a command can do to other processes of the user, to their IPC objects, and to
//! files that it may only read.

use std::fs;
use std::process::{Child, Command, Stdio};

use parallax_sandbox::{Plan, Tier};

use crate::test_project::{TestProject, has, support, text, tiers};

const EPERM: i32 = libc::EPERM;

/// Returns the result of a system call in the sandbox: its value, and the error if it is -1.
fn call(project: &TestProject, plan: &Plan, number: libc::c_long, arguments: &str) -> String {
    let script =
        format!("perl -e 'my @a = ({arguments}); print syscall({number}, @a), q( ), $! + 0'");
    project.shell(plan, &script).1
}

#[track_caller]
fn is_refused(project: &TestProject, plan: &Plan, number: libc::c_long, arguments: &str) {
    let output = call(project, plan, number, arguments);
    // An invisible process cannot be found.
    let refused = [EPERM, libc::ESRCH, libc::EACCES];
    let is_refused = refused.iter().any(|error| output == format!("-1 {error}"));
    assert!(is_refused, "{:?} {number} {arguments}: {output}", plan.tier);
}

struct Victim(Child);

impl Victim {
    fn new() -> Self {
        Self(Command::new("sleep").arg("1000").stdout(Stdio::null()).spawn().unwrap())
    }

    /// Returns its limits, priority, and CPU affinity.
    fn state(&self) -> String {
        let read = |name| fs::read_to_string(format!("/proc/{}/{name}", self.0.id())).unwrap();
        let stat = read("stat");
        let stat: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
        let status = read("status");
        let cpus = status.lines().find(|line| line.starts_with("Cpus_allowed:")).unwrap();
        // Priority, niceness, policy.
        format!("{} {} {} {} {cpus}", read("limits"), stat[15], stat[16], stat[38])
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn limits_and_priorities_of_other_processes_cannot_be_changed() {
    for tier in tiers() {
        let project = TestProject::new();
        let mut plan = project.plan(tier);
        // The program that guards the command is one of these processes.
        let victim = Victim::new();
        plan.parent = i32::try_from(victim.0.id()).unwrap();
        let before = victim.state();
        let pid = victim.0.id();
        let limit = "pack(q(QQ), 0, 0)";
        for resource in [libc::RLIMIT_AS, libc::RLIMIT_NOFILE, libc::RLIMIT_FSIZE] {
            is_refused(
                &project,
                &plan,
                libc::SYS_prlimit64,
                &format!("{pid}, {resource}, {limit}, 0"),
            );
        }
        let mask = "8, pack(q(Q), 1)";
        let attributes = "pack(q(LLQlLQQQ), 48, 3, 0, 19, 0, 0, 0, 0), 0";
        is_refused(&project, &plan, libc::SYS_sched_setaffinity, &format!("{pid}, {mask}"));
        is_refused(
            &project,
            &plan,
            libc::SYS_sched_setscheduler,
            &format!("{pid}, 3, pack(q(i), 0)"),
        );
        is_refused(&project, &plan, libc::SYS_sched_setattr, &format!("{pid}, {attributes}"));
        is_refused(&project, &plan, libc::SYS_sched_setparam, &format!("{pid}, pack(q(i), 0)"));
        is_refused(&project, &plan, libc::SYS_setpriority, &format!("0, {pid}, 19"));
        is_refused(&project, &plan, libc::SYS_ioprio_set, &format!("1, {pid}, 0x6000"));
        is_refused(&project, &plan, libc::SYS_kcmp, &format!("{pid}, {pid}, 0, 0, 0"));
        is_refused(&project, &plan, libc::SYS_migrate_pages, &format!("{pid}, 0, 0, 0"));
        if tier == Tier::Landlock {
            // All processes of the user, and those of a group.
            is_refused(&project, &plan, libc::SYS_setpriority, "2, 0, 19");
            is_refused(&project, &plan, libc::SYS_setpriority, &format!("1, {pid}, 19"));
            is_refused(&project, &plan, libc::SYS_ioprio_set, "3, 0, 0x6000");
        }
        assert_eq!(victim.state(), before, "{tier:?}");
    }
}

#[test]
fn own_limits_and_priorities_can_be_changed() {
    for tier in tiers() {
        let project = TestProject::new();
        let plan = project.plan(tier);
        let script = "ulimit -n 100 && nice -n 5 true && taskset 1 true && sleep 9 & \
                      renice -n 12 -p $! >/dev/null && kill $! && ulimit -n";
        if support().network_broker.is_supported || tier != Tier::Landlock {
            let (code, said) = project.shell(&plan, script);
            assert_eq!(code, 0, "{tier:?} {said}");
        }
        let (code, said) = project
            .shell(&plan, "ulimit -n 100 && ulimit -n && echo $(($(nice -n 5 nice) - $(nice)))");
        assert_eq!((code, said.as_str()), (0, "100\n5\n"), "{tier:?}");
        let threads = "import os, threading\n\
                       def run(): os.sched_setaffinity(threading.get_native_id(), {0})\n\
                       t = threading.Thread(target=run); t.start(); t.join()";
        if support().network_broker.is_supported || tier != Tier::Landlock {
            let output = project.output(&plan, &["python3", "-c", threads]);
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!((output.status.code(), stderr.as_str()), (Some(0), ""), "{tier:?}");
        }
    }
}

#[test]
fn ipc_objects_of_other_processes_are_out_of_reach() {
    for tier in tiers() {
        let project = TestProject::new();
        let plan = project.plan(tier);
        let key = 0x7061_0000_u32 | (std::process::id() & 0xffff);
        let make = format!("perl -e 'print shmget({key}, 64, 0666 | 01000)'");
        let made = Command::new("sh").args(["-c", &make]).output().unwrap();
        let id = String::from_utf8_lossy(&made.stdout).into_owned();
        assert!(!id.is_empty(), "no System V IPC here: {made:?}");
        let script = format!(
            "perl -e 'my $i = shmget({key}, 64, 0666); print defined $i ? 1 : 0; \
                              print shmwrite({id}, q(x), 0, 1) ? 1 : 0; print shmctl({id}, 0, 0) ? 1 : 0'"
        );
        let (_, output) = project.shell(&plan, &script);
        let remove = format!("perl -e 'exit(shmctl({id}, 0, 0) ? 0 : 1)'");
        let removed = Command::new("sh").args(["-c", &remove]).status().unwrap();
        assert_eq!((output.as_str(), removed.success()), ("000", true), "{tier:?}");
    }
}

#[test]
fn requests_cannot_change_files_open_for_reading() {
    const SET_FLAGS: u64 = 0x4008_6602;
    const SET_VERSION: u64 = 0x4008_7602;
    const SET_EXTENDED: u64 = 0x401c_5820;
    const BTRFS_SUBVOLUME: u64 = 0x5000_940e;
    const XFS_SWAP_EXTENTS: u64 = 0xc0c0_586d;
    const FAT_SET_ATTRIBUTES: u64 = 0x4004_7211;
    const F2FS_SHUTDOWN: u64 = 0x8004_f50c;
    for tier in tiers() {
        let project = TestProject::new();
        let plan = project.plan(tier);
        let file = project.home.join(".profile");
        let run_request = |request: u64| {
            let script = format!(
                "perl -e 'open(F, q(<), q({})) or die; my $x = pack(q(Q8), 0); \
                 ioctl(F, {request}, $x); print $! + 0'",
                text(&file)
            );
            project.shell(&plan, &script).1
        };
        for request in [
            SET_FLAGS,
            SET_VERSION,
            SET_EXTENDED,
            BTRFS_SUBVOLUME,
            XFS_SWAP_EXTENTS,
            FAT_SET_ATTRIBUTES,
            F2FS_SHUTDOWN,
        ] {
            assert_eq!(run_request(request), EPERM.to_string(), "{tier:?} {request:#x}");
        }
        // Requests that only read are answered by the file system.
        assert_ne!(run_request(0x8008_6601), EPERM.to_string(), "{tier:?}");
    }
}

#[test]
fn no_process_may_be_referenced_without_a_broker() {
    if !has(Tier::Seccomp) {
        return;
    }
    let project = TestProject::new();
    let plan = project.plan(Tier::Seccomp);
    let victim = Victim::new();
    let (before, pid) = (victim.state(), victim.0.id());
    is_refused(&project, &plan, libc::SYS_prlimit64, &format!("{pid}, 9, pack(q(QQ), 0, 0), 0"));
    is_refused(&project, &plan, libc::SYS_setpriority, &format!("0, {pid}, 19"));
    is_refused(&project, &plan, libc::SYS_setpriority, "2, 0, 19");
    assert_eq!(victim.state(), before);
    let (code, output) =
        project.shell(&plan, "ulimit -n 100 && echo $(($(nice -n 5 nice) - $(nice)))");
    assert_eq!((code, output.as_str()), (0, "5\n"));
}

#[test]
fn leases_and_reconnectable_socket_pairs_are_rejected() {
    for tier in tiers() {
        let project = TestProject::new();
        let plan = project.plan(tier);
        // F_SETLEASE on the command's own file, for writing.
        let script = "open(my $f, q(+>), q(leased)); print fcntl($f, 1024, 1) ? q(yes) : q(no)";
        assert_eq!(project.shell(&plan, &format!("perl -e '{script}'")).1, "no", "{tier:?}");
        for (kind, allowed) in
            [(libc::SOCK_DGRAM, tier != Tier::Landlock), (libc::SOCK_STREAM, true)]
        {
            let script = format!("use Socket; print socketpair(A, B, AF_UNIX, {kind}, 0) ? 1 : 0");
            let output = project.shell(&plan, &format!("perl -e '{script}'")).1;
            assert_eq!(output == "1", allowed, "{tier:?} {kind}");
        }
    }
}
