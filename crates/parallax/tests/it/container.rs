//! The whole program in a container, with a fake `docker` that records how it is called.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use testkit::measure::{FinishedProcess, run};

use crate::support::{LIMIT, PROGRAM, World, finish};

const ANSWER: &str = r#"[{"text": "Hello."}]"#;

/// Records arguments, variables, and stdin; then runs the command after the image, or exits
/// with a code.
const DOCKER: &str = r#"#!/bin/sh
out="$RECORD"
echo "$*" >> "$out/lines"
[ "$1" = run ] || exit "${STEP_CODE:-0}"
for word in "$@"; do printf '%s\n' "$word"; done > "$out/argv"
env > "$out/env"
if [ -n "$INSIDE" ]; then
    while [ "$1" != img ]; do shift; done
    shift 2
    SANDBOX=inside exec "$INSIDE" "$@"
fi
cat > "$out/stdin"
exit "${CODE:-0}"
"#;

struct Engine {
    world: World,
    record: PathBuf,
}

impl Engine {
    fn new(name: &str, script: &str) -> Self {
        let world = World::new(script);
        let record = world.home.root().join("record");
        std::fs::create_dir_all(&record).expect("folder");
        let program = world.home.root().join("bin").join(name);
        std::fs::create_dir_all(program.parent().expect("parent")).expect("folder");
        std::fs::write(&program, DOCKER).expect("script");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("mode");
        Self { world, record }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.world.command(args);
        let path = std::env::var("PATH").unwrap_or_default();
        let own = self.world.home.root().join("bin");
        command.env("PATH", format!("{}:{path}", own.display()));
        command.env("RECORD", &self.record).env("GEMINI_SANDBOX_IMAGE", "img");
        command
    }

    fn recorded(&self, name: &str) -> String {
        std::fs::read_to_string(self.record.join(name)).unwrap_or_default()
    }
}

fn with_stdin(command: Command, stdin: &str) -> FinishedProcess {
    run(command, Some(stdin.as_bytes()), LIMIT).expect("run")
}

#[test]
fn container_engine_gets_arguments_variables_and_stdin_and_returns_its_code() {
    let engine = Engine::new("docker", "[]");
    let mut command = engine.command(&["--sandbox=docker", "-p", "say 'hi'", "-o", "json"]);
    command.env("CODE", "53").env("SANDBOX_ENV", "A=1").env("SANDBOX_FLAGS", "--cpus 2");
    let output = with_stdin(command, "from stdin");
    assert_eq!(output.code(), 53, "{}", output.err());
    assert_eq!(output.stdout(), "");
    let argv = engine.recorded("argv");
    let lines: Vec<&str> = argv.lines().collect();
    assert_eq!(lines[..4], ["run", "-i", "--rm", "--init"]);
    let end = lines.iter().position(|word| *word == "img").expect("image");
    assert_eq!(
        lines[end..],
        ["img", "/opt/parallax/parallax", "--sandbox=docker", "-p", "say 'hi'", "-o", "json"]
    );
    let project = engine.world.home.project().canonicalize().expect("real");
    let mount = format!("{0}:{0}:rw", project.display());
    let binary = format!("{PROGRAM}:/opt/parallax/parallax:ro");
    for word in [mount.as_str(), &binary, "A=1", "--cpus", "GEMINI_API_KEY"] {
        assert!(lines[..end].contains(&word), "{word} in {argv}");
    }
    assert!(!argv.contains(testkit::API_KEY), "{argv}");
    assert!(engine.recorded("env").contains(&format!("GEMINI_API_KEY={}", testkit::API_KEY)));
    assert_eq!(engine.recorded("stdin"), "from stdin");
}

#[test]
fn container_choice_follows_variable_flag_setting_and_does_not_nest() {
    let engine = Engine::new("podman", ANSWER);
    engine
        .world
        .home
        .write_home(".gemini/settings.json", r#"{"tools": {"sandbox": "docker"}}"#)
        .expect("settings");
    let mut command = engine.command(&["--sandbox=docker", "-p", "hello"]);
    command.env("GEMINI_SANDBOX", "podman").env("INSIDE", PROGRAM);
    let output = finish(command);
    assert_eq!((output.code(), output.stdout().trim()), (0, "Hello."), "{}", output.err());
    assert_eq!(engine.recorded("lines").lines().count(), 1);
}

#[test]
fn project_cannot_choose_its_container() {
    let engine = Engine::new("docker", "[]");
    let world = &engine.world;
    world
        .home
        .write(".env", "SANDBOX=1\nGEMINI_SANDBOX=false\nSANDBOX_FLAGS=--privileged\n")
        .expect("file");
    let settings = r#"{"tools": {"sandbox": {"command": "docker", "image": "evil"}}}"#;
    world.home.write(".gemini/settings.json", settings).expect("file");
    let output = finish(engine.command(&["-s=docker", "-p", "hello"]));
    assert_eq!(output.code(), 0, "{}", output.err());
    let argv = engine.recorded("argv");
    assert!(argv.contains("\nimg\n") && !argv.contains("evil"), "{argv}");
    assert!(!argv.contains("--privileged"), "{argv}");
}

#[test]
fn container_that_cannot_start_exits_with_44() {
    let engine = Engine::new("docker", "[]");
    let run = |args: &[&str], variables: &[(&str, &str)]| {
        let mut command = engine.command(args);
        command.envs(variables.iter().copied());
        finish(command)
    };
    let docker = &["--sandbox=docker", "-p", "x"][..];
    for (args, variables, part) in [
        (
            &["--sandbox=podman", "-p", "x"][..],
            &[("PATH", "/nowhere")][..],
            "`podman`, which was not found on `PATH`",
        ),
        (docker, &[("GEMINI_SANDBOX_IMAGE", "")], "requires an image"),
        (docker, &[("CODE", "125")], "failed to start the sandbox (exit code 125)"),
        (docker, &[("SANDBOX_MOUNTS", "/gone-from-here")], "Invalid `SANDBOX_MOUNTS`"),
        (
            docker,
            &[("GEMINI_SANDBOX_PROXY_COMMAND", "p"), ("STEP_CODE", "1")],
            "because `docker network create` failed",
        ),
        (&["--sandbox=lxc", "-p", "x"], &[], "LXC is not supported"),
        (&["--sandbox=windows-native", "-p", "x"], &[], "it requires Windows"),
        (&["-p", "x"], &[("GEMINI_SANDBOX", "dokcer")], "Unknown sandbox `dokcer`"),
    ] {
        let output = run(args, variables);
        assert_eq!(output.code(), 44, "{args:?} {variables:?}: {}", output.err());
        assert!(output.err().contains(part), "{args:?} {variables:?}: {}", output.err());
    }
    let output = run(&["--sandbox=lxc", "-p", "x", "-o", "json"], &[]);
    let out: serde_json::Value = serde_json::from_str(&output.stdout()).expect("JSON");
    assert_eq!(out["error"]["type"], "FatalSandboxError");
    assert_eq!(out["error"]["code"], 44);
}

#[test]
fn isolated_container_network_is_created_once_and_reused() {
    let engine = Engine::new("docker", "[]");
    let settings = r#"{"tools": {"sandbox": {"command": "docker", "networkAccess": false}}}"#;
    engine.world.home.write_home(".gemini/settings.json", settings).expect("settings");
    let output = finish(engine.command(&["-p", "x"]));
    assert_eq!(output.code(), 0, "{}", output.err());
    let lines = engine.recorded("lines");
    assert!(lines.starts_with("network inspect gemini-cli-sandbox\nrun "), "{lines}");
    assert!(lines.contains(" --network gemini-cli-sandbox "), "{lines}");
}

#[test]
fn signal_reaches_the_process_in_the_container() {
    let engine = Engine::new("docker", "[]");
    let script = "#!/bin/sh\ntrap 'exit 9' TERM\necho started > \"$RECORD/argv\"\nwhile :; do \
                  sleep 0.01; done\n";
    std::fs::write(engine.world.home.root().join("bin/docker"), script).expect("script");
    let running =
        testkit::measure::MeasuredProcess::start(engine.command(&["-s=docker", "-p", "x"]), None)
            .expect("start");
    crate::support::wait_until("the start", || !engine.recorded("argv").is_empty());
    rustix::process::kill_process(running.pid(), rustix::process::Signal::TERM).expect("signal");
    let output = running.finish(LIMIT).expect("end");
    assert_eq!(output.code(), 9, "{}", output.err());
}
