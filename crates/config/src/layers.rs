//! The layers of settings, from lowest to highest.

use std::fmt;
use std::path::{Path, PathBuf};

use parallax_protocol::Object;
use serde_json::Value;

use crate::environment::{DotenvSearch, Environment};
use crate::error::ConfigError;
use crate::extensions::installed_manifests;
use crate::homes::Homes;
use crate::jsonc;

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

/// The system and user settings, which apply in every directory.
#[derive(Debug, Clone, Default)]
pub struct OuterSettings {
    pub(crate) layers: Vec<LayerFile>,
    /// The MCP servers of `mcp-config.json` and of installed extensions, lowest first.
    pub(crate) servers: Vec<OuterServer>,
    /// The variables of the process and of the user's own `.env` file.
    pub(crate) environment: Environment,
    /// The authentication method that these variables select.
    pub(crate) auth_method: String,
}

/// An MCP server of the user that is not in the settings.
#[derive(Debug, Clone)]
pub(crate) struct OuterServer {
    pub(crate) name: String,
    pub(crate) value: Value,
    pub(crate) is_of_extension: bool,
}

impl OuterSettings {
    /// Adds to the layers what else applies in every directory. Problems of these files are
    /// reported where the files are used.
    pub(crate) fn of(
        layers: Vec<LayerFile>,
        environment: &Environment,
        homes: &Homes,
        cwd: &Path,
    ) -> Self {
        let mut environment = environment.clone();
        let files = DotenvSearch { cwd, folders: &[], homes, ignore_local: false, excluded: &[] };
        files.read_into(&mut environment);
        let mut servers = Vec::new();
        let mut add = |found: Object, is_of_extension| {
            let found = found.into_iter();
            servers.extend(found.map(|(name, value)| OuterServer { name, value, is_of_extension }));
        };
        let file = jsonc::read_object(&homes.parallax.join("mcp-config.json")).ok().flatten();
        if let Some(Value::Object(found)) =
            file.and_then(|mut file| file.shift_remove("mcpServers"))
        {
            add(found, false);
        }
        for manifest in installed_manifests(homes) {
            add(manifest.servers, true);
        }
        let auth_method = auth_method(&environment);
        Self { layers, servers, environment, auth_method }
    }
}

/// Returns the authentication method that the variables select; the key of the Gemini API may also
/// be stored elsewhere.
fn auth_method(environment: &Environment) -> String {
    let is_set = |name: &str| environment.get(name).is_some();
    let has_key = is_set("GEMINI_API_KEY") || is_set("GOOGLE_API_KEY");
    if environment.is_true("GOOGLE_GENAI_USE_GCA") {
        "oauth-personal".to_owned()
    } else if environment.is_true("GOOGLE_GENAI_USE_VERTEXAI") {
        "vertex-ai".to_owned()
    } else if is_set("GOOGLE_GEMINI_BASE_URL") && !has_key {
        "gateway".to_owned()
    } else if has_key {
        "gemini-api-key".to_owned()
    } else {
        let default = environment.get("GEMINI_DEFAULT_AUTH_TYPE");
        default.unwrap_or("gemini-api-key").to_owned()
    }
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
    homes: &Homes,
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
        (Layer::UserGemini, homes.gemini.join("settings.json")),
        (Layer::User, homes.parallax.join("settings.json")),
        (Layer::System, system),
    ])
}

/// Reads the layers of the project. In the home directory there are none, because its files are the
/// user's.
pub(crate) fn read_project(homes: &Homes, cwd: &Path) -> Result<Vec<LayerFile>, ConfigError> {
    if homes.is_home(cwd) {
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
        [".parallax", ".gemini"].map(|folder| cwd.join(folder).join("settings.json"));
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
