//! Runs the agent as a child process and reads its stream-json output.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use parallax_exec::{ChildOutput, PipedChild, ProcessExit};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader,
};
use tokio::process::ChildStdin;
use tokio_util::sync::CancellationToken;

use crate::tool_call::ToolCall;

/// Maximum size of a line in bytes; longer lines are skipped.
const MAX_LINE: usize = 32 << 20;
/// Maximum number of stderr bytes that are kept.
const MAX_STDERR: usize = 16 << 10;
/// Maximum number of bytes of an answer that are kept.
const MAX_ANSWER: usize = 4 << 20;
/// Maximum number of output bytes of a command that are kept.
const MAX_OUTPUT: usize = 4 << 20;
/// How long the agent may take to exit after its time limit or after its input is closed.
const GRACE: Duration = Duration::from_secs(30);
/// Sent to the model if something needs approval, because there is no user.
const DENIED: &str = "This action was not allowed.";

/// A process of the agent.
pub(crate) struct AgentProcess {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<String>,
    pub(crate) directory: PathBuf,
    /// The time limit.
    pub(crate) timeout: Duration,
}

/// What the agent did.
#[derive(Debug, Default)]
pub(crate) struct AgentRun {
    pub(crate) session_id: Option<String>,
    /// The model at the start of the session.
    pub(crate) model: Option<String>,
    /// The text after the last tool call of the last prompt.
    pub(crate) answer: String,
    /// Tool calls, in order.
    pub(crate) calls: Vec<ToolCall>,
    /// The number of steps: requests of the main agent that were answered.
    pub(crate) steps: u64,
    pub(crate) tokens: u64,
    /// `None` if the price of a model is unknown.
    pub(crate) cost: Option<f64>,
    pub(crate) duration: Duration,
    /// Why the run did not complete.
    pub(crate) error: Option<String>,
}

impl AgentProcess {
    /// Sends the prompts in order and reads the output to its end.
    pub(crate) async fn run_prompts(
        &self,
        prompts: &[String],
        cancel: &CancellationToken,
    ) -> AgentRun {
        let started_at = Instant::now();
        let mut log = RunLog::default();
        let failed = match self.start() {
            Ok(mut child) => {
                let time = self.timeout.saturating_add(GRACE);
                let failed = tokio::select! {
                    () = cancel.cancelled() => Some("canceled".to_owned()),
                    ended = tokio::time::timeout(time, follow(&mut child, prompts, &mut log)) => {
                        ended.unwrap_or_else(|_| {
                            Some(format!("stopped after {} s", time.as_secs()))
                        })
                    }
                };
                child.kill();
                failed
            }
            Err(error) => Some(format!("`{}` cannot be started: {error}", self.program.display())),
        };
        let mut done = log.run;
        done.duration = started_at.elapsed();
        done.cost = (!log.has_unknown_cost).then_some(log.cost);
        done.error = failed.or(log.error);
        done
    }

    fn start(&self) -> std::io::Result<PipedChild> {
        let lines = ["--input-format", "stream-json", "-o", "stream-json", "--stream-version", "2"];
        let arguments = lines.into_iter().chain(self.arguments.iter().map(String::as_str));
        PipedChild::start(&self.program, arguments, &self.directory)
    }
}

/// Returns why the conversation did not complete.
async fn follow(child: &mut PipedChild, prompts: &[String], log: &mut RunLog) -> Option<String> {
    let (Some(stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Some("the agent has no pipes".to_owned());
    };
    let talk = async {
        let mut stdin = Some(stdin);
        let mut prompts = prompts.iter();
        let mut lines = BufReader::new(stdout);
        log.send_prompt(&mut stdin, prompts.next()).await;
        while let Some(line) = next_line(&mut lines).await {
            let Ok(event) = serde_json::from_slice::<Value>(&line) else { continue };
            if let Some(reply) = log.event(&event) {
                send(&mut stdin, &reply).await;
            }
            if event["type"] == "result" {
                let next = prompts.next().filter(|_| log.error.is_none());
                log.send_prompt(&mut stdin, next).await;
            }
        }
        log.is_complete() && prompts.next().is_none()
    };
    let (is_complete, stderr) = tokio::join!(talk, tail(stderr));
    let exit = child.wait().await;
    if is_complete || log.error.is_some() {
        return None;
    }
    Some(format!("the agent ended early ({}): {}", describe_exit(exit), stderr.trim()))
}

async fn send(stdin: &mut Option<ChildStdin>, line: &Value) {
    if let Some(pipe) = stdin
        && pipe.write_all(format!("{line}\n").as_bytes()).await.is_err()
    {
        // The process has ended; the end of its output says why.
        *stdin = None;
    }
}

/// Reads a line of JSON; `None` at the end.
async fn next_line(reader: &mut (impl AsyncBufRead + Unpin)) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    let mut is_too_long = false;
    loop {
        let buffer = reader.fill_buf().await.ok()?;
        if buffer.is_empty() {
            return (!line.is_empty()).then_some(line);
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let length = end.map_or(buffer.len(), |at| at + 1);
        is_too_long |= line.len() + length > MAX_LINE;
        if !is_too_long {
            line.extend_from_slice(buffer.get(..length).unwrap_or_default());
        }
        reader.consume(length);
        if end.is_some() {
            if !is_too_long {
                return Some(line);
            }
            (line, is_too_long) = (Vec::new(), false);
        }
    }
}

/// Returns the end of a stream as text.
async fn tail(mut stream: impl AsyncRead + Unpin) -> String {
    let mut collected = Vec::new();
    let mut buffer = vec![0; 8 << 10];
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        collected.extend_from_slice(buffer.get(..read).unwrap_or_default());
        let surplus = collected.len().saturating_sub(MAX_STDERR);
        collected.drain(..surplus);
    }
    String::from_utf8_lossy(&collected).into_owned()
}

/// What the lines reported so far.
#[derive(Default)]
struct RunLog {
    run: AgentRun,
    cost: f64,
    has_unknown_cost: bool,
    error: Option<String>,
    is_over: bool,
}

impl RunLog {
    fn is_complete(&self) -> bool {
        self.is_over
    }

    async fn send_prompt(&mut self, stdin: &mut Option<ChildStdin>, prompt: Option<&String>) {
        match prompt {
            Some(prompt) => {
                self.run.answer.clear();
                self.is_over = false;
                send(stdin, &json!({"type": "message", "content": prompt})).await;
            }
            // The agent exits when its input is closed.
            None => *stdin = None,
        }
    }

    /// Processes an event; returns the line to send as a response, if any.
    fn event(&mut self, event: &Value) -> Option<Value> {
        let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str);
        match text("/type")? {
            "init" => {
                self.run.session_id = text("/session_id").map(str::to_owned);
                self.run.model = text("/model").map(str::to_owned);
            }
            "message" if text("/role") == Some("assistant") => {
                let content = text("/content").unwrap_or_default();
                if self.run.answer.len() + content.len() <= MAX_ANSWER {
                    self.run.answer.push_str(content);
                }
            }
            "tool_use" => {
                self.run.answer.clear();
                let field = |pointer| text(pointer).unwrap_or_default().to_owned();
                self.run.calls.push(ToolCall {
                    id: field("/tool_id"),
                    tool: field("/tool_name"),
                    arguments: event.get("parameters").cloned().unwrap_or_default(),
                    step: self.run.steps.max(1),
                    error: None,
                });
            }
            "tool_result" if text("/status") == Some("error") => {
                let message = text("/error/message").or(text("/output"));
                let id = text("/tool_id").unwrap_or_default();
                if let Some(call) = self.run.calls.iter_mut().rfind(|call| call.id == id) {
                    call.error = Some(message.unwrap_or("no message").to_owned());
                }
            }
            "usage" => {
                if text("/role") == Some("main") && event.get("error").is_none() {
                    self.run.steps += 1;
                }
                let total = event.pointer("/tokens/total").and_then(Value::as_u64);
                self.run.tokens = self.run.tokens.saturating_add(total.unwrap_or_default());
                match event.get("cost_usd").and_then(Value::as_f64) {
                    Some(cost) => self.cost += cost,
                    // A request that failed without an answer costs nothing.
                    None if total.unwrap_or_default() == 0 && event.get("error").is_some() => {}
                    None => self.has_unknown_cost = true,
                }
            }
            "ask" => {
                let id = event.get("id")?;
                return Some(match text("/kind") {
                    Some("approval") => json!({"type": "decide", "id": id, "outcome": "cancel",
                        "feedback": DENIED}),
                    _ => json!({"type": "answer", "id": id, "value": null}),
                });
            }
            "result" => {
                self.is_over = true;
                if text("/status") != Some("success") {
                    let message = text("/error/message").unwrap_or("the turn failed");
                    self.error = Some(message.to_owned());
                }
            }
            _ => {}
        }
        None
    }
}

/// Describes how a program ended.
pub(crate) fn describe_exit(exit: ProcessExit) -> String {
    match exit {
        ProcessExit::Exited { code } => format!("exit code {code}"),
        ProcessExit::Signalled { signal } => format!("signal {signal}"),
    }
}

/// Runs a shell command in the agent's sandbox.
pub(crate) async fn run_confined(
    program: &Path,
    directory: &Path,
    command: &str,
    time: Duration,
) -> std::io::Result<ChildOutput> {
    let arguments = ["sandbox", "run", "--mode", "yolo", "--", "sh", "-c", command];
    PipedChild::start(program, arguments, directory)?.output(MAX_OUTPUT, time).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_keeps_the_last_answer_calls_and_costs() {
        let mut log = RunLog::default();
        for event in [
            json!({"type": "init", "session_id": "s"}),
            json!({"type": "message", "role": "assistant", "content": "I look.", "delta": true}),
            json!({"type": "usage", "role": "main", "tokens": {"total": 10}, "cost_usd": 0.25}),
            json!({"type": "tool_use", "tool_name": "read_file", "tool_id": "a"}),
            json!({"type": "tool_result", "tool_id": "a", "status": "error",
                "error": {"type": "file_not_found", "message": "no such file"}}),
            json!({"type": "message", "role": "assistant", "content": "It is ", "delta": true}),
            json!({"type": "message", "role": "assistant", "content": "7.", "delta": true}),
            json!({"type": "usage", "tokens": {"total": 5}, "cost_usd": 0.5}),
            json!({"type": "result", "status": "success"}),
        ] {
            assert_eq!(log.event(&event), None);
        }
        assert_eq!((log.run.answer.as_str(), log.run.tokens), ("It is 7.", 15));
        assert!((log.cost - 0.75).abs() < 1e-9 && !log.has_unknown_cost);
        let call = &log.run.calls[0];
        assert_eq!((call.tool.as_str(), call.step), ("read_file", 1));
        assert_eq!(call.error.as_deref(), Some("no such file"));
        let ask = json!({"type": "ask", "id": "a", "kind": "approval"});
        assert_eq!(log.event(&ask).expect("a reply")["outcome"], "cancel");
        assert!(log.is_complete() && log.error.is_none());
    }

    #[test]
    fn cost_is_unknown_only_if_an_answer_has_no_price() {
        let mut log = RunLog::default();
        let failed =
            json!({"type": "usage", "role": "main", "tokens": {"total": 0}, "error": "server"});
        log.event(&failed);
        assert!(!log.has_unknown_cost, "no request was answered");
        log.event(&json!({"type": "usage", "role": "main", "tokens": {"total": 9}}));
        assert!(log.has_unknown_cost);
    }

    #[tokio::test]
    async fn lines_that_are_too_long_are_skipped() {
        let text = format!("{}\nshort\nlast", "x".repeat(MAX_LINE + 1));
        let mut reader = BufReader::new(text.as_bytes());
        assert_eq!(next_line(&mut reader).await.as_deref(), Some(b"short\n".as_slice()));
        assert_eq!(next_line(&mut reader).await.as_deref(), Some(b"last".as_slice()));
        assert_eq!(next_line(&mut reader).await, None);
    }
}
