//! Tests that protected and hidden files stay covered when their owner saves them: editors and
//! tools write a new file and rename it over the old one.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::time::{Duration, Instant};

use parallax_sandbox::{Plan, Tier};

use crate::test_project::{TestProject, has, session_namespaces, support, tiers, tiers_with_view};

/// A command that waits for a line, so that files can change in the meantime.
struct WaitingCommand {
    child: Child,
    stdin: ChildStdin,
}

impl WaitingCommand {
    fn start(project: &TestProject, plan: &Plan, then: &str) -> Self {
        let script = format!("echo r; read line; {then}");
        let mut child = project
            .command(plan, &["sh", "-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0; 2]).unwrap();
        let stdin = child.stdin.take().unwrap();
        Self { child, stdin }
    }

    fn release(mut self) -> String {
        // The overmount monitor must see the change first.
        std::thread::sleep(Duration::from_millis(100));
        self.stdin.write_all(b"\n").unwrap();
        String::from_utf8(self.child.wait_with_output().unwrap().stdout).unwrap()
    }
}

fn save_by_rename(path: &Path, text: &str) {
    let new = path.with_extension("saved");
    fs::write(&new, text).unwrap();
    fs::rename(new, path).unwrap();
}

/// Returns a filtered home directory like a real one.
fn filtered(project: &TestProject, tier: Tier) -> Plan {
    for name in [".docker", ".config/tool"] {
        fs::create_dir_all(project.home.join(name)).unwrap();
    }
    for name in [".npmrc", ".docker/config.json"] {
        fs::write(project.home.join(name), "secret").unwrap();
    }
    fs::write(project.home.join(".docker/plain"), "plain").unwrap();
    symlink(".profile", project.home.join("link")).unwrap();
    let mut plan = project.plan(tier);
    let names = [".npmrc", ".later", ".docker/config.json", ".config/gh", ".aws"];
    plan.hidden.extend(names.map(|name| project.home.join(name)));
    plan.filtered = ["", ".docker", ".config"].map(|name| project.home.join(name)).into();
    plan
}

#[test]
fn hidden_home_files_stay_hidden_after_a_save() {
    // With `bwrap`, a mount for each entry would take too long.
    for tier in [Tier::Namespaces, Tier::Landlock].into_iter().filter(|tier| has(*tier)) {
        let project = TestProject::new();
        let plan = filtered(&project, tier);
        let names = "~/.netrc ~/.npmrc ~/.later ~/.docker/config.json ~/.config/gh/hosts ~/.aws/c";
        let waiting =
            WaitingCommand::start(&project, &plan, &format!("cat {names}; ls -a ~ ~/.docker"));
        for name in [".config/gh", ".aws"] {
            fs::create_dir(project.home.join(name)).unwrap();
        }
        for name in [".netrc", ".npmrc", ".later", ".docker/config.json"] {
            save_by_rename(&project.home.join(name), "stolen");
        }
        for name in [".config/gh/hosts", ".aws/c"] {
            fs::write(project.home.join(name), "stolen").unwrap();
        }
        fs::remove_dir_all(project.home.join(".ssh")).unwrap();
        fs::create_dir(project.home.join(".ssh")).unwrap();
        let output = waiting.release();
        assert!(!output.contains("stolen") && !output.contains("secret"), "{tier:?}: {output}");
        let names_later = output.contains(".later") || output.contains(".aws");
        assert!(!names_later || tier == Tier::Landlock, "{tier:?}: {output}");
    }
}

#[test]
fn hidden_files_of_a_large_directory_are_covered_again() {
    if !has(Tier::Namespaces) || !support().network_broker.is_supported {
        return;
    }
    let project = TestProject::new();
    let mut plan = filtered(&project, Tier::Namespaces);
    (0..1200).for_each(|number| {
        fs::write(project.home.join(format!("f{number}")), "").unwrap();
    });
    // Not below the home directory, and not filtered at all.
    let elsewhere = project.home.parent().unwrap().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("key"), "secret").unwrap();
    plan.hidden.push(elsewhere.join("key"));
    plan.hidden.push(elsewhere.join("a/b/later"));
    let names = "~/.netrc ~/.npmrc ~/.later ~/.docker/config.json ~/.config/gh/hosts ~/.aws/c \
                 ../../elsewhere/key ../../elsewhere/a/b/later ~/.ssh/id";
    let waiting = WaitingCommand::start(&project, &plan, &format!("cat {names}; cat ~/f1200"));
    for name in [".config/gh", ".aws"] {
        fs::create_dir(project.home.join(name)).unwrap();
    }
    for name in [".netrc", ".npmrc", ".later", ".docker/config.json"] {
        save_by_rename(&project.home.join(name), "stolen");
    }
    for name in [".config/gh/hosts", ".aws/c"] {
        fs::write(project.home.join(name), "stolen").unwrap();
    }
    fs::rename(project.home.join(".ssh"), project.home.join("old")).unwrap();
    fs::create_dir(project.home.join(".ssh")).unwrap();
    fs::write(project.home.join(".ssh/id"), "stolen").unwrap();
    save_by_rename(&elsewhere.join("key"), "stolen");
    fs::create_dir_all(elsewhere.join("a/b")).unwrap();
    fs::write(elsewhere.join("a/b/later"), "stolen").unwrap();
    fs::write(project.home.join("f1200"), "plain").unwrap();
    let output = waiting.release();
    assert_eq!(output, "plain");
}

#[test]
fn filtered_home_behaves_like_the_real_one() {
    for tier in tiers() {
        let project = TestProject::new();
        let plan = filtered(&project, tier);
        let script = "cat ~/link ~/.docker/plain ~/.profile; cd ~/work && echo x > src/new && \
                      mv src/new made && ls -a ~ && stat -c '%a %u' ~ ~/.docker";
        let (code, output) = project.shell(&plan, script);
        assert_eq!(code, 0, "{tier:?}: {output}");
        assert!(output.starts_with("secretplainsecret"), "{tier:?}: {output}");
        for name in [".docker", ".npmrc", ".profile", ".ssh", "link", "work", ".config"] {
            assert!(output.lines().any(|line| line == name), "{tier:?} {name}: {output}");
        }
        if tier != Tier::Namespaces {
            continue;
        }
        let owner = rustix::process::geteuid().as_raw();
        let owner = format!("755 {owner}\n755 {owner}\n");
        assert!(output.ends_with(&owner), "{tier:?}: {output}");
        assert!(project.work.join("made").exists());
        for script in ["touch ~/new", "rm ~/.profile", "mkdir ~/.docker/x", "chmod 700 ~"] {
            let (code, output) = project.shell(&plan, script);
            assert_ne!(code, 0, "{tier:?} {script}: {output}");
        }
        // Directories in it are the real ones.
        fs::create_dir(project.home.join("other")).unwrap();
        let waiting = WaitingCommand::start(&project, &plan, "cat ~/other/later");
        fs::write(project.home.join("other/later"), "later").unwrap();
        assert_eq!(waiting.release(), "later", "{tier:?}");
    }
}

/// Time to cover a file again on a busy machine.
const SOON: Duration = Duration::from_millis(500);

#[test]
fn hidden_workspace_files_are_covered_again_after_a_save() {
    let Some(session_namespaces) = session_namespaces() else { return };
    if !support().network_broker.is_supported {
        println!("skipped: no network broker here: {}", support().network_broker.detail);
        return;
    }
    for left_behind in [false, true] {
        let project = TestProject::new();
        let mut plan = project.plan(Tier::Namespaces);
        plan.session_namespaces = Some(session_namespaces.pid());
        fs::write(project.work.join(".envrc"), "old").unwrap();
        fs::create_dir(project.work.join(".vscode")).unwrap();
        plan.read_only.push(project.work.join(".envrc"));
        let attack = "while ! [ -e stop ]; do cat .env >> out; \
                      for f in .envrc .git/config .vscode/tasks.json; do (echo evil >> $f); done; \
                      touch alive; sleep 0.02; done";
        let script = match left_behind {
            true => format!("(setsid sh -c '{attack}' >/dev/null 2>&1 &) & sleep 0.1"),
            false => format!("({attack}) 2>/dev/null"),
        };
        let mut child = project.command(&plan, &["sh", "-c", &script]).spawn().unwrap();
        if left_behind {
            child.wait().unwrap();
        }
        let read = |name: &str| fs::read_to_string(project.work.join(name)).unwrap_or_default();
        let saved = [".env", ".envrc", ".git/config"];
        for _ in 0..3 {
            for name in saved {
                save_by_rename(&project.work.join(name), "saved");
            }
            fs::remove_dir_all(project.work.join(".vscode")).unwrap();
            fs::create_dir(project.work.join(".vscode")).unwrap();
            std::thread::sleep(SOON);
            for name in saved {
                fs::write(project.work.join(name), "mine").unwrap();
            }
            let _ = fs::remove_file(project.work.join(".vscode/tasks.json"));
            let _ = fs::remove_file(project.work.join("out"));
            let _ = fs::remove_file(project.work.join("alive"));
            std::thread::sleep(SOON);
            assert!(project.work.join("alive").exists());
            assert_eq!(read("out"), "", "left behind: {left_behind}");
            for name in saved {
                assert_eq!(read(name), "mine", "{name}, left behind: {left_behind}");
            }
            assert!(!project.work.join(".vscode/tasks.json").exists());
        }
        fs::write(project.work.join("stop"), "").unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn process_that_can_still_write_a_saved_file_is_killed() {
    if !support().network_broker.is_supported
        || tiers_with_view().first() != Some(&Tier::Namespaces)
    {
        return;
    }
    let begin = "import ctypes, os, socket, threading, time\n\
                 print('r', flush=True)\n\
                 while not (os.path.exists('new') and os.path.getsize('new')): pass\n\
                 file = open('new', 'r+b', buffering=0)\n\
                 def write(): file.write(b'evil')\n\
                 def wait(): open('opened', 'w').close(); time.sleep(60)\n";
    // Each opens the file under its name before it is moved into place.
    for (name, script) in [
        ("descriptor", "wait(); write()"),
        (
            "mapping",
            "libc = ctypes.CDLL(None); libc.mmap.restype = ctypes.c_void_p; \
             at = libc.mmap(None, ctypes.c_size_t(4), 3, 1, file.fileno(), ctypes.c_long(0)); \
             file.close(); wait(); ctypes.memmove(at, b'evil', 4)",
        ),
        (
            "private mapping, which shows later changes",
            "libc = ctypes.CDLL(None); libc.mmap.restype = ctypes.c_void_p; \
             libc.mmap(None, ctypes.c_size_t(4), 1, 2, file.fileno(), ctypes.c_long(0)); \
             file.close(); wait()",
        ),
        (
            "message",
            "a, b = socket.socketpair(); socket.send_fds(a, [b'x'], [file.fileno()]); file.close(); \
             wait(); os.write(socket.recv_fds(b, 1, 1)[1][0], b'evil')",
        ),
        (
            "table of a thread",
            "def other():\n ctypes.CDLL(None).unshare(0x400) and os._exit(9)\n \
             os.rename('opening', 'other'); wait(); write()\n\
             open('opening', 'w').close()\n\
             threading.Thread(target=other).start()\n\
             while not os.path.exists('other'): pass\n\
             file.close(); time.sleep(60)",
        ),
        (
            "first thread has ended",
            "threading.Thread(target=lambda: (time.sleep(0.2), wait(), write())).start()\n\
             libc = ctypes.CDLL(None); libc.syscall(ctypes.c_long(60), 0)",
        ),
    ] {
        let project = TestProject::new();
        let plan = project.plan(Tier::Namespaces);
        let script = format!("{begin}{script}");
        let mut command = project.command(&plan, &["python3", "-c", &script]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0; 2]).unwrap();
        fs::write(project.work.join("new"), "mine").unwrap();
        while !project.work.join("opened").exists() {
            assert!(child.try_wait().unwrap().is_none(), "{name}: ended early");
            std::thread::sleep(Duration::from_millis(5));
        }
        fs::rename(project.work.join("new"), project.work.join(".git/config")).unwrap();
        let start = Instant::now();
        assert!(!child.wait().unwrap().success(), "{name}");
        assert!(start.elapsed() < Duration::from_secs(30), "{name}: not ended");
        std::thread::sleep(SOON);
        assert_eq!(fs::read_to_string(project.work.join(".git/config")).unwrap(), "mine", "{name}");
        let replaced = parallax_sandbox::take_replaced(&project.temporary).paths;
        assert_eq!(replaced, [project.work.join(".git/config")], "{name}");
    }
}

/// Scripts that hold `new` and try to write it once `go` exists.
const HOLDERS: [(&str, &str); 7] = [
    ("read-only", "f = os.open('new', os.O_RDONLY); wait(); again(f)"),
    ("path", "f = os.open('new', os.O_PATH); wait(); again(f)"),
    (
        "message",
        "f = os.open('new', os.O_PATH); a, b = socket.socketpair(); \
         socket.send_fds(a, [b'x'], [f]); os.close(f); wait(); again(socket.recv_fds(b, 1, 1)[1][0])",
    ),
    (
        "message that waits for a full socket",
        "f = os.open('new', os.O_RDWR); a, b = socket.socketpair(); a.setblocking(False)\n\
         try:\n while True: a.send(bytes(65536))\n\
         except BlockingIOError: a.setblocking(True)\n\
         threading.Thread(target=lambda: socket.send_fds(a, [b'x'], [f]), daemon=True).start()\n\
         time.sleep(0.2); os.close(f); wait(); b.settimeout(0.3)\n\
         while True:\n for file in socket.recv_fds(b, 65536, 1)[1]: os.write(file, b'evil')",
    ),
    (
        "unreadable process",
        "import ctypes; f = os.open('new', os.O_RDWR); ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); \
         wait(); os.write(f, b'evil')",
    ),
    (
        "blocked call",
        "f = os.open('new', os.O_RDWR); r, w = os.pipe()\n\
         threading.Thread(target=lambda: os.splice(r, f, 99)).start()\n\
         time.sleep(0.1); os.close(f); wait(); os.write(w, b'evil'); time.sleep(0.2)",
    ),
    (
        "chain of processes",
        "f = os.open('new', os.O_RDWR); open('opened', 'w').close()\n\
         while not os.path.exists('go'):\n if os.fork(): os._exit(0)\n\
         os.write(f, b'evil')",
    ),
];

#[test]
fn no_process_of_a_command_can_write_a_saved_file_later() {
    let Some(session_namespaces) = session_namespaces() else { return };
    if !support().network_broker.is_supported {
        return;
    }
    let begin = "import os, socket, threading, time\n\
                 while not (os.path.exists('new') and os.path.getsize('new')): pass\n\
                 def wait():\n open('opened', 'w').close()\n while not os.path.exists('go'): time.sleep(0.01)\n\
                 def again(f): os.write(os.open(f'/proc/self/fd/{f}', os.O_RDWR), b'evil')\n";
    for (name, script) in HOLDERS {
        let project = TestProject::new();
        let mut plan = project.plan(Tier::Namespaces);
        plan.session_namespaces = Some(session_namespaces.pid());
        let script = format!("{begin}{script}");
        let mut child = project.command(&plan, &["python3", "-c", &script]).spawn().unwrap();
        let mut other = project.command(&plan, &["sleep", "60"]).spawn().unwrap();
        std::thread::sleep(SOON);
        fs::write(project.work.join("new"), "mine").unwrap();
        while !project.work.join("opened").exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(SOON);
        fs::rename(project.work.join("new"), project.work.join(".git/config")).unwrap();
        std::thread::sleep(2 * SOON);
        fs::write(project.work.join("go"), "").unwrap();
        std::thread::sleep(2 * SOON);
        assert_eq!(fs::read_to_string(project.work.join(".git/config")).unwrap(), "mine", "{name}");
        assert!(other.try_wait().unwrap().is_none(), "{name}: another process was killed");
        for child in [&mut child, &mut other] {
            let _ = child.kill();
            child.wait().unwrap();
        }
    }
}

#[test]
fn program_that_waits_to_send_survives_a_save() {
    let Some(session_namespaces) = session_namespaces() else { return };
    if !support().network_broker.is_supported {
        return;
    }
    let script = "import os, socket, threading, time\n\
                  a, b = socket.socketpair(); a.setblocking(False)\n\
                  try:\n while True: a.send(bytes(65536))\n\
                  except BlockingIOError: a.setblocking(True)\n\
                  def drain():\n while not os.path.exists('go'): time.sleep(0.01)\n \
                  while b.recv(65536): pass\n\
                  threading.Thread(target=drain, daemon=True).start()\n\
                  open('ready', 'w').close()\n\
                  a.sendmsg([b'x'])\n\
                  socket.send_fds(a, [b'x'], [0])";
    let project = TestProject::new();
    let mut plan = project.plan(Tier::Namespaces);
    plan.session_namespaces = Some(session_namespaces.pid());
    let mut child = project.command(&plan, &["python3", "-c", script]).spawn().unwrap();
    while !project.work.join("ready").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(SOON);
    let start = Instant::now();
    save_by_rename(&project.work.join(".env"), "saved");
    std::thread::sleep(SOON);
    fs::write(project.work.join("go"), "").unwrap();
    assert!(child.wait().unwrap().success());
    assert!(start.elapsed() < Duration::from_secs(2), "the command was stopped for long");
}

#[test]
fn no_process_of_a_command_can_write_in_a_directory_moved_to_a_protected_name() {
    let Some(session_namespaces) = session_namespaces() else { return };
    if !support().network_broker.is_supported {
        return;
    }
    let project = TestProject::new();
    fs::create_dir_all(project.work.join("conf/sub")).unwrap();
    fs::create_dir(project.work.join(".vscode")).unwrap();
    fs::write(project.work.join("conf/tasks.json"), "mine").unwrap();
    let mut plan = project.plan(Tier::Namespaces);
    plan.session_namespaces = Some(session_namespaces.pid());
    let wait = "touch opened-$$; while ! [ -e go ]; do sleep 0.01; done";
    let attack = format!(
        "exec 9<>conf/tasks.json; {wait}; echo evil >&9 & \
         d=$PWD; cd conf/sub; while ! [ -e $d/go ]; do sleep 0.01; done; echo evil > evil & wait"
    );
    let mut child = project.command(&plan, &["sh", "-c", &attack]).spawn().unwrap();
    std::thread::sleep(2 * SOON);
    fs::remove_dir(project.work.join(".vscode")).unwrap();
    fs::rename(project.work.join("conf"), project.work.join(".vscode")).unwrap();
    std::thread::sleep(2 * SOON);
    fs::write(project.work.join("go"), "").unwrap();
    std::thread::sleep(2 * SOON);
    let tasks = fs::read_to_string(project.work.join(".vscode/tasks.json")).unwrap();
    assert_eq!(tasks, "mine");
    assert!(!project.work.join(".vscode/sub/evil").exists());
    assert_eq!(
        parallax_sandbox::take_replaced(&project.temporary).paths,
        [project.work.join(".vscode")]
    );
    let _ = child.kill();
    child.wait().unwrap();
}

#[test]
fn secret_that_appears_later_is_hidden_from_remaining_processes() {
    let Some(session_namespaces) = session_namespaces() else { return };
    if !support().network_broker.is_supported {
        return;
    }
    for is_only_in_workspace in [false, true] {
        let project = TestProject::new();
        fs::remove_file(project.work.join(".env")).unwrap();
        let mut plan = project.plan(Tier::Namespaces);
        if is_only_in_workspace {
            plan.hidden.retain(|path| path.starts_with(&project.work));
        }
        plan.session_namespaces = Some(session_namespaces.pid());
        let attack = "while ! [ -e stop ]; do cat .env >> out; touch alive; sleep 0.02; done";
        let script = format!("(setsid sh -c '{attack}' >/dev/null 2>&1 &) & sleep 0.1");
        assert!(project.command(&plan, &["sh", "-c", &script]).status().unwrap().success());
        std::thread::sleep(SOON);
        save_by_rename(&project.work.join(".env"), "stolen");
        std::thread::sleep(SOON);
        for name in ["out", "alive"] {
            let _ = fs::remove_file(project.work.join(name));
        }
        std::thread::sleep(SOON);
        assert!(project.work.join("alive").exists());
        assert_eq!(fs::read_to_string(project.work.join("out")).unwrap(), "");
        fs::write(project.work.join("stop"), "").unwrap();
    }
}

#[test]
fn command_starts_while_covered_files_are_saved() {
    if !has(Tier::Namespaces) {
        return;
    }
    let project = TestProject::new();
    let plan = project.plan(Tier::Namespaces);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                for name in [".env", ".git/config"] {
                    save_by_rename(&project.work.join(name), "saved");
                }
            }
        });
        let failed: Vec<_> = (0..30)
            .map(|_| project.output(&plan, &["true"]))
            .filter(|output| !output.status.success())
            .collect();
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(failed.is_empty(), "{failed:?}");
    });
}

#[test]
fn secret_created_by_a_command_is_readable_by_it() {
    for tier in tiers_with_view() {
        let project = TestProject::new();
        fs::remove_file(project.work.join(".env")).unwrap();
        let plan = project.plan(tier);
        let (code, output) = project.shell(&plan, "echo made > .env; sleep 0.2; cat .env");
        assert_eq!((code, output.as_str()), (0, "made\n"), "{tier:?}");
    }
}

/// Returns the broker process of a command.
fn broker_of(command: &Child) -> Option<u32> {
    let id = command.id();
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).ok()?;
    let mut children = children.split(' ').filter_map(|child| child.parse().ok());
    children.find(|child: &u32| {
        fs::read_to_string(format!("/proc/{child}/comm"))
            .is_ok_and(|name| name.trim_end() == parallax_sandbox::KEEPER)
    })
}

#[test]
fn command_ends_when_its_broker_is_killed() {
    if !has(Tier::Namespaces) || !support().network_broker.is_supported {
        return;
    }
    let project = TestProject::new();
    let plan = filtered(&project, Tier::Namespaces);
    // It would wait forever.
    let mut waiting = WaitingCommand::start(&project, &plan, "cat ~/.later");
    let broker = broker_of(&waiting.child).expect("a broker");
    let broker = i32::try_from(broker).ok().and_then(rustix::process::Pid::from_raw).unwrap();
    rustix::process::kill_process(broker, rustix::process::Signal::KILL).unwrap();
    for _ in 0..500 {
        if let Some(status) = waiting.child.try_wait().unwrap() {
            assert!(!status.success(), "{status}");
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    waiting.child.kill().unwrap();
    panic!("the command is still running");
}

/// A command that reads and writes covered files until it may stop, and a user who replaces them in
/// ways that take the cover along.
#[test]
fn files_that_replace_moved_ones_are_covered() {
    let Some(session_namespaces) = session_namespaces() else { return };
    if !support().network_broker.is_supported {
        return;
    }
    let project = TestProject::new();
    let path = |name: &str| project.work.join(name);
    let mut plan = project.plan(Tier::Namespaces);
    plan.session_namespaces = Some(session_namespaces.pid());
    fs::create_dir(path(".vscode")).unwrap();
    for directory in ["sub", "conf"] {
        fs::create_dir(path(directory)).unwrap();
        for name in [".env", ".envrc"] {
            fs::write(path(directory).join(name), "old").unwrap();
            plan.read_only.push(path(directory).join(name));
        }
        plan.hidden.push(path(directory).join(".env"));
    }
    let files = ".env .git/config .vscode/tasks.json sub/.env sub/.envrc";
    let attack = format!(
        "while ! [ -e stop ]; do cat .env sub/.env >> out; \
         for f in {files}; do (echo evil >> $f); done; touch alive; sleep 0.02; done"
    );
    let mut child =
        project.command(&plan, &["sh", "-c", &format!("({attack}) 2>/dev/null")]).spawn().unwrap();
    // The covers of the first 50 milliseconds are those of the start.
    std::thread::sleep(SOON);
    for name in [".env", ".git/config", "sub"] {
        fs::rename(path(name), path(&format!("{name}.old"))).unwrap();
    }
    fs::create_dir(path("sub")).unwrap();
    // Its own mount is writable, because it contains protected files.
    fs::remove_dir_all(path(".vscode")).unwrap();
    fs::rename(path("conf"), path(".vscode")).unwrap();
    for name in [".env", ".git/config", "sub/.env", "sub/.envrc"] {
        fs::write(path(name), "new").unwrap();
    }
    std::thread::sleep(SOON);
    for name in [".env", ".git/config", "sub/.env", "sub/.envrc", ".vscode/tasks.json"] {
        fs::write(path(name), "mine").unwrap();
    }
    let _ = fs::remove_file(path("out"));
    let _ = fs::remove_file(path("alive"));
    std::thread::sleep(SOON);
    // Its descriptors of the files have been closed for long.
    assert!(path("alive").exists());
    assert_eq!(fs::read_to_string(path("out")).unwrap_or_default(), "");
    for name in [".env", ".git/config", "sub/.env", "sub/.envrc", ".vscode/tasks.json"] {
        assert_eq!(fs::read_to_string(path(name)).unwrap(), "mine", "{name}");
    }
    fs::write(path("stop"), "").unwrap();
    child.wait().unwrap();
}

#[test]
fn report_of_the_monitors_is_hidden_from_commands() {
    if !has(Tier::Namespaces) {
        return;
    }
    let project = TestProject::new();
    let mut plan = project.plan(Tier::Namespaces);
    // Commands may read what tools write next to it.
    plan.temporary = project.home.join("run/private");
    plan.readable.push(project.home.join("run"));
    fs::create_dir_all(&plan.temporary).unwrap();
    fs::write(plan.temporary.join("replaced"), "report").unwrap();
    fs::write(plan.temporary.join("npmrc"), "output").unwrap();
    let script = "cat ~/run/private/replaced ~/run/private/npmrc; touch /tmp/x";
    let output = project.output(&plan, &["sh", "-c", script]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "output", "{output:?}");
}
