//! Extensions: directories with a manifest that provide context, MCP servers, commands, hooks,
//! skills, agents, rules, and themes. This module reads them from both user directories; the sdk
//! installs them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use parallax_protocol::Object;
use serde_json::Value;

use crate::commands::{CommandFolder, CommandSource, one_line};
use crate::expand::Expander;
use crate::extension_files::{Enablement, ExtensionChanges, ValueFile, directories_in};
use crate::load::Config;
use crate::mcp_server::{ExtensionServers, expand_servers, is_rejected_variable};
use crate::secret_references::register_servers;
use crate::skills::{SkillFolder, SkillTier};

pub use crate::extension_files::{
    ExtensionScope, ExtensionSetting, ExtensionVariables, INSTALL_METADATA, InstallKind,
    InstallMetadata, LockEntry, MANIFEST, MAX_BYTES, MAX_FILES, Manifest, OWN_MANIFEST,
    content_hash, extension_id, files_of, find_entry, fingerprint, forget_extension_switches,
    github_repository, is_executable_name, is_name, is_program, lock, lock_kept, read_kept_lock,
    read_lock, read_values, retain_extension_values, set_extension_value, stays_below,
    switch_extension,
};
pub use crate::hook_definitions::HOOKS;

/// The user directory in which an extension is installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtensionHome {
    /// `~/.gemini/extensions`: read, never written.
    Gemini,
    /// `~/.parallax/extensions`.
    Parallax,
}

/// The value of an extension setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingValue {
    /// The setting.
    pub setting: ExtensionSetting,
    /// Its value; `None` if it is not set.
    pub value: Option<String>,
}

/// An installed extension.
#[derive(Debug, Clone)]
pub struct Extension {
    /// The manifest with expanded variables.
    pub manifest: Manifest,
    /// The unique ID.
    pub id: String,
    /// The directory that holds its files.
    pub folder: PathBuf,
    /// Its directory below the extension directory; differs from `folder` if it is linked.
    pub installed: PathBuf,
    /// Where it is installed.
    pub home: ExtensionHome,
    /// The installation source.
    pub install: Option<InstallMetadata>,
    /// Whether it is enabled for the user, ignoring project rules.
    pub enabled_for_user: bool,
    /// Whether it is enabled in the working directory.
    pub enabled_here: bool,
    /// Whether it is active in this run.
    pub active: bool,
    /// Whether its manifest, hooks, agents, rules, or server programs changed since installation.
    /// If so, it starts no programs.
    pub is_modified: bool,
    /// The values of its settings.
    pub values: Vec<SettingValue>,
    /// The variables, for files that are read later.
    pub variables: ExtensionVariables,
}

impl Extension {
    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.manifest.name
    }

    /// Returns its context files with links resolved.
    pub fn context_files(&self) -> Vec<PathBuf> {
        self.manifest.context_paths(&self.folder).0
    }

    /// Returns the settings that have a value, by variable.
    pub fn environment(&self) -> Vec<(String, String)> {
        let set = |value: &SettingValue| {
            Some((value.setting.variable.clone(), value.value.clone()?))
                .filter(|(name, _)| !is_rejected_variable(name))
        };
        self.values.iter().filter_map(set).collect()
    }

    /// Returns its MCP servers with the settings added to their variables.
    fn servers(&self) -> ExtensionServers {
        let mut servers = self.manifest.servers.clone();
        for server in servers.values_mut().filter_map(Value::as_object_mut) {
            if !server.contains_key("command") {
                continue;
            }
            let mut env = match server.remove("env") {
                Some(Value::Object(env)) => env,
                // Not an object: the server parser reports it.
                Some(odd) => {
                    server.insert("env".to_owned(), odd);
                    continue;
                }
                None => Object::new(),
            };
            for (name, value) in self.environment() {
                env.entry(name).or_insert(Value::String(value));
            }
            server.insert("env".to_owned(), Value::Object(env));
        }
        ExtensionServers { extension: self.name().to_owned(), servers }
    }
}

/// The extensions selected on the command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExtensionChoice {
    /// `-e`: only these extensions, even if disabled; `none` selects none. If empty, the enabled
    /// extensions are used.
    pub only: Vec<String>,
}

/// The extensions of a run.
#[derive(Debug, Clone, Default)]
pub struct Extensions {
    /// All installed extensions by name, including inactive ones.
    pub all: Vec<Extension>,
    /// Warnings for the user, one sentence each.
    pub warnings: Vec<String>,
}

impl Extensions {
    /// Returns the parts of linked extensions that start programs or instruct the model, and the
    /// scripts of their hooks: they count as they are, in a directory where their author works.
    /// Blocking.
    pub fn linked_parts(&self) -> Vec<PathBuf> {
        const PARTS: [&str; 7] =
            [MANIFEST, OWN_MANIFEST, "agents", "commands", "hooks", "policies", "skills"];
        let mut parts = Vec::new();
        for extension in self.all.iter().filter(|it| it.folder != it.installed) {
            let Ok(folder) = extension.folder.canonicalize() else { continue };
            parts.extend(PARTS.map(|part| folder.join(part)));
            for mut hook in crate::hooks::hooks_of_folder(&folder, &mut Vec::new()) {
                hook.command = extension.variables.fill_command(&hook.command);
                let scripts = hook.scripts(&folder).into_iter();
                parts.extend(scripts.filter(|path| path.starts_with(&folder)));
            }
        }
        parts
    }

    /// Returns the active extensions.
    pub fn active(&self) -> impl Iterator<Item = &Extension> {
        self.all.iter().filter(|extension| extension.active)
    }

    /// Finds an extension by name (ignoring case) or by source.
    pub fn find(&self, name: &str) -> Option<&Extension> {
        let by_source = |extension: &&Extension| {
            extension.install.as_ref().is_some_and(|install| install.source == name)
        };
        self.all
            .iter()
            .find(|extension| extension.name().eq_ignore_ascii_case(name))
            .or_else(|| self.all.iter().find(by_source))
    }

    /// Returns the MCP servers of the active extensions that are unchanged since installation.
    pub fn servers(&self) -> Vec<ExtensionServers> {
        self.active().filter(|extension| !extension.is_modified).map(Extension::servers).collect()
    }

    /// Returns the directories of their commands.
    pub fn command_folders(&self) -> Vec<CommandFolder> {
        let directory = |extension: &Extension| CommandFolder {
            source: CommandSource::Extension(extension.name().to_owned()),
            folder: extension.folder.join("commands"),
        };
        self.active().map(directory).collect()
    }

    /// Returns the directories of their skills.
    pub fn skill_folders(&self) -> Vec<SkillFolder> {
        let directory = |extension: &Extension| SkillFolder {
            tier: SkillTier::Extension(extension.name().to_owned()),
            folder: extension.folder.join("skills"),
        };
        self.active().map(directory).collect()
    }

    /// Returns the agent directories of the active extensions that are unchanged since
    /// installation, by extension.
    pub fn agent_folders(&self) -> Vec<(String, PathBuf)> {
        self.active()
            .filter(|extension| !extension.is_modified)
            .map(|extension| (extension.name().to_owned(), extension.folder.join("agents")))
            .collect()
    }

    /// Returns the directories of their policy rules.
    pub fn policy_folders(&self) -> Vec<PathBuf> {
        self.active().map(|extension| extension.folder.join("policies")).collect()
    }

    /// Returns their context files.
    pub fn context_files(&self) -> Vec<PathBuf> {
        self.active().flat_map(Extension::context_files).collect()
    }

    /// Returns the tools that each extension hides from the model.
    pub fn excluded_tools(&self) -> Vec<(String, Vec<String>)> {
        self.active()
            .filter(|extension| !extension.manifest.exclude_tools.is_empty())
            .map(|it| (it.name().to_owned(), it.manifest.exclude_tools.clone()))
            .collect()
    }

    /// Returns their themes, keyed by the names shown in lists: `theme (extension)`.
    pub fn themes(&self) -> Object {
        let mut themes = Object::new();
        for extension in self.active() {
            for theme in &extension.manifest.themes {
                let name = theme.get("name").and_then(Value::as_str).unwrap_or_default();
                if !name.is_empty() {
                    let name = format!("{} ({})", one_line(name, 60), extension.name());
                    themes.insert(name, Value::Object(theme.clone()));
                }
            }
        }
        themes
    }

    /// Returns the plan directory of the first extension that names one.
    pub fn plan_directory(&self) -> Option<&str> {
        self.active().find_map(|extension| extension.manifest.plan_directory.as_deref())
    }
}

impl Config {
    /// Returns the directory in which extensions are installed.
    pub fn extension_home(&self) -> PathBuf {
        self.dirs.parallax.join("extensions")
    }

    /// Reads the extensions of both user directories; of two extensions with the same name, the one
    /// in `~/.parallax` is used. Blocking; costs two lookups if there are none.
    pub fn extensions(&self, choice: &ExtensionChoice) -> Extensions {
        let mut found = Extensions::default();
        let theirs = self.dirs.gemini.join("extensions");
        let ours = self.extension_home();
        let mut locations: Vec<(PathBuf, ExtensionHome)> = Vec::new();
        for (folder, home) in [(ours, ExtensionHome::Parallax), (theirs, ExtensionHome::Gemini)] {
            locations
                .extend(directories_in(&folder).into_iter().map(|directory| (directory, home)));
        }
        if locations.is_empty() {
            return found;
        }
        let enablement = Enablement::read(&self.dirs, &mut found.warnings);
        let values = ValueFile::read(&self.dirs, &self.keychain, &mut found.warnings);
        let mut names: HashMap<String, ExtensionHome> = HashMap::new();
        for (installed, home) in locations {
            match self.extension(&installed, home, &enablement, &values) {
                Ok((extension, notes)) => {
                    let name = extension.name().to_owned();
                    match names.get(&name) {
                        None => drop(names.insert(name.clone(), home)),
                        // The copy in `~/.parallax` replaces it.
                        Some(first) if *first != home => continue,
                        Some(_) => {
                            found.warnings.push(format!(
                                "the extension in `{}` is ignored: another extension is also named \
                                 `{name}`",
                                installed.display()
                            ));
                            continue;
                        }
                    }
                    let warnings =
                        notes.into_iter().map(|note| format!("extension `{name}`: {note}"));
                    found.warnings.extend(warnings);
                    found.all.push(extension);
                }
                Err(reason) => found.warnings.push(format!(
                    "`{}` is not a valid extension and is ignored: {reason}",
                    installed.display()
                )),
            }
        }
        found.all.sort_by(|one, other| one.name().cmp(other.name()));
        choose(&mut found, choice);
        found
    }

    /// Requires the extension's metadata file to match the source recorded at installation. The
    /// file lies in the extension's own directory, where the extension's programs can write.
    fn require_locked_source(
        &self,
        installed: &Path,
        install: Option<&InstallMetadata>,
    ) -> Result<(), String> {
        let name = installed.file_name().map(|name| name.to_string_lossy().into_owned());
        let Some(known) = name.and_then(|name| find_entry(&self.dirs, &name)) else {
            return Ok(());
        };
        match install {
            Some(install) if install.is_same_source(&known.install) => Ok(()),
            Some(install) => Err(format!(
                "its `{INSTALL_METADATA}` says that it came from {}, but it was installed from \
                 {}: reinstall it",
                install.described_source(),
                known.install.described_source()
            )),
            None => Err(format!("its `{INSTALL_METADATA}` is missing or invalid: reinstall it")),
        }
    }

    fn extension(
        &self,
        installed: &Path,
        home: ExtensionHome,
        enablement: &Enablement,
        values: &ValueFile,
    ) -> Result<(Extension, Vec<String>), String> {
        let install = InstallMetadata::read(installed);
        if home == ExtensionHome::Parallax {
            self.require_locked_source(installed, install.as_ref())?;
        }
        let folder = match &install {
            Some(InstallMetadata { kind: InstallKind::Link, source, .. }) => PathBuf::from(source),
            _ => installed.to_owned(),
        };
        let mut manifest = Manifest::read(&folder)?;
        let mut notes = std::mem::take(&mut manifest.notes);
        let name = manifest.name.clone();
        let (known, missing) = values.effective_values(&name, installed, &self.cwd);
        notes.extend(missing);
        let has_project_dotenv =
            self.environment.dotenv_file() == Some(self.cwd.join(".env").as_path());
        let id = extension_id(&name, install.as_ref());
        let value = |setting: &ExtensionSetting| {
            let here = has_project_dotenv
                && self.environment.dotenv_names().any(|known| known == setting.variable);
            let here = here.then(|| self.environment.variable(&setting.variable)).flatten();
            let gemini_value = || {
                let is_theirs = setting.sensitive && home == ExtensionHome::Gemini;
                let found = is_theirs
                    .then(|| values.gemini_value((&name, &id), &self.cwd, &setting.variable));
                found.flatten()
            };
            let known = || known.get(&setting.variable).cloned();
            here.map(str::to_owned).or_else(known).or_else(gemini_value)
        };
        let values: Vec<SettingValue> = manifest
            .settings
            .iter()
            .map(|setting| SettingValue {
                setting: setting.clone(),
                value: value(setting).filter(|value| !value.is_empty()),
            })
            .collect();
        let pairs = |sensitive: bool| -> Vec<(String, String)> {
            let counting = values.iter().filter(|value| value.setting.sensitive == sensitive);
            counting
                .filter_map(|value| Some((value.setting.variable.clone(), value.value.clone()?)))
                .collect()
        };
        let (plain, secret) = (pairs(false), pairs(true));
        let variables = ExtensionVariables::new(&folder, &self.cwd, &plain, &secret);
        let mut servers = Value::Object(std::mem::take(&mut manifest.servers));
        variables.fill_value(&mut servers);
        // The user's own variables have lower precedence than the extension settings.
        let mut environment = self.environment.clone();
        environment.set_variables(&plain);
        environment.set_variables(&secret);
        let mut expander = Expander::new(&environment);
        register_servers(&servers, environment.secrets());
        expand_servers(&mut servers, &mut expander);
        // `${extensionPath}` is not an environment variable and stays unexpanded.
        for name in manifest.context_files.iter_mut().flatten() {
            *name = expander.text(name);
        }
        if let Value::Object(servers) = servers {
            manifest.servers = servers;
        }
        manifest.plan_directory =
            manifest.plan_directory.map(|directory| variables.fill(&directory));
        notes.extend(manifest.context_paths(&folder).1);
        let is_copy = home == ExtensionHome::Parallax
            && install.as_ref().is_none_or(|install| install.kind != InstallKind::Link);
        let locked = is_copy.then(|| find_entry(&self.dirs, &name)).flatten();
        let changes =
            locked.map(|it| ExtensionChanges::detect(&it.code_hash, &folder)).unwrap_or_default();
        let is_modified = changes.has_code_changes || changes.programs;
        let back = format!(
            "`parallax extensions update {name}` restores it; to modify an extension, use \
             `parallax extensions link`"
        );
        if is_modified {
            let what = match changes.has_code_changes {
                true => "manifest, hooks, agents, or rules",
                false => "MCP servers' programs",
            };
            notes.push(format!(
                "its {what} differ from the installed ones, so its hooks, MCP servers, and agents \
                 do not run; {back}"
            ));
        } else if changes.texts {
            notes.push(format!(
                "its commands, context, or skills differ from the installed ones; {back}"
            ));
        }
        let enabled_here = enablement.is_on(&name, &self.cwd);
        let extension = Extension {
            id,
            folder,
            installed: installed.to_owned(),
            home,
            install,
            enabled_for_user: enablement.is_on(&name, &self.dirs.user),
            enabled_here,
            active: enabled_here,
            is_modified,
            values,
            variables,
            manifest,
        };
        Ok((extension, notes))
    }
}

/// Applies `-e`, which overrides enablement.
fn choose(found: &mut Extensions, choice: &ExtensionChoice) {
    if choice.only.is_empty() {
        return;
    }
    let none = choice.only.len() == 1 && choice.only.iter().any(|name| name == "none");
    let named = |name: &str| choice.only.iter().any(|only| only.eq_ignore_ascii_case(name));
    for extension in &mut found.all {
        extension.active = !none && named(extension.name());
    }
}

#[cfg(test)]
mod tests;
