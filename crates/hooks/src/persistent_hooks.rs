//! Long-running hooks: one process per session, which receives each event as a line of JSON and
//! answers with a line of JSON.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use parallax_config::hooks::Hook;
use parallax_exec::{MAX_PIPED_OUTPUT, PipedOutput, ProcessExit, StdioServer, StdioStreams};
use parallax_protocol::{CancellationToken, Object};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{ChildStdin, ChildStdout};

use crate::result::{parse_object, sanitize};

/// Maximum number of times a process is started in a session.
const MAX_STARTS: u32 = 5;
/// Maximum number of lines before the answer to an event.
const MAX_SKIPPED: usize = 100;
/// Maximum bytes of the end of stderr that are reported.
const TAIL: usize = 300;

/// The long-running hook processes of a session.
#[derive(Default)]
pub(crate) struct PersistentHooks {
    process_slots: Mutex<HashMap<String, Arc<tokio::sync::Mutex<ProcessSlot>>>>,
}

#[derive(Default)]
struct ProcessSlot {
    process: Option<HookProcess>,
    start_count: u32,
    events: u64,
}

/// A running hook process and its streams.
struct HookProcess {
    server: StdioServer,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    /// The end of its stderr; a task reads it until the process ends.
    stderr_tail: Arc<Mutex<Vec<u8>>>,
}

impl PersistentHooks {
    /// Sends an event to the hook's process. Returns its answer in the form of a finished command,
    /// and the lines before it that were not answers. `start` starts the process if it is not
    /// running.
    ///
    /// # Errors
    /// Returns an error if the process cannot be started, ends, or writes too long an answer.
    pub(crate) async fn send_event(
        &self,
        hook: &Hook,
        mut input: Object,
        start: impl AsyncFnOnce() -> Result<(StdioServer, StdioStreams), String>,
        cancel: &CancellationToken,
    ) -> Result<(PipedOutput, Vec<String>), String> {
        let seat = self.process_slot(hook);
        // One event at a time, so that answers arrive in order.
        let mut seat = tokio::select! {
            biased;
            () = cancel.cancelled() => return Ok((ended_output(false), Vec::new())),
            seat = seat.lock() => seat,
        };
        if seat.process.is_none() {
            if seat.start_count >= MAX_STARTS {
                return Err(format!("it ended {MAX_STARTS} times and is not restarted"));
            }
            seat.start_count += 1;
            let (server, streams) =
                start().await.map_err(|reason| format!("failed to start: {reason}"))?;
            seat.process = Some(HookProcess::new(server, streams));
        }
        seat.events += 1;
        let number = seat.events;
        input.insert("id".to_owned(), number.into());
        let mut line = serde_json::to_vec(&input).map_err(|error| error.to_string())?;
        line.push(b'\n');
        // The process is taken out, so that a cancelled call leaves no partial answer behind.
        let Some(mut talk) = seat.process.take() else {
            return Ok((ended_output(false), Vec::new()));
        };
        let mut skipped = Vec::new();
        let answer = tokio::select! {
            biased;
            () = cancel.cancelled() => Ok(ended_output(false)),
            answer = talk.answer(&line, number, &mut skipped) => answer,
            () = tokio::time::sleep(hook.timeout) => Ok(ended_output(true)),
        };
        // After a timeout or cancellation, the process is dropped, which ends it and its children.
        if matches!(&answer, Ok(end) if end.exit.is_some()) {
            seat.process = Some(talk);
        }
        answer.map(|end| (end, skipped))
    }

    /// Returns the process slot of a hook. Hooks with the same command and settings share one.
    fn process_slot(&self, hook: &Hook) -> Arc<tokio::sync::Mutex<ProcessSlot>> {
        let Hook { source, extension, command, env, sandbox, .. } = hook;
        let key = format!("{source:?} {extension:?} {sandbox} {env:?} {command}");
        let mut seats = self.process_slots.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(seats.entry(key).or_default())
    }
}

/// Returns why a line is not the answer to the event with this number.
fn reply_problem(line: &[u8], number: u64) -> Option<String> {
    let text = String::from_utf8_lossy(line);
    let text = text.trim();
    let sanitized = || sanitize(text, TAIL);
    // Some programs print a greeting or diagnostics before they answer. A denial that follows must
    // still apply.
    let Some(object) = parse_object(text) else {
        return Some(format!("output before its response: {}", sanitized()));
    };
    // A late answer to an earlier event must not be taken for an answer to this one.
    let is_of_this = match object.get("id") {
        None | Some(Value::Null) => true,
        Some(Value::String(id)) => *id == number.to_string(),
        Some(id) => id.as_u64() == Some(number),
    };
    (!is_of_this).then(|| format!("a response to another event: {}", sanitized()))
}

/// Returns the result of a process that was stopped before it answered.
fn ended_output(timed_out: bool) -> PipedOutput {
    PipedOutput { exit: None, timed_out, stdout: Vec::new(), stderr: Vec::new() }
}

impl HookProcess {
    fn new(server: StdioServer, streams: StdioStreams) -> Self {
        let stderr_tail: Arc<Mutex<Vec<u8>>> = Arc::default();
        let tail_handle = Arc::clone(&stderr_tail);
        let mut stderr = streams.stderr;
        tokio::spawn(async move {
            let mut buffer = vec![0; 4096];
            while let Ok(count) = stderr.read(&mut buffer).await
                && count > 0
            {
                let mut tail = tail_handle.lock().unwrap_or_else(PoisonError::into_inner);
                tail.extend_from_slice(buffer.get(..count).unwrap_or_default());
                let excess = tail.len().saturating_sub(TAIL);
                tail.drain(..excess);
            }
        });
        let stdout = BufReader::new(streams.stdout);
        Self { server, stdin: streams.stdin, stdout, stderr_tail }
    }

    async fn answer(
        &mut self,
        line: &[u8],
        number: u64,
        skipped: &mut Vec<String>,
    ) -> Result<PipedOutput, String> {
        // A process that closed its stdin may still answer; otherwise reading fails.
        let _ = self.stdin.write_all(line).await;
        let _ = self.stdin.flush().await;
        loop {
            let mut answer = Vec::new();
            let max_bytes = u64::try_from(MAX_PIPED_OUTPUT).unwrap_or(u64::MAX);
            let read_result =
                (&mut self.stdout).take(max_bytes).read_until(b'\n', &mut answer).await;
            let is_whole = answer.ends_with(b"\n");
            match read_result {
                Ok(_) if is_whole => {}
                Ok(_) if answer.len() >= MAX_PIPED_OUTPUT => {
                    return Err(format!("its response is longer than {MAX_PIPED_OUTPUT} bytes"));
                }
                _ => return Err(self.last_output().await),
            }
            match reply_problem(&answer, number) {
                None => {
                    let (exit, stderr) = (Some(ProcessExit::Exited { code: 0 }), Vec::new());
                    return Ok(PipedOutput { exit, timed_out: false, stdout: answer, stderr });
                }
                Some(_) if skipped.len() >= MAX_SKIPPED => {
                    return Err(format!(
                        "it printed more than {MAX_SKIPPED} lines without a \
                        response"
                    ));
                }
                Some(reason) => skipped.push(reason),
            }
        }
    }

    async fn last_output(&mut self) -> String {
        let timeout = std::time::Duration::from_millis(200);
        let how = match tokio::time::timeout(timeout, self.server.wait()).await {
            Ok(ProcessExit::Exited { code }) => format!("its process exited with code {code}"),
            Ok(ProcessExit::Signalled { signal }) => format!(
                "its process was terminated by signal \
                {signal}"
            ),
            Err(_) => "its process closed its output".to_owned(),
        };
        let tail = self.stderr_tail.lock().unwrap_or_else(PoisonError::into_inner);
        match sanitize(&String::from_utf8_lossy(&tail), TAIL) {
            words if words.is_empty() => how,
            words => format!("{how}: {words}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_line_for_the_event_is_its_response() {
        for (line, is_answer) in [
            (r#"{"id": 2}"#, true),
            (r#"{"id": "2"}"#, true),
            (r#"{"decision": "deny"}"#, true),
            (r#""{\"decision\": \"deny\"}""#, true),
            (r#"{"id": 1, "decision": "deny"}"#, false),
            (r#"{"id": "zz", "decision": "deny"}"#, false),
            (r#"{"id": [], "decision": "deny"}"#, false),
            ("ready", false),
            ("", false),
            ("7", false),
            ("{'tool': 'write_file'}", false),
        ] {
            let reason = reply_problem(line.as_bytes(), 2);
            assert_eq!(reason.is_none(), is_answer, "{line}: {reason:?}");
        }
    }
}
