//! Runs the hooks of an event by hand, to see their answers.

use parallax_exec::Processes;
use parallax_protocol::event::Failure;
use parallax_protocol::hooks::{HookCall, HookEvent, HookOutcome};
use parallax_protocol::ids::SessionId;
use parallax_protocol::{CancellationToken, Object};

use super::Surroundings;
use crate::launch::Launch;
use crate::toolbox::shell_options;

/// Result of running hooks by hand.
#[derive(Debug)]
pub struct HookTestResult {
    /// Names of the hooks that ran.
    pub ran: Vec<String>,
    /// Their merged outcome.
    pub outcome: HookOutcome,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

impl Launch {
    /// Runs the hooks that match an event, as a session would, with an input that the user
    /// provides. Their answers have no effect.
    ///
    /// # Errors
    /// Returns an error if settings are invalid.
    pub async fn try_hooks(
        &self,
        event: HookEvent,
        subject: &str,
        input: Object,
    ) -> Result<HookTestResult, Failure> {
        let id = SessionId::new("hooks-test");
        let artifacts = self.homes().artifacts(&self.options.directory, &id).root().to_owned();
        let processes = Processes::new(artifacts.clone());
        let launch = self.clone();
        let around = {
            let (artifacts, processes, id) = (artifacts.clone(), processes.clone(), id.clone());
            move || Surroundings {
                processes,
                shell: shell_options(&launch, artifacts.clone()),
                session: id.as_str().to_owned(),
                keys: launch.homes().keys,
                journal: launch.homes().journal(&launch.options.directory, &id),
                transcript: None,
                plans: artifacts.join("plans"),
                versions: None,
                trace: None,
                observer: None,
            }
        };
        let (hooks, warnings) = self.session_hook_runner(around)?;
        let Some(hooks) = hooks else {
            return Ok(HookTestResult {
                ran: Vec::new(),
                outcome: HookOutcome::default(),
                warnings,
            });
        };
        let chunks: Vec<bool> = [false, true]
            .into_iter()
            .filter(|chunk| hooks.hooks.iter().any(|it| it.event == event && it.chunks == *chunk))
            .collect();
        let mut trial =
            HookTestResult { ran: Vec::new(), outcome: HookOutcome::default(), warnings };
        for chunk in chunks {
            let call = HookCall { chunk, ..HookCall::new(event, subject, input.clone()) };
            trial.ran.extend(hooks.titles(&call));
            let shared = std::sync::Arc::clone(&hooks);
            let outcome = shared.run(call, &CancellationToken::new()).await;
            if trial.outcome == HookOutcome::default() {
                trial.outcome = outcome;
            } else {
                trial.outcome.messages.extend(outcome.messages);
            }
        }
        processes.shutdown().await;
        Ok(trial)
    }
}
