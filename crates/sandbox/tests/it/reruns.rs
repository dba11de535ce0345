//! Runs the same tests as another user, where namespaces are forbidden, and where only a
//! set-user-ID `bwrap` can create them.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use parallax_sandbox::{Support, Tier};
use tempfile::TempDir;

use crate::test_project::confine;

const UNPRIVILEGED_ID: u32 = 65534;

/// Copies the test program and its helper to where every user can run them.
fn copy_test_program() -> (TempDir, Command) {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let copy = |from: &Path, name: &str| {
        let to = folder.path().join(name);
        fs::copy(from, &to).unwrap();
        fs::set_permissions(&to, fs::Permissions::from_mode(0o755)).unwrap();
        to
    };
    let tests = copy(&std::env::current_exe().unwrap(), "tests");
    let helper = copy(&confine(), "confine");
    let mut command = Command::new(tests);
    command.env("CONFINE", helper).env("TMPDIR", folder.path()).env("AGAIN", "1");
    command.current_dir("/").args(["--skip", "reruns::"]);
    (folder, command)
}

fn assert_succeeds(mut command: Command) {
    // A child of another test that was just forked may still hold the copy open for writing until
    // it executes its program.
    let output = loop {
        match command.output() {
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                std::thread::yield_now();
            }
            output => break output.unwrap(),
        }
    };
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("test result: ok"), "{said}");
}

#[test]
fn sandbox_tests_pass_as_an_unprivileged_user() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: the other tests are run by an ordinary user already");
        return;
    }
    let (_folder, mut command) = copy_test_program();
    command.uid(UNPRIVILEGED_ID).gid(UNPRIVILEGED_ID);
    assert_succeeds(command);
}

#[test]
fn sandbox_tests_pass_without_namespaces() {
    let forbid = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";
    let wrapper = ["-Ur", "sh", "-c"];
    let tried = Command::new("unshare").args(wrapper).args([forbid, "sh", "true"]).status();
    if !tried.is_ok_and(|status| status.success()) {
        println!("skipped: namespaces cannot be forbidden to a child here");
        return;
    }
    let (_folder, command) = copy_test_program();
    let mut outer = Command::new("unshare");
    outer.args(wrapper).args([forbid, "sh"]).arg(command.get_program()).args(command.get_args());
    outer.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    outer.current_dir("/");
    assert_succeeds(outer);
}

/// A user namespace with all IDs and a mount namespace, held until this is dropped.
struct SeparateNamespaces(Child);

impl SeparateNamespaces {
    fn new() -> Option<Self> {
        let mut command = Command::new("unshare");
        command.args(["--user", "--mount", "sh", "-c", "echo; read x"]);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut held = Self(command.spawn().ok()?);
        held.0.stdout.as_mut()?.read_exact(&mut [0]).ok()?;
        for map in ["uid_map", "gid_map"] {
            fs::write(format!("/proc/{}/{map}", held.0.id()), "0 0 65536\n").ok()?;
        }
        Some(held)
    }

    /// Returns a script that runs as root of the namespace.
    fn script(&self, script: &str) -> Command {
        let mut command = Command::new("nsenter");
        let holder = self.0.id().to_string();
        command.args(["-t", &holder, "-U", "-m", "-S", "0", "-G", "0", "sh", "-c", script, "sh"]);
        command
    }
}

impl Drop for SeparateNamespaces {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn sandbox_tests_pass_with_setuid_bubblewrap() {
    const BWRAP: &str = "/usr/bin/bwrap";
    let root = rustix::process::geteuid().is_root();
    let project = SeparateNamespaces::new().filter(|_| root && Path::new(BWRAP).exists());
    let Some(project) = project else {
        println!("skipped: not root, or no `bwrap`, or no namespaces for a test");
        return;
    };
    let (folder, command) = copy_test_program();
    let bwrap = folder.path().join("bwrap");
    fs::copy(BWRAP, &bwrap).unwrap();
    fs::set_permissions(&bwrap, fs::Permissions::from_mode(0o4755)).unwrap();
    let enter = format!(
        "mount --bind {} {BWRAP} && echo 0 > /proc/sys/user/max_user_namespaces \
         && exec setpriv --reuid 65533 --regid 65533 --clear-groups \"$@\"",
        bwrap.display()
    );
    let helper = folder.path().join("confine");
    let probed = project.script(&enter).arg(helper).arg("__sandbox-probe").output().unwrap();
    let found: Support = serde_json::from_slice(&probed.stdout).unwrap();
    if !found.bubblewrap.is_supported {
        println!("skipped: a set-user-id `bwrap` does not work here: {}", found.bubblewrap.detail);
        return;
    }
    assert_eq!(found.tier(), Tier::Bubblewrap);
    assert!(found.explain().iter().any(|line| line.contains("set-user-id")), "{found:?}");
    let mut outer = project.script(&enter);
    outer.arg(command.get_program()).args(command.get_args()).current_dir("/");
    outer.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    assert_succeeds(outer);
}
