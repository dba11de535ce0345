//! Opens the source of model responses: a provider, a script, or a recording.

use std::path::Path;
use std::sync::Arc;

use parallax_devtools::SessionTap;
use parallax_protocol::event::{Failure, FailureKind};
use parallax_protocol::ids::SessionId;
use parallax_protocol::model::Model;
use parallax_protocol::secret::Secret;
use parallax_providers::ProviderModels;
use parallax_replay::{RecordFormat, Recorder, ReplayModel, ScriptMode, ScriptedModel};

use crate::demo;
use crate::options::{Recording, ResponseSource};
use crate::session_config::{SessionConfig, failure, script_name};

/// Opens the model of a session, with recording if requested.
pub(crate) fn open(
    launch: &SessionConfig,
    directory: &Path,
    session: &SessionId,
    tap: Option<&Arc<SessionTap>>,
) -> Result<Arc<dyn Model>, Failure> {
    let mut secrets = Vec::new();
    let model = answers(launch, directory, session, tap, &mut secrets)?;
    let (path, format) = match &launch.options.recording {
        None => return Ok(model),
        Some(Recording::Full(path)) => (path, RecordFormat::Full),
        Some(Recording::Reference(path)) => (path, RecordFormat::Reference),
    };
    let recorder = Recorder::new(model, path, format, secrets).map_err(input_failure)?;
    Ok(Arc::new(recorder.with_directories(directory, &launch.config.dirs.user)))
}

fn input_failure(error: impl std::fmt::Display) -> Failure {
    failure(FailureKind::Input, error.to_string())
}

fn answers(
    launch: &SessionConfig,
    directory: &Path,
    session: &SessionId,
    tap: Option<&Arc<SessionTap>>,
    secrets: &mut Vec<Secret>,
) -> Result<Arc<dyn Model>, Failure> {
    let script = |path: &Path, mode| -> Result<Arc<dyn Model>, Failure> {
        let script = ScriptedModel::from_file(path, mode).map_err(input_failure)?;
        Ok(Arc::new(script.with_cwd(directory.to_owned())))
    };
    let embedded = |name: &str, text: &str| -> Result<Arc<dyn Model>, Failure> {
        let script =
            ScriptedModel::from_text(name, text, ScriptMode::Embedded).map_err(input_failure)?;
        Ok(Arc::new(script.with_cwd(directory.to_owned())))
    };
    match &launch.options.answers {
        ResponseSource::Fake(path) => script(path, ScriptMode::Strict),
        ResponseSource::FakeNonStrict(path) => script(path, ScriptMode::NonStrict),
        ResponseSource::Replay { file, strict } => {
            let replay = ReplayModel::from_file(file, *strict).map_err(input_failure)?;
            Ok(Arc::new(replay.with_directories(directory, &launch.config.dirs.user)))
        }
        ResponseSource::Embedded { name, text } => embedded(name, text),
        ResponseSource::Service => {
            let name = launch.model_name();
            let Some(script_name) = script_name(&name) else {
                return service(launch, session, tap, secrets);
            };
            match demo::SCRIPTS.iter().find(|(known, _)| *known == script_name) {
                Some((known, text)) => embedded(known, text),
                None if !Path::new(script_name).exists() => {
                    let known = demo::SCRIPTS.map(|(name, _)| format!("`{name}`")).join(", ");
                    Err(input_failure(format!(
                        "unknown script `{script_name}`: use a file or one of {known}"
                    )))
                }
                None => script(Path::new(script_name), ScriptMode::Embedded),
            }
        }
    }
}

fn service(
    launch: &SessionConfig,
    session: &SessionId,
    tap: Option<&Arc<SessionTap>>,
    secrets: &mut Vec<Secret>,
) -> Result<Arc<dyn Model>, Failure> {
    let manager = launch.provider_manager();
    let models = Arc::new(manager.checked_model_table()?);
    let name = models.resolve(&manager.model);
    let providers = ProviderModels::new(manager, models, session).with_tap(tap);
    // Report invalid credentials before anything is started.
    providers.model(&name)?;
    secrets.extend(providers.secrets());
    Ok(Arc::new(providers))
}
