//! A home directory, a project, and a scripted model for one test.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use serde_json::{Value, json};
use testkit::measure::{FinishedProcess, MeasuredProcess, run};
use testkit::{ModelServer, RecordedRequest, TestHome};

/// The program under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_parallax");

/// Time limit of a run, generous enough for a busy machine.
pub const LIMIT: Duration = Duration::from_secs(20);

/// The environment of a test.
pub struct World {
    pub home: TestHome,
    pub server: ModelServer,
    pub runtime: tokio::runtime::Runtime,
}

impl World {
    pub fn new(script: &str) -> Self {
        Self::in_home(TestHome::new().expect("home"), script)
    }

    /// Creates a world with an existing home and another script.
    pub fn in_home(home: TestHome, script: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("runtime");
        let server = runtime.block_on(ModelServer::start_script(script)).expect("server");
        Self { home, server, runtime }
    }

    /// Disables loop detection, because generated text repeats itself.
    pub fn without_loop_guard(self) -> Self {
        let settings = r#"{"model": {"disableLoopDetection": true}}"#;
        self.home.write_home(".gemini/settings.json", settings).expect("settings");
        self
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.home.command(Path::new(PROGRAM), &self.server.url());
        command.args(args);
        command
    }

    /// Returns a shell line in which `"$@"` is the program with its arguments.
    pub fn shell(&self, line: &str, args: &[&str]) -> Command {
        let mut command = self.home.command(Path::new("/bin/sh"), &self.server.url());
        command.args(["-c", line, "sh", PROGRAM]).args(args);
        command
    }

    pub fn start(&self, args: &[&str]) -> MeasuredProcess {
        MeasuredProcess::start(self.command(args), None).expect("start")
    }

    pub fn run(&self, args: &[&str]) -> FinishedProcess {
        finish(self.command(args))
    }

    /// Runs it and requires exit code 0 and a server without violations.
    pub fn run_ok(&self, args: &[&str]) -> FinishedProcess {
        let output = self.run(args);
        assert_eq!(output.code(), 0, "stderr: {}", output.err());
        self.server.assert_clean();
        output
    }

    pub fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.home.project().join(path)).unwrap_or_default()
    }

    /// Waits until the stream reaches the gate.
    pub fn at_gate(&self, name: &str) {
        let reached = async { tokio::time::timeout(LIMIT, self.server.wait_at_gate(name)).await };
        assert!(self.runtime.block_on(reached).is_ok(), "no stream came to the gate `{name}`");
    }

    /// Waits until there are this many requests.
    pub fn wait_for_requests(&self, count: usize) {
        let asked = self.server.wait_for_requests(count);
        let asked = async { tokio::time::timeout(LIMIT, asked).await };
        assert!(self.runtime.block_on(asked).is_ok(), "{count} requests did not come");
    }
}

/// Runs a command to its end, with a time limit.
pub fn finish(command: Command) -> FinishedProcess {
    let output = run(command, None, LIMIT).expect("run");
    assert!(!output.timed_out, "not done in {LIMIT:?}; stderr: {}", output.err());
    output
}

/// Waits until a condition holds.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < LIMIT, "{what} did not come true");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns the raw contents of a request.
pub fn raw_contents(request: &RecordedRequest) -> Vec<String> {
    #[derive(serde::Deserialize)]
    struct Body<'a> {
        #[serde(borrow)]
        contents: Vec<&'a RawValue>,
    }
    let body: Body<'_> = serde_json::from_slice(&request.body).expect("a request");
    body.contents.iter().map(|content| content.get().to_owned()).collect()
}

/// A process that is controlled by JSON lines.
pub struct Conversation {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Conversation {
    pub fn start(world: &World, args: &[&str]) -> Self {
        let mut command = world.command(&["--input-format", "stream-json"]);
        command.args(args);
        Self::spawn(command)
    }

    /// Starts a command that accepts JSON lines.
    pub fn spawn(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("start");
        let stdin = child.stdin.take();
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout"));
        let (to, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            while stdout.read_line(&mut line).expect("readable") > 0 {
                if to.send(std::mem::take(&mut line)).is_err() {
                    break;
                }
            }
        });
        Self { child, stdin, lines }
    }

    pub fn send(&mut self, order: &Value) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        writeln!(stdin, "{order}").and_then(|()| stdin.flush()).expect("the program listens");
    }

    pub fn prompt(&mut self, text: &str) {
        self.send(&serde_json::json!({"type": "message", "content": text}));
    }

    /// Returns the next line of the type and skips other lines.
    pub fn next(&mut self, r#type: &str) -> Value {
        loop {
            let line = self.lines.recv_timeout(LIMIT * 2).unwrap_or_else(|reason| {
                let _ = self.child.kill();
                panic!("no line of type `{type}` came: {reason}")
            });
            let line: Value = serde_json::from_str(&line).expect("JSON");
            if line["type"] == r#type {
                return line;
            }
        }
    }

    /// Closes stdin.
    pub fn end_input(&mut self) {
        drop(self.stdin.take());
    }

    /// Closes stdin; returns the exit code.
    pub fn end(mut self) -> Option<i32> {
        self.end_input();
        let mut ended = None;
        wait_until("the end of the program", || {
            while self.lines.try_recv().is_ok() {}
            ended = self.child.try_wait().expect("wait");
            ended.is_some()
        });
        ended.and_then(|status| status.code())
    }
}

/// Returns the tool results that the model received, in order.
pub fn answers(server: &ModelServer) -> Vec<String> {
    let requests = server.requests();
    let body: Value =
        serde_json::from_slice(&requests.last().expect("requests").body).expect("json");
    let contents = body["contents"].as_array().expect("contents").clone();
    let parts = contents
        .iter()
        .flat_map(|content| content["parts"].as_array().cloned().unwrap_or_default());
    parts
        .filter_map(|part| {
            let response = part.get("functionResponse")?.get("response")?.clone();
            let text = response.get("output").or_else(|| response.get("error"))?;
            text.as_str().map(str::to_owned)
        })
        .collect()
}

/// Returns a script with one response per command, then the end.
pub fn commands(lines: &[&str]) -> String {
    let call =
        |line: &&str| json!({"calls": [{"name": "run_shell_command", "args": {"command": line}}]});
    let mut script: Vec<Value> = lines.iter().map(call).collect();
    script.push(json!({"text": "done"}));
    Value::Array(script).to_string()
}
