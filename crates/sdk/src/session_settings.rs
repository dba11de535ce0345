//! The parts of opening a session that depend on settings: workspace directories, compaction,
//! checkpoints, and remembered approvals.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parallax_checkpoints::{self as checkpoints, CheckpointManager};
use parallax_engine::{ApprovalPersistence, CompactionOptions};
use parallax_files::{IgnoreFileOptions, SeenFiles, Workspace, WorkspaceOptions};
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::ids::SessionId;
use parallax_sessions::history::ResumedState;

use crate::directories;
use crate::sandbox;
use crate::session_config::{SessionConfig, failure};

/// Returns the compaction options of the settings.
pub(crate) fn compaction_options(
    launch: &SessionConfig,
    artifacts: &Path,
    id: &SessionId,
) -> CompactionOptions {
    let settings = &launch.config.settings;
    let masking = "contextManagement.tools.outputMasking";
    let count = |key: &str| settings.count(&format!("{masking}.{key}"));
    let standard = CompactionOptions::default();
    let outputs = artifacts.join("tool-outputs");
    let dirs = launch.dirs();
    let encrypted = dirs.encrypted_outputs(&launch.options.directory, id);
    if dirs.keys.is_enabled() && !dirs.is_temporary_at_home() {
        parallax_store::restore_outputs(&encrypted, &outputs, &dirs.keys);
    }
    CompactionOptions {
        share: settings.number("model.compressionThreshold").unwrap_or(standard.share),
        tokens: settings
            .count("model.compactAtTokens")
            .filter(|tokens| *tokens > 0)
            .unwrap_or(standard.tokens),
        protect: count("protectionThresholdTokens").unwrap_or(standard.protect),
        min_masked: count("minPrunableThresholdTokens").unwrap_or(standard.min_masked),
        protect_newest: settings
            .get(&format!("{masking}.protectLatestTurn"))
            .and_then(serde_json::Value::as_bool)
            .unwrap_or(standard.protect_newest),
        max_result_characters: settings.truncate_tool_output_threshold(),
        save_output: Some(Arc::new(move |tool, text| {
            let text = &dirs.keys.redact_text(text);
            let saved = match dirs.keys.is_enabled() {
                false => parallax_store::save_output(&outputs, tool, text),
                true if dirs.is_temporary_at_home() => {
                    let reason = "this system has no memory-backed directory for it";
                    Err(std::io::Error::other(reason))
                }
                true => parallax_store::save_output_encrypted(
                    &outputs, &encrypted, &dirs.keys, tool, text,
                ),
            };
            saved.map_err(|error| error.to_string())
        })),
        ..standard
    }
}

/// Opens the checkpoint store, unless checkpoints are disabled.
pub(crate) fn checkpoint_manager(
    launch: &SessionConfig,
    id: &SessionId,
    workspace: &Workspace,
    seen_files: &Arc<SeenFiles>,
) -> Option<Arc<CheckpointManager>> {
    let settings = launch.config.settings.checkpoints();
    if !settings.enabled || launch.options.ephemeral {
        return None;
    }
    let roots = workspace.roots();
    let project = &launch.options.directory;
    let links = Arc::new(launch.closed_names.clone());
    let dirs = launch.dirs();
    let store =
        checkpoints::open(&dirs, project, id.clone(), roots, settings.max_bytes, Some(links));
    Some(Arc::new(CheckpointManager::new(store, Arc::clone(seen_files))))
}

pub(crate) fn approvals(launch: &SessionConfig) -> ApprovalPersistence {
    let settings = &launch.config.settings;
    ApprovalPersistence {
        allow_session: !settings.flag("security.disableAlwaysAllow"),
        permanent: settings.flag("security.enablePermanentToolApproval")
            && launch.config.trust.trusted,
    }
}

/// Returns the delay before the first retry of a broken stream. Tests with scripted servers
/// shorten it.
pub(crate) fn retry_base(launch: &SessionConfig) -> Duration {
    let set = launch.config.environment.get("PARALLAX_RETRY_BASE_MS");
    set.and_then(|text| text.parse().ok()).map_or(Duration::from_secs(1), Duration::from_millis)
}

/// Returns the workspace, the directory for files that tools store, and warnings about
/// directories of the resumed session.
pub(crate) fn open_workspace(
    launch: &SessionConfig,
    resumed: &ResumedState,
) -> Result<(Workspace, PathBuf, Vec<String>), Failure> {
    let settings = &launch.config.settings;
    let artifacts = launch.dirs().artifacts(&launch.options.directory, &resumed.id);
    // A directory in settings may exist only on another machine; a directory in a flag is meant
    // for this run.
    let (mut additional, missing): (Vec<PathBuf>, Vec<PathBuf>) = settings
        .include_directories()
        .iter()
        .map(|path| launch.config.expand_home(path))
        .partition(|path| launch.options.directory.join(path).is_dir());
    let provided = launch.options.include_directories.iter();
    additional.extend(provided.map(|path| launch.config.expand_home(path)));
    let (restored, mut notices) =
        directories::restored_directories(launch, &resumed.records, &additional);
    additional.extend(restored);
    if !missing.is_empty() {
        let mut paths: Vec<String> =
            missing.iter().map(|path| format!("`{}`", path.display())).collect();
        // Several layers may name one directory in different ways.
        paths.sort();
        paths.dedup();
        notices
            .push(format!("`context.includeDirectories`: not a directory: {}", paths.join(", ")));
    }
    let workspace = workspace(launch, artifacts.root(), additional)?;
    Ok((workspace, artifacts.root().to_owned(), notices))
}

/// Returns the workspace of the session's directory and additional ones.
pub(crate) fn workspace(
    launch: &SessionConfig,
    artifacts: &Path,
    additional: Vec<PathBuf>,
) -> Result<Workspace, Failure> {
    let settings = &launch.config.settings;
    Workspace::new(WorkspaceOptions {
        root: launch.options.directory.clone(),
        additional,
        temp: artifacts.to_owned(),
        notes: launch.dirs().notes(&launch.options.directory),
        readable: vec![launch.config.dirs.gemini.join("GEMINI.md")],
        // The only file outside the workspace in which the model may save memories.
        writable_files: vec![launch.config.dirs.parallax.join("GEMINI.md")],
        // No tool of the session needs the key.
        denied: vec![
            parallax_config::credentials_file(&launch.config.dirs),
            parallax_store::Keys::file(&launch.config.dirs.parallax),
        ],
        allow_node_modules: false,
        filtering: IgnoreFileOptions {
            respect_git_ignore: settings.respect_git_ignore(),
            respect_gemini_ignore: settings.respect_gemini_ignore(),
            custom_ignore_files: settings.custom_ignore_files(),
        },
        hidden_files: sandbox::hidden_file_tracker(launch),
        editor: launch.options.editor.clone(),
    })
    .map_err(|error| failure(FailureKind::Input, error.to_string()))
}

/// Returns the maximum number of model requests of the run.
pub(crate) fn max_turns(launch: &SessionConfig) -> Option<u32> {
    let set = || launch.config.settings.max_session_turns();
    let set = || set().map(|turns| u32::try_from(turns).unwrap_or(u32::MAX));
    launch.options.max_turns.or_else(set)
}
