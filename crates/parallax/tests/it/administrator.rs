//! Administrator rules, in a test-specific view of `/etc`.

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use serde_json::json;
use testkit::TestHome;

use crate::support::{World, finish};

/// Mounts a copy of `/etc` that contains the rules, and starts the program there.
const WITH_RULES: &str = "mount --make-rprivate / && cp -a /etc/. \"$COPY\" \
     && mkdir -p \"$COPY/gemini-cli/policies\" \
     && cp \"$RULES\" \"$COPY/gemini-cli/policies/rules.toml\" \
     && chown -R \"$OWNER\" \"$COPY/gemini-cli\" \
     && mount --bind \"$COPY\" /etc && exec \"$@\"";

fn can_mount() -> bool {
    let home = TestHome::new().expect("home");
    let mut command = home.command(Path::new("unshare"), "");
    command.args(["-m", "sh", "-c", "mount --make-rprivate / && mount -t tmpfs none /etc"]);
    let can = command.stderr(Stdio::null()).status().is_ok_and(|status| status.success());
    if !can {
        let _ = writeln!(std::io::stderr(), "skipped: only root can show another `/etc`");
    }
    can && rustix::process::geteuid().is_root()
}

#[test]
fn admin_rules_have_precedence_and_must_be_owned_by_root() {
    if !can_mount() {
        return;
    }
    let rules = "[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = \"touch\"\n\
                 decision = \"deny\"\ndenyMessage = \"Not on this machine\"\npriority = 1\n";
    for (owner, denied) in [("0:0", true), ("65534:65534", false)] {
        let call = json!({"name": "run_shell_command", "args": {"command": "touch made"}});
        let script = json!([{"calls": [call]}, {"text": "done"}]).to_string();
        let world = World::new(&script);
        let own = rules.replace("deny\"", "allow\"").replace("= 1\n", "= 999\n");
        let own = own.replace("denyMessage = \"Not on this machine\"\n", "");
        world.home.write_home(".parallax/policies/own.toml", &own).expect("written");
        let file = world.home.root().join("rules.toml");
        std::fs::write(&file, rules).expect("written");
        let copy = world.home.root().join("etc");
        std::fs::create_dir(&copy).expect("a folder");
        let line = format!("exec unshare -m sh -c '{WITH_RULES}' sh \"$@\"");
        let mut command = world.shell(&line, &["-p", "go", "-y"]);
        command.env("COPY", &copy).env("RULES", &file).env("OWNER", owner);
        let output = finish(command);
        assert_eq!(output.code(), 0, "{}", output.err());
        assert_eq!(
            world.home.project().join("made").exists(),
            !denied,
            "{owner}: {}",
            output.err()
        );
        let report = world.server.requests();
        let report = String::from_utf8_lossy(&report.last().expect("a request").body).into_owned();
        assert_eq!(report.contains("Not on this machine"), denied, "{owner}");
    }
}
