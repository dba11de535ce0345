//! The same tests as somebody else, and where namespaces are forbidden.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::place::confine;

const NOBODY: u32 = 65534;

/// The test program and its helper where everybody can run them.
fn copied() -> (TempDir, Command) {
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
    command.current_dir("/").args(["--skip", "again::"]);
    (folder, command)
}

fn succeeds(mut command: Command) {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("test result: ok"), "{said}");
}

#[test]
fn all_of_it_holds_for_an_ordinary_user() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: the other tests are run by an ordinary user already");
        return;
    }
    let (_folder, mut command) = copied();
    command.uid(NOBODY).gid(NOBODY);
    succeeds(command);
}

#[test]
fn all_of_it_holds_where_namespaces_are_forbidden() {
    let forbid = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";
    let wrapper = ["-Ur", "sh", "-c"];
    let tried = Command::new("unshare").args(wrapper).args([forbid, "sh", "true"]).status();
    if !tried.is_ok_and(|status| status.success()) {
        println!("skipped: namespaces cannot be forbidden to a child here");
        return;
    }
    let (_folder, command) = copied();
    let mut outer = Command::new("unshare");
    outer.args(wrapper).args([forbid, "sh"]).arg(command.get_program()).args(command.get_args());
    outer.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    outer.current_dir("/");
    succeeds(outer);
}
