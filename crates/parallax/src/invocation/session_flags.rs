//! Flags that select a session and its options.

use parallax_protocol::ids::SessionId;
use parallax_protocol::policy::ApprovalMode;
use parallax_sdk::{LaunchOptions, Recording, ResponseSource, RunLimits};
use parallax_sessions::SessionChoice;
use parallax_worktrees::WorktreeRequest;

use super::error::{InvocationError, exclusive_flags_error, input_failure};
use crate::arguments::{ReplayArgs, SessionArguments};
use crate::list_flags::{list, paths};
use crate::session_flags::SessionFlags;
use crate::startup_info::StartupInfo;
use crate::usage::UsageError;

/// Interprets the flags of a session.
///
/// # Errors
/// Returns an error if flags exclude each other or a value is invalid.
pub(super) fn session_flags(
    arguments: SessionArguments,
    doubles: ReplayArgs,
    startup: &StartupInfo,
) -> Result<SessionFlags, InvocationError> {
    if arguments.yolo && arguments.approval_mode.is_some() {
        return Err(exclusive_flags_error("--yolo", "--approval-mode"));
    }
    let recording = match (doubles.record, doubles.record_responses) {
        (Some(_), Some(_)) => return Err(exclusive_flags_error("--record", "--record-responses")),
        (Some(file), None) => Some(Recording::Full(file)),
        (None, Some(file)) => Some(Recording::Reference(file)),
        (None, None) => None,
    };
    let sources = [
        ("--replay", doubles.replay.map(|file| ResponseSource::Replay { file, strict: true })),
        (
            "--replay-non-strict",
            doubles.replay_non_strict.map(|file| ResponseSource::Replay { file, strict: false }),
        ),
        ("--fake-responses", doubles.fake_responses.map(ResponseSource::Fake)),
        (
            "--fake-responses-non-strict",
            doubles.fake_responses_non_strict.map(ResponseSource::FakeNonStrict),
        ),
    ];
    let session_id = arguments
        .session_id
        .map(|id| {
            if SessionId::is_valid(&id) {
                Ok(SessionChoice::WithId(id))
            } else {
                Err(input_failure(format!(
                    "Invalid session id `{id}`: use at most 128 letters, digits, `-`, and `_`"
                )))
            }
        })
        .transpose()?;
    if arguments.at.is_some() && arguments.resume.is_none() {
        let hint = "Example: `--resume SESSION --at PROMPT`.";
        return Err(UsageError::new("`--at` requires `--resume`", hint).into());
    }
    let resumed = arguments.resume.map(|from| match arguments.at {
        Some(before) => SessionChoice::ForkBefore { from, prompt: before.get() },
        None => SessionChoice::Resume(from),
    });
    let sessions = [
        ("--resume", resumed),
        ("--session-id", session_id),
        ("--session-file", arguments.session_file.map(SessionChoice::Import)),
    ];
    let options = LaunchOptions {
        model: arguments.model.filter(|model| !model.trim().is_empty()),
        approval_mode: if arguments.yolo {
            Some(ApprovalMode::Yolo)
        } else {
            arguments.approval_mode
        },
        plan_exit_mode: arguments.plan_exit_mode,
        allowed_tools: list(&arguments.allowed_tools),
        exclude_tools: list(&arguments.exclude_tools),
        allowed_mcp_servers: list(&arguments.allowed_mcp_server_names),
        skill_directories: arguments.skill_dir,
        extensions: list(&arguments.extensions),
        skip_trust: arguments.skip_trust,
        policy_paths: paths(&arguments.rules.policy),
        admin_policy_paths: paths(&arguments.rules.admin_policy),
        sandbox: arguments.sandbox,
        include_directories: paths(&arguments.include_directories),
        append_system_prompt: arguments.append_system_prompt,
        max_turns: arguments.max_turns.map(std::num::NonZeroU32::get),
        fallback: arguments.fallback,
        limits: RunLimits {
            cost: arguments.max_cost,
            tokens: arguments.max_tokens.map(std::num::NonZeroU64::get),
            time: arguments.timeout,
        },
        session: parse_exclusive(sessions)?,
        answers: parse_exclusive(sources)?,
        recording,
        ignore_env: arguments.ignore_env,
        ..LaunchOptions::default()
    };
    let worktree = arguments.worktree.map(|name| WorktreeRequest {
        name,
        revision: arguments.from,
        include_changes: arguments.carry,
    });
    let debug = arguments.debug || startup.debug;
    Ok(SessionFlags { options, mcp_config: arguments.mcp_config, worktree, debug })
}

fn parse_exclusive<T: Default, const N: usize>(
    choices: [(&'static str, Option<T>); N],
) -> Result<T, InvocationError> {
    let mut chosen: Option<(&str, T)> = None;
    for (flag, choice) in choices {
        match (choice, &chosen) {
            (Some(_), Some((first, _))) => return Err(exclusive_flags_error(first, flag)),
            (Some(value), None) => chosen = Some((flag, value)),
            (None, _) => {}
        }
    }
    Ok(chosen.map(|(_, value)| value).unwrap_or_default())
}
