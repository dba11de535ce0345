//! Runs the hooks of an event by hand, to see their answers.

use parallax_config::Config;
use parallax_config::hooks::HookList;
use parallax_protocol::event::Failure;
use parallax_protocol::hooks::{HookCall, HookEvent, HookOutcome};
use parallax_protocol::policy::ApprovalMode;
use parallax_protocol::{CancellationToken, Object};

use crate::{HookSession, session_hook_runner};

/// Result of running hooks by hand.
#[derive(Debug)]
pub struct HookTestResult {
    /// Names of the hooks that ran.
    pub hook_names: Vec<String>,
    /// Their merged outcome.
    pub outcome: HookOutcome,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// Runs the hooks that match an event, as a session would, with an input that the user
/// provides. Their answers have no effect.
///
/// # Errors
/// Returns an error if settings are invalid.
pub async fn try_hooks(
    config: &Config,
    list: HookList,
    mode: ApprovalMode,
    hook_session: HookSession,
    event: HookEvent,
    subject: &str,
    input: Object,
) -> Result<HookTestResult, Failure> {
    let processes = hook_session.processes.clone();
    let (hooks, warnings) = session_hook_runner(config, || Ok(list), mode, || hook_session)?;
    let Some(hooks) = hooks else {
        return Ok(HookTestResult {
            hook_names: Vec::new(),
            outcome: HookOutcome::default(),
            warnings,
        });
    };
    let chunks: Vec<bool> = [false, true]
        .into_iter()
        .filter(|chunk| hooks.hooks.iter().any(|it| it.event == event && it.chunks == *chunk))
        .collect();
    let mut trial =
        HookTestResult { hook_names: Vec::new(), outcome: HookOutcome::default(), warnings };
    for chunk in chunks {
        let call = HookCall { chunk, ..HookCall::new(event, subject, input.clone()) };
        trial.hook_names.extend(hooks.titles(&call));
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
