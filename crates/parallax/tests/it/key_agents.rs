//! Real SSH and GPG agents with real keys: only an approved git command can use them.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::support::{Conversation, World, finish, wait_until};

const SIGNED: &str = "git commit -qS --allow-empty -m";

fn script(lines: &[String]) -> String {
    let call = |line: &String| json!({"calls": [{"name": "run_shell_command", "args": {"command": line}}]});
    let mut script: Vec<Value> = lines.iter().map(call).collect();
    script.push(json!({"text": "done"}));
    Value::Array(script).to_string()
}

/// Whether the programs are installed; prints a notice if one is not.
fn has(programs: &[&str]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let there = |name: &&str| std::env::split_paths(&path).any(|dir| dir.join(name).is_file());
    let missing = programs.iter().find(|name| !there(name));
    if let Some(name) = missing {
        let _ = writeln!(std::io::stderr(), "skipped: there is no `{name}` here");
    }
    missing.is_none()
}

/// Runs a program as the user, outside of any sandbox.
fn own(world: &World, program: &str, line: &[&str], socket: Option<&Path>) -> Vec<u8> {
    let mut command = world.home.command(Path::new(program), "");
    command.args(line).stderr(Stdio::null()).stdin(Stdio::null());
    if let Some(socket) = socket {
        command.env("SSH_AUTH_SOCK", socket);
    }
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{program} {line:?}");
    output.stdout
}

fn repository(world: &World, settings: &[(&str, &str)]) {
    own(world, "git", &["init", "-q"], None);
    for (key, value) in [("user.name", "A"), ("user.email", "a@b")].iter().chain(settings) {
        own(world, "git", &["config", key, value], None);
    }
}

/// Returns the signed commits, by the first words of their messages.
fn signed(world: &World, kind: &str) -> Vec<String> {
    let hashes = own(world, "git", &["log", "--all", "--format=%H %s"], None);
    let text = String::from_utf8(hashes).expect("text");
    text.lines()
        .filter_map(|line| {
            let (hash, subject) = line.split_once(' ')?;
            let commit = own(world, "git", &["cat-file", "commit", hash], None);
            String::from_utf8_lossy(&commit).contains(kind).then(|| subject.to_owned())
        })
        .collect()
}

struct SshAgent {
    child: Child,
    socket: PathBuf,
}

impl SshAgent {
    /// Starts an agent that alone has the key; also returns the public key.
    fn start(world: &World) -> (Self, String) {
        let socket = world.home.root().join("agent.sock");
        let mut command = world.home.command(Path::new("ssh-agent"), "");
        command.arg("-D").arg("-a").arg(&socket).stdout(Stdio::null());
        let child = command.spawn().expect("an agent");
        let agent = Self { child, socket };
        wait_until("the agent's socket", || agent.socket.exists());
        let key = world.home.root().join("key");
        let name = key.to_str().expect("text");
        own(world, "ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", name], None);
        own(world, "ssh-add", &[name], Some(&agent.socket));
        std::fs::remove_file(&key).expect("removed");
        let public = std::fs::read_to_string(key.with_extension("pub")).expect("the public key");
        (agent, public.trim().to_owned())
    }
}

impl Drop for SshAgent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn ssh_agent_signs_for_an_approved_git_command_alone() {
    if !has(&["ssh-agent", "ssh-add", "ssh-keygen", "git"]) {
        return;
    }
    let lines = [format!("{SIGNED} free"), "ssh-add -l; true".to_owned()];
    let world = World::new(&script(&lines));
    let (agent, public) = SshAgent::start(&world);
    let key = format!("key::{public}");
    repository(&world, &[("gpg.format", "ssh"), ("user.signingkey", &key)]);
    let run = |world: &World, args: &[&str]| {
        let mut command = world.command(args);
        command.env("SSH_AUTH_SOCK", &agent.socket);
        finish(command)
    };
    run(&world, &["-p", "go", "-y"]);
    assert_eq!(signed(&world, "BEGIN SSH SIGNATURE"), ["free"]);
    let report = world.server.requests();
    let report = String::from_utf8_lossy(&report.last().expect("a request").body).into_owned();
    assert!(!report.contains("ED25519"), "the agent's keys were listed");

    // A rule that allows the command does not grant access to the agent.
    let world = World::in_home(world.home, &script(&[format!("{SIGNED} by-rule")]));
    run(&world, &["-p", "go", "--allowed-tools", "run_shell_command(git commit)"]);
    assert_eq!(signed(&world, "BEGIN SSH SIGNATURE"), ["free"]);

    // The approval request mentions the agent.
    let world = World::in_home(world.home, &script(&[format!("{SIGNED} approved")]));
    let mut command = world.command(&["--input-format", "stream-json"]);
    command.env("SSH_AUTH_SOCK", &agent.socket);
    let mut conversation = Conversation::spawn(command);
    conversation.prompt("go");
    let ask = conversation.next("ask");
    conversation.send(&json!({"type": "decide", "id": ask["id"], "outcome": "proceed_once"}));
    assert_eq!(conversation.next("result")["status"], "success");
    assert_eq!(conversation.end(), Some(0));
    assert_eq!(signed(&world, "BEGIN SSH SIGNATURE"), ["approved", "free"]);
}

#[test]
fn gpg_agent_signs_for_an_approved_git_command_alone() {
    use std::os::unix::fs::DirBuilderExt as _;
    if !has(&["gpg", "gpg-agent", "gpgconf", "git"]) {
        return;
    }
    let lines = [format!("{SIGNED} free"), "cat ~/.gnupg/private-keys-v1.d/*; true".to_owned()];
    let world = World::new(&script(&lines));
    let folder = world.home.home().join(".gnupg");
    std::fs::DirBuilder::new().mode(0o700).create(&folder).expect("a folder");
    struct KilledAgent<'a>(&'a World);
    impl Drop for KilledAgent<'_> {
        fn drop(&mut self) {
            let mut command = self.0.home.command(Path::new("gpgconf"), "");
            let _ = command.args(["--kill", "all"]).status();
        }
    }
    let making = ["--batch", "--passphrase", "", "--quick-generate-key", "A <a@b>", "ed25519"];
    let making: Vec<&str> = making.into_iter().chain(["sign", "never"]).collect();
    own(&world, "gpg", &making, None);
    let _ended = KilledAgent(&world);
    repository(&world, &[]);
    world.run(&["-p", "go", "-y"]);
    assert_eq!(signed(&world, "BEGIN PGP SIGNATURE"), ["free"]);
    let report = world.server.requests();
    let report = String::from_utf8_lossy(&report.last().expect("a request").body).into_owned();
    assert!(!report.contains("private-key ("), "a key was read");
}

/// Starts a server that requires authentication; returns the header with the credentials.
fn asking_server() -> (u16, std::sync::mpsc::Receiver<String>) {
    use std::io::{BufRead as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (report, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let lines = std::io::BufReader::new(&stream).lines().map_while(Result::ok);
            let head = lines.take_while(|line| !line.is_empty());
            let who = head.fold(None, |who, line| {
                line.strip_prefix("Authorization: ").map(str::to_owned).or(who)
            });
            let status = if who.is_some() { "404 Not Found" } else { "401 Unauthorized" };
            let head = format!(
                "HTTP/1.1 {status}\r\nWWW-Authenticate: Basic realm=\"x\"\r\nContent-Length: \
                 0\r\nConnection: close\r\n\r\n"
            );
            let _ = (&stream).write_all(head.as_bytes());
            who.into_iter().for_each(|who| drop(report.send(who)));
        }
    });
    (port, heard)
}

#[test]
fn git_command_that_needs_a_stored_password_requests_permission_to_read_it() {
    if !has(&["git"]) {
        return;
    }
    let (port, heard) = asking_server();
    let line = format!("git ls-remote http://127.0.0.1:{port}/r.git");
    let world = World::new(&script(&[line]));
    repository(&world, &[("credential.helper", "store")]);
    let kept = format!("http://me:PASSWORD@127.0.0.1:{port}\n");
    world.home.write_home(".git-credentials", &kept).expect("file");
    let mut conversation = Conversation::spawn(world.command(&["--input-format", "stream-json"]));
    conversation.prompt("go");
    // Requests for the command, the local servers, and the password.
    for _ in 0..3 {
        let ask = conversation.next("ask");
        conversation.send(&json!({"type": "decide", "id": ask["id"], "outcome": "proceed_once"}));
    }
    assert_eq!(conversation.next("result")["status"], "success");
    assert_eq!(conversation.end(), Some(0));
    assert!(heard.try_recv().is_ok_and(|who| who.starts_with("Basic ")));
    let report = world.server.requests();
    assert!(report.iter().all(|it| !String::from_utf8_lossy(&it.body).contains("PASSWORD")));
}
