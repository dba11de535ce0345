//! Runs hooks on request of the user.

use parallax_exec::Processes;
use parallax_hooks::{HookSession, HookTestResult};
use parallax_protocol::Object;
use parallax_protocol::event::Failure;
use parallax_protocol::hooks::HookEvent;
use parallax_protocol::ids::SessionId;

use crate::session_config::SessionConfig;
use crate::toolbox::shell_options;

/// Runs the hooks that match an event, as a session would, with an input that the user
/// provides. Their answers have no effect.
///
/// # Errors
/// Returns an error if settings are invalid.
pub async fn try_hooks(
    launch: &SessionConfig,
    event: HookEvent,
    subject: &str,
    input: Object,
) -> Result<HookTestResult, Failure> {
    let id = SessionId::new("hooks-test");
    let artifacts = launch.dirs().artifacts(&launch.options.directory, &id).root().to_owned();
    let hook_session = HookSession {
        processes: Processes::new(artifacts.clone()),
        shell: shell_options(launch, artifacts.clone()),
        session: id.as_str().to_owned(),
        keys: launch.dirs().keys,
        journal: launch.dirs().journal(&launch.options.directory, &id),
        transcript: None,
        plans: artifacts.join("plans"),
        checkpoint_manager: None,
        trace: None,
        observer: None,
    };
    let list = launch.hook_library().list()?;
    parallax_hooks::try_hooks(
        &launch.config,
        list,
        launch.mode,
        hook_session,
        event,
        subject,
        input,
    )
    .await
}
