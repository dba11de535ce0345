//! Runs a remote subagent: sends its task, shows what it reports, and builds its result.

use parallax_protocol::agent::{AgentEnd, RemoteTask};
use parallax_protocol::untrusted;
use tokio::sync::mpsc;

use super::run::{SHUTDOWN_TIMEOUT, SubagentRun, SubagentRunOutcome, aborted};

/// Maximum number of reports waiting to be shown.
const REPORTS: usize = 16;

impl SubagentRun {
    pub(super) async fn run_remote(&mut self, prompt: String) -> SubagentRunOutcome {
        let failed = |text: String| SubagentRunOutcome { end: AgentEnd::Error, text };
        if self.resume.is_some() {
            return failed(format!(
                "`{}` is a remote agent and remembers its earlier tasks: call it without `resume`.",
                self.agent.name
            ));
        }
        let Some(remote) = self.subagents.agents.remote(&self.agent.name) else {
            return failed("its definition was removed".to_owned());
        };
        let (sender, mut reports) = mpsc::channel(REPORTS);
        // The newest report is enough: others may be dropped.
        let status = Box::new(move |report| drop(sender.try_send(report)));
        let cancel = self.cancel.child_token();
        let _end_with_me = cancel.clone().drop_guard();
        let trace = self.trace.clone();
        let mut running = remote.run(RemoteTask { prompt, status, trace, cancel: cancel.clone() });
        self.progress.count_sent_task();
        self.emit_progress();
        let limit = tokio::time::sleep(self.agent.time);
        tokio::pin!(limit);
        loop {
            tokio::select! {
                answer = &mut running => {
                    return match answer {
                        Ok(text) => SubagentRunOutcome {
                            end: AgentEnd::Goal,
                            text: untrusted::sanitize(&text).into_owned(),
                        },
                        Err(_) if self.cancel.is_cancelled() => aborted(),
                        Err(reason) => failed(untrusted::sanitize(&reason).into_owned()),
                    };
                }
                Some(report) = reports.recv() => {
                    if self.progress.reports(&untrusted::sanitize(&report)) {
                        self.emit_progress();
                    }
                }
                () = &mut limit, if !cancel.is_cancelled() => {
                    cancel.cancel();
                    let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, &mut running).await;
                    let seconds = self.agent.time.as_secs();
                    let text = format!("it reached its time limit of {seconds} s");
                    return SubagentRunOutcome { end: AgentEnd::Timeout, text };
                }
                () = self.cancel.cancelled() => {
                    let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, &mut running).await;
                    return aborted();
                }
            }
        }
    }
}
