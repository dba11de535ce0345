//! Loads the whole configuration in an order that keeps an untrusted directory from influencing
//! whether it is trusted.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use parallax_keychain::{Keychain, KeychainLocations};
use serde_json::Value;

use crate::dotenv_search::DotenvSearch;
use crate::environment::Environment;
use crate::error::ConfigError;
use crate::expand::Expander;
use crate::jsonc;
use crate::layers::{self, LayerFile};
use crate::migrate;
use crate::outer_settings::OuterSettings;
use crate::settings::Settings;
use crate::trust::{self, Trust, TrustFiles};
use crate::untrusted_settings::{self, IgnoredSettings};
use crate::user_dirs::UserDirs;
use crate::worktrees;

/// The inputs known before any file is read.
#[derive(Debug, Clone, Default)]
pub struct LoadOptions {
    /// The working directory, absolute.
    pub cwd: PathBuf,
    /// The variables of the process (`std::env::vars_os()`).
    pub variables: Vec<(OsString, OsString)>,
    /// `--skip-trust`.
    pub skip_trust: bool,
    /// `--ignore-env`.
    pub ignore_env: bool,
}

/// The loaded configuration of a run.
#[derive(Debug, Clone)]
pub struct Config {
    /// The working directory.
    pub cwd: PathBuf,
    /// The directory whose trust, settings, and approvals apply: the working directory, or, in a
    /// worktree that Parallax created, the same directory of the main checkout.
    pub project: PathBuf,
    /// The user's directories.
    pub dirs: UserDirs,
    /// The environment variables, including those of a `.env` file.
    pub environment: Environment,
    /// Whether the working directory is trusted.
    pub trust: Trust,
    /// The working directory and its parents, as far up as they are trusted. Files of other
    /// directories are ignored.
    pub trusted_folders: Vec<PathBuf>,
    /// The settings of all layers.
    pub settings: Settings,
    /// The system keychain, unless secrets are kept in files.
    pub keychain: Keychain,
    /// Project settings that do not apply, because they loosen security and the user has not
    /// accepted them.
    pub loosening_settings: Vec<IgnoredSettings>,
    /// The `mcp.allowed` servers whose tools are exempt from approval; `None` for all of them.
    pub exempt_servers: Option<Vec<String>>,
    /// Whether only the project sets `tools.core`, so that it selects the available tools but does
    /// not approve them.
    pub core_tools_need_approval: bool,
    /// The layers outside of the project.
    pub outer: OuterSettings,
    /// Warnings about files for the user, one sentence each.
    pub warnings: Vec<String>,
}

impl Config {
    /// Expands a leading `~` in a path of settings or flags.
    pub fn expand_home(&self, path: &Path) -> PathBuf {
        match (path.strip_prefix("~"), self.environment.get("HOME")) {
            (Ok(rest), Some(home)) => Path::new(home).join(rest),
            _ => path.to_owned(),
        }
    }

    /// Registers variables with secrets where `other`, the configuration before a reload, does, so
    /// that running sessions withhold new ones from commands, too.
    pub fn share_secrets(&mut self, other: &Self) {
        self.environment.share_secrets(other.environment.secrets());
        self.settings.share_secrets(other.environment.secrets());
    }

    /// Returns a variable that a project must not set: from the process, or from a `.env` file in
    /// the user's directories.
    pub fn user_variable(&self, name: &str) -> Option<&str> {
        let file = self.environment.dotenv_file().and_then(Path::parent);
        let dirs = [&self.dirs.parallax, &self.dirs.gemini, &self.dirs.user];
        let is_user_file = file.is_some_and(|directory| dirs.iter().any(|home| *home == directory));
        match is_user_file {
            true => self.environment.get(name),
            false => self.environment.process_variable(name),
        }
    }
}

/// Takes the `telemetry` setting out of each project file if the user runs Gemini CLI's test rig
/// (`GEMINI_CLI_INTEGRATION_TEST=true`). The rig lets a project choose a telemetry file, also
/// outside of the project.
fn take_project_telemetry(
    environment: &Environment,
    project: &mut [LayerFile],
) -> Vec<Option<Value>> {
    let is_test = environment.process_variable("GEMINI_CLI_INTEGRATION_TEST") == Some("true");
    let take = |file: &mut LayerFile| is_test.then(|| file.values.remove("telemetry")).flatten();
    project.iter_mut().map(take).collect()
}

/// Reads user directories, trust, settings, and `.env`, in this order: nothing in the project is
/// read before the directory is known to be trusted.
///
/// # Errors
/// Returns an error if an existing file cannot be used (exit code 52).
pub fn load(options: LoadOptions) -> Result<Config, ConfigError> {
    let LoadOptions { cwd, variables, skip_trust, ignore_env } = options;
    let mut environment = Environment::new(variables);
    let dirs = UserDirs::find(&environment, &cwd)?;
    let project_directory = worktrees::project_of(&dirs, &cwd);
    let mut warnings = Vec::new();

    let mut layers = layers::read_outer(&environment, &dirs, &cwd)?;
    migrate_all(&mut layers, &mut warnings);
    let enabled = trust_enabled(&layers, &environment);
    let files = TrustFiles::find(&environment, &dirs)?;
    let trust = trust::decide(&environment, &files, &project_directory, skip_trust, enabled)?;
    let mut loosening_settings = Vec::new();
    let mut exempt_servers = None;
    let mut core_tools_need_approval = false;
    let outer = OuterSettings::new(layers.clone(), &environment, &dirs, &cwd);
    if trust.trusted {
        let mut project = layers::read_project(&dirs, &project_directory)?;
        migrate_all(&mut project, &mut warnings);
        let telemetry = take_project_telemetry(&environment, &mut project);
        loosening_settings = untrusted_settings::close(
            &mut project,
            &outer,
            &dirs,
            &project_directory,
            &mut warnings,
        );
        for (file, value) in project.iter_mut().zip(telemetry) {
            file.values.extend(value.map(|value| ("telemetry".to_owned(), value)));
        }
        core_tools_need_approval =
            untrusted_settings::narrow_core_tools(&mut project, &outer, &mut warnings);
        exempt_servers = untrusted_settings::exempt_servers_for(&loosening_settings, &layers);
        layers.extend(project);
        layers.sort_by_key(|file| file.layer);
    }

    let ignore_local = ignore_env
        || read_early_flag(&layers, &environment, "advanced.ignoreLocalEnv").unwrap_or(false);
    let excluded = excluded_names(&layers);
    // A parent directory is used only if it is trusted itself.
    let trusted_above = |start: &Path| -> Vec<PathBuf> {
        let is_trusted = |folder: &Path| {
            let project = worktrees::project_of(&dirs, folder);
            trust::decide(&environment, &files, &project, skip_trust, enabled)
                .is_ok_and(|trust| trust.trusted)
        };
        let ancestors =
            start.ancestors().take_while(|folder| *folder == start || is_trusted(folder));
        ancestors.map(Path::to_owned).collect()
    };
    let folders = if trust.trusted { trusted_above(&cwd) } else { Vec::new() };
    let env_folders = match trust.trusted && project_directory != cwd {
        true => trusted_above(&project_directory),
        false => folders.clone(),
    };
    let search = DotenvSearch {
        cwd: &project_directory,
        folders: &env_folders,
        dirs: &dirs,
        ignore_local,
        excluded: &excluded,
    };
    warnings.extend(search.read_into(&mut environment));

    let settings = Settings::from_layers(layers, &environment, &mut warnings);
    warnings.extend(crate::ui::footer_warning(&settings));
    let keychain = keychain(&settings, &environment, &dirs);
    Ok(Config {
        cwd,
        project: project_directory,
        dirs,
        keychain,
        environment,
        trust,
        trusted_folders: folders,
        settings,
        loosening_settings,
        exempt_servers,
        core_tools_need_approval,
        outer,
        warnings,
    })
}

/// Opens the keychain lazily: nothing is accessed before a secret is stored or needed.
fn keychain(settings: &Settings, environment: &Environment, dirs: &UserDirs) -> Keychain {
    let says_yes = |name: &str| {
        let value = environment.process_variable(name);
        value.is_some_and(|value| value == "1" || value.eq_ignore_ascii_case("true"))
    };
    let files_only = says_yes("GEMINI_FORCE_FILE_STORAGE")
        || settings.text("security.secretStorage").as_deref() == Some("file");
    let locations = KeychainLocations {
        home: &dirs.parallax,
        system: !files_only,
        encrypted_file: says_yes("GEMINI_FORCE_ENCRYPTED_FILE_STORAGE"),
        other_homes: std::slice::from_ref(&dirs.gemini),
    };
    Keychain::from_locations(locations, &|name| {
        environment.process_variable(name).map(OsString::from)
    })
}

/// Reads the layers outside of the project. The returned boolean is whether folder trust is
/// enabled.
pub(crate) fn read_outer(
    environment: &Environment,
    dirs: &UserDirs,
    cwd: &Path,
) -> Result<(OuterSettings, bool), ConfigError> {
    let mut layers = layers::read_outer(environment, dirs, cwd)?;
    migrate_all(&mut layers, &mut Vec::new());
    let enabled = trust_enabled(&layers, environment);
    Ok((OuterSettings::new(layers, environment, dirs, cwd), enabled))
}

fn trust_enabled(layers: &[LayerFile], environment: &Environment) -> bool {
    read_early_flag(layers, environment, "security.folderTrust.enabled").unwrap_or(true)
}

fn migrate_all(layers: &mut [LayerFile], warnings: &mut Vec<String>) {
    for file in layers {
        if let Some((line, column)) = jsonc::trailing_comma(&file.text) {
            warnings.push(format!(
                "{}:{line}:{column}: trailing comma; other programs may reject this file",
                file.path.display()
            ));
        }
        warnings.extend(migrate::migrate(&mut file.values, &file.path));
    }
}

/// Returns a boolean that is needed before the settings are complete: the value of the highest
/// layer that sets it, with process variables expanded.
fn read_early_flag(layers: &[LayerFile], environment: &Environment, key: &str) -> Option<bool> {
    let mut by_rank: Vec<&LayerFile> = layers.iter().collect();
    by_rank.sort_by_key(|file| std::cmp::Reverse(file.layer));
    by_rank.into_iter().find_map(|file| match migrate::get_dotted(&file.values, key)? {
        Value::Bool(flag) => Some(*flag),
        Value::String(text) => match Expander::new(environment).text(text).as_str() {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        },
        _ => None,
    })
}

/// Returns `advanced.excludedEnvVars` of all layers.
fn excluded_names(layers: &[LayerFile]) -> Vec<String> {
    let lists: Vec<&Value> = layers
        .iter()
        .filter_map(|file| migrate::get_dotted(&file.values, "advanced.excludedEnvVars"))
        .collect();
    if lists.is_empty() {
        return vec!["DEBUG".to_owned(), "DEBUG_MODE".to_owned()];
    }
    let names = lists.into_iter().filter_map(Value::as_array).flatten().filter_map(Value::as_str);
    names.map(str::to_owned).collect()
}
