//! What applies in every directory: the system and user settings, and what else the user configured.

use std::path::Path;

use parallax_protocol::Object;
use serde_json::Value;

use crate::dotenv_search::DotenvSearch;
use crate::environment::Environment;
use crate::extension_files::installed_manifests;
use crate::jsonc;
use crate::layers::LayerFile;
use crate::user_dirs::UserDirs;

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
    pub(crate) fn new(
        layers: Vec<LayerFile>,
        environment: &Environment,
        dirs: &UserDirs,
        cwd: &Path,
    ) -> Self {
        let mut environment = environment.clone();
        let files = DotenvSearch { cwd, folders: &[], dirs, ignore_local: false, excluded: &[] };
        files.read_into(&mut environment);
        let mut servers = Vec::new();
        let mut add = |found: Object, is_of_extension| {
            let found = found.into_iter();
            servers.extend(found.map(|(name, value)| OuterServer { name, value, is_of_extension }));
        };
        let file = jsonc::read_object(&dirs.parallax.join("mcp-config.json")).ok().flatten();
        if let Some(Value::Object(found)) =
            file.and_then(|mut file| file.shift_remove("mcpServers"))
        {
            add(found, false);
        }
        for manifest in installed_manifests(dirs) {
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
