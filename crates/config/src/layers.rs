//! The layers of settings, from lowest to highest.

use std::fmt;
use std::path::{Path, PathBuf};

use parallax_protocol::Object;

use crate::environment::Environment;
use crate::error::ConfigError;
use crate::jsonc;
use crate::user_dirs::UserDirs;

/// The layer of a setting. A later layer overrides an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// The system defaults, below the user's settings.
    SystemDefaults,
    /// `~/.gemini/settings.json`.
    UserGemini,
    /// `~/.parallax/settings.json`.
    User,
    /// `<project>/.gemini/settings.json`.
    WorkspaceGemini,
    /// `<project>/.parallax/settings.json`.
    Workspace,
    /// The system settings, above all others.
    System,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SystemDefaults => "system defaults",
            Self::UserGemini => "user (.gemini)",
            Self::User => "user",
            Self::WorkspaceGemini => "workspace (.gemini)",
            Self::Workspace => "workspace",
            Self::System => "system",
        })
    }
}

/// The layer and file of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueOrigin {
    /// The layer.
    pub layer: Layer,
    /// The file.
    pub file: PathBuf,
}

/// A settings file as read.
#[derive(Debug, Clone)]
pub(crate) struct LayerFile {
    pub(crate) layer: Layer,
    pub(crate) path: PathBuf,
    /// The original text, for its hash.
    pub(crate) text: String,
    pub(crate) values: Object,
}

/// Reads the layers that apply in every directory.
pub(crate) fn read_outer(
    environment: &Environment,
    dirs: &UserDirs,
    cwd: &Path,
) -> Result<Vec<LayerFile>, ConfigError> {
    let system = match environment.get("GEMINI_CLI_SYSTEM_SETTINGS_PATH") {
        Some(path) => cwd.join(path),
        None => system_directory().join("settings.json"),
    };
    let defaults = match environment.get("GEMINI_CLI_SYSTEM_DEFAULTS_PATH") {
        Some(path) => cwd.join(path),
        None => system.with_file_name("system-defaults.json"),
    };
    read(vec![
        (Layer::SystemDefaults, defaults),
        (Layer::UserGemini, dirs.gemini.join("settings.json")),
        (Layer::User, dirs.parallax.join("settings.json")),
        (Layer::System, system),
    ])
}

/// Reads the layers of the project. In the home directory there are none, because its files are the
/// user's.
pub(crate) fn read_project(dirs: &UserDirs, cwd: &Path) -> Result<Vec<LayerFile>, ConfigError> {
    if dirs.is_home(cwd) {
        return Ok(Vec::new());
    }
    read(vec![
        (Layer::WorkspaceGemini, cwd.join(".gemini/settings.json")),
        (Layer::Workspace, cwd.join(".parallax/settings.json")),
    ])
}

/// Returns the project settings file to change: the one for which `holds` returns true, preferring
/// `.parallax`; otherwise `.gemini/settings.json` if it is the only one.
pub(crate) fn project_file(cwd: &Path, holds: impl Fn(&Object) -> bool) -> PathBuf {
    let [ours, theirs] =
        [".parallax", ".gemini"].map(|directory| cwd.join(directory).join("settings.json"));
    let has = |file: &Path| jsonc::read_object(file).ok().flatten().is_some_and(|it| holds(&it));
    let is_theirs = theirs.exists() && (!ours.exists() || (!has(&ours) && has(&theirs)));
    if is_theirs { theirs } else { ours }
}

fn read(files: Vec<(Layer, PathBuf)>) -> Result<Vec<LayerFile>, ConfigError> {
    let mut layers = Vec::new();
    for (layer, path) in files {
        if let Some(text) = jsonc::read_document(&path)? {
            let values = jsonc::parse_object(&path, &text)?;
            layers.push(LayerFile { layer, path, text, values });
        }
    }
    Ok(layers)
}

fn system_directory() -> &'static Path {
    Path::new(if cfg!(target_os = "macos") {
        "/Library/Application Support/GeminiCli"
    } else if cfg!(windows) {
        r"C:\ProgramData\gemini-cli"
    } else {
        "/etc/gemini-cli"
    })
}
