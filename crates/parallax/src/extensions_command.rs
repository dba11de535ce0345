//! `parallax extensions`: installs, updates, checks, and removes extensions.

mod prompter;
mod stdin_prompter;
mod upkeep;

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use parallax_extensions::{
    Extension, ExtensionUpdate, FetchOptions, TEMPLATES, UninstallResult, read_values,
};
use parallax_headless::{ExitCode, one_line};
use parallax_protocol::code_text::code_text;
use parallax_protocol::event::{Failure, FailureKind};
use parallax_sdk::SessionConfig;
use serde_json::{Value, json};

use crate::command_result::{CommandResult, input_failure};
use crate::extension_descriptions::{consent_text, extension_json, list_rows};
use crate::scope_option::Scope;
pub(crate) use prompter::{EditorPrompter, Prompter};
pub(crate) use stdin_prompter::StdinPrompter;
use upkeep::SyncArguments;

/// The output format of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListFormat {
    Text,
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ExtensionsAction {
    /// Install an extension from a Git URL, a directory, or an archive
    Install {
        /// Git URL, directory, or archive
        source: String,
        /// Branch, tag, or commit
        #[arg(long = "ref", value_name = "REF")]
        reference: Option<String>,
        /// Update it automatically at the start of interactive sessions
        #[arg(long)]
        auto_update: bool,
        /// Include pre-releases
        #[arg(long)]
        pre_release: bool,
        /// Agree to the installation without a prompt
        #[arg(long, visible_alias = "yes")]
        consent: bool,
        /// Do not ask for the values of its settings
        #[arg(long)]
        skip_settings: bool,
        #[command(flatten)]
        values: ValueOptions,
    },
    /// Use an extension in place, without copying it
    Link {
        /// Directory of the extension
        path: PathBuf,
        /// Agree to the installation without a prompt
        #[arg(long, visible_alias = "yes")]
        consent: bool,
        #[command(flatten)]
        values: ValueOptions,
    },
    /// Create an extension
    New {
        /// Directory to create, which gives the extension its name
        path: PathBuf,
        /// Template to start from
        #[arg(value_parser = clap::builder::PossibleValuesParser::new(TEMPLATES))]
        template: Option<String>,
    },
    /// List the extensions
    List {
        /// Output format
        #[arg(short, long, value_enum, default_value_t = ListFormat::Text)]
        output_format: ListFormat,
    },
    /// Update extensions
    Update {
        /// Name of the extension
        #[arg(required_unless_present = "all")]
        name: Option<String>,
        /// Update all extensions
        #[arg(long, conflicts_with = "name")]
        all: bool,
        /// Agree to permissions that a new version adds
        #[arg(long, visible_alias = "yes")]
        consent: bool,
        #[command(flatten)]
        values: ValueOptions,
    },
    /// Install exactly the extensions and files of a lock file
    Sync {
        /// Lock file [default: `~/.parallax/extensions.lock.json`]
        file: Option<PathBuf>,
        /// Agree to the installation without a prompt
        #[arg(long, visible_alias = "yes")]
        consent: bool,
        /// Remove extensions that are not in the lock file
        #[arg(long)]
        prune: bool,
        #[command(flatten)]
        values: ValueOptions,
    },
    /// Restore the version before the last update
    Rollback {
        /// Name of the extension
        name: String,
    },
    /// Uninstall extensions by name or source
    #[command(alias = "remove")]
    Uninstall {
        /// Names or sources of the extensions
        #[arg(required_unless_present = "all")]
        names: Vec<String>,
        /// Uninstall all extensions
        #[arg(long)]
        all: bool,
    },
    /// Enable an extension
    Enable {
        /// Name of the extension
        name: String,
        /// Projects that the change applies to [default: all, including this one]
        #[arg(long, value_enum, ignore_case = true)]
        scope: Option<Scope>,
    },
    /// Disable an extension
    Disable {
        /// Name of the extension
        name: String,
        /// Projects that the change applies to
        #[arg(long, value_enum, ignore_case = true, default_value_t = Scope::User)]
        scope: Scope,
    },
    /// Check whether a directory is a valid extension, and show what it may do
    Validate {
        /// Directory of the extension
        path: PathBuf,
    },
    /// Find problems of installed extensions: servers, shadowed commands, settings, rules,
    /// and files
    Doctor {
        /// Name of the extension [default: all enabled extensions]
        name: Option<String>,
    },
    /// Run the tests of an extension: sessions with recorded responses
    Test {
        /// Directory of the extension
        path: PathBuf,
        /// Names of the tests [default: all]
        names: Vec<String>,
    },
    /// Set values for the settings of extensions; reads each value from a prompt or from
    /// stdin
    Config {
        /// Name of the extension
        name: Option<String>,
        /// Name of the setting or of its variable
        setting: Option<String>,
        /// Projects that the value applies to
        #[arg(long, value_enum, ignore_case = true, default_value_t = Scope::User)]
        scope: Scope,
        #[command(flatten)]
        values: ValueOptions,
    },
}

/// The option for values that would otherwise be asked for.
#[derive(Debug, Clone, Args)]
pub(crate) struct ValueOptions {
    /// File with setting values, as JSON or as `NAME=value` lines
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
}

impl ExtensionsAction {
    pub(crate) fn list() -> Self {
        Self::List { output_format: ListFormat::Text }
    }

    /// Returns the values in the file.
    fn values(&self) -> Result<Vec<(String, String)>, Failure> {
        let (Self::Install { values, .. }
        | Self::Link { values, .. }
        | Self::Update { values, .. }
        | Self::Sync { values, .. }
        | Self::Config { values, .. }) = self
        else {
            return Ok(Vec::new());
        };
        let unusable = |message| Failure { kind: FailureKind::Config, message, status: None };
        values.settings.as_deref().map_or(Ok(Vec::new()), read_values).map_err(unusable)
    }

    pub(crate) fn wants_json(&self) -> bool {
        matches!(self, Self::List { output_format: ListFormat::Json })
    }
}

/// Runs the subcommand.
///
/// # Errors
/// Returns the errors of [`run_with`].
pub(crate) fn run(
    launch: &SessionConfig,
    action: &ExtensionsAction,
) -> Result<CommandResult, Failure> {
    run_with(launch, action, &mut StdinPrompter::new(action.values()?))
}

/// Runs the subcommand; `prompter` answers its questions.
///
/// # Errors
/// Fails if the source cannot be used, the extension is unknown, or the user does not
/// agree.
pub(crate) fn run_with(
    launch: &SessionConfig,
    action: &ExtensionsAction,
    prompter: &mut dyn Prompter,
) -> Result<CommandResult, Failure> {
    launch.extension_manager().clean_up_extensions();
    match action {
        ExtensionsAction::Install {
            source,
            reference,
            auto_update,
            pre_release,
            consent,
            skip_settings,
            ..
        } => {
            let options = FetchOptions {
                reference: reference.clone(),
                pre_release: *pre_release,
                auto_update: *auto_update,
            };
            let fetched = launch.extension_manager().fetch_extension(source, &options)?;
            let name = fetched.manifest.name.clone();
            launch.extension_manager().require_new_extension(&name)?;
            let shown = consent_text("installed", &fetched.manifest, &fetched.review, source);
            prompter.confirm(&shown, *consent)?;
            launch.extension_manager().install_extension(&fetched)?;
            let missing = ask_for_settings(launch, &name, *skip_settings, prompter)?;
            let text = format!("Extension \"{}\" installed successfully and enabled.\n", name);
            Ok(done(text + &missing, &name, "installed"))
        }
        ExtensionsAction::Link { path, consent, .. } => {
            let (manifest, review) = launch.extension_manager().review_extension(path)?;
            launch.extension_manager().require_new_extension(&manifest.name)?;
            let source = path.display().to_string();
            prompter.confirm(&consent_text("linked", &manifest, &review, &source), *consent)?;
            launch.extension_manager().link_extension(path)?;
            let name = &manifest.name;
            let mut text = format!("Extension \"{name}\" linked successfully and enabled.\n");
            text.push_str(&ask_for_settings(launch, name, true, prompter)?);
            Ok(done(text, name, "linked"))
        }
        ExtensionsAction::New { path, template } => {
            let directory = launch.extension_manager().new_extension(path, template.as_deref())?;
            let display_path = one_line(&directory.display().to_string());
            let text = format!(
                "Created an extension in {display_path}.\nTo use it, run: parallax extensions link \
                 {display_path}\n"
            );
            Ok(CommandResult::new(text, json!({"folder": directory.to_string_lossy()})))
        }
        ExtensionsAction::List { .. } => Ok(list(launch)),
        ExtensionsAction::Update { name: Some(name), consent, .. } => {
            let extension = launch.extension_manager().find_extension(name)?;
            let output = update(launch, &extension, *consent, prompter)?;
            Ok(CommandResult::new(output.text, output.json))
        }
        ExtensionsAction::Update { consent, .. } => Ok(update_all(launch, *consent, prompter)),
        ExtensionsAction::Sync { file, consent, prune, .. } => {
            let what = SyncArguments { file: file.as_deref(), consent: *consent, prune: *prune };
            upkeep::sync(launch, &what, prompter)
        }
        ExtensionsAction::Doctor { name } => upkeep::doctor(launch, name.as_deref()),
        ExtensionsAction::Test { path, names } => upkeep::test(launch, path, names),
        ExtensionsAction::Rollback { name } => {
            let version = launch.extension_manager().roll_extension_back(name)?;
            let text =
                format!("Extension \"{name}\" restored to version {}.\n", one_line(&version));
            Ok(CommandResult::new(text, json!({"name": name, "version": version})))
        }
        ExtensionsAction::Uninstall { names, all } => Ok(uninstall(launch, names, *all)),
        ExtensionsAction::Enable { name, scope } => set_enabled(launch, name, true, *scope),
        ExtensionsAction::Disable { name, scope } => set_enabled(launch, name, false, Some(*scope)),
        ExtensionsAction::Validate { path } => validate(launch, path),
        ExtensionsAction::Config { name, setting, scope, values } => {
            let scope = (*scope).into();
            let named = name
                .as_deref()
                .map(|name| launch.extension_manager().find_extension(name))
                .transpose()?;
            let all = launch.extensions();
            let chosen: Vec<&Extension> = match &named {
                Some(extension) => vec![extension],
                None => all.all.iter().collect(),
            };
            let mut text = String::new();
            let mut set = Vec::new();
            for extension in chosen {
                for value in &extension.values {
                    let is_selected = setting.as_ref().is_none_or(|setting| {
                        *setting == value.setting.variable
                            || setting.eq_ignore_ascii_case(&value.setting.name)
                    });
                    let variable = &value.setting.variable;
                    // With a file of values, ask only for the settings that it names.
                    if !is_selected || values.settings.is_some() && !prompter.has(variable) {
                        continue;
                    }
                    let provided = prompter.value(extension.name(), &value.setting)?;
                    launch.extension_manager().set_extension_value(
                        extension,
                        variable,
                        scope,
                        Some(&provided),
                    )?;
                    let word = if provided.is_empty() { "cleared" } else { "set" };
                    let _ = writeln!(text, "{}: `{variable}` {word}", extension.name());
                    set.push(json!({"extension": extension.name(), "variable": variable}));
                }
            }
            if let (Some(extension), Some(setting), true) = (&named, setting, set.is_empty()) {
                launch.extension_manager().set_extension_value(extension, setting, scope, None)?;
            }
            if set.is_empty() {
                text.push_str("No settings to set.\n");
            }
            Ok(CommandResult::new(text, json!({"set": set})))
        }
    }
}

fn done(text: String, name: &str, what: &str) -> CommandResult {
    CommandResult::new(text, json!({"name": name, "done": what}))
}

/// Asks for the settings without a value, and returns a note about those still missing.
fn ask_for_settings(
    launch: &SessionConfig,
    name: &str,
    skip: bool,
    prompter: &mut dyn Prompter,
) -> Result<String, Failure> {
    let fresh = launch.reload()?;
    let extension = fresh.extension_manager().find_extension(name)?;
    let mut missing = String::new();
    for value in extension.values.iter().filter(|value| value.value.is_none()) {
        let variable = &value.setting.variable;
        let provided = match (skip || !prompter.can_be_asked()) && !prompter.has(variable) {
            true => None,
            false => {
                prompter.value(name, &value.setting).ok().filter(|provided| !provided.is_empty())
            }
        };
        match provided {
            Some(provided) => {
                let scope = Scope::User.into();
                fresh.extension_manager().set_extension_value(
                    &extension,
                    variable,
                    scope,
                    Some(&provided),
                )?;
            }
            None => {
                let _ = writeln!(
                    missing,
                    "Setting \"{}\" has no value. To set it, run: parallax extensions config \
                     {name} {variable}",
                    one_line(&value.setting.name)
                );
            }
        }
    }
    Ok(missing)
}

fn list(launch: &SessionConfig) -> CommandResult {
    let extensions = launch.extensions();
    let (mut text, mut json) = (String::new(), Vec::new());
    for extension in &extensions.all {
        // Checking the files is expensive, so it happens once per extension.
        let intact = launch.extension_manager().extension_is_intact(extension);
        text.push_str(&list_rows(extension, intact));
        json.push(extension_json(extension, intact));
    }
    if text.is_empty() {
        text.push_str("No extensions installed.\n");
    }
    for warning in &extensions.warnings {
        let _ = writeln!(text, "note: {}", one_line(warning));
    }
    CommandResult::new(text, Value::Array(json))
}

fn update(
    launch: &SessionConfig,
    extension: &Extension,
    consent: bool,
    prompter: &mut dyn Prompter,
) -> Result<CommandResult, Failure> {
    let name = extension.name();
    let current = || {
        let text = format!("Extension \"{name}\" is already up to date.\n");
        Ok(done(text, name, "up to date"))
    };
    let Some(update) = launch.extension_manager().check_for_update(extension)? else {
        return current();
    };
    let ExtensionUpdate { installed, fetched, added_permissions, previous_source } = &update;
    let to = one_line(&fetched.manifest.version);
    if let Some(moved) = previous_source {
        let home = one_line(&fetched.metadata.source);
        prompter.print(&format!("`{name}` moved from {} to {home}.\n", one_line(moved)));
    }
    if !added_permissions.is_empty() || previous_source.is_some() {
        let mut question = format!(
            "Version {to} of \"{name}\" requests more permissions than you agreed to with version {}:\n",
            one_line(installed)
        );
        for line in added_permissions {
            let _ = writeln!(question, "  + {}", code_text(line));
        }
        prompter.confirm(&question, consent)?;
    }
    if !launch.extension_manager().update_extension(extension, &update)? {
        return current();
    }
    let mut text = format!("Extension \"{name}\" updated: {} → {to}.\n", one_line(installed));
    if extension.home == parallax_extensions::ExtensionHome::Gemini {
        text.push_str("Gemini CLI's copy is unchanged; Parallax now has its own copy.\n");
    }
    text.push_str(&ask_for_settings(launch, name, false, prompter)?);
    Ok(CommandResult::new(
        text,
        json!({"name": name, "done": "updated", "from": installed, "to": fetched.manifest.version}),
    ))
}

/// Updates all extensions. A failed update does not stop the others.
fn update_all(launch: &SessionConfig, consent: bool, prompter: &mut dyn Prompter) -> CommandResult {
    let (mut text, mut errors) = (String::new(), String::new());
    let (mut list, mut code) = (Vec::new(), ExitCode::SUCCESS);
    for extension in &launch.extensions().all {
        // A linked extension is read from its own directory.
        if extension.folder != extension.installed {
            let name = extension.name();
            let _ = writeln!(text, "Extension \"{name}\" is linked and needs no update.");
            list.push(json!({"name": name, "done": "linked"}));
            continue;
        }
        match update(launch, extension, consent, prompter) {
            Ok(output) => {
                text.push_str(&output.text);
                list.push(output.json);
            }
            Err(failure) => {
                let _ = writeln!(errors, "error: {}", one_line(&failure.message));
                list.push(json!({"name": extension.name(), "error": failure.message}));
                code = code_of(&failure);
            }
        }
    }
    // Extensions that were ignored were not updated either.
    for warning in &launch.extensions().warnings {
        let _ = writeln!(errors, "warning: {}", one_line(warning));
    }
    if list.is_empty() {
        text.push_str("No extensions to update.\n");
    }
    CommandResult { errors, code, ..CommandResult::new(text, Value::Array(list)) }
}

fn uninstall(launch: &SessionConfig, names: &[String], all: bool) -> CommandResult {
    let every: Vec<String> =
        launch.extensions().all.iter().map(|it| it.name().to_owned()).collect();
    let names = if all { &every } else { names };
    let (mut text, mut errors) = (String::new(), String::new());
    let (mut list, mut code) = (Vec::new(), ExitCode::SUCCESS);
    for name in names {
        let display_name = one_line(name);
        match launch.extension_manager().uninstall_extension(name) {
            Ok(UninstallResult::Removed(_)) => {
                let _ = writeln!(text, "Extension \"{display_name}\" successfully uninstalled.");
                list.push(json!({"name": name, "done": "uninstalled"}));
            }
            Ok(UninstallResult::SwitchedOff(folder)) => {
                let _ = writeln!(
                    text,
                    "Extension \"{display_name}\" is managed by Gemini CLI ({}), so its files were not \
                     removed. It is now disabled in Parallax.",
                    one_line(&folder.display().to_string())
                );
                list.push(json!({"name": name, "done": "disabled"}));
            }
            Err(failure) => {
                let _ = writeln!(errors, "error: {}", one_line(&failure.message));
                list.push(json!({"name": name, "error": failure.message}));
                code = ExitCode::GENERAL;
            }
        }
    }
    CommandResult { errors, code, ..CommandResult::new(text, Value::Array(list)) }
}

fn set_enabled(
    launch: &SessionConfig,
    name: &str,
    on: bool,
    scope: Option<Scope>,
) -> Result<CommandResult, Failure> {
    let extension = launch.extension_manager().switch_extension(name, on, scope.map(Into::into))?;
    let verb = if on { "enabled" } else { "disabled" };
    let scope_text = match scope {
        None => "everywhere",
        Some(Scope::User) => "for all projects",
        Some(Scope::Workspace) => "for this project",
    };
    let text = format!("Extension \"{}\" {verb} {scope_text}.\n", extension.name());
    Ok(CommandResult::new(
        text,
        json!({"name": extension.name(), "enabled": on, "scope": scope_text}),
    ))
}

fn validate(launch: &SessionConfig, path: &std::path::Path) -> Result<CommandResult, Failure> {
    let (manifest, review) = launch.extension_manager().review_extension(path)?;
    if let Some(problem) = manifest.misspelled.first().or(review.missing.first()) {
        let name = &manifest.name;
        return Err(input_failure(format!(
            "Extension \"{name}\" is not valid: {}",
            one_line(problem)
        )));
    }
    let mut text =
        format!("Extension \"{}\" {} is valid.\n", manifest.name, one_line(&manifest.version));
    for line in &review.consent_lines() {
        let _ = writeln!(text, "  {}", code_text(line));
    }
    let mut notes = review.notes.clone();
    notes.extend(manifest.unknown.iter().cloned());
    if !is_version(&manifest.version) {
        notes.push(format!("its version `{}` does not have the form `1.2.3`", manifest.version));
    }
    for note in &notes {
        let _ = writeln!(text, "warning: {}", one_line(note));
    }
    let json = json!({
        "name": manifest.name, "version": manifest.version, "may": review.consent_lines(), "warnings": notes,
    });
    Ok(CommandResult::new(text, json))
}

fn is_version(version: &str) -> bool {
    let core = version.split(['-', '+']).next().unwrap_or_default();
    let parts: Vec<&str> = core.split('.').collect();
    parts.len() == 3
        && parts.iter().all(|part| !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit()))
}

/// Returns the exit code of a failure: 1 as in Gemini CLI, and separate codes for failures that it
/// does not have.
pub(crate) fn code_of(failure: &Failure) -> ExitCode {
    match failure.kind {
        FailureKind::Input => ExitCode::GENERAL,
        // The extension is blocked for its contents or is invalid.
        FailureKind::Blocked => ExitCode::TOOL,
        // The source is unreachable, which may be temporary.
        FailureKind::Api => ExitCode::QUOTA,
        _ => ExitCode::for_failure(failure),
    }
}

/// Returns the failure if the user did not agree.
pub(super) fn consent_refused_failure(reason: &str) -> Failure {
    input_failure(reason.to_owned())
}
